//! A small collection in one run of bytes: what list chunks, small hashes and small sorted sets
//! are made of.
//!
//! Entries follow each other without pointers or padding (`entry.rs` describes their bytes), can be
//! walked from both ends, and hold integers as integers. Everything but the ends costs time in
//! proportion to the bytes, so owners bound the size and change to another structure beyond.
//!
//! Before the first entry there may be a gap, as there may be spare capacity after the last: taking
//! from the front only widens it and adding to the front mostly narrows it, which makes both ends
//! equally cheap for queues.
//!
//! Invariant: `bytes[start..]` is exactly `len` well-formed entries.

mod entry;
#[cfg(test)]
mod tests;

pub(crate) use entry::packed_len;
use entry::{Draft, Raw};

use super::{alloc_bytes, elem::Elem};

/// The smallest gap worth making.
const MIN_GAP: usize = 16;

/// A sequence of byte strings in one allocation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packed {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

/// Where an entry is; valid until the sequence changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// How many entries come before it.
    pub(crate) index: usize,
    at: usize,
}

impl Packed {
    /// An empty sequence, which allocates nothing yet.
    pub(crate) const fn new() -> Self {
        Self { bytes: Vec::new(), start: 0, len: 0 }
    }

    /// How many entries it has.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many bytes the entries take.
    #[inline]
    pub(crate) const fn byte_len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// How many bytes are allocated.
    #[inline]
    pub(crate) const fn mem_bytes(&self) -> usize {
        alloc_bytes(self.bytes.capacity())
    }

    /// All entries from the first on.
    #[inline]
    pub(crate) fn iter(&self) -> Iter<'_> {
        Iter { rest: &self.bytes[self.start..] }
    }

    /// All entries from the last back.
    #[inline]
    pub(crate) fn iter_rev(&self) -> IterRev<'_> {
        IterRev { rest: &self.bytes[self.start..] }
    }

    /// The entries from a place on.
    #[inline]
    pub(crate) fn iter_from(&self, place: Place) -> Iter<'_> {
        Iter { rest: &self.bytes[place.at..] }
    }

    /// The place of the entry with this index, or the end if there are not that many.
    pub(crate) fn place(&self, index: usize) -> Place {
        if index >= self.len {
            return Place { index: self.len, at: self.bytes.len() };
        }
        let mut place = Place { index: 0, at: self.start };
        if index <= self.len / 2 {
            while place.index < index {
                place = self.next(place);
            }
        } else {
            place = Place { index: self.len, at: self.bytes.len() };
            while place.index > index {
                place.at -= entry::last_len(&self.bytes[self.start..place.at]);
                place.index -= 1;
            }
        }
        place
    }

    /// The place after this one.
    #[inline]
    pub(crate) fn next(&self, place: Place) -> Place {
        Place { index: place.index + 1, at: place.at + entry::whole_len(&self.bytes[place.at..]) }
    }

    /// The entry at a place; `None` at the end.
    #[inline]
    pub(crate) fn at(&self, place: Place) -> Option<Elem<'_>> {
        self.iter_from(place).next()
    }

    /// The entry with this index.
    pub(crate) fn get(&self, index: usize) -> Option<Elem<'_>> {
        self.at(self.place(index))
    }

    /// The first entry equal to `item` among every `1 + skip`-th one: 0 looks at all, 1 only at
    /// the first of each pair.
    pub(crate) fn find(&self, item: &[u8], skip: usize) -> Option<Place> {
        let wanted = Raw::of(item);
        let (mut index, mut rest) = (0, &self.bytes[self.start..]);
        while !rest.is_empty() {
            let (raw, size) = entry::read(rest);
            if raw == wanted {
                return Some(Place { index, at: self.bytes.len() - rest.len() });
            }
            rest = &rest[size..];
            for _ in 0..skip {
                if !rest.is_empty() {
                    rest = &rest[entry::whole_len(rest)..];
                }
            }
            index += 1 + skip;
        }
        None
    }

    /// Adds an entry after the last.
    pub(crate) fn push_back(&mut self, item: &[u8]) {
        let draft = Draft::new(item);
        self.reserve(draft.len());
        draft.append(&mut self.bytes);
        self.len += 1;
    }

    /// Adds an entry before the first.
    pub(crate) fn push_front(&mut self, item: &[u8]) {
        let draft = Draft::new(item);
        if self.start < draft.len() {
            self.widen_gap(draft.len());
        }
        let start = self.start - draft.len();
        draft.write(&mut self.bytes[start..self.start]);
        self.start = start;
        self.len += 1;
    }

    /// Puts an entry before the one at a place.
    pub(crate) fn insert(&mut self, place: Place, item: &[u8]) {
        if place.index == 0 {
            return self.push_front(item);
        }
        let draft = Draft::new(item);
        let at = self.resize_hole(place.at, 0, draft.len());
        draft.write(&mut self.bytes[at..at + draft.len()]);
        self.len += 1;
    }

    /// Puts an entry before the one with this index, or last.
    pub(crate) fn insert_at(&mut self, index: usize, item: &[u8]) {
        self.insert(self.place(index), item);
    }

    /// Puts another entry in the place of one.
    pub(crate) fn replace(&mut self, place: Place, item: &[u8]) {
        if place.index >= self.len {
            return;
        }
        let draft = Draft::new(item);
        let old = self.next(place).at - place.at;
        let at = self.resize_hole(place.at, old, draft.len());
        draft.write(&mut self.bytes[at..at + draft.len()]);
    }

    /// Takes out up to `count` entries from a place on.
    pub(crate) fn remove(&mut self, place: Place, count: usize) {
        let count = count.min(self.len - place.index);
        let mut end = place;
        if place.index + count == self.len {
            end.at = self.bytes.len();
        } else {
            (0..count).for_each(|_| end = self.next(end));
        }
        if place.index == 0 {
            self.start = end.at;
        } else {
            self.resize_hole(place.at, end.at - place.at, 0);
        }
        self.len -= count;
        if self.len == 0 {
            self.bytes.clear();
            self.start = 0;
        }
    }

    /// Takes out up to `count` entries from an index on.
    pub(crate) fn remove_at(&mut self, index: usize, count: usize) {
        self.remove(self.place(index), count);
    }

    /// Takes out the first entry.
    #[inline]
    pub(crate) fn drop_front(&mut self) {
        self.remove(Place { index: 0, at: self.start }, 1);
    }

    /// Takes out the last entry.
    pub(crate) fn drop_back(&mut self) {
        if self.len > 1 {
            let size = entry::last_len(&self.bytes[self.start..]);
            self.bytes.truncate(self.bytes.len() - size);
            self.len -= 1;
        } else {
            *self = Self { bytes: std::mem::take(&mut self.bytes), start: 0, len: 0 };
            self.bytes.clear();
        }
    }

    /// How many entries are equal to `item`.
    pub(crate) fn count_equal(&self, item: &[u8]) -> usize {
        let wanted = Raw::of(item);
        let mut rest = &self.bytes[self.start..];
        let mut count = 0;
        while !rest.is_empty() {
            let (raw, size) = entry::read(rest);
            count += usize::from(raw == wanted);
            rest = &rest[size..];
        }
        count
    }

    /// Takes out entries equal to `item`: they are numbered from 0, and those for which `remove`
    /// says so leave. Returns how many did.
    pub(crate) fn remove_equal(
        &mut self,
        item: &[u8],
        mut remove: impl FnMut(usize) -> bool,
    ) -> usize {
        let wanted = Raw::of(item);
        let (mut from, mut to) = (self.start, self.start);
        let (mut seen, mut removed) = (0, 0);
        while from < self.bytes.len() {
            let (raw, size) = entry::read(&self.bytes[from..]);
            let equal = raw == wanted;
            seen += usize::from(equal);
            if equal && remove(seen - 1) {
                removed += 1;
            } else {
                if from != to {
                    self.bytes.copy_within(from..from + size, to);
                }
                to += size;
            }
            from += size;
        }
        self.bytes.truncate(to);
        self.len -= removed;
        removed
    }

    /// Cuts the sequence in two before a place; returns the second part.
    pub(crate) fn split_off(&mut self, place: Place) -> Self {
        let rest =
            Self { bytes: self.bytes[place.at..].to_vec(), start: 0, len: self.len - place.index };
        self.bytes.truncate(place.at);
        self.len = place.index;
        self.fit();
        rest
    }

    /// Gives back what is allocated but not used.
    pub(crate) fn fit(&mut self) {
        self.close_gap();
        self.bytes.shrink_to_fit();
    }

    /// Makes the `old` bytes at an offset `new` bytes long, moving what follows. Returns the offset
    /// that they have then.
    fn resize_hole(&mut self, at: usize, old: usize, new: usize) -> usize {
        let before = at - self.start;
        self.reserve(new.saturating_sub(old));
        // Making room may have closed the gap.
        let (at, len) = (self.start + before, self.bytes.len());
        if new > old {
            self.bytes.resize(len + new - old, 0);
        }
        self.bytes.copy_within(at + old..len, at + new);
        self.bytes.truncate(len + new - old);
        at
    }

    /// Makes room for this many bytes behind the last entry.
    ///
    /// It grows by a quarter, not twofold: there are many small collections, and what each of them
    /// has to spare adds up.
    #[inline]
    fn reserve(&mut self, more: usize) {
        if self.bytes.len() + more > self.bytes.capacity() {
            self.make_room(more);
        }
    }

    #[cold]
    fn make_room(&mut self, more: usize) {
        if self.start > 0 && self.start >= self.byte_len() {
            self.close_gap();
        }
        let needed = self.bytes.len() + more;
        if needed > self.bytes.capacity() {
            let capacity = alloc_bytes(needed + needed / 4);
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
    }

    fn close_gap(&mut self) {
        self.bytes.drain(..self.start);
        self.start = 0;
    }

    /// Makes the gap at least `need` bytes, and half as wide again as the entries, so that adding to
    /// the front moves each byte a constant number of times.
    #[cold]
    fn widen_gap(&mut self, need: usize) {
        let (used, old) = (self.byte_len(), self.start);
        let gap = need + (used / 2).max(MIN_GAP);
        let mut bytes = Vec::with_capacity(gap + used);
        bytes.resize(gap, 0);
        bytes.extend_from_slice(&self.bytes[old..]);
        self.bytes = bytes;
        self.start = gap;
    }
}

impl<T: AsRef<[u8]>> FromIterator<T> for Packed {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut packed = Self::new();
        items.into_iter().for_each(|item| packed.push_back(item.as_ref()));
        packed
    }
}

/// Entries from the first to the last.
#[derive(Clone)]
pub(crate) struct Iter<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Iter<'a> {
    type Item = Elem<'a>;

    #[inline]
    fn next(&mut self) -> Option<Elem<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (raw, size) = entry::read(self.rest);
        self.rest = &self.rest[size..];
        Some(raw.elem())
    }
}

/// Entries from the last to the first.
#[derive(Clone)]
pub(crate) struct IterRev<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for IterRev<'a> {
    type Item = Elem<'a>;

    #[inline]
    fn next(&mut self) -> Option<Elem<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (rest, last) = self.rest.split_at(self.rest.len() - entry::last_len(self.rest));
        self.rest = rest;
        Some(entry::read(last).0.elem())
    }
}
