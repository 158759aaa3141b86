//! Delivers entries to a consumer of a group, for XREADGROUP.
//!
//! Invariant: the caller has checked that the stream and the group exist.

use super::effects::{self, Handed, Position};
use super::read::Reader;
use super::{write_entry, write_id};
use crate::ctx::Ctx;
use crate::error::Done;
use crate::notify::Classes;
use crate::resp::Reply;
use crate::value::stream::{ConsumerSlot, Group, Log, Nack, Stream, StreamId};

/// Writes entries that the group has not delivered yet, and records that the consumer has them.
pub(super) fn undelivered(
    ctx: &mut Ctx<'_>,
    reader: Reader<'_>,
    key: &[u8],
    count: usize,
    reply: &mut Reply,
) -> Done {
    deliver(ctx, reader, key, |delivery, log| {
        let start = delivery.group.last_id().next().unwrap_or(StreamId::MIN);
        let mark = reply.defer();
        let mut shown = 0;
        for entry in log.range(start, StreamId::MAX).take(count) {
            delivery.group.advance(log, entry.id);
            write_entry(reply, &entry);
            shown += 1;
            if !reader.no_ack {
                // After XGROUP SETID an entry may be pending already: its count starts over.
                delivery.hand_out(entry.id, 1);
            }
        }
        reply.end_array(mark, shown);
    })
}

/// Writes the entries behind an id that the consumer has pending; of those that are no longer in
/// the stream, only the id.
pub(super) fn history(
    ctx: &mut Ctx<'_>,
    reader: Reader<'_>,
    key: &[u8],
    behind: StreamId,
    count: usize,
    reply: &mut Reply,
) -> Done {
    deliver(ctx, reader, key, |delivery, log| {
        let start = behind.next().unwrap_or(StreamId::MIN);
        let consumer = delivery.group.consumer(delivery.slot);
        let pending: Vec<StreamId> = consumer.pending_from(start).take(count).collect();
        reply.array(pending.len());
        for id in pending {
            match log.get(id) {
                Some(entry) => {
                    write_entry(reply, &entry);
                    let deliveries = delivery.group.nack(id).map_or(0, |nack| nack.deliveries);
                    delivery.hand_out(id, deliveries.wrapping_add(1));
                }
                None => {
                    reply.array(2);
                    write_id(reply, id);
                    reply.null_array();
                }
            }
        }
    })
}

/// A delivery to one consumer.
struct Delivery<'g> {
    group: &'g mut Group,
    slot: ConsumerSlot,
    now: i64,
    logging: bool,
    handed: Vec<Handed>,
}

impl Delivery<'_> {
    fn hand_out(&mut self, id: StreamId, deliveries: i64) {
        let nack = Nack { delivered_ms: self.now, deliveries, consumer: self.slot };
        self.group.assign(id, nack);
        if self.logging {
            self.handed.push(Handed::of(self.group, id, nack));
        }
    }
}

/// Finds or creates the consumer, lets `hand_out` deliver to it, and reports the changes.
fn deliver(
    ctx: &mut Ctx<'_>,
    reader: Reader<'_>,
    key: &[u8],
    hand_out: impl FnOnce(&mut Delivery<'_>, &Log),
) -> Done {
    let (now, logging) = (ctx.now, ctx.engine.logging);
    let mut stream = ctx.edit::<Stream>(key)?.expect("the caller just met this stream");
    let Stream { log, groups } = &mut *stream;
    let mut group = groups.get_mut(reader.group).expect("the caller just met this group");
    let before = Position::of(&group);
    let known = group.find_consumer(reader.consumer);
    let slot = match known {
        Some(slot) => {
            group.touch(slot, now);
            slot
        }
        None => group.create_consumer(reader.consumer, now).expect("the name was just free"),
    };
    let mut delivery = Delivery { group: &mut group, slot, now, logging, handed: Vec::new() };
    hand_out(&mut delivery, log);
    let handed = delivery.handed;
    let position = Position::of(&group);
    drop(group);
    drop(stream);

    ctx.dirty(1);
    if known.is_none() {
        ctx.notify(Classes::STREAM, "xgroup-createconsumer", key);
        ctx.dirty(1);
        effects::consumer_created(ctx, key, reader.group, reader.consumer);
    }
    effects::handed(ctx, key, reader.group, &handed);
    if position != before {
        effects::position(ctx, key, reader.group, position);
    }
    Ok(())
}
