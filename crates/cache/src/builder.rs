//! Builds a cache: one method per setting.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use seawall_client::Handle;
use seawall_resilience::ResiliencePipeline;

use crate::{
    filter::keys::KeyFilter,
    hotkey::HotRules,
    recovery::log::RecoveryLog,
    settings::Settings,
    store::{
        codec::{Codec, MessagePack},
        keys::TagsOf,
        value_tags::ValueTagsOf,
    },
};

/// What happens when a value's TTL is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Mode {
    /// One caller in the fleet refreshes; the others get the old value meanwhile, for as long as
    /// [`CacheBuilder::max_stale`] allows, and wait after that.
    #[default]
    Lease,
    /// One caller loads, the others wait for it: no caller gets a value past its lifetime, unless
    /// loading fails or takes longer than [`CacheBuilder::wait_budget`] and `max_stale` allows it.
    Mutex,
    /// Values stay until they are invalidated; past their lifetime one caller refreshes in the
    /// background and no caller ever waits, except for the very first load.
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

/// What the local tier keeps.
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

/// Builds a [`Cache`](crate::Cache). Every setting has a default that suits most caches.
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
pub struct CacheBuilder<K, V, C = MessagePack> {
    pub(crate) handle: Handle,
    pub(crate) name: String,
    pub(crate) settings: Settings,
    pub(crate) tags: Option<TagsOf<K>>,
    pub(crate) value_tags: Option<ValueTagsOf<V>>,
    pub(crate) filter: Option<KeyFilter<K>>,
    pub(crate) codec: C,
    pub(crate) compress_above_bytes: usize,
    pub(crate) max_value_bytes: usize,
    pub(crate) schema: u32,
    shape: PhantomData<fn() -> V>,
}

impl<K, V> CacheBuilder<K, V> {
    pub(crate) fn new(handle: Handle, name: &str) -> Self {
        CacheBuilder {
            handle,
            name: name.to_owned(),
            settings: Settings::default(),
            tags: None,
            value_tags: None,
            filter: None,
            codec: MessagePack,
            compress_above_bytes: 2048,
            max_value_bytes: 32 << 20,
            schema: 0,
            shape: PhantomData,
        }
    }
}

impl<K, V, C> CacheBuilder<K, V, C> {
    /// Sets the codec of values. Default: [`MessagePack`].
    pub fn codec<D: Codec<V>>(self, codec: D) -> CacheBuilder<K, V, D> {
        CacheBuilder {
            handle: self.handle,
            name: self.name,
            settings: self.settings,
            tags: self.tags,
            value_tags: self.value_tags,
            filter: self.filter,
            codec,
            compress_above_bytes: self.compress_above_bytes,
            max_value_bytes: self.max_value_bytes,
            schema: self.schema,
            shape: PhantomData,
        }
    }

    /// Sets what happens when the TTL is over. Default: [`Mode::Lease`].
    pub fn mode(mut self, mode: Mode) -> Self {
        self.settings.mode = mode;
        self
    }

    /// Sets the time to live (TTL): how long a value is fresh. Default: 5 minutes.
    pub fn ttl(mut self, time: Duration) -> Self {
        self.settings.ttl = time;
        self
    }

    /// Sets how long after its TTL a value may be returned while it is refreshed, or when loading
    /// fails. Default: 1 minute.
    pub fn max_stale(mut self, time: Duration) -> Self {
        self.settings.max_stale = time;
        self
    }

    /// Sets how long the absence of a value is cached; zero turns this off. Default: 10 seconds.
    pub fn negative_ttl(mut self, time: Duration) -> Self {
        self.settings.negative_ttl = time;
        self
    }

    /// Sets the fraction by which TTLs vary at random, so that values stored together do not expire
    /// together. Default: 0.1, which is 90 % to 110 %.
    pub fn jitter(mut self, part: f64) -> Self {
        self.settings.jitter = part;
        self
    }

    /// Keeps values fresh that are read: the TTL starts again when a read finds more than half of it
    /// gone. Default: off.
    pub fn sliding(mut self) -> Self {
        self.settings.sliding = true;
        self
    }

    /// Refreshes values before their TTL is over, the more likely the closer the end and the longer a
    /// load takes; 1.0 is a good factor. At most one refresh of a key runs at a time. Default: off.
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

    /// Sets how long a reader waits for another caller's load before it falls back: to an older value,
    /// or to [`when_busy`](CacheBuilder::when_busy). Default: 200 milliseconds.
    pub fn wait_budget(mut self, time: Duration) -> Self {
        self.settings.wait_budget = time;
        self
    }

    /// Sets what a reader does when the wait budget is spent. Default: [`WhenBusy::Wait`].
    pub fn when_busy(mut self, policy: WhenBusy) -> Self {
        self.settings.when_busy = policy;
        self
    }

    /// Sets what happens to an invalidated value. Default: [`OnInvalidate::Drop`].
    pub fn on_invalidate(mut self, policy: OnInvalidate) -> Self {
        self.settings.on_invalidate = policy;
        self
    }

    /// Repeats each invalidation in the background after this time, for sources whose replicas lag.
    /// Default: off.
    pub fn second_invalidation_after(mut self, time: Duration) -> Self {
        self.settings.second_invalidation_after = Some(time);
        self
    }

    /// Limits the bytes of values in the local tier; 0 turns it off. Default: this cache's share of the
    /// handle's memory for local tiers
    /// (`Seawall::builder(…).local_max_bytes`).
    pub fn local_max_bytes(mut self, bytes: u64) -> Self {
        self.settings.local_max_bytes = bytes;
        self
    }

    /// Sets this cache's share of the handle's memory when all caches could use more than there is: a
    /// cache with 2 gets twice as much as one with 1. Default: 1.
    pub fn local_weight(mut self, weight: u32) -> Self {
        self.settings.local_weight = weight;
        self
    }

    /// Limits how long the local tier keeps a copy. Default: 30 seconds.
    pub fn local_ttl(mut self, time: Duration) -> Self {
        self.settings.local_ttl = time;
        self
    }

    /// Sets how long the local tier keeps a value that was loaded while Redis was away; zero turns this
    /// off. Writes of other processes are not noticed in this time. Default: 1 second.
    pub fn outage_ttl(mut self, time: Duration) -> Self {
        self.settings.outage_ttl = time;
        self
    }

    /// Sets the tags of each key, so that [`Cache::clear_tag`](crate::Cache::clear_tag) drops all
    /// entries of a tag in one step. Costs one more key per tag on each read from Redis. Default: no
    /// tags.
    pub fn tags(mut self, tags: impl Fn(&K) -> Vec<String> + Send + Sync + 'static) -> Self {
        self.tags = Some(Arc::new(tags));
        self
    }

    /// Sets the tags that each value carries, such as the category of a product, so that
    /// [`Cache::clear_tag`](crate::Cache::clear_tag) drops all entries whose values carry a tag in one
    /// step. Costs one more key on each read from Redis, and a second command if any such tag of the
    /// cache was cleared after the value was loaded. Both kinds of tags may be used together; prefer
    /// [`tags`](CacheBuilder::tags) for those that the key tells.
    ///
    /// Every process computes the tags of what it reads by its own function: give all of them the same.
    /// A value for which it panics is never served from the cache. Default: no tags.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use seawall::{Seawall, cache::Cache};
    ///
    /// let seawall = Seawall::connect("embedded:").await?;
    /// let products: Cache<u64, (String, u64)> = seawall
    ///     .cache("product")
    ///     .value_tags(|(_name, category)| vec![format!("category-{category}")])
    ///     .build()?;
    /// products.put(&42, &("tea".to_owned(), 7)).await?;
    ///
    /// // After the database was changed:
    /// products.clear_tag("category-7").await?;
    /// assert!(products.get(&42).await?.is_none());
    /// # seawall.shutdown().await; Ok(()) }
    /// ```
    pub fn value_tags(mut self, tags: impl Fn(&V) -> Vec<String> + Send + Sync + 'static) -> Self {
        self.value_tags = Some(Arc::new(tags));
        self
    }

    /// Lets [`Cache::clear`](crate::Cache::clear) drop the whole namespace in one step. Costs one more
    /// key on each read from Redis. Default: off.
    pub fn clearable(mut self) -> Self {
        self.settings.clearable = true;
        self
    }

    /// Runs every load through this pipeline: concurrency, rate, breaker. Default: none.
    pub fn pipeline(mut self, pipeline: ResiliencePipeline) -> Self {
        self.settings.pipeline = Some(pipeline);
        self
    }

    /// Sets the log that keeps invalidations which Redis did not take, so that a restart does not lose
    /// them; others may add to it. Reads go past the cache until the log was read for the first time.
    /// Default: none, the queue is in memory.
    pub fn recovery_log(mut self, log: Arc<dyn RecoveryLog>) -> Self {
        self.settings.recovery_log = Some(log);
        self
    }

    /// Limits how many invalidations that Redis did not take are kept one by one. If there are more,
    /// every entry of the cache is invalidated as soon as Redis answers. Default: 100,000.
    pub fn recovery_limit(mut self, entries: usize) -> Self {
        self.settings.recovery_limit = entries;
        self
    }

    /// Stops reads of keys that cannot exist before any tier is asked: see [`KeyFilter`]. Default:
    /// none.
    pub fn filter(mut self, filter: KeyFilter<K>) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Sets when a key is hot, and what follows: see [`crate::hotkey`]. Default: 1,000 reads a second.
    pub fn hot_keys(mut self, rules: HotRules) -> Self {
        self.settings.hot_rules = rules;
        self
    }

    /// Sets what the local tier keeps. Default: [`LocalKeeps::Everything`].
    pub fn local_keeps(mut self, what: LocalKeeps) -> Self {
        self.settings.local_keeps = what;
        self
    }

    /// Sets how many copies of a very hot entry ([`HotRule::copies_at`]) are kept on other nodes of a
    /// Cluster, so that reads from Redis spread over them. Every invalidation and every write then goes
    /// to the nodes of all copies, and is applied only when all of them have it. Strong reads use the
    /// entry alone. Default: 0; at most 8.
    ///
    /// [`HotRule::copies_at`]: crate::hotkey::HotRule::copies_at
    pub fn copies(mut self, count: usize) -> Self {
        self.settings.copies = count;
        self
    }

    /// Compresses values larger than this. Default: 2 KiB.
    pub fn compress_above_bytes(mut self, bytes: usize) -> Self {
        self.compress_above_bytes = bytes;
        self
    }

    /// Reports values larger than this, after compression: counts them, logs them now and then, and
    /// lists them in [`Cache::big_values`](crate::Cache::big_values). Default: 64 KiB.
    pub fn warn_above_bytes(mut self, bytes: usize) -> Self {
        self.settings.big.warn_above_bytes = bytes;
        self
    }

    /// Cuts values larger than this, after compression, into parts of this size, so that no command
    /// moves more. Default: 512 KiB.
    pub fn split_above_bytes(mut self, bytes: usize) -> Self {
        self.settings.big.split_above_bytes = bytes;
        self
    }

    /// Does not cache values larger than this, before compression. Default: 32 MiB.
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
}

impl<K, V, C> std::fmt::Debug for CacheBuilder<K, V, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacheBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}
