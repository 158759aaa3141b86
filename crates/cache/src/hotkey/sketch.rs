//! Counts every read of every key in a few nanoseconds and a fixed number of bytes.
//!
//! Only heavy keys matter, so light ones may push each other out. Each stripe (a thread's own, nearly)
//! has 256 buckets of eight counters, a bucket on one cache line:
//!
//! ```text
//! counter  tag:40 bits of the hash | count:24 bits
//! ```
//!
//! A read whose tag stands in its bucket adds to that counter; one whose tag does not takes a count
//! off the smallest, and takes its place when nothing is left of it. So a key that has more than a
//! ninth of its bucket's reads stays, whatever the millions of others do, and a key that stays is never
//! counted too high by more than the chance of equal tags. This is HeavyKeeper with the decay made
//! certain: counters live for a tenth of a second here, too short for its exponential decay to
//! matter. Without its random numbers and its heap a counted read took 10 to 23 ns where the crate
//! `heavykeeper` took 25 to 36 (one thread, 1 to 10 million keys), and that one needs a lock.
//!
//! The bytes of a key are taken once a tick, when its counter passes `name_at`: only then is there a
//! lock. A stripe that sees more than [`SAMPLES`] reads a tick counts a random part of them, each for
//! several, and the rest cost two loads and a store.
//!
//! Invariant: memory is fixed when the sketch is made, except for at most [`MAX_NAMES`] names.
//!
//! Limit: a counter is read and written in two steps. Two threads on one stripe, which happens only
//! when there are more threads than stripes, may lose a count to each other.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};

use xxhash_rust::xxh3::xxh3_64;

/// The most stripes there are; a thread's number comes from [`seawall_client::striped_counter`].
const MAX_STRIPES: usize = 16;
const BUCKETS: usize = 256;
const WAYS: usize = 8;
const COUNT_BITS: u32 = 24;
const MAX_COUNT: u64 = (1 << COUNT_BITS) - 1;
/// Keys whose bytes are known at most.
pub(super) const MAX_NAMES: usize = 1024;
/// Reads that one stripe counts one by one in a tick; beyond that it samples.
const SAMPLES: u64 = 5_000;
/// One read in this many is counted at least.
const MAX_EVERY: u64 = 64;

/// Counters of reads by key.
pub(super) struct Sketch {
    stripes: Box<[Stripe]>,
    /// From which count on a key's bytes are wanted.
    name_at: AtomicU32,
    names: Mutex<BTreeMap<u64, Name>>,
}

/// A key whose bytes are known.
struct Name {
    key: Box<[u8]>,
    /// Ticks since it was last heavy.
    idle: u8,
}

#[derive(Default)]
#[repr(align(64))]
struct Bucket([AtomicU64; WAYS]);

#[repr(align(128))]
struct Stripe {
    /// Reads to pass over before the next is counted.
    skip: AtomicU32,
    /// For how many reads a counted one stands.
    every: AtomicU32,
    /// State of the random numbers that `skip` is drawn from.
    noise: AtomicU32,
    samples: AtomicU64,
    buckets: Box<[Bucket]>,
}

/// How long a name without heavy reads is kept, in ticks.
const KEEP_NAMES: u8 = 10;

/// Returns which counter a hash belongs to, the same in all stripes: its bucket and its tag.
fn identity(hash: u64) -> (usize, u64) {
    // A tag of zero would look like an empty counter.
    ((hash as usize) % BUCKETS, (hash >> COUNT_BITS) | 1)
}

impl Sketch {
    /// A sketch for as many threads as the machine runs at once.
    pub(super) fn new() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let stripes = threads.next_power_of_two().min(MAX_STRIPES);
        Sketch {
            stripes: (0..stripes).map(Stripe::new).collect(),
            name_at: AtomicU32::new(2),
            names: Mutex::default(),
        }
    }

    /// Wants the bytes of keys that are read `reads` times a tick in this process, however they
    /// spread over the stripes.
    pub(super) fn want(&self, reads: u64) {
        let share = reads / self.stripes.len() as u64;
        self.name_at.store(u32::try_from(share.clamp(2, 64)).unwrap_or(64), Relaxed);
    }

    /// Returns whether the read that is going on is to be counted, by [`Sketch::sample`]; one that is
    /// not needs no key.
    #[inline]
    pub(super) fn wants_sample(&self) -> bool {
        let stripe = self.stripe();
        let skip = stripe.skip.load(Relaxed);
        if skip > 0 {
            stripe.skip.store(skip - 1, Relaxed);
        }
        skip == 0
    }

    fn stripe(&self) -> &Stripe {
        &self.stripes[seawall_client::striped_counter::stripe() & (self.stripes.len() - 1)]
    }

    /// Counts a read that was wanted.
    pub(super) fn sample(&self, key: &[u8]) {
        let stripe = self.stripe();
        let every = stripe.next_sample();
        let hash = xxh3_64(key);
        let (bucket, tag) = identity(hash);
        let cells = &stripe.buckets[bucket].0;
        let (mut least, mut smallest) = (&cells[0], u64::MAX);
        for cell in cells {
            let value = cell.load(Relaxed);
            let count = value & MAX_COUNT;
            if value >> COUNT_BITS == tag {
                let more = (count + every).min(MAX_COUNT);
                cell.store(tag << COUNT_BITS | more, Relaxed);
                let name_at = u64::from(self.name_at.load(Relaxed));
                if count < name_at && more >= name_at {
                    self.name(bucket, tag, key);
                }
                return;
            }
            if count < smallest {
                (least, smallest) = (cell, count);
            }
        }
        if smallest > every {
            let value = least.load(Relaxed);
            least.store(value & !MAX_COUNT | (smallest - every), Relaxed);
            return;
        }
        least.store(tag << COUNT_BITS | every, Relaxed);
        if every >= u64::from(self.name_at.load(Relaxed)) {
            self.name(bucket, tag, key);
        }
    }

    #[cold]
    fn name(&self, bucket: usize, tag: u64, key: &[u8]) {
        let mut names = self.names();
        if names.len() < MAX_NAMES {
            names.entry(name_id(bucket, tag)).or_insert_with(|| Name { key: key.into(), idle: 0 });
        }
    }

    /// Returns the heavy keys since the last time with their reads, largest first; all counters start
    /// again.
    pub(super) fn drain(&self) -> Vec<(Box<[u8]>, u64)> {
        let touched: Vec<&Stripe> =
            self.stripes.iter().filter(|stripe| stripe.samples.load(Relaxed) > 0).collect();
        let mut names = self.names();
        if touched.is_empty() && names.is_empty() {
            return Vec::new();
        }
        let mut heavy = Vec::new();
        let name_at = u64::from(self.name_at.load(Relaxed));
        names.retain(|id, name| {
            let (bucket, tag) = ((*id as usize) % BUCKETS, *id >> COUNT_BITS);
            let count: u64 = touched.iter().map(|stripe| stripe.read(bucket, tag)).sum();
            if count >= name_at {
                heavy.push((name.key.clone(), count));
                name.idle = 0;
            } else {
                name.idle += 1;
            }
            name.idle < KEEP_NAMES
        });
        // More names than that are not needed: those that are heavy now come again at once.
        if names.len() == MAX_NAMES {
            names.clear();
        }
        drop(names);
        touched.iter().for_each(|stripe| stripe.restart());
        heavy.sort_unstable_by_key(|(_, count)| std::cmp::Reverse(*count));
        heavy
    }

    /// Returns what the sketch holds, in bytes: fixed, except for the names.
    pub(super) fn size_bytes(&self) -> usize {
        let stripe = size_of::<Stripe>() + BUCKETS * size_of::<Bucket>();
        let names: usize =
            self.names().values().map(|name| size_of::<(u64, Name)>() + name.key.len()).sum();
        size_of::<Self>() + self.stripes.len() * stripe + names
    }

    fn names(&self) -> MutexGuard<'_, BTreeMap<u64, Name>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn name_id(bucket: usize, tag: u64) -> u64 {
    tag << COUNT_BITS | bucket as u64
}

impl Stripe {
    fn new(number: usize) -> Self {
        Stripe {
            skip: AtomicU32::new(0),
            every: AtomicU32::new(1),
            noise: AtomicU32::new(0x9e37_79b9 ^ number as u32),
            samples: AtomicU64::new(0),
            buckets: (0..BUCKETS).map(|_| Bucket::default()).collect(),
        }
    }

    /// Notes a counted read, draws how many to pass over, and says for how many it stands.
    fn next_sample(&self) -> u64 {
        self.samples.store(self.samples.load(Relaxed) + 1, Relaxed);
        let every = self.every.load(Relaxed);
        if every > 1 {
            // Random, so that a pattern in the reads does not hide a key.
            let mut noise = self.noise.load(Relaxed);
            noise ^= noise << 13;
            noise ^= noise >> 17;
            noise ^= noise << 5;
            self.noise.store(noise, Relaxed);
            self.skip.store(noise % (2 * every - 1), Relaxed);
        }
        u64::from(every)
    }

    fn read(&self, bucket: usize, tag: u64) -> u64 {
        let cells = self.buckets[bucket].0.iter().map(|cell| cell.load(Relaxed));
        cells.filter(|value| value >> COUNT_BITS == tag).map(|value| value & MAX_COUNT).sum()
    }

    /// Empties the counters, and chooses how many reads are sampled from how many there were.
    fn restart(&self) {
        let samples = self.samples.swap(0, Relaxed);
        let reads = samples * u64::from(self.every.load(Relaxed));
        let every = (reads / SAMPLES).clamp(1, MAX_EVERY);
        self.every.store(every as u32, Relaxed);
        if every == 1 {
            self.skip.store(0, Relaxed);
        }
        for cell in self.buckets.iter().flat_map(|bucket| &bucket.0) {
            cell.store(0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Sketch {
        fn count(&self, key: &[u8]) {
            if self.wants_sample() {
                self.sample(key);
            }
        }
    }

    fn count_of(heavy: &[(Box<[u8]>, u64)], key: &[u8]) -> u64 {
        heavy.iter().find(|(name, _)| &**name == key).map_or(0, |(_, count)| *count)
    }

    #[test]
    fn a_heavy_key_is_counted_among_many_light_ones() {
        let sketch = Sketch::new();
        for light in 0..10_000_u32 {
            sketch.count(b"heavy");
            sketch.count(&light.to_be_bytes());
        }
        let heavy = sketch.drain();
        assert_eq!(&*heavy[0].0, b"heavy");
        assert!((9_900..=10_000).contains(&heavy[0].1), "{}", heavy[0].1);
        assert_eq!(count_of(&sketch.drain(), b"heavy"), 0, "counters start again");
    }

    #[test]
    fn sampling_keeps_the_estimate_and_hides_no_pattern() {
        let sketch = Sketch::new();
        for _ in 0..2 {
            // The first round only tells it how busy it is.
            for turn in 0..400_000_u32 {
                sketch.count(if turn % 2 == 0 { b"even" } else { b"odd" });
            }
            let heavy = sketch.drain();
            for key in [&b"even"[..], b"odd"] {
                let count = count_of(&heavy, key);
                assert!((150_000..250_000).contains(&count), "{key:?}: {count}");
            }
        }
    }

    #[test]
    fn memory_is_bounded_however_many_keys_there_are() {
        let sketch = Sketch::new();
        let empty = sketch.size_bytes();
        let keys = if std::env::var_os("SEAWALL_SOAK").is_some() { 10_000_000 } else { 500_000 };
        for key in 0..keys as u64 {
            // Each often enough to want a name.
            for _ in 0..3 {
                sketch.count(&key.to_be_bytes());
            }
            if key % 100_000 == 0 {
                sketch.drain();
            }
        }
        let most = empty + MAX_NAMES * (size_of::<(u64, Name)>() + 8);
        assert!(sketch.size_bytes() <= most, "{} > {most}", sketch.size_bytes());
        assert!(most < 1 << 20, "{most}");
    }

    #[test]
    fn names_that_are_no_longer_heavy_are_forgotten() {
        let sketch = Sketch::new();
        (0..5).for_each(|_| sketch.count(b"once"));
        assert_eq!(count_of(&sketch.drain(), b"once"), 5);
        for _ in 0..KEEP_NAMES {
            sketch.count(b"other");
            let _ = sketch.drain();
        }
        assert!(sketch.names().is_empty());
    }
}
