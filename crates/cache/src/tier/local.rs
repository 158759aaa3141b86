//! The local tier: copies of values in this process' memory.
//!
//! A value that was read from Redis before an invalidation must not be stored here after it. So
//! every fill takes a *ticket* before it reads, and an invalidation that arrives meanwhile makes the
//! ticket worthless. Tickets are counters in a fixed number of buckets; check and insert happen under
//! the bucket's lock, and so do bump and removal: whichever comes first, the old value does not stay.
//! A bucket has many keys, so an invalidation of one may refuse a fill of another: that costs a
//! cache miss, no more.
//!
//! A hit takes about as long as a few fetches of memory, so what lies where is most of its cost:
//! short keys lie beside their copy instead of behind a pointer, a copy is one cache line of what
//! hits need, and what all keys of the cache begin with is left out of them.

use std::{
    hash::{BuildHasher, Hash, Hasher},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use foldhash::{SharedSeed, quality::SeedableRandomState};
use quick_cache::{
    Equivalent, Weighter,
    sync::{Cache as QuickCache, DefaultLifecycle},
};
use seawall_resilience::{clock::Moment, random::Randomness};
use smallvec::SmallVec;

use crate::{
    Freshness, Read, Source, Version,
    backplane::attention::Attention,
    store::entry::{Entry, Tags},
    tier::local_budget::{Budget, Holder},
};

const BUCKETS: usize = 1024;
/// What an entry costs besides its value's bytes: key, bookkeeping, the decoded value's own overhead.
const OVERHEAD_BYTES: u64 = 200;
/// How often it is looked whether the granted memory is about to be used up: once in so many inserts.
const LOOK_AFTER: u32 = 16;
/// Half a kilobyte is a guess at the usual entry; it only sizes the first table.
const USUAL_BYTES: u64 = 512;
/// Longest key that lies beside its copy.
const SHORT_BYTES: usize = 40;

/// Values in memory, bounded by weight.
pub(crate) struct LocalTier<V> {
    values: QuickCache<Name, Held<V>, ByBytes, SeedableRandomState>,
    buckets: Box<[Mutex<u64>]>,
    hasher: SeedableRandomState,
    /// How many bytes all entries have in common at their beginning.
    prefix_bytes: usize,
    attention: Arc<Attention>,
    memory: Memory,
    granted: AtomicU64,
    is_pressed: AtomicBool,
    inserts: AtomicU32,
}

/// What a local tier may hold: its part of the handle's budget.
#[derive(Clone)]
pub(crate) struct Memory {
    pub(crate) budget: Arc<Budget>,
    pub(crate) weight: u32,
    /// At most, whatever the budget.
    pub(crate) most: u64,
}

/// A key that is kept.
#[derive(PartialEq, Eq)]
struct Name(SmallVec<[u8; SHORT_BYTES]>);

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Sought(&self.0).hash(state);
    }
}

/// A key that is looked for.
struct Sought<'a>(&'a [u8]);

impl Hash for Sought<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Nothing comes after it that it could run into, so its length need not be told apart.
        state.write(self.0);
    }
}

impl Equivalent<Name> for Sought<'_> {
    fn equivalent(&self, name: &Name) -> bool {
        *self.0 == *name.0
    }
}

/// What is kept of an entry.
struct Held<V> {
    value: Option<Arc<V>>,
    version: u64,
    fresh_until: Moment,
    stale_until: Moment,
    written: Moment,
    bytes: u32,
    tags: Tags,
}

impl<V> Clone for Held<V> {
    fn clone(&self) -> Self {
        Held { value: self.value.clone(), tags: self.tags.clone(), ..*self }
    }
}

impl<V> From<Entry<V>> for Held<V> {
    fn from(entry: Entry<V>) -> Self {
        let Entry { value, version, fresh_until, stale_until, written, bytes, tags, .. } = entry;
        Held { value, version, fresh_until, stale_until, written, bytes, tags }
    }
}

impl<V> From<Held<V>> for Entry<V> {
    fn from(held: Held<V>) -> Self {
        let Held { value, version, fresh_until, stale_until, written, bytes, tags } = held;
        Entry {
            value,
            version,
            fresh_until,
            stale_until,
            written,
            // Who loads is told by the remote tier.
            cost: Duration::ZERO,
            bytes,
            // What was invalidated is not kept here.
            invalidated: false,
            tags,
            clears: 0,
        }
    }
}

#[derive(Clone)]
struct ByBytes;

impl<V> Weighter<Name, Held<V>> for ByBytes {
    fn weight(&self, key: &Name, held: &Held<V>) -> u64 {
        OVERHEAD_BYTES + key.0.len() as u64 + u64::from(held.bytes)
    }
}

/// Creates a hasher. It decides what is evicted, and which keys share a bucket.
fn hasher(randomness: &Randomness) -> SeedableRandomState {
    match randomness.hash_seed() {
        Some(seed) => SeedableRandomState::with_seed(seed, SharedSeed::global_fixed()),
        None => SeedableRandomState::random(),
    }
}

/// The state of a key's bucket before its value was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    bucket: usize,
    count: u64,
}

impl<V> LocalTier<V> {
    pub(crate) fn open(
        prefix_bytes: usize,
        memory: &Memory,
        attention: Arc<Attention>,
        randomness: &Randomness,
    ) -> Arc<Self>
    where
        V: Send + Sync + 'static,
    {
        let most = memory.most.min(memory.budget.total());
        let fair = memory.budget.fair_for(memory.weight, most);
        let expected = usize::try_from(fair / USUAL_BYTES).unwrap_or(usize::MAX).clamp(64, 1 << 20);
        let level = Arc::new(LocalTier {
            values: QuickCache::with(
                expected,
                most,
                ByBytes,
                hasher(randomness),
                DefaultLifecycle::default(),
            ),
            buckets: (0..BUCKETS).map(|_| Mutex::new(0)).collect(),
            hasher: hasher(randomness),
            prefix_bytes,
            attention,
            granted: AtomicU64::new(most),
            is_pressed: AtomicBool::new(false),
            inserts: AtomicU32::new(0),
            memory: memory.clone(),
        });
        let holder: Weak<dyn Holder> = Arc::<Self>::downgrade(&level);
        memory.budget.join(holder, memory.weight, most);
        level
    }

    /// Returns whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns whether copies may be served, and notes that they are used.
    pub(crate) fn serves(&self) -> bool {
        self.attention.serves()
    }

    /// Returns the name that an entry is kept under.
    fn id<'a>(&self, entry: &'a [u8]) -> Sought<'a> {
        Sought(entry.get(self.prefix_bytes..).unwrap_or_default())
    }

    /// Returns a copy that is fresh and suits the reader, as its answer. The id is an entry without
    /// what all of them begin with.
    #[inline]
    #[expect(clippy::question_mark, reason = "it would move the whole of what was found")]
    pub(crate) fn fresh(&self, id: &[u8], freshness: Freshness, now: Moment) -> Option<Read<V>> {
        // Before the copy is looked for: one that was found before it was compared may be old.
        if !self.attention.serves() {
            return None;
        }
        // Taken apart in place: moving the whole of it costs as much as finding it.
        let Some(Held { value, version, fresh_until, stale_until, written, .. }) =
            self.values.get(&Sought(id))
        else {
            return None;
        };
        let age = now.since(written);
        let fresh = now < fresh_until && freshness.admits(now < stale_until, version, age);
        fresh.then_some(Read { value, source: Source::Local, age, version: Version(version) })
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<Entry<V>> {
        self.values.get(&self.id(key)).map(Entry::from)
    }

    /// Like [`get`](LocalTier::get), without counting it as a use of the copy.
    pub(crate) fn peek(&self, key: &[u8]) -> Option<Entry<V>> {
        self.values.peek(&self.id(key)).map(Entry::from)
    }

    /// Takes a ticket. To be taken before the value is read.
    pub(crate) fn ticket(&self, key: &[u8]) -> Ticket {
        let bucket = self.bucket(key);
        Ticket { bucket, count: *self.lock(bucket) }
    }

    /// Stores a value unless its key was invalidated since the ticket was taken.
    pub(crate) fn insert(&self, key: &[u8], entry: Entry<V>, ticket: Ticket) -> bool {
        let count = self.lock(ticket.bucket);
        if *count != ticket.count {
            return false;
        }
        // Reads of one key may overtake each other: the newer value stays. What was loaded without
        // Redis has no version, and is the newest.
        if entry.version != 0
            && self.values.peek(&self.id(key)).is_some_and(|old| old.version > entry.version)
        {
            return false;
        }
        let (name, held) = (Name(SmallVec::from_slice(self.id(key).0)), entry.into());
        let weight = ByBytes.weight(&name, &held);
        self.values.insert(name, held);
        self.attention.occupied();
        drop(count);
        self.weigh(weight);
        true
    }

    /// Asks for more memory when what is granted is about to be used up.
    fn weigh(&self, weight: u64) {
        let look = self.inserts.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOOK_AFTER);
        let granted = self.granted.load(Ordering::Relaxed);
        let turned_away = weight > self.values.shard_capacity();
        if turned_away || look && self.values.weight() >= granted - granted / 8 {
            self.is_pressed.store(true, Ordering::Relaxed);
            self.memory.budget.press();
        }
    }

    /// Removes a value, and ends the tickets of its key.
    pub(crate) fn invalidate(&self, key: &[u8]) {
        let mut count = self.lock(self.bucket(key));
        *count += 1;
        self.values.remove(&self.id(key));
    }

    /// Removes everything, and ends all tickets.
    pub(crate) fn clear(&self) {
        self.refuse_all();
        self.values.clear();
    }

    /// Removes what has this tag, and ends all tickets.
    pub(crate) fn clear_tag(&self, tag: u64) {
        self.refuse_all();
        self.values.retain(|_, held| !held.tags.as_ref().is_some_and(|tags| tags.contains(&tag)));
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

impl<V: Send + Sync> Holder for LocalTier<V> {
    fn used(&self) -> u64 {
        self.values.weight()
    }

    fn is_pressed(&self) -> bool {
        self.is_pressed.swap(false, Ordering::Relaxed)
    }

    fn grant(&self, bytes: u64) {
        self.granted.store(bytes, Ordering::Relaxed);
        self.values.set_capacity(bytes);
    }
}

#[cfg(test)]
mod tests;
