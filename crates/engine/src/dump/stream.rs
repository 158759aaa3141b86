//! Streams as commands: entries, groups, consumers and what they have pending.
//!
//! Groups may have entries pending that the stream no longer holds, and a claim of such an entry
//! forgets it. So those entries are added, too, as placeholders in their places, and removed again
//! once they are claimed: from the front by trimming, which leaves no trace, from the middle by
//! deleting, as they were removed originally. The counters are set last.
//!
//! A large stream is dumped in slices, from its oldest entry on ([`Front`]). New entries come after
//! what is dumped. Entries removed meanwhile stay in the file until the end, where they are removed
//! with the placeholders: a group may have them pending.
//!
//! Limits: the time when a consumer was last seen is not kept, as no command sets it. Groups are
//! dumped in one slice with all their pending entries.

use std::collections::BTreeSet;

use crate::effects::Effects;
use crate::value::stream::{Group, Stream, StreamId};

/// Redis: a stream cannot be made empty, so the entry that makes it has this id at least.
const FIRST: StreamId = StreamId::new(0, 1);

/// Progress of the dump of a stream.
#[derive(Debug, Clone)]
pub(super) struct Front {
    /// Everything in front of this id is in the file.
    next: StreamId,
    /// The first id in the file.
    first: Option<StreamId>,
    /// Ids in the file that are not in the stream: placeholders, and what was deleted meanwhile.
    gone: BTreeSet<StreamId>,
}

impl Default for Front {
    fn default() -> Self {
        Front { next: StreamId::MIN, first: None, gone: BTreeSet::new() }
    }
}

impl Front {
    /// Follows a deletion.
    pub(super) fn deleted(&mut self, id: StreamId) {
        if id < self.next {
            self.gone.insert(id);
        }
    }

    /// Dumps more, until `out` has `enough` bytes. Returns `true` if that was the rest.
    pub(super) fn dump(
        &mut self,
        stream: &Stream,
        (db, key): (u32, &[u8]),
        enough: usize,
        out: &mut Effects,
    ) -> bool {
        let last = self.last_of_slice(stream, enough.saturating_sub(out.as_bytes().len()));
        let mut placeholders = pending_but_gone(stream, self.next, last).into_iter().peekable();
        for entry in stream.log.range(self.next, last) {
            while let Some(id) = placeholders.next_if(|id| *id < entry.id) {
                self.placeholder(id, db, key, out);
            }
            self.first.get_or_insert(entry.id);
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
        placeholders.for_each(|id| self.placeholder(id, db, key, out));
        match last.next() {
            Some(next) if last < StreamId::MAX => {
                self.next = next;
                false
            }
            _ => {
                self.finish(stream, db, key, out);
                true
            }
        }
    }

    /// Returns the last id of a slice of about `budget_bytes`, or the largest id if there are no
    /// more entries.
    fn last_of_slice(&self, stream: &Stream, budget_bytes: usize) -> StreamId {
        let mut bytes = 0usize;
        for entry in stream.log.range(self.next, StreamId::MAX) {
            let fields = entry.fields.map(|(field, value)| field.len() + value.len());
            bytes = bytes.saturating_add(fields.sum());
            if bytes >= budget_bytes {
                return entry.id;
            }
        }
        StreamId::MAX
    }

    fn placeholder(&mut self, id: StreamId, db: u32, key: &[u8], out: &mut Effects) {
        self.first.get_or_insert(id);
        self.gone.insert(id);
        placeholder(id, db, key, out);
    }

    /// Groups, what is to be taken out again, counters.
    fn finish(&mut self, stream: &Stream, db: u32, key: &[u8], out: &mut Effects) {
        let log = &stream.log;
        if self.first.is_none() {
            placeholder(log.last_id().max(FIRST), db, key, out);
        }
        for (name, group) in stream.groups.iter() {
            dump_group(group, name, db, key, out);
        }
        self.take_out(stream, db, key, out);
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

    /// Takes out again what is not in the stream.
    fn take_out(&self, stream: &Stream, db: u32, key: &[u8], out: &mut Effects) {
        let Some(first) = stream.log.range(StreamId::MIN, StreamId::MAX).next() else {
            out.push(db, &[b"XTRIM", key, b"MAXLEN", b"=", b"0"]);
            return;
        };
        for id in self.gone.range(first.id..) {
            out.push(db, &[b"XDEL", key, id.text().as_bytes()]);
        }
        if self.first.is_some_and(|id| id < first.id) {
            out.push(db, &[b"XTRIM", key, b"MINID", b"=", first.id.text().as_bytes()]);
        }
    }
}

pub(super) fn dump_stream(stream: &Stream, db: u32, key: &[u8], out: &mut Effects) {
    Front::default().dump(stream, (db, key), usize::MAX, out);
}

/// Ids between these that are pending in some group and not in the stream.
fn pending_but_gone(stream: &Stream, from: StreamId, to: StreamId) -> BTreeSet<StreamId> {
    let groups = stream.groups.iter().map(|(_, group)| group);
    let pending = groups
        .flat_map(|group| group.pending_from(from).map(|(id, _)| id).take_while(|id| *id <= to));
    pending.filter(|id| stream.log.get(*id).is_none()).collect()
}

fn placeholder(id: StreamId, db: u32, key: &[u8], out: &mut Effects) {
    out.push(db, &[b"XADD", key, id.text().as_bytes(), b"", b""]);
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
