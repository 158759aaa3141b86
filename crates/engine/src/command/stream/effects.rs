//! What commands that move a group write to the log.
//!
//! Reading and claiming depend on the clock and on other readers, so the log gets their results: an
//! XCLAIM of the entries that changed hands, with explicit time and count, and the group's
//! position. Redis leaves out what it deems cheap to lose (the count of entries read, the consumer
//! and delivery counts of a re-read); here a replay gives the same state.

use std::sync::Arc;

use crate::ctx::Ctx;
use crate::value::stream::{Group, IdText, Nack, StreamId};

/// The state of a pending entry after a command, for the log.
#[derive(Debug)]
pub(super) struct Handed {
    pub(super) id: StreamId,
    pub(super) nack: Nack,
    pub(super) consumer: Arc<[u8]>,
    /// The group's last id when this entry was delivered.
    pub(super) last_id: StreamId,
}

impl Handed {
    /// What is now known about the pending entry `id`.
    pub(super) fn of(group: &Group, id: StreamId, nack: Nack) -> Handed {
        let consumer = group.consumer(nack.consumer).name.clone();
        Handed { id, nack, consumer, last_id: group.last_id() }
    }
}

/// Logs that entries belong to their consumers now; entries delivered with the same time and count
/// share one XCLAIM.
///
/// An entry that no longer exists in the stream is forgotten by the replay of the same command.
pub(super) fn handed(ctx: &mut Ctx<'_>, key: &[u8], group: &[u8], entries: &[Handed]) {
    for alike in entries.chunk_by(|a, b| a.nack == b.nack) {
        let [.., last] = alike else { continue };
        let (mut time, mut count) = (itoa::Buffer::new(), itoa::Buffer::new());
        let ids: Vec<IdText> = alike.iter().map(|entry| entry.id.text()).collect();
        let last_id = last.last_id.text();
        let mut words: Vec<&[u8]> = Vec::with_capacity(13 + ids.len());
        words.extend([&b"XCLAIM"[..], key, group, &last.consumer, b"0"]);
        words.extend(ids.iter().map(IdText::as_bytes));
        words.extend([&b"TIME"[..], time.format(last.nack.delivered_ms).as_bytes()]);
        words.extend([&b"RETRYCOUNT"[..], count.format(last.nack.deliveries).as_bytes()]);
        words.extend([&b"FORCE"[..], b"JUSTID", b"LASTID", last_id.as_bytes()]);
        ctx.rewrite(&words);
    }
}

/// Position of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    last_id: StreamId,
    entries_read: Option<i64>,
}

impl Position {
    pub(super) fn of(group: &Group) -> Position {
        Position { last_id: group.last_id(), entries_read: group.entries_read() }
    }
}

/// Logs the position of a group.
pub(super) fn position(ctx: &mut Ctx<'_>, key: &[u8], group: &[u8], position: Position) {
    let mut read = itoa::Buffer::new();
    let id = position.last_id.text();
    ctx.rewrite(&[
        &b"XGROUP"[..],
        b"SETID",
        key,
        group,
        id.as_bytes(),
        b"ENTRIESREAD",
        read.format(position.entries_read.unwrap_or(-1)).as_bytes(),
    ]);
}

/// Logs that a consumer was created.
pub(super) fn consumer_created(ctx: &mut Ctx<'_>, key: &[u8], group: &[u8], consumer: &[u8]) {
    ctx.rewrite(&[&b"XGROUP"[..], b"CREATECONSUMER", key, group, consumer]);
}
