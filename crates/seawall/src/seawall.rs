//! The handle that users have: a [`Handle`] with a way to begin each capability.
//!
//! Every capability has a constructor of its own that takes a `&Handle`, in a crate that does not know
//! this one. The methods here are those constructors under one roof, nothing else.

use std::ops::Deref;

#[cfg(any(feature = "bloom", feature = "lock", feature = "stock"))]
use crate::KeyPart;
#[cfg(feature = "bloom")]
use crate::bloom::{Bloom, BloomBuilder};
#[cfg(feature = "cache")]
use crate::cache::{Cache, CacheBuilder, CacheKey, CacheValue};
#[cfg(feature = "cache")]
use crate::hotkey::HotKeys;
#[cfg(feature = "id")]
use crate::id::{Ids, IdsBuilder};
#[cfg(feature = "limit")]
use crate::limit::{Limiter, LimiterBuilder, Policy};
#[cfg(feature = "lock")]
use crate::lock::{self, Latch, Lock, MultiLock, Optimistic, QuorumLock, RwLock, Transaction};
#[cfg(any(feature = "session", feature = "social"))]
use crate::member::Member;
#[cfg(feature = "jobs")]
use crate::queue::{Broadcast, Delayed, DelayedBuilder, ListQueue};
#[cfg(feature = "session")]
use crate::session::{Sessions, SessionsBuilder};
#[cfg(feature = "stock")]
use crate::stock::{FlashSale, FlashSaleBuilder, Inventory, InventoryBuilder, WaitingOrders};
#[cfg(feature = "jobs")]
use crate::stream::{Fields, Stream, WorkerBuilder};
#[cfg(feature = "inspect")]
use crate::survey::{HotSurvey, SkewSurvey, Survey, Sweep};
use crate::{Handle, Result};
#[cfg(feature = "social")]
use crate::{
    bigkey::{BucketedHash, BucketedList, BucketedSet, BucketedSortedSet, Element},
    social::{
        FollowBuilder, Follows, Inbox, Leaderboard, Likes, Order, OrderIndex, OrderIndexBuilder,
        Places, SignIns, TimelineBuilder, Timelines, Visits,
    },
};

/// Settings of a connection.
pub type Builder = seawall_client::Builder<Seawall>;

/// A connection to Redis and everything built on it; a cheap clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::{Seawall, cmd};
///
/// // `redis://127.0.0.1:6379` works the same way.
/// let seawall = Seawall::connect("embedded:").await?;
/// let client = seawall.client();
/// client.send(b"greeting", cmd("SET").arg("greeting").arg("hello")).await?;
/// let greeting: String = client.query(b"greeting", cmd("GET").arg("greeting")).await?;
/// assert_eq!(greeting, "hello");
/// seawall.shutdown().await;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Seawall {
    handle: Handle,
}

impl Deref for Seawall {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}

impl From<Handle> for Seawall {
    fn from(handle: Handle) -> Self {
        Seawall { handle }
    }
}

impl Seawall {
    /// Connects with the defaults; see [`Builder`] for what can be set.
    ///
    /// | URL | |
    /// | --- | --- |
    /// | `embedded:` | an engine inside this process, in memory |
    /// | `embedded:DIR` | the same, with its log in DIR |
    /// | `redis://host:port/db`, `rediss://…` | one server, the latter over TLS |
    /// | `unix:/path` | one server, by its socket |
    /// | `redis-sentinel://h1:p,h2:p/MASTER/db` | the primary that the sentinels name |
    /// | `redis-cluster://h1:p,h2:p` | a Cluster |
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a URL that makes no sense,
    /// [`Error::Unavailable`](crate::Error::Unavailable) when nobody answers.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::builder(url).connect().await
    }

    /// Makes the handle without waiting for Redis; see
    /// [`Builder::connect_lazy`](seawall_client::Builder::connect_lazy).
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a URL that makes no sense, and outside a Tokio
    /// runtime.
    pub fn connect_lazy(url: &str) -> Result<Self> {
        Self::builder(url).connect_lazy()
    }

    /// Begins a connection with settings of one's own.
    #[must_use]
    pub fn builder(url: &str) -> Builder {
        Builder::new(url)
    }
}

#[cfg(feature = "cache")]
impl Seawall {
    /// Begins a [`Cache`]. Caches of one name share their entries, in all processes; give all of them
    /// the same settings.
    pub fn cache<K: CacheKey, V: CacheValue>(&self, name: &str) -> CacheBuilder<K, V> {
        Cache::builder(self, name)
    }

    /// The hot keys of this handle's caches.
    #[must_use]
    pub fn hot_keys(&self) -> HotKeys {
        HotKeys::of(self)
    }
}

#[cfg(feature = "lock")]
impl Seawall {
    /// A mutex by its name: [`Lock::new`].
    #[must_use]
    pub fn lock(&self, name: impl KeyPart) -> Lock {
        Lock::new(self, name)
    }

    /// A mutex that is handed over in the order in which it was asked for: [`Lock::fair`].
    #[must_use]
    pub fn fair_lock(&self, name: impl KeyPart) -> Lock {
        Lock::fair(self, name)
    }

    /// A lock that many may hold for reading, or one for writing: [`RwLock::new`].
    #[must_use]
    pub fn rw_lock(&self, name: impl KeyPart) -> RwLock {
        RwLock::new(self, name)
    }

    /// A semaphore with so many permits: [`Lock::semaphore`].
    #[must_use]
    pub fn semaphore(&self, name: impl KeyPart, permits: u32) -> Lock {
        Lock::semaphore(self, name, permits)
    }

    /// Several mutexes that are held together or not at all: [`MultiLock::new`].
    #[must_use]
    pub fn multi_lock<K: KeyPart>(&self, names: impl IntoIterator<Item = K>) -> MultiLock {
        MultiLock::new(self, names)
    }

    /// A mutex over these independent primaries: [`QuorumLock::new`].
    ///
    /// # Errors
    /// As [`QuorumLock::new`].
    pub fn quorum_lock(primaries: &[Seawall], name: impl KeyPart) -> Result<QuorumLock> {
        let handles: Vec<Handle> = primaries.iter().map(|seawall| seawall.handle.clone()).collect();
        QuorumLock::new(&handles, name)
    }

    /// A door that opens when `count` participants have arrived: [`Latch::new`].
    #[must_use]
    pub fn latch(&self, name: impl KeyPart, count: u32) -> Latch {
        Latch::new(self, name, count)
    }

    /// Runs `body` against a consistent view of `keys`: [`lock::optimistic`].
    ///
    /// # Errors
    /// As [`lock::optimistic`].
    pub async fn optimistic<T, F: Future<Output = Result<T>>>(
        &self,
        keys: &[impl AsRef<[u8]>],
        body: impl FnMut(Transaction) -> F,
    ) -> Result<Optimistic<T>> {
        lock::optimistic(self, keys, body).await
    }

    /// How many holds of this handle are being renewed.
    #[must_use]
    pub fn renewed_locks(&self) -> usize {
        lock::renewed_locks(self)
    }
}

#[cfg(feature = "limit")]
impl Seawall {
    /// Begins a [`Limiter`]: its name is part of its keys, its policy a [`Rate`](crate::limit::Rate) or a
    /// [`Window`](crate::limit::Window). All processes that use the name must use the same policy.
    #[must_use]
    pub fn limiter(&self, name: impl Into<String>, policy: impl Into<Policy>) -> LimiterBuilder {
        Limiter::builder(self, name, policy)
    }
}

#[cfg(feature = "id")]
impl Seawall {
    /// Begins [`Ids`] of a name, such as `order`; names are independent of each other.
    #[must_use]
    pub fn ids(&self, name: impl Into<String>) -> IdsBuilder {
        Ids::builder(self, name)
    }
}

#[cfg(feature = "session")]
impl Seawall {
    /// Begins [`Sessions`] by their name.
    #[must_use]
    pub fn sessions<M: Member>(&self, name: impl Into<String>) -> SessionsBuilder<M> {
        Sessions::builder(self, name)
    }
}

#[cfg(feature = "bloom")]
impl Seawall {
    /// Begins a [`Bloom`] filter for so many keys. All who use the name may say another number: it counts
    /// when a generation is created.
    #[must_use]
    pub fn bloom<K: KeyPart>(&self, name: impl Into<String>, expected: u64) -> BloomBuilder<K> {
        Bloom::builder(self, name, expected)
    }
}

#[cfg(feature = "jobs")]
impl Seawall {
    /// A [`Stream`] of `T` by its name.
    ///
    /// # Errors
    /// As [`Stream::new`].
    pub fn stream<T: serde::de::DeserializeOwned>(
        &self,
        name: impl AsRef<str>,
    ) -> Result<Stream<T>> {
        Stream::new(self, name)
    }

    /// A stream whose entries are understood by `decode`: [`Stream::with_decoder`].
    ///
    /// # Errors
    /// As [`Stream::with_decoder`].
    pub fn stream_with<T>(
        &self,
        name: impl AsRef<str>,
        decode: impl Fn(&Fields) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Stream<T>> {
        Stream::with_decoder(self, name, decode)
    }

    /// A stream on a key of one's own: [`Stream::at_key`].
    ///
    /// # Errors
    /// As [`Stream::at_key`].
    pub fn stream_at<T>(
        &self,
        key: impl AsRef<[u8]>,
        decode: impl Fn(&Fields) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Stream<T>> {
        Stream::at_key(self, key, decode)
    }

    /// Begins a worker of a consumer group on one or several streams: [`WorkerBuilder::new`].
    #[must_use]
    pub fn stream_worker<T>(
        &self,
        group: impl Into<String>,
        streams: impl IntoIterator<Item = Stream<T>>,
    ) -> WorkerBuilder<T> {
        WorkerBuilder::new(self, group, streams)
    }

    /// Begins a [`Delayed`] queue of `T` by its name.
    #[must_use]
    pub fn delayed_queue<T>(&self, name: impl Into<String>) -> DelayedBuilder<T> {
        Delayed::builder(self, name)
    }

    /// A simple queue of `T` by its name.
    ///
    /// # Errors
    /// As [`ListQueue::new`].
    pub fn list_queue<T>(&self, name: impl AsRef<str>) -> Result<ListQueue<T>> {
        ListQueue::new(self, name)
    }

    /// A [`Broadcast`] of `T` by its name.
    ///
    /// # Errors
    /// As [`Broadcast::new`].
    pub fn broadcast<T>(&self, name: impl AsRef<str>) -> Result<Broadcast<T>> {
        Broadcast::new(self, name)
    }
}

#[cfg(feature = "stock")]
impl Seawall {
    /// Begins a handle on the [`FlashSale`] with this id.
    #[must_use]
    pub fn flash_sale(&self, id: &(impl KeyPart + ?Sized)) -> FlashSaleBuilder {
        FlashSale::builder(self, id)
    }

    /// The orders of a group of flash sales that wait for a decision; see
    /// [`FlashSaleBuilder::findable`].
    ///
    /// # Errors
    /// As [`WaitingOrders::new`].
    pub fn waiting_orders(&self, group: &(impl KeyPart + ?Sized)) -> Result<WaitingOrders> {
        WaitingOrders::new(self, group)
    }

    /// Begins an [`Inventory`] of one SKU.
    #[must_use]
    pub fn inventory(&self, sku: &(impl KeyPart + ?Sized)) -> InventoryBuilder {
        Inventory::builder(self, sku)
    }
}

#[cfg(feature = "social")]
impl Seawall {
    /// [`Likes`] of one kind of thing; all who use the name must say the same [`Likes::spread`].
    #[must_use]
    pub fn likes<M: Member>(&self, name: impl Into<String>) -> Likes<M> {
        Likes::new(self, name)
    }

    /// A [`Leaderboard`] by its name.
    #[must_use]
    pub fn leaderboard<M: Member>(&self, name: impl Into<String>) -> Leaderboard<M> {
        Leaderboard::new(self, name)
    }

    /// Begins [`Follows`] by their name.
    #[must_use]
    pub fn follows<M: Member>(&self, name: impl Into<String>) -> FollowBuilder<M> {
        Follows::builder(self, name)
    }

    /// An [`Inbox`] by its name.
    #[must_use]
    pub fn inbox<M: Member>(&self, name: impl Into<String>) -> Inbox<M> {
        Inbox::new(self, name)
    }

    /// Begins [`Timelines`] by their name; `load` reads a subject's members with their times from the
    /// source: [`Timelines::builder`].
    #[must_use]
    pub fn timelines<M, F, Fut, E>(&self, name: impl Into<String>, load: F) -> TimelineBuilder<M>
    where
        M: Member,
        F: Fn(M) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<(M, i64)>, E>> + Send + 'static,
        E: std::fmt::Display,
    {
        Timelines::builder(self, name, load)
    }

    /// [`Places`] by their name.
    #[must_use]
    pub fn places<M: Member>(&self, name: impl Into<String>) -> Places<M> {
        Places::new(self, name)
    }

    /// [`SignIns`] by their name.
    #[must_use]
    pub fn sign_ins<M: Member>(&self, name: impl Into<String>) -> SignIns<M> {
        SignIns::new(self, name)
    }

    /// [`Visits`] by their name.
    #[must_use]
    pub fn visits(&self, name: impl Into<String>) -> Visits {
        Visits::new(self, name)
    }

    /// Begins an [`OrderIndex`] by its name; `source` reads a user's orders from the database:
    /// [`OrderIndex::builder`].
    #[must_use]
    pub fn order_index<M, F, Fut, E>(
        &self,
        name: impl Into<String>,
        source: F,
    ) -> OrderIndexBuilder<M>
    where
        M: Member,
        F: Fn(M, Option<Order>, usize) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<Order>, E>> + Send + 'static,
        E: std::fmt::Display,
    {
        OrderIndex::builder(self, name, source)
    }

    /// A [`BucketedHash`] by its name.
    ///
    /// # Errors
    /// As [`BucketedHash::new`].
    pub fn bucketed_hash<F: Element, V: Element>(
        &self,
        name: &str,
        buckets: u64,
    ) -> Result<BucketedHash<F, V>> {
        BucketedHash::new(self, name, buckets)
    }

    /// A [`BucketedSet`] by its name.
    ///
    /// # Errors
    /// As [`BucketedSet::new`].
    pub fn bucketed_set<M: Element>(&self, name: &str, buckets: u64) -> Result<BucketedSet<M>> {
        BucketedSet::new(self, name, buckets)
    }

    /// A [`BucketedSortedSet`] by its name.
    ///
    /// # Errors
    /// As [`BucketedSortedSet::new`].
    pub fn bucketed_sorted_set<M: Element>(
        &self,
        name: &str,
        buckets: u64,
    ) -> Result<BucketedSortedSet<M>> {
        BucketedSortedSet::new(self, name, buckets)
    }

    /// A [`BucketedList`] by its name.
    ///
    /// # Errors
    /// As [`BucketedList::new`].
    pub fn bucketed_list<V: Element>(&self, name: &str) -> Result<BucketedList<V>> {
        BucketedList::new(self, name)
    }
}

#[cfg(feature = "inspect")]
impl Seawall {
    /// Begins a [`Survey`] of the keys: 10,000 keys a second, on replicas where there are any.
    pub fn survey(&self) -> Survey {
        Survey::new(self)
    }

    /// Begins a look for hot keys, whoever uses them: [`HotSurvey::new`].
    pub fn hot_survey(&self) -> HotSurvey {
        HotSurvey::new(self)
    }

    /// Begins a look at how evenly data and accesses lie on slots and nodes: [`SkewSurvey::new`].
    pub fn skew_survey(&self) -> SkewSurvey {
        SkewSurvey::new(self)
    }

    /// Begins a deletion of all keys that match this pattern: [`Sweep::new`].
    pub fn sweep(&self, pattern: impl Into<String>) -> Sweep {
        Sweep::new(self, pattern)
    }

    /// Deletes these keys at a pace: [`unlink_keys`](crate::survey::unlink_keys).
    ///
    /// # Errors
    /// As [`unlink_keys`](crate::survey::unlink_keys).
    pub async fn unlink_keys(
        &self,
        keys: &[Vec<u8>],
        keys_per_second: u64,
        watch: impl FnMut(u64),
    ) -> Result<u64> {
        crate::survey::unlink_keys(self, keys, keys_per_second, watch).await
    }
}
