//! A packed run of entries: the unit that is added, trimmed and, when empty, freed.
//!
//! ```text
//! bytes:  count field…            the fields of the first entry ("master fields")
//!         entry…
//! entry:  len flags ms seq [count] (value… | (field value)…) len
//! ```
//!
//! `ms` and `seq` are differences to the node's first id, which is the key it is stored under.
//! An entry with the master fields stores only its values. `len` counts what lies between the
//! two lengths; the one behind is mirrored, so that the node can be walked from both ends.
//! Deleting flips a bit of `flags`: the bytes stay until the node goes, exactly as in Redis,
//! because node boundaries (see `listpack`) must not depend on when garbage is collected. What a
//! reader would skip at the front is remembered, so that a stream that is consumed or trimmed
//! from its head never walks the same tombstones twice.

use super::id::StreamId;
use super::listpack;
use super::varint::{
    Reader, fold_sign, number_bytes, push_backward, push_number, push_text, read_backward,
    text_bytes,
};

const DELETED: u8 = 1;
const MASTER_FIELDS: u8 = 2;

/// A node's entries. The owner keeps the id of the first and passes it in.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    bytes: Vec<u8>,
    /// Where the first live entry begins; all before it are deleted.
    live_at: u32,
    live: u32,
    deleted: u32,
    /// Bytes of the elements that Redis' listpack would have, without the two counters.
    element_bytes: usize,
    /// The id of the entry that was added last, deleted or not.
    last: StreamId,
}

/// Field and value pairs to be stored.
pub(crate) trait Pairs<'p>: ExactSizeIterator<Item = (&'p [u8], &'p [u8])> + Clone {}

impl<'p, I: ExactSizeIterator<Item = (&'p [u8], &'p [u8])> + Clone> Pairs<'p> for I {}

/// One entry of a node, deleted or not.
#[derive(Clone, Debug)]
pub(crate) struct Entry<'a> {
    /// Its id.
    pub(crate) id: StreamId,
    /// Whether it is only a tombstone.
    pub(crate) deleted: bool,
    /// Its fields and values.
    pub(crate) fields: Fields<'a>,
    flags_at: usize,
}

/// The fields and values of an entry, in the order they were added.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    left: usize,
    master: Option<Reader<'a>>,
    own: Reader<'a>,
}

impl Node {
    /// An empty node whose master fields are those of the entry that is about to be pushed.
    pub(super) fn new<'p>(first: StreamId, pairs: impl Pairs<'p>) -> Node {
        let count = pairs.len();
        let mut bytes = Vec::new();
        push_number(&mut bytes, count as u64);
        let mut element_bytes = listpack::integer_bytes(count as i64) + listpack::integer_bytes(0);
        for (field, _) in pairs {
            push_text(&mut bytes, field);
            element_bytes += listpack::text_bytes(field);
        }
        // Limit: XADD refuses entries of more than a gibibyte, so offsets fit 32 bits.
        let live_at = bytes.len() as u32;
        Node { bytes, live_at, live: 0, deleted: 0, element_bytes, last: first }
    }

    /// Entries that are not deleted.
    pub(crate) fn live(&self) -> u32 {
        self.live
    }

    /// Entries that are deleted but still stored.
    pub(crate) fn deleted(&self) -> u32 {
        self.deleted
    }

    /// The id of the entry that was added last, deleted or not.
    pub(super) fn last(&self) -> StreamId {
        self.last
    }

    /// Bytes of the listpack that Redis would hold.
    pub(super) fn listpack_bytes(&self) -> usize {
        listpack::FRAME_BYTES
            + listpack::integer_bytes(i64::from(self.live))
            + listpack::integer_bytes(i64::from(self.deleted))
            + self.element_bytes
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Gives back what was reserved for growth.
    pub(super) fn seal(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// Appends an entry. Invariant: `id` is greater than all before it.
    pub(super) fn push<'p>(&mut self, first: StreamId, id: StreamId, pairs: impl Pairs<'p>) {
        let same = self.has_master_fields(pairs.clone());
        let count = pairs.len();
        let ms = id.ms - first.ms;
        let seq = id.seq.wrapping_sub(first.seq) as i64;
        let flags = if same { MASTER_FIELDS } else { 0 };

        let mut body = 1 + number_bytes(ms) + number_bytes(fold_sign(seq));
        let mut elements = listpack::integer_bytes(i64::from(flags))
            + listpack::integer_bytes(ms as i64)
            + listpack::integer_bytes(seq);
        if !same {
            body += number_bytes(count as u64);
            elements += listpack::integer_bytes(count as i64);
        }
        for (field, value) in pairs.clone() {
            if !same {
                body += text_bytes(field);
                elements += listpack::text_bytes(field);
            }
            body += text_bytes(value);
            elements += listpack::text_bytes(value);
        }
        let element_count = if same { count + 3 } else { 2 * count + 4 };
        elements += listpack::integer_bytes(element_count as i64);

        self.reserve(body + 2 * number_bytes(body as u64));
        push_number(&mut self.bytes, body as u64);
        self.bytes.push(flags);
        push_number(&mut self.bytes, ms);
        push_number(&mut self.bytes, fold_sign(seq));
        if !same {
            push_number(&mut self.bytes, count as u64);
        }
        for (field, value) in pairs {
            if !same {
                push_text(&mut self.bytes, field);
            }
            push_text(&mut self.bytes, value);
        }
        push_backward(&mut self.bytes, body as u64);
        self.element_bytes += elements;
        self.live += 1;
        self.last = id;
    }

    /// Room for one more entry: grows by half, so that a node that stays open wastes little.
    fn reserve(&mut self, more: usize) {
        if self.bytes.capacity() - self.bytes.len() < more {
            self.bytes.reserve_exact(more.max(self.bytes.len() / 2));
        }
    }

    fn has_master_fields<'p>(&self, pairs: impl Pairs<'p>) -> bool {
        let mut master = Reader::at(&self.bytes, 0);
        master.number() as usize == pairs.len()
            && pairs.into_iter().all(|(field, _)| master.text() == field)
    }

    /// Marks an entry of this node as deleted.
    pub(super) fn delete(&mut self, flags_at: usize) {
        debug_assert_eq!(self.bytes[flags_at] & DELETED, 0, "deleted once");
        self.bytes[flags_at] |= DELETED;
        self.live -= 1;
        self.deleted += 1;
        while let Some((flags_at, end)) = self.bounds_at(self.live_at as usize)
            && self.bytes[flags_at] & DELETED != 0
        {
            self.live_at = end as u32;
        }
    }

    /// Drops the entries behind `last`, all of them deleted. For size and last id they go on
    /// counting, as they do in Redis, which keeps them.
    pub(super) fn truncate_behind(&mut self, first: StreamId, last: StreamId) {
        let mut master = Reader::at(&self.bytes, 0);
        for _ in 0..master.number() {
            master.text();
        }
        let back = self.bytes.len();
        let mut all = Entries { node: self, first, front: master.pos(), back };
        let mut end = all.back;
        while let Some(entry) = all.next_back() {
            if entry.id <= last {
                break;
            }
            end = all.back;
        }
        self.bytes.truncate(end);
        self.live_at = self.live_at.min(end as u32);
    }

    /// Entries from the first live one on, deleted ones among them too, walkable from both ends.
    pub(super) fn entries(&self, first: StreamId) -> Entries<'_> {
        Entries { node: self, first, front: self.live_at as usize, back: self.bytes.len() }
    }

    /// Where the flags of the entry at `pos` are, and where the entry ends.
    fn bounds_at(&self, pos: usize) -> Option<(usize, usize)> {
        if pos >= self.bytes.len() {
            return None;
        }
        let mut reader = Reader::at(&self.bytes, pos);
        let body = reader.number() as usize;
        let flags_at = reader.pos();
        Some((flags_at, flags_at + body + number_bytes(body as u64)))
    }

    fn decode(&self, first: StreamId, flags_at: usize) -> Entry<'_> {
        let mut own = Reader::at(&self.bytes, flags_at);
        let flags = own.byte();
        let ms = first.ms + own.number();
        let seq = first.seq.wrapping_add(own.signed() as u64);
        let mut master = Reader::at(&self.bytes, 0);
        let fields = if flags & MASTER_FIELDS != 0 {
            Fields { left: master.number() as usize, master: Some(master), own }
        } else {
            Fields { left: own.number() as usize, master: None, own }
        };
        Entry { id: StreamId::new(ms, seq), deleted: flags & DELETED != 0, fields, flags_at }
    }
}

impl Entry<'_> {
    /// Where [`Node::delete`] finds this entry.
    pub(super) fn flags_at(&self) -> usize {
        self.flags_at
    }
}

/// Iterates over the entries of one node, from either end.
#[derive(Clone, Debug)]
pub(crate) struct Entries<'a> {
    node: &'a Node,
    first: StreamId,
    front: usize,
    back: usize,
}

impl Entries<'_> {
    /// Skips to the first entry that is not before `start`.
    ///
    /// Looks from both ends at once: readers ask for the oldest entries or for the newest.
    pub(super) fn seek(&mut self, start: StreamId) {
        let mut tail = self.clone();
        loop {
            let mut head = self.clone();
            match head.next() {
                Some(entry) if entry.id < start => self.front = head.front,
                _ => return,
            }
            let end = tail.back;
            if tail.next_back().is_none_or(|entry| entry.id < start) {
                self.front = end;
                return;
            }
        }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        if self.front >= self.back {
            return None;
        }
        let (flags_at, end) = self.node.bounds_at(self.front)?;
        self.front = end;
        Some(self.node.decode(self.first, flags_at))
    }
}

impl<'a> DoubleEndedIterator for Entries<'a> {
    fn next_back(&mut self) -> Option<Entry<'a>> {
        if self.front >= self.back {
            return None;
        }
        let (body, body_end) = read_backward(&self.node.bytes, self.back);
        let flags_at = body_end - body;
        self.back = flags_at - number_bytes(body as u64);
        Some(self.node.decode(self.first, flags_at))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let field = self.master.as_mut().unwrap_or(&mut self.own).text();
        Some((field, self.own.text()))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Fields<'_> {}
