//! The parts of a filter: the user's plan, the sink for the source's keys, and the bits.
//!
//! The bits take inserts from many threads without a lock: messages arrive while a build is under
//! way. Each build has a seed of its own, so that keys which pass wrongly in one do not in the next.

use std::{
    error::Error as StdError,
    fmt,
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fastbloom::AtomicBloomFilter;
use futures_util::{FutureExt, future::BoxFuture};
use seawall_client::{error::Result, key::KeyPart};

use crate::{LoadError, store::keys::Names};

/// The most memory that the filter of one cache may take, twice while it is built anew.
const MAX_BYTES: u64 = 1 << 30;

type StreamKeys<K> =
    Arc<dyn Fn(KeySink<K>) -> BoxFuture<'static, Result<(), LoadError>> + Send + Sync>;

/// A filter of the keys that exist: see [`CacheBuilder::filter`](crate::CacheBuilder::filter).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use seawall::{Seawall, cache::{Cache, KeyFilter, KeySink, Loaded, Source}};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let known = KeyFilter::new(10_000, |sink: KeySink<u64>| async move {
///     // In real life: page through the primary keys of a table.
///     for id in 1..=100 {
///         sink.add(&id);
///     }
///     Ok::<_, std::io::Error>(())
/// });
/// let shops: Cache<u64, String> = seawall.cache("shop").filter(known).build()?;
/// shops.filter_ready().await;
///
/// let load = || async { Ok::<_, std::io::Error>(Loaded::Missing) };
/// let missing = shops.get_or_load(&4_000_000, load).await?;
/// assert_eq!((missing.value, missing.source), (None, Source::Filtered));
/// # seawall.shutdown().await; Ok(()) }
/// ```
pub struct KeyFilter<K> {
    pub(crate) expected: usize,
    pub(crate) false_positives: f64,
    pub(crate) rebuild_every: Duration,
    pub(crate) stream: StreamKeys<K>,
}

impl<K: KeyPart + Send + Sync + 'static> KeyFilter<K> {
    /// Creates a filter sized for this many keys. `stream` puts *all* keys of the source into the sink,
    /// from the primary: a replica that lags would leave out the newest.
    #[must_use]
    pub fn new<F, Fut, E>(expected_items: usize, stream: F) -> Self
    where
        F: Fn(KeySink<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        KeyFilter {
            expected: expected_items,
            false_positives: 0.01,
            rebuild_every: Duration::from_secs(3600),
            stream: Arc::new(move |sink| {
                stream(sink).map(|done| done.map_err(|error| LoadError::from(error.into()))).boxed()
            }),
        }
    }

    /// Sets the fraction of absent keys that may pass. Default: 0.01 (1.2 bytes per key).
    #[must_use]
    pub fn false_positives(mut self, part: f64) -> Self {
        self.false_positives = part;
        self
    }

    /// Sets how often the filter is rebuilt although no message was missed: deleted keys leave it then,
    /// and keys enter that were not announced. Default: 1 hour.
    #[must_use]
    pub fn rebuild_every(mut self, time: Duration) -> Self {
        self.rebuild_every = time;
        self
    }

    /// Returns how many keys fit into the most that a filter may take.
    pub(crate) fn most_keys(&self) -> usize {
        let ln2 = std::f64::consts::LN_2;
        let bits_per_key = -self.false_positives.ln() / (ln2 * ln2);
        // Truncation is meant; a float beyond all integers becomes the largest one.
        (MAX_BYTES as f64 * 8.0 / bits_per_key) as usize
    }

    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        if self.expected == 0 {
            return Err("filter: expected_items is 0, nothing would fit".into());
        }
        if !(self.false_positives > 0.0 && self.false_positives < 1.0) {
            return Err(format!(
                "filter: false_positives is {}, it must be above 0 and below 1",
                self.false_positives
            ));
        }
        if self.expected > self.most_keys() {
            return Err(format!(
                "filter: {} keys at {} take more than the {} MiB that are allowed, which hold {} keys; a \
                 filter in Redis (`bloom`) is shared by all processes",
                self.expected,
                self.false_positives,
                MAX_BYTES >> 20,
                self.most_keys()
            ));
        }
        if self.rebuild_every < Duration::from_secs(1) {
            return Err(format!(
                "filter: rebuild_every is {:?}, it must be at least 1 s",
                self.rebuild_every
            ));
        }
        Ok(())
    }
}

impl<K> fmt::Debug for KeyFilter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyFilter")
            .field("expected", &self.expected)
            .field("false_positives", &self.false_positives)
            .finish_non_exhaustive()
    }
}

/// Where the source's keys go while a filter is built.
pub struct KeySink<K> {
    bits: Arc<Bits>,
    names: Arc<Names>,
    key: PhantomData<fn(&K)>,
}

impl<K: KeyPart> KeySink<K> {
    pub(crate) fn new(bits: &Arc<Bits>, names: &Arc<Names>) -> Self {
        KeySink { bits: Arc::clone(bits), names: Arc::clone(names), key: PhantomData }
    }

    /// Adds a key that exists. One that no cache would accept is left out.
    pub fn add(&self, key: &K) {
        if let Ok(entry) = self.names.entry(key) {
            self.bits.insert(entry.as_bytes());
        }
    }
}

impl<K> Clone for KeySink<K> {
    fn clone(&self) -> Self {
        KeySink { bits: Arc::clone(&self.bits), names: Arc::clone(&self.names), key: self.key }
    }
}

impl<K> fmt::Debug for KeySink<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySink").finish_non_exhaustive()
    }
}

/// The bits of one build.
pub(crate) struct Bits {
    bloom: AtomicBloomFilter,
    seed: u64,
    keys: AtomicU64,
}

impl Bits {
    pub(crate) fn new(expected: usize, false_positives: f64, seed: u64) -> Self {
        // Keys come hashed, so its own hasher is not asked.
        let bloom = AtomicBloomFilter::with_false_pos(false_positives).seed(&0);
        Bits { bloom: bloom.expected_items(expected), seed, keys: AtomicU64::new(0) }
    }

    fn hash(&self, entry: &[u8]) -> u64 {
        xxhash_rust::xxh3::xxh3_64_with_seed(entry, self.seed)
    }

    pub(crate) fn insert(&self, entry: &[u8]) {
        self.bloom.insert_hash(self.hash(entry));
        self.keys.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn contains(&self, entry: &[u8]) -> bool {
        self.bloom.contains_hash(self.hash(entry))
    }

    pub(crate) fn false_positives(&self) -> f64 {
        let ones: u64 = self.bloom.iter().map(|word| u64::from(word.count_ones())).sum();
        let density = ones as f64 / self.bloom.num_bits().max(1) as f64;
        density.powi(i32::try_from(self.bloom.num_hashes()).unwrap_or(i32::MAX))
    }

    /// Returns how many keys were inserted, some of them perhaps twice.
    pub(crate) fn keys(&self) -> u64 {
        self.keys.load(Ordering::Relaxed)
    }

    /// Their size.
    pub(crate) fn bytes(&self) -> usize {
        self.bloom.num_bits() / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_false_positive_rate_is_what_was_asked_for() {
        for wanted in [0.05, 0.01, 0.001] {
            let bits = Bits::new(20_000, wanted, 7);
            (0..20_000_u64).for_each(|key| bits.insert(&key.to_be_bytes()));
            assert!((0..20_000_u64).all(|key| bits.contains(&key.to_be_bytes())));
            let passed =
                (20_000..220_000_u64).filter(|key| bits.contains(&key.to_be_bytes())).count();
            let measured = passed as f64 / 200_000.0;
            assert!(measured < wanted * 1.5, "{measured} of {wanted}");
            let estimated = bits.false_positives();
            assert!(
                (estimated - measured).abs() < wanted * 0.5,
                "{estimated}, measured {measured}"
            );
        }
    }
}
