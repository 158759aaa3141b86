//! The hash table behind the keyspace, sets, hashes and the index of sorted sets.
//!
//! A table is a row of small segments of a few dozen items each (see `bunch.rs`). When the mean load
//! passes a bound, *one* segment is split; when it falls far below, one is merged back (linear
//! hashing). So no operation ever rehashes more than a segment or two, there is no second table to
//! search meanwhile, and memory follows the number of items smoothly.
//!
//! The low bits of the hash choose the segment. The *position* of an item is its hash with the bits
//! reversed, so that each segment covers one contiguous range of positions and splitting
//! merely cuts a range in two. Positions never change while an item lives: that is why a SCAN
//! cursor is a position (see `walk.rs`), and needs no state in the table.
//!
//! Invariants: every item is in the segment that `Segments::index_of` names for its hash; `len`,
//! `heap_bytes`, `bucket_bytes` and `timed` are exact sums; `min_deadline` of a segment is a lower
//! bound. They hold as long as an item's key never changes, and changes to what `heap_bytes` and
//! `deadline` return go through [`Table::update`].

mod bunch;
mod segments;
#[cfg(test)]
mod tests;
mod walk;

use std::hash::Hasher;

use foldhash::{SharedSeed, fast::FoldHasher};
use segments::{Segment, Segments};

use crate::rng::Rng;

/// Mean items per segment above which one segment is split.
const SPLIT_LOAD: usize = 12;
/// Mean items per segment below which one segment is merged away.
const MERGE_LOAD: usize = 5;

/// What a [`Table`] holds: something that contains its own key.
pub(crate) trait Item {
    /// The bytes that identify the item; they must not change while it is in a table.
    fn key(&self) -> &[u8];

    /// Bytes allocated by the item, beyond its own size.
    fn heap_bytes(&self) -> usize;

    /// When it is due, in the caller's unit of time; `i64::MAX` for never.
    fn deadline(&self) -> i64 {
        i64::MAX
    }
}

/// Where an item is; valid until something is put in or taken out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    segment: usize,
    index: usize,
}

/// Why a place always has an item.
const STALE: &str = "a place is used before the table changes";

/// A set of items found by their keys.
#[derive(Clone)]
pub(crate) struct Table<T> {
    seed: u64,
    len: usize,
    /// How many items have a deadline.
    timed: usize,
    heap_bytes: usize,
    bucket_bytes: usize,
    segments: Segments<T>,
}

impl<T: Item> Table<T> {
    /// An empty table, which allocates nothing yet.
    pub(crate) const fn new(seed: u64) -> Self {
        // The hash is only as good as its seed has bits, and callers like to give small numbers.
        Self::with_mixed_seed(Rng::new(seed).next_u64())
    }

    const fn with_mixed_seed(seed: u64) -> Self {
        Self { seed, len: 0, timed: 0, heap_bytes: 0, bucket_bytes: 0, segments: Segments::new() }
    }

    /// How many items it holds.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds nothing.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many items have a deadline.
    #[inline]
    pub(crate) const fn timed(&self) -> usize {
        self.timed
    }

    /// Bytes allocated by the table and its items, beyond the table's own size.
    pub(crate) fn mem_bytes(&self) -> usize {
        self.heap_bytes + self.bucket_bytes + self.segments.block_bytes()
    }

    /// The hash of a key, for the `_hashed` methods of this table.
    #[inline]
    pub(crate) fn hash_of(&self, key: &[u8]) -> u64 {
        hash(self.seed, key)
    }

    /// The item with this key.
    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<&T> {
        self.get_hashed(self.hash_of(key), key)
    }

    /// As [`Table::get`], with the hash at hand.
    #[inline]
    pub(crate) fn get_hashed(&self, hash: u64, key: &[u8]) -> Option<&T> {
        let items = &self.segments.get(self.segments.index_of(hash)).items;
        items.get(items.find(tag(hash), |item| item.key() == key)?)
    }

    /// Whether there is an item with this key.
    #[inline]
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.get(key).is_some()
    }

    /// The item with this key, to change in place.
    ///
    /// What `heap_bytes` and `deadline` return must stay the same: else use [`Table::update`].
    #[inline]
    pub(crate) fn get_mut(&mut self, key: &[u8]) -> Option<&mut T> {
        self.get_mut_hashed(self.hash_of(key), key)
    }

    /// As [`Table::get_mut`], with the hash at hand.
    #[inline]
    pub(crate) fn get_mut_hashed(&mut self, hash: u64, key: &[u8]) -> Option<&mut T> {
        let index = self.segments.index_of(hash);
        let items = &mut self.segments.get_mut(index).items;
        items.get_mut(items.find(tag(hash), |item| item.key() == key)?)
    }

    /// Where the item with this key is, for callers that look first and borrow later.
    #[inline]
    pub(crate) fn locate(&self, key: &[u8]) -> Option<Place> {
        let hash = self.hash_of(key);
        let segment = self.segments.index_of(hash);
        let items = &self.segments.get(segment).items;
        let index = items.find(tag(hash), |item| item.key() == key)?;
        Some(Place { segment, index })
    }

    /// The item at a place.
    #[inline]
    pub(crate) fn at(&self, place: Place) -> &T {
        self.segments.get(place.segment).items.get(place.index).expect(STALE)
    }

    /// The item at a place together with the table's account of bytes, for callers that change
    /// `heap_bytes` over a longer borrow and bring the account up to date themselves.
    #[inline]
    pub(crate) fn at_mut(&mut self, place: Place) -> (&mut T, &mut usize) {
        let items = &mut self.segments.get_mut(place.segment).items;
        (items.get_mut(place.index).expect(STALE), &mut self.heap_bytes)
    }

    /// Changes the item with this key, and measures it again afterwards.
    #[inline]
    pub(crate) fn update<R>(&mut self, key: &[u8], change: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.update_hashed(self.hash_of(key), key, change)
    }

    /// As [`Table::update`], with the hash at hand.
    #[inline]
    pub(crate) fn update_hashed<R>(
        &mut self,
        hash: u64,
        key: &[u8],
        change: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let index = self.segments.index_of(hash);
        let segment = self.segments.get_mut(index);
        let at = segment.items.find(tag(hash), |item| item.key() == key)?;
        let item = segment.items.get_mut(at)?;
        let (bytes, deadline) = (item.heap_bytes(), item.deadline());
        let result = change(item);
        debug_assert!(item.key() == key, "an update must not change the key");
        self.heap_bytes = self.heap_bytes - bytes + item.heap_bytes();
        let due = item.deadline();
        if due != deadline {
            self.timed -= usize::from(deadline != i64::MAX);
            self.timed += usize::from(due != i64::MAX);
            segment.min_deadline = segment.min_deadline.min(due);
        }
        Some(result)
    }

    /// Puts an item in, and returns the one with the same key that it replaced.
    #[inline]
    pub(crate) fn insert(&mut self, item: T) -> Option<T> {
        let hash = self.hash_of(item.key());
        self.insert_hashed(hash, item)
    }

    /// As [`Table::insert`], with the hash of the item's key at hand.
    pub(crate) fn insert_hashed(&mut self, hash: u64, item: T) -> Option<T> {
        let index = self.segments.index_of(hash);
        let segment = self.segments.get_mut(index);
        let found = segment.items.find(tag(hash), |other| other.key() == item.key());
        let Some(place) = found.and_then(|at| segment.items.get_mut(at)) else {
            self.insert_new(hash, item);
            return None;
        };
        let deadline = item.deadline();
        self.heap_bytes += item.heap_bytes();
        self.timed += usize::from(deadline != i64::MAX);
        let old = std::mem::replace(place, item);
        segment.min_deadline = segment.min_deadline.min(deadline);
        self.forget(&old);
        Some(old)
    }

    /// Puts in what `make` returns unless there is an item with this key already; says whether it
    /// did.
    #[inline]
    pub(crate) fn insert_if_absent(&mut self, key: &[u8], make: impl FnOnce() -> T) -> bool {
        let hash = self.hash_of(key);
        let absent = self.get_hashed(hash, key).is_none();
        if absent {
            self.insert_new(hash, make());
        }
        absent
    }

    /// Puts in an item whose key is known to be absent.
    pub(crate) fn insert_new(&mut self, hash: u64, item: T) {
        debug_assert!(self.get_hashed(hash, item.key()).is_none());
        let index = self.segments.index_of(hash);
        let segment = self.segments.get_mut(index);
        segment.min_deadline = segment.min_deadline.min(item.deadline());
        self.heap_bytes += item.heap_bytes();
        self.timed += usize::from(item.deadline() != i64::MAX);
        let before = segment.items.allocation_size();
        segment.items.push(tag(hash), item);
        self.bucket_bytes += segment.items.allocation_size() - before;
        self.len += 1;
        self.grow();
    }

    /// Takes the item with this key out.
    #[inline]
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<T> {
        self.remove_hashed(self.hash_of(key), key)
    }

    /// As [`Table::remove`], with the hash at hand.
    pub(crate) fn remove_hashed(&mut self, hash: u64, key: &[u8]) -> Option<T> {
        let index = self.segments.index_of(hash);
        let segment = self.segments.get_mut(index);
        let at = segment.items.find(tag(hash), |item| item.key() == key)?;
        let item = segment.items.remove(at, tag_with(self.seed));
        self.len -= 1;
        self.forget(&item);
        self.shrink();
        Some(item)
    }

    /// All items, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.segments.iter().flat_map(|segment| segment.items.iter())
    }

    /// Empties the table and gives what was in it.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> + use<T> {
        let all = std::mem::replace(self, Self::with_mixed_seed(self.seed));
        all.segments.into_iter().flat_map(|segment| segment.items.into_items())
    }

    /// Empties the table.
    pub(crate) fn clear(&mut self) {
        *self = Self::with_mixed_seed(self.seed);
    }

    /// Takes an item that has left out of the sums.
    #[inline]
    fn forget(&mut self, item: &T) {
        self.heap_bytes -= item.heap_bytes();
        self.timed -= usize::from(item.deadline() != i64::MAX);
    }

    /// Splits one segment if the table is too full.
    #[inline]
    fn grow(&mut self) {
        if self.len > self.segments.len() * SPLIT_LOAD {
            self.split();
        }
    }

    #[cold]
    fn split(&mut self) {
        let seed = self.seed;
        let new = self.segments.len() as u64;
        let (index, mask) = self.segments.next_split();
        let old = self.segments.get_mut(index);
        let before = old.items.allocation_size();
        let mut segment = Segment::new();
        old.items.extract(
            |item| hash(seed, item.key()) & mask == new,
            tag_with(seed),
            |item| {
                segment.min_deadline = segment.min_deadline.min(item.deadline());
                segment.items.push(tag(hash(seed, item.key())), item);
            },
        );
        old.items.trim();
        let after = old.items.allocation_size() + segment.items.allocation_size();
        self.bucket_bytes = self.bucket_bytes - before + after;
        self.segments.push(segment);
    }

    /// Merges one segment away if the table is too empty.
    #[inline]
    fn shrink(&mut self) {
        if self.len < self.segments.len() * MERGE_LOAD && self.segments.len() > 1 {
            self.merge();
        } else if self.len == 0 {
            self.clear();
        }
    }

    #[cold]
    fn merge(&mut self) {
        let seed = self.seed;
        let Some((last, heir)) = self.segments.pop() else { return };
        let heir = self.segments.get_mut(heir);
        let before = heir.items.allocation_size() + last.items.allocation_size();
        heir.min_deadline = heir.min_deadline.min(last.min_deadline);
        for item in last.items.into_items() {
            heir.items.push(tag(hash(seed, item.key())), item);
        }
        heir.items.trim();
        self.bucket_bytes = self.bucket_bytes - before + heir.items.allocation_size();
    }
}

#[inline]
fn hash(seed: u64, key: &[u8]) -> u64 {
    let mut hasher = FoldHasher::with_seed(seed, SharedSeed::global_fixed());
    hasher.write(key);
    hasher.finish()
}

/// The byte of the hash that stands beside an item; never zero.
///
/// The low bits are alike within a segment, so it comes from the highest.
#[inline]
const fn tag(hash: u64) -> u8 {
    (hash >> 56) as u8 | 1
}

/// Finds the tag of an item.
fn tag_with<T: Item>(seed: u64) -> impl Fn(&T) -> u8 {
    move |item| tag(hash(seed, item.key()))
}
