//! The first level: values in this process' memory.
//!
//! A value that was read from Redis before an invalidation must not be stored here after it. So
//! every fill takes a *ticket* before it reads, and an invalidation that arrives meanwhile makes the
//! ticket worthless. Tickets are counters in a fixed number of buckets; check and insert happen under
//! the bucket's lock, and so do bump and removal: whichever comes first, the old value does not stay.
//! A bucket has many keys, so an invalidation of one may refuse a fill of another: that costs a
//! cache miss, no more.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{Mutex, MutexGuard, PoisonError},
};

use quick_cache::{Weighter, sync::Cache as QuickCache};

use super::read_types::Entry;

const BUCKETS: usize = 1024;
/// What an entry costs besides its value's bytes: key, bookkeeping, the decoded value's own overhead.
const OVERHEAD_BYTES: u64 = 160;

/// Values in memory, bounded by weight.
pub(super) struct Level1<V> {
    values: QuickCache<Box<[u8]>, Entry<V>, ByBytes>,
    buckets: Box<[Mutex<u64>]>,
    hasher: RandomState,
}

#[derive(Clone)]
struct ByBytes;

impl<V> Weighter<Box<[u8]>, Entry<V>> for ByBytes {
    fn weight(&self, key: &Box<[u8]>, entry: &Entry<V>) -> u64 {
        OVERHEAD_BYTES + key.len() as u64 + u64::from(entry.bytes)
    }
}

/// The state of a key's bucket before its value was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket {
    bucket: usize,
    count: u64,
}

impl<V> Level1<V> {
    pub(super) fn new(max_bytes: u64, expected_items: usize) -> Self {
        Level1 {
            values: QuickCache::with_weighter(expected_items, max_bytes, ByBytes),
            buckets: (0..BUCKETS).map(|_| Mutex::new(0)).collect(),
            hasher: RandomState::new(),
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Entry<V>> {
        self.values.get(key)
    }

    /// The same for onlookers: it counts as no use of the copy.
    pub(super) fn peek(&self, key: &[u8]) -> Option<Entry<V>> {
        self.values.peek(key)
    }

    /// To be taken before the value is read.
    pub(super) fn ticket(&self, key: &[u8]) -> Ticket {
        let bucket = self.bucket(key);
        Ticket { bucket, count: *self.lock(bucket) }
    }

    /// Stores a value unless its key was invalidated since the ticket was taken.
    pub(super) fn insert(&self, key: &[u8], entry: Entry<V>, ticket: Ticket) -> bool {
        let count = self.lock(ticket.bucket);
        if *count != ticket.count {
            return false;
        }
        // Reads of one key may overtake each other: the newer value stays. What was loaded without
        // Redis has no version, and is the newest.
        if entry.version != 0
            && self.values.peek(key).is_some_and(|old| old.version > entry.version)
        {
            return false;
        }
        self.values.insert(key.into(), entry);
        true
    }

    /// Removes a value, and refuses what is being read for its key.
    pub(super) fn invalidate(&self, key: &[u8]) {
        let mut count = self.lock(self.bucket(key));
        *count += 1;
        self.values.remove(key);
    }

    /// Removes everything, and refuses whatever is being read.
    pub(super) fn clear(&self) {
        self.refuse_all();
        self.values.clear();
    }

    /// Removes what has this tag, and refuses whatever is being read.
    pub(super) fn clear_tag(&self, tag: u64) {
        self.refuse_all();
        self.values.retain(|_, entry| !entry.tags.as_ref().is_some_and(|tags| tags.contains(&tag)));
    }

    fn refuse_all(&self) {
        // Invariant: after a bucket was bumped, no insert that checked the old count is still under
        // way, because it would hold the bucket's lock.
        for bucket in 0..self.buckets.len() {
            *self.lock(bucket) += 1;
        }
    }

    fn bucket(&self, key: &[u8]) -> usize {
        (self.hasher.hash_one(key) % BUCKETS as u64) as usize
    }

    fn lock(&self, bucket: usize) -> MutexGuard<'_, u64> {
        self.buckets[bucket].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::clock::Moment;

    fn entry(version: u64) -> Entry<u64> {
        Entry {
            value: Some(Arc::new(version)),
            version,
            fresh_until: Moment::default(),
            stale_until: Moment::default(),
            written: Moment::default(),
            cost: Duration::ZERO,
            bytes: 8,
            invalidated: false,
            tags: Some(Arc::new([version % 2])),
        }
    }

    #[test]
    fn what_was_read_before_an_invalidation_is_not_stored_after_it() {
        let level = Level1::new(1 << 20, 100);
        let early = level.ticket(b"k");
        level.invalidate(b"k");
        assert!(!level.insert(b"k", entry(1), early));
        let late = level.ticket(b"k");
        assert!(level.insert(b"k", entry(2), late));
        assert!(!level.insert(b"k", entry(1), late), "a newer value stays");
        level.clear();
        assert!(level.get(b"k").is_none());
        assert!(!level.insert(b"k", entry(3), late));
    }

    #[test]
    fn a_tag_takes_its_own_along() {
        let level = Level1::new(1 << 20, 100);
        for version in 0..10_u64 {
            let key = version.to_be_bytes();
            assert!(level.insert(&key, entry(version), level.ticket(&key)));
        }
        level.clear_tag(1);
        let left: Vec<u64> =
            (0..10_u64).filter(|version| level.get(&version.to_be_bytes()).is_some()).collect();
        assert_eq!(left, [0, 2, 4, 6, 8]);
    }
}
