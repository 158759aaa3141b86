//! Streams as commands: entries, groups, consumers and what they have pending.
//!
//! Groups may have entries pending that the stream no longer holds, and a claim of such an entry
//! forgets it. So those entries are added, too, as placeholders in their places, and taken out
//! again once they are claimed: from the front by trimming, which leaves no trace, from the middle
//! by deleting, which is how they went. The counters are set last.
//!
//! Limit: when a consumer was last seen is not kept, as no command sets it.

use std::collections::BTreeSet;

use crate::effects::Effects;
use crate::value::stream::{Group, Stream, StreamId};

/// Redis: a stream cannot be made empty, so the entry that makes it has this id at least.
const FIRST: StreamId = StreamId::new(0, 1);

pub(super) fn dump_stream(stream: &Stream, db: u32, key: &[u8], out: &mut Effects) {
    let log = &stream.log;
    let gone = pending_but_gone(stream);
    let mut placeholders = gone.iter().copied().peekable();
    for entry in log.range(StreamId::MIN, StreamId::MAX) {
        while let Some(id) = placeholders.next_if(|id| *id < entry.id) {
            placeholder(id, db, key, out);
        }
        let fields: Vec<_> = entry.fields.collect();
        out.begin(db, 3 + 2 * fields.len());
        out.arg(b"XADD");
        out.arg(key);
        out.arg(entry.id.text().as_bytes());
        for (field, value) in fields {
            out.arg(field);
            out.arg(value);
        }
    }
    placeholders.for_each(|id| placeholder(id, db, key, out));
    if log.is_empty() && gone.is_empty() {
        placeholder(log.last_id().max(FIRST), db, key, out);
    }
    for (name, group) in stream.groups.iter() {
        dump_group(group, name, db, key, out);
    }
    take_out(stream, &gone, db, key, out);
    let (last, added) = (log.last_id().text(), log.entries_added().to_string());
    let max_deleted = log.max_deleted_id().text();
    out.push(
        db,
        &[
            b"XSETID",
            key,
            last.as_bytes(),
            b"ENTRIESADDED",
            added.as_bytes(),
            b"MAXDELETEDID",
            max_deleted.as_bytes(),
        ],
    );
}

/// Ids that are pending in some group and not in the stream.
fn pending_but_gone(stream: &Stream) -> BTreeSet<StreamId> {
    let groups = stream.groups.iter().map(|(_, group)| group);
    let pending = groups.flat_map(|group| group.pending_from(StreamId::MIN).map(|(id, _)| id));
    pending.filter(|id| stream.log.get(*id).is_none()).collect()
}

fn placeholder(id: StreamId, db: u32, key: &[u8], out: &mut Effects) {
    out.push(db, &[b"XADD", key, id.text().as_bytes(), b"", b""]);
}

/// Takes the placeholders out again.
fn take_out(stream: &Stream, gone: &BTreeSet<StreamId>, db: u32, key: &[u8], out: &mut Effects) {
    let Some(first) = stream.log.range(StreamId::MIN, StreamId::MAX).next() else {
        out.push(db, &[b"XTRIM", key, b"MAXLEN", b"=", b"0"]);
        return;
    };
    for id in gone.range(first.id..) {
        out.push(db, &[b"XDEL", key, id.text().as_bytes()]);
    }
    if gone.first().is_some_and(|id| *id < first.id) {
        out.push(db, &[b"XTRIM", key, b"MINID", b"=", first.id.text().as_bytes()]);
    }
}

fn dump_group(group: &Group, name: &[u8], db: u32, key: &[u8], out: &mut Effects) {
    let last_id = group.last_id().text();
    let read = group.entries_read().unwrap_or(-1).to_string();
    let create =
        [b"XGROUP", b"CREATE", key, name, last_id.as_bytes(), b"ENTRIESREAD", read.as_bytes()];
    out.push(db, &create);
    for consumer in group.consumers() {
        out.push(db, &[&b"XGROUP"[..], b"CREATECONSUMER", key, name, &consumer.name]);
    }
    for (id, nack) in group.pending_from(StreamId::MIN) {
        let (mut time, mut count) = (itoa::Buffer::new(), itoa::Buffer::new());
        out.push(
            db,
            &[
                b"XCLAIM",
                key,
                name,
                &group.consumer(nack.consumer).name,
                b"0",
                id.text().as_bytes(),
                b"TIME",
                time.format(nack.delivered_ms).as_bytes(),
                b"RETRYCOUNT",
                count.format(nack.deliveries).as_bytes(),
                b"FORCE",
                b"JUSTID",
            ],
        );
    }
}
