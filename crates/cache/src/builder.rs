//! How a cache is built: a method for each setting.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use seawall_client::{
    Handle,
    error::{Error, Result},
};
use seawall_resilience::ResiliencePipeline;

use crate::hotkey::HotRules;
use crate::{
    Cache, CacheKey, CacheValue,
    filter::keys::KeyFilter,
    open::{Plan, open},
    recovery::log::RecoveryLog,
    settings::{LONGEST, Settings},
    store::codec::{Codec, Format},
    store::keys::TagsOf,
    store::shape::{MAX_SCHEMA, shape_of},
};

/// What happens when a value's lifetime is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Mode {
    /// One caller in the fleet refreshes; the others get the old value meanwhile, for as long as
    /// [`CacheBuilder::max_stale`] allows, and wait after that.
    #[default]
    Lease,
    /// One caller loads, the others wait for it: nobody gets a value past its lifetime, unless
    /// loading fails or takes longer than [`CacheBuilder::wait_budget`] and `max_stale` allows it.
    Mutex,
    /// Values stay until they are invalidated; past their lifetime one caller refreshes in the
    /// background and nobody ever waits, except for the very first load.
    LogicalExpiry,
}

/// What a reader does when another caller has been loading for longer than the wait budget and there
/// is nothing older to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WhenBusy {
    /// Waits on while the other's lease lives, until its own deadline.
    #[default]
    Wait,
    /// Says [`CacheError::Busy`](crate::CacheError::Busy).
    Refuse,
    /// Loads by itself once, without storing the result.
    Load,
}

/// What becomes of a value that is invalidated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnInvalidate {
    /// It is dropped.
    #[default]
    Drop,
    /// It is kept for readers who say [`Freshness::StaleOk`](crate::Freshness::StaleOk), until its
    /// stale time is over.
    KeepForStale,
}

/// What the first level keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum LocalKeeps {
    /// Whatever is read, as far as there is room.
    #[default]
    Everything,
    /// Keys that are hot in the fleet, or declared so (see [`crate::hotkey`]): for values that must
    /// not be a moment behind unless their key would overrun Redis.
    HotOnly,
}

/// Builds a [`Cache`]; every setting has a default that is right for most.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use seawall::{Seawall, cache::{Cache, Mode}};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let shops: Cache<u64, String> = seawall
///     .cache("shop")
///     .mode(Mode::Mutex)
///     .ttl(Duration::from_secs(60))
///     .max_stale(Duration::from_secs(600)) // when the database is down
///     .negative_ttl(Duration::from_secs(5))
///     .local_max_bytes(16 << 20)
///     .tags(|id| vec![format!("city-{}", id % 7)])
///     .build()?;
/// shops.clear_tag("city-3").await?;
///
/// // Settings that contradict each other are refused with a sentence.
/// let second = Duration::from_secs(1);
/// let refused = seawall.cache::<u64, String>("shop").loader_timeout(second).read_timeout(second).build();
/// assert!(refused.unwrap_err().to_string().contains("loader_timeout"));
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct CacheBuilder<K, V> {
    pub(crate) handle: Handle,
    pub(crate) name: String,
    pub(crate) settings: Settings,
    tags: Option<TagsOf<K>>,
    filter: Option<KeyFilter<K>>,
    pub(crate) codec: Codec,
    pub(crate) compress_above_bytes: usize,
    pub(crate) max_value_bytes: usize,
    pub(crate) schema: u32,
    shape: PhantomData<fn() -> V>,
}

impl<K: CacheKey, V: CacheValue> CacheBuilder<K, V> {
    pub(crate) fn new(handle: Handle, name: &str) -> Self {
        CacheBuilder {
            handle,
            name: name.to_owned(),
            settings: Settings::default(),
            tags: None,
            filter: None,
            codec: Codec::default(),
            compress_above_bytes: 2048,
            max_value_bytes: 32 << 20,
            schema: 0,
            shape: PhantomData,
        }
    }

    /// What happens when a lifetime is over; [`Mode::Lease`] without it.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.settings.mode = mode;
        self
    }

    /// How long a value is fresh; 5 min without it.
    pub fn ttl(mut self, time: Duration) -> Self {
        self.settings.ttl = time;
        self
    }

    /// For how long after that it may be given while it is refreshed, or when loading fails; 1 min
    /// without it.
    pub fn max_stale(mut self, time: Duration) -> Self {
        self.settings.max_stale = time;
        self
    }

    /// For how long "there is none" is remembered; 10 s without it, zero for not at all.
    pub fn negative_ttl(mut self, time: Duration) -> Self {
        self.settings.negative_ttl = time;
        self
    }

    /// By which part a lifetime varies at random, so that what was stored together does not end
    /// together; 0.1 without it: 90 % to 110 %.
    pub fn jitter(mut self, part: f64) -> Self {
        self.settings.jitter = part;
        self
    }

    /// Values that are read stay fresh: the lifetime starts again when a read finds more than half
    /// of it gone.
    pub fn sliding(mut self) -> Self {
        self.settings.sliding = true;
        self
    }

    /// Refreshes before the lifetime ends, the more likely the closer the end and the longer a load
    /// takes; 1.0 is a good factor. Never more than one refresh at a time.
    pub fn early_refresh(mut self, factor: f64) -> Self {
        self.settings.early_refresh = Some(factor);
        self
    }

    /// Sets how long a lease lives. The process that loads renews it while its loader runs; when that
    /// process dies, others wait for the rest of it. Default: 2 seconds.
    pub fn lease_ttl(mut self, time: Duration) -> Self {
        self.settings.lease_ttl = time;
        self
    }

    /// Limits the time of a load. Default: 5 seconds.
    pub fn loader_timeout(mut self, time: Duration) -> Self {
        self.settings.loader_timeout = time;
        self
    }

    /// Limits the time of a read, with everything it waits for. Must be at least `lease_ttl` plus
    /// `loader_timeout`. Default: 10 seconds.
    pub fn read_timeout(mut self, time: Duration) -> Self {
        self.settings.read_timeout = time;
        self
    }

    /// How long a reader waits for another's load before it looks for something else to do; 200 ms
    /// without it.
    pub fn wait_budget(mut self, time: Duration) -> Self {
        self.settings.wait_budget = time;
        self
    }

    /// What a reader does then; [`WhenBusy::Wait`] without it.
    pub fn when_busy(mut self, policy: WhenBusy) -> Self {
        self.settings.when_busy = policy;
        self
    }

    /// What becomes of an invalidated value; it is dropped without this.
    pub fn on_invalidate(mut self, policy: OnInvalidate) -> Self {
        self.settings.on_invalidate = policy;
        self
    }

    /// Invalidates a second time after this long, in the background: for sources whose replicas lag.
    pub fn second_invalidation_after(mut self, time: Duration) -> Self {
        self.settings.second_invalidation_after = Some(time);
        self
    }

    /// How much the first level may hold at most, in bytes of values; without it whatever is its part of
    /// the handle's memory for first levels ([`Builder::local_max_bytes`](seawall::Builder::local_max_bytes)), 0
    /// for no first level.
    pub fn local_max_bytes(mut self, bytes: u64) -> Self {
        self.settings.local_max_bytes = bytes;
        self
    }

    /// What this cache's claim to the handle's memory for first levels is worth when all caches could
    /// use more than there is: one with 2 gets twice as much as one with 1, which is the default.
    pub fn local_weight(mut self, weight: u32) -> Self {
        self.settings.local_weight = weight;
        self
    }

    /// How long the first level keeps a copy at most; 30 s without it.
    pub fn local_ttl(mut self, time: Duration) -> Self {
        self.settings.local_ttl = time;
        self
    }

    /// While Redis is away, how long the first level keeps what was loaded without it; 1 s without
    /// this, zero for not at all. Other processes' writes are not heard of in this time.
    pub fn outage_ttl(mut self, time: Duration) -> Self {
        self.settings.outage_ttl = time;
        self
    }

    /// The tags of a key: [`Cache::clear_tag`] then drops all its entries in one step. Costs one more
    /// key per tag to each read from Redis.
    pub fn tags(mut self, tags: impl Fn(&K) -> Vec<String> + Send + Sync + 'static) -> Self {
        self.tags = Some(Arc::new(tags));
        self
    }

    /// Lets [`Cache::clear`] drop the whole namespace in one step. Costs one more key to each read
    /// from Redis.
    pub fn clearable(mut self) -> Self {
        self.settings.clearable = true;
        self
    }

    /// What every load goes through: concurrency, rate, breaker.
    pub fn pipeline(mut self, pipeline: ResiliencePipeline) -> Self {
        self.settings.pipeline = Some(pipeline);
        self
    }

    /// Where invalidations are kept that Redis did not take, so that a restart does not lose them, and
    /// where others may add some; in memory without it. Until it was read for the first time, reads go
    /// past the cache.
    pub fn recovery_log(mut self, log: Arc<dyn RecoveryLog>) -> Self {
        self.settings.recovery_log = Some(log);
        self
    }

    /// How many invalidations that Redis did not take are kept one by one; 100,000 without it. When
    /// there are more, every entry of the cache is invalidated instead as soon as Redis answers.
    pub fn recovery_limit(mut self, entries: usize) -> Self {
        self.settings.recovery_limit = entries;
        self
    }

    /// Stops keys that cannot exist before any level is asked: see [`KeyFilter`].
    pub fn filter(mut self, filter: KeyFilter<K>) -> Self {
        self.filter = Some(filter);
        self
    }

    /// When a key is hot, and what follows; a thousand reads a second without it. See
    /// [`crate::hotkey`].
    pub fn hot_keys(mut self, rules: HotRules) -> Self {
        self.settings.hot_rules = rules;
        self
    }

    /// What the first level keeps; whatever is read without it.
    pub fn local_keeps(mut self, what: LocalKeeps) -> Self {
        self.settings.local_keeps = what;
        self
    }

    /// On a Cluster, how many copies of a very hot entry ([`HotRule::copies_at`]) lie on other nodes,
    /// so that reads which reach Redis spread over them; none without it, 8 at most. Every
    /// invalidation and every write then goes to the nodes of all copies, and is applied only when
    /// all of them have it. Strong reads use the entry alone.
    ///
    /// [`HotRule::copies_at`]: crate::hotkey::HotRule::copies_at
    pub fn copies(mut self, count: usize) -> Self {
        self.settings.copies = count;
        self
    }

    /// How values are written; MessagePack without it.
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// Values larger than this are compressed; 2 KiB without it.
    pub fn compress_above_bytes(mut self, bytes: usize) -> Self {
        self.compress_above_bytes = bytes;
        self
    }

    /// Values larger than this in Redis, after compression, are counted, reported now and then, and
    /// listed by [`Cache::big_values`]; 64 KiB without it.
    pub fn warn_above_bytes(mut self, bytes: usize) -> Self {
        self.settings.big.warn_above_bytes = bytes;
        self
    }

    /// Values larger than this in Redis, after compression, are cut into parts of this size, so that
    /// no command moves more; 512 KiB without it.
    pub fn split_above_bytes(mut self, bytes: usize) -> Self {
        self.settings.big.split_above_bytes = bytes;
        self
    }

    /// Values larger than this, before compression, are not cached; 32 MiB without it.
    pub fn max_value_bytes(mut self, bytes: usize) -> Self {
        self.max_value_bytes = bytes;
        self
    }

    /// Sets the version of the values' shape. Raise it whenever `V` changes so that older entries would
    /// be misread: while two releases run side by side, the newer one replaces entries of the older
    /// one, and the older one reads past the cache without touching entries of the newer one. A change
    /// of `V`'s field or variant names is noticed without it, but then each release replaces the
    /// other's entries. Default: 0; at most 4095.
    pub fn schema(mut self, number: u32) -> Self {
        self.schema = number;
        self
    }

    /// Builds the cache.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the settings that contradict each other, or says that there is no Tokio
    /// runtime here; [`Error::Closed`] after the handle was shut down.
    pub fn build(mut self) -> Result<Cache<K, V>> {
        let refuse =
            |sentence: String| Error::Invalid(format!("cache {:?}: {sentence}", self.name));
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(refuse("build() must be called within a Tokio runtime".into()));
        }
        if self.name.is_empty() || self.name.contains(['{', '}', ':', '%']) {
            return Err(refuse("its name must not be empty nor have any of { } : %".into()));
        }
        if self.max_value_bytes == 0 {
            return Err(refuse("max_value_bytes is 0: nothing could be cached".into()));
        }
        if self.schema > MAX_SCHEMA {
            return Err(refuse(format!("schema is {}, the most is {MAX_SCHEMA}", self.schema)));
        }
        self.settings.check().map_err(refuse)?;
        self.filter.as_ref().map_or(Ok(()), KeyFilter::check).map_err(refuse)?;
        if self.settings.mode == Mode::LogicalExpiry {
            self.settings.max_stale = LONGEST;
        }
        let format = Format {
            codec: self.codec,
            compress_above_bytes: self.compress_above_bytes,
            max_value_bytes: self.max_value_bytes,
            shape: shape_of::<V>(self.schema),
        };
        let Self { handle, name, settings, tags, filter, .. } = self;
        Ok(open(handle, Plan { name, settings, format, tags, filter }))
    }
}

impl<K, V> std::fmt::Debug for CacheBuilder<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacheBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}
