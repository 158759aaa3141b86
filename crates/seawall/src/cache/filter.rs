//! Keys that cannot exist stop here, before any level is asked.
//!
//! A Bloom filter over all keys of the source, in this process. It is filled in the background from a
//! closure that streams the keys, and kept up by the namespace's messages: whoever creates a row and
//! then invalidates, puts or writes its key tells every process of it.
//!
//! A filter that does not know a key which exists would be worse than none, so it answers only while
//! it is *certain*: built completely, no message missed since the build began, and the messages'
//! counter compared less than [`TRUST`] ago. In all other cases it lets everything pass and is built
//! again.
//!
//! ```text
//!            first look          source streamed            gap, reconnect, clear()
//! passing ───────────────► building ───────────► certain ───────────────────────► passing
//!                              ▲ both take inserts │ every `rebuild_every`, on demand
//!                              └───────────────────┘
//! ```
//!
//! Invariant: a key whose announcement was [`Applied`](super::Invalidation::Applied) more than
//! [`TRUST`] ago is never said to be missing. An answer at time `u` needs a look that began after
//! `u - TRUST`; that look saw the announcement's number, so it was heard (and inserted) or found
//! missing (and the filter dropped).
//!
//! Deliberately absent: deletion. A deleted key passes until the next build, which costs what it
//! would have cost without a filter.

use std::{
    error::Error as StdError,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use fastbloom::AtomicBloomFilter;
use futures_util::{FutureExt, future::BoxFuture};
use metrics::{Counter, Gauge};
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::{Notify, watch};

use super::{Cache, Freshness, Inner, LoadError, Read, Source, Version, names::Names};
use crate::{
    clock::{Clock, Moment},
    error::{Error, Result},
    key::KeyPart,
};

/// For how long after a look at the messages' counter the filter counts as complete.
const TRUST: Duration = Duration::from_secs(1);
/// How much larger than expected a filter may grow when the source has more keys than expected.
const MAX_GROWTH: usize = 16;
/// Pauses after a source that failed.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

type StreamKeys<K> =
    Arc<dyn Fn(KeySink<K>) -> BoxFuture<'static, Result<(), LoadError>> + Send + Sync>;

/// A filter of the keys that exist: see [`CacheBuilder::filter`](super::CacheBuilder::filter).
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
/// let nobody = shops.get_or_load(&4_000_000, load).await?;
/// assert_eq!((nobody.value, nobody.source), (None, Source::Filtered));
/// # seawall.shutdown().await; Ok(()) }
/// ```
pub struct KeyFilter<K> {
    expected: usize,
    false_positives: f64,
    rebuild_every: Duration,
    stream: StreamKeys<K>,
}

impl<K: KeyPart + Send + Sync + 'static> KeyFilter<K> {
    /// A filter sized for this many keys. `stream` puts *all* keys of the source into the sink, from
    /// the primary: a replica that lags would leave out the newest.
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

    /// Which part of absent keys may pass; 0.01 without it (1.2 bytes a key).
    #[must_use]
    pub fn false_positives(mut self, part: f64) -> Self {
        self.false_positives = part;
        self
    }

    /// How often it is built again though nothing was missed: deleted keys leave it then, and keys
    /// enter that nobody announced. 1 h without it.
    #[must_use]
    pub fn rebuild_every(mut self, time: Duration) -> Self {
        self.rebuild_every = time;
        self
    }

    pub(super) fn check(&self) -> std::result::Result<(), String> {
        if self.expected == 0 {
            return Err("filter: expected_items is 0, nothing would fit".into());
        }
        if !(self.false_positives > 0.0 && self.false_positives < 1.0) {
            return Err(format!(
                "filter: false_positives is {}, it must be above 0 and below 1",
                self.false_positives
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
    key: std::marker::PhantomData<fn(&K)>,
}

impl<K: KeyPart> KeySink<K> {
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

/// How a filter stands.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FilterStatus {
    /// Whether it answers; else it lets everything pass.
    pub certain: bool,
    /// Counts the builds.
    pub version: u64,
    /// Keys that were inserted, some of them perhaps twice.
    pub keys: u64,
    /// Its size.
    pub bytes: usize,
    /// Which part of absent keys pass, estimated from the bits that are set.
    pub false_positives: f64,
}

struct Bits {
    bloom: AtomicBloomFilter,
    seed: u64,
    keys: AtomicU64,
}

impl Bits {
    fn new(expected: usize, false_positives: f64) -> Self {
        let seed = rand::random();
        // Keys come hashed, so its own hasher is not asked.
        let bloom = AtomicBloomFilter::with_false_pos(false_positives).seed(&0);
        Bits { bloom: bloom.expected_items(expected), seed, keys: AtomicU64::new(0) }
    }

    fn hash(&self, entry: &[u8]) -> u64 {
        xxhash_rust::xxh3::xxh3_64_with_seed(entry, self.seed)
    }

    fn insert(&self, entry: &[u8]) {
        self.bloom.insert_hash(self.hash(entry));
        self.keys.fetch_add(1, Ordering::Relaxed);
    }

    fn contains(&self, entry: &[u8]) -> bool {
        self.bloom.contains_hash(self.hash(entry))
    }

    fn false_positives(&self) -> f64 {
        let ones: u64 = self.bloom.iter().map(|word| u64::from(word.count_ones())).sum();
        let density = ones as f64 / self.bloom.num_bits().max(1) as f64;
        density.powi(i32::try_from(self.bloom.num_hashes()).unwrap_or(i32::MAX))
    }
}

/// One value, so that nobody sees the one being built leave before it arrives.
#[derive(Default, Clone)]
struct Slots {
    current: Option<Arc<Bits>>,
    next: Option<Arc<Bits>>,
    version: u64,
}

/// The filter of one cache, as the levels and the listener know it.
pub(super) struct Filter {
    slots: ArcSwap<Slots>,
    /// Until when what was heard counts as complete, in the local clock's nanoseconds.
    trusted_until: AtomicU64,
    losses: watch::Sender<u64>,
    version: watch::Sender<u64>,
    wanted: Notify,
    filtered: Counter,
    misjudged: Counter,
    ratio: Gauge,
    builds: Counter,
}

impl Filter {
    pub(super) fn new(name: &str) -> Arc<Self> {
        let counter = |metric: &'static str| metrics::counter!(metric, "cache" => name.to_owned());
        Arc::new(Filter {
            slots: ArcSwap::default(),
            trusted_until: AtomicU64::new(0),
            losses: watch::Sender::new(0),
            version: watch::Sender::new(0),
            wanted: Notify::new(),
            filtered: counter("seawall_cache_filtered_total"),
            misjudged: counter("seawall_cache_filter_misjudged_total"),
            ratio: metrics::gauge!("seawall_cache_filter_false_positive_ratio", "cache" => name.to_owned()),
            builds: counter("seawall_cache_filter_builds_total"),
        })
    }

    /// A key that exists, as of now.
    pub(super) fn insert(&self, entry: &[u8]) {
        let slots = self.slots.load();
        for bits in [&slots.current, &slots.next].into_iter().flatten() {
            bits.insert(entry);
        }
    }

    /// The source said that there is none, though the filter let it pass.
    pub(super) fn misjudged(&self) {
        if self.slots.load().current.is_some() {
            self.misjudged.increment(1);
        }
    }

    /// Something may have been missed: everything passes until the next build.
    pub(super) fn lost_track(&self) {
        self.trusted_until.store(0, Ordering::SeqCst);
        self.slots.rcu(|slots| Slots { current: None, next: None, version: slots.version });
        self.losses.send_modify(|losses| *losses += 1);
    }

    /// Everything that was announced before this look began has been heard.
    pub(super) fn complete_at(&self, look: Moment) {
        self.trusted_until.store((look + TRUST).as_nanos(), Ordering::SeqCst);
        let slots = self.slots.load();
        if slots.current.is_none() && slots.next.is_none() {
            self.wanted.notify_one();
        }
    }

    /// Whether this key certainly does not exist.
    pub(super) fn excludes(&self, entry: &[u8], now: Moment) -> bool {
        now.as_nanos() < self.trusted_until.load(Ordering::SeqCst)
            && self.slots.load().current.as_ref().is_some_and(|bits| !bits.contains(entry))
    }

    fn begin(&self, bits: &Arc<Bits>) {
        self.slots.rcu(|slots| Slots {
            current: slots.current.clone(),
            next: Some(Arc::clone(bits)),
            version: slots.version,
        });
    }

    /// Puts a complete filter to use, unless track was lost since it began.
    fn finish(&self, bits: &Arc<Bits>) -> bool {
        let ours = |slots: &Slots| slots.next.as_ref().is_some_and(|next| Arc::ptr_eq(next, bits));
        let before = self.slots.rcu(|slots| match ours(slots) {
            true => Slots { current: slots.next.clone(), next: None, version: slots.version + 1 },
            false => Slots::clone(slots),
        });
        let used = ours(&before);
        if used {
            self.builds.increment(1);
            self.ratio.set(bits.false_positives());
            self.version.send_replace(before.version + 1);
        }
        used
    }

    pub(super) fn status(&self, now: Moment) -> FilterStatus {
        let slots = self.slots.load();
        let bits = slots.current.as_ref();
        FilterStatus {
            certain: bits.is_some() && now.as_nanos() < self.trusted_until.load(Ordering::SeqCst),
            version: slots.version,
            keys: bits.map_or(0, |bits| bits.keys.load(Ordering::Relaxed)),
            bytes: bits.map_or(0, |bits| bits.bloom.num_bits() / 8),
            false_positives: bits.map_or(1.0, |bits| bits.false_positives()),
        }
    }
}

/// Builds the filter when it is wanted, until the handle is shut down.
pub(super) async fn keep<K: KeyPart + Send + Sync + 'static>(
    filter: Arc<Filter>,
    plan: KeyFilter<K>,
    names: Names,
    clock: Clock,
    mut stop: watch::Receiver<bool>,
) {
    let names = Arc::new(names);
    let work = async {
        let mut expected = plan.expected;
        let mut pause = FIRST_PAUSE;
        loop {
            clock.timeout(plan.rebuild_every, filter.wanted.notified()).await;
            let bits = Arc::new(Bits::new(expected, plan.false_positives));
            let mut losses = filter.losses.subscribe();
            filter.begin(&bits);
            let sink = KeySink {
                bits: Arc::clone(&bits),
                names: Arc::clone(&names),
                key: std::marker::PhantomData,
            };
            let streamed = tokio::select! {
                streamed = (plan.stream)(sink) => streamed,
                _ = losses.changed() => {
                    tracing::debug!(cache = names.name(), "a filter's build was interrupted");
                    continue;
                }
            };
            match streamed {
                Ok(()) => {
                    let found = bits.keys.load(Ordering::Relaxed);
                    let roomy = usize::try_from(found / 4 * 5).unwrap_or(usize::MAX);
                    expected = roomy.clamp(plan.expected, plan.expected.saturating_mul(MAX_GROWTH));
                    let used = filter.finish(&bits);
                    tracing::debug!(cache = names.name(), found, used, "a filter was built");
                    pause = FIRST_PAUSE;
                }
                Err(error) => {
                    tracing::warn!(cache = names.name(), %error, "a filter could not be built");
                    // What is there stays; what was begun takes no more inserts.
                    filter.slots.rcu(|slots| Slots { next: None, ..Slots::clone(slots) });
                    clock.sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    filter.wanted.notify_one();
                }
            }
        }
    };
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => {}
        () = work => {}
    }
}

impl<K, V> Cache<K, V>
where
    K: KeyPart + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// Waits until the filter was built for the first time; not at all without one.
    pub async fn filter_ready(&self) {
        if let Some(filter) = &self.inner.filter {
            // The sender lives in `self`: waiting cannot fail.
            let _ = filter.version.subscribe().wait_for(|version| *version > 0).await;
        }
    }

    /// Has the filter built again, in the background; meanwhile the old one is in use.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the cache has no filter.
    pub fn rebuild_filter(&self) -> Result<()> {
        let filter = self.inner.filter.as_ref().ok_or_else(|| {
            Error::Invalid(format!("cache {:?} was built without `filter`", self.name()))
        })?;
        filter.wanted.notify_one();
        Ok(())
    }

    /// How the filter stands; `None` without one.
    #[must_use]
    pub fn filter_status(&self) -> Option<FilterStatus> {
        let now = self.inner.clock.now();
        self.inner.filter.as_ref().map(|filter| filter.status(now))
    }
}

impl<K, V> Inner<K, V> {
    /// The answer for a key that cannot exist. Only readers who accept what any level says get it:
    /// the others ask for more than a filter that is up to a second behind may promise.
    pub(super) fn filtered(
        &self,
        entry: &[u8],
        freshness: Freshness,
        now: Moment,
    ) -> Option<Read<V>> {
        let filter = self.filter.as_ref()?;
        if !matches!(freshness, Freshness::Cached | Freshness::StaleOk)
            || !filter.excludes(entry, now)
        {
            return None;
        }
        filter.filtered.increment(1);
        Some(Read {
            value: None,
            source: Source::Filtered,
            age: Duration::ZERO,
            version: Version(0),
        })
    }

    /// Tells the filter what the source said about a key.
    pub(super) fn known(&self, entry: &[u8], exists: bool) {
        match &self.filter {
            Some(filter) if exists => filter.insert(entry),
            Some(filter) => filter.misjudged(),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(keys: std::ops::Range<u64>) -> Arc<Filter> {
        let filter = Filter::new("f");
        let bits = Arc::new(Bits::new(1000, 0.01));
        filter.begin(&bits);
        keys.for_each(|key| bits.insert(&key.to_be_bytes()));
        assert!(filter.finish(&bits));
        filter
    }

    #[test]
    fn it_answers_only_while_it_is_certain() {
        let start = Moment::from_nanos(1);
        let filter = Filter::new("f");
        filter.complete_at(start);
        assert!(!filter.excludes(b"x", start), "not built");
        let filter = built(0..10);
        assert!(!filter.excludes(b"x", start), "messages were not looked at");
        filter.complete_at(start);
        assert!(filter.excludes(b"x", start));
        assert!(!filter.excludes(&3_u64.to_be_bytes(), start));
        assert!(!filter.excludes(b"x", start + TRUST), "the look is too long ago");
        filter.complete_at(start);
        filter.lost_track();
        filter.complete_at(start);
        assert!(!filter.excludes(b"x", start), "something was missed");
    }

    #[test]
    fn inserts_during_a_build_go_to_both_and_a_loss_ends_it() {
        let start = Moment::from_nanos(1);
        let filter = built(0..10);
        filter.complete_at(start);
        let next = Arc::new(Bits::new(1000, 0.01));
        filter.begin(&next);
        filter.insert(b"new");
        assert!(!filter.excludes(b"new", start), "in the old one");
        assert!(filter.finish(&next));
        assert!(!filter.excludes(b"new", start), "in the new one");
        assert!(filter.excludes(&3_u64.to_be_bytes(), start), "the source no longer had it");
        assert_eq!(filter.status(start).version, 2);
        let late = Arc::new(Bits::new(1000, 0.01));
        filter.begin(&late);
        filter.lost_track();
        assert!(!filter.finish(&late), "it may lack what was missed");
    }

    #[test]
    fn the_false_positive_rate_is_what_was_asked_for() {
        for wanted in [0.05, 0.01, 0.001] {
            let bits = Bits::new(20_000, wanted);
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
