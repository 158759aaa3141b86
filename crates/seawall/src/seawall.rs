//! The handle that users have: a [`Handle`] with a constructor for each capability.
//!
//! Every capability has its own constructor that takes a `&Handle`, in a crate that does not depend
//! on this one. The methods here call those constructors and do nothing else.

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

/// A connection to Redis and everything built on it; cheap to clone.
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
        // Here, because recorders are installed before: handles of metrics are looked up from now on.
        crate::describe_metrics();
        Seawall { handle }
    }
}

impl Seawall {
    /// Connects with the default settings: see [`Handle::connect`] for the forms of a URL, and
    /// [`Builder`] for the available settings.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if the URL is not valid,
    /// [`Error::Unavailable`](crate::Error::Unavailable) if no server answers.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::builder(url).connect().await
    }

    /// Creates the handle without waiting for Redis; see
    /// [`Builder::connect_lazy`](seawall_client::Builder::connect_lazy).
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if the URL is not valid, or outside a Tokio
    /// runtime.
    pub fn connect_lazy(url: &str) -> Result<Self> {
        Self::builder(url).connect_lazy()
    }

    /// Returns a builder for a connection with explicit settings.
    #[must_use]
    pub fn builder(url: &str) -> Builder {
        Builder::new(url)
    }
}

#[cfg(feature = "cache")]
impl Seawall {
    /// Returns a builder for a [`Cache`].
    ///
    /// Caches with the same name share their entries, in all processes; all of them must have the
    /// same settings.
    pub fn cache<K: CacheKey, V: CacheValue>(&self, name: &str) -> CacheBuilder<K, V> {
        Cache::builder(self, name)
    }

    /// Returns the hot keys of this handle's caches.
    #[must_use]
    pub fn hot_keys(&self) -> HotKeys {
        HotKeys::of(self)
    }
}

#[cfg(feature = "lock")]
impl Seawall {
    /// Creates a mutex with this name: [`Lock::new`].
    #[must_use]
    pub fn lock(&self, name: impl KeyPart) -> Lock {
        Lock::new(self, name)
    }

    /// Creates a mutex that is granted in the order of the requests: [`Lock::fair`].
    #[must_use]
    pub fn fair_lock(&self, name: impl KeyPart) -> Lock {
        Lock::fair(self, name)
    }

    /// Creates a lock for many readers or one writer: [`RwLock::new`].
    #[must_use]
    pub fn rw_lock(&self, name: impl KeyPart) -> RwLock {
        RwLock::new(self, name)
    }

    /// Creates a semaphore with this number of permits: [`Lock::semaphore`].
    #[must_use]
    pub fn semaphore(&self, name: impl KeyPart, permits: u32) -> Lock {
        Lock::semaphore(self, name, permits)
    }

    /// Creates a lock that holds several mutexes together or none of them: [`MultiLock::new`].
    #[must_use]
    pub fn multi_lock<K: KeyPart>(&self, names: impl IntoIterator<Item = K>) -> MultiLock {
        MultiLock::new(self, names)
    }

    /// Creates a mutex over these independent primaries: [`QuorumLock::new`].
    ///
    /// # Errors
    /// As [`QuorumLock::new`].
    pub fn quorum_lock(primaries: &[Seawall], name: impl KeyPart) -> Result<QuorumLock> {
        let handles: Vec<Handle> = primaries.iter().map(|seawall| seawall.handle.clone()).collect();
        QuorumLock::new(&handles, name)
    }

    /// Creates a latch that opens when `count` participants have arrived: [`Latch::new`].
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

    /// Returns the number of holds of this handle that are being renewed.
    #[must_use]
    pub fn renewed_locks(&self) -> usize {
        lock::renewed_locks(self)
    }
}

#[cfg(feature = "limit")]
impl Seawall {
    /// Returns a builder for a [`Limiter`].
    ///
    /// The name is part of its keys; the policy is a [`Rate`](crate::limit::Rate) or a
    /// [`Window`](crate::limit::Window). All processes that use the name must use the same policy.
    #[must_use]
    pub fn limiter(&self, name: impl Into<String>, policy: impl Into<Policy>) -> LimiterBuilder {
        Limiter::builder(self, name, policy)
    }
}

#[cfg(feature = "id")]
impl Seawall {
    /// Returns a builder for [`Ids`] with a name, such as `order`; names are independent of each
    /// other.
    #[must_use]
    pub fn ids(&self, name: impl Into<String>) -> IdsBuilder {
        Ids::builder(self, name)
    }
}

#[cfg(feature = "session")]
impl Seawall {
    /// Returns a builder for [`Sessions`] with this name.
    #[must_use]
    pub fn sessions<M: Member>(&self, name: impl Into<String>) -> SessionsBuilder<M> {
        Sessions::builder(self, name)
    }
}

#[cfg(feature = "bloom")]
impl Seawall {
    /// Returns a builder for a [`Bloom`] filter for `expected` keys.
    ///
    /// Processes that use the same name may pass different numbers: the number is used only when a
    /// generation is created.
    #[must_use]
    pub fn bloom<K: KeyPart>(&self, name: impl Into<String>, expected: u64) -> BloomBuilder<K> {
        Bloom::builder(self, name, expected)
    }
}

#[cfg(feature = "jobs")]
impl Seawall {
    /// Creates a [`Stream`] of `T` with this name.
    ///
    /// # Errors
    /// As [`Stream::new`].
    pub fn stream<T: serde::de::DeserializeOwned>(
        &self,
        name: impl AsRef<str>,
    ) -> Result<Stream<T>> {
        Stream::new(self, name)
    }

    /// Creates a stream whose entries are decoded by `decode`: [`Stream::with_decoder`].
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

    /// Creates a stream with an explicit key: [`Stream::at_key`].
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

    /// Returns a builder for a worker of a consumer group on one or several streams:
    /// [`WorkerBuilder::new`].
    #[must_use]
    pub fn stream_worker<T>(
        &self,
        group: impl Into<String>,
        streams: impl IntoIterator<Item = Stream<T>>,
    ) -> WorkerBuilder<T> {
        WorkerBuilder::new(self, group, streams)
    }

    /// Returns a builder for a [`Delayed`] queue of `T` with this name.
    #[must_use]
    pub fn delayed_queue<T>(&self, name: impl Into<String>) -> DelayedBuilder<T> {
        Delayed::builder(self, name)
    }

    /// Creates a simple queue of `T` with this name.
    ///
    /// # Errors
    /// As [`ListQueue::new`].
    pub fn list_queue<T>(&self, name: impl AsRef<str>) -> Result<ListQueue<T>> {
        ListQueue::new(self, name)
    }

    /// Creates a [`Broadcast`] of `T` with this name.
    ///
    /// # Errors
    /// As [`Broadcast::new`].
    pub fn broadcast<T>(&self, name: impl AsRef<str>) -> Result<Broadcast<T>> {
        Broadcast::new(self, name)
    }
}

#[cfg(feature = "stock")]
impl Seawall {
    /// Returns a builder for a handle on the [`FlashSale`] with this id.
    #[must_use]
    pub fn flash_sale(&self, id: &(impl KeyPart + ?Sized)) -> FlashSaleBuilder {
        FlashSale::builder(self, id)
    }

    /// Returns the orders of a group of flash sales that wait for a decision; see
    /// [`FlashSaleBuilder::findable`].
    ///
    /// # Errors
    /// As [`WaitingOrders::new`].
    pub fn waiting_orders(&self, group: &(impl KeyPart + ?Sized)) -> Result<WaitingOrders> {
        WaitingOrders::new(self, group)
    }

    /// Returns a builder for an [`Inventory`] of one SKU.
    #[must_use]
    pub fn inventory(&self, sku: &(impl KeyPart + ?Sized)) -> InventoryBuilder {
        Inventory::builder(self, sku)
    }
}

#[cfg(feature = "social")]
impl Seawall {
    /// Creates [`Likes`] for one kind of object; all processes that use the name must set the same
    /// [`Likes::shards`].
    #[must_use]
    pub fn likes<M: Member>(&self, name: impl Into<String>) -> Likes<M> {
        Likes::new(self, name)
    }

    /// Creates a [`Leaderboard`] with this name.
    #[must_use]
    pub fn leaderboard<M: Member>(&self, name: impl Into<String>) -> Leaderboard<M> {
        Leaderboard::new(self, name)
    }

    /// Returns a builder for [`Follows`] with this name.
    #[must_use]
    pub fn follows<M: Member>(&self, name: impl Into<String>) -> FollowBuilder<M> {
        Follows::builder(self, name)
    }

    /// Creates an [`Inbox`] with this name.
    #[must_use]
    pub fn inbox<M: Member>(&self, name: impl Into<String>) -> Inbox<M> {
        Inbox::new(self, name)
    }

    /// Returns a builder for [`Timelines`] with this name; `load` reads a subject's members with
    /// their times from the source: [`Timelines::builder`].
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

    /// Creates [`Places`] with this name.
    #[must_use]
    pub fn places<M: Member>(&self, name: impl Into<String>) -> Places<M> {
        Places::new(self, name)
    }

    /// Creates [`SignIns`] with this name.
    #[must_use]
    pub fn sign_ins<M: Member>(&self, name: impl Into<String>) -> SignIns<M> {
        SignIns::new(self, name)
    }

    /// Creates [`Visits`] with this name.
    #[must_use]
    pub fn visits(&self, name: impl Into<String>) -> Visits {
        Visits::new(self, name)
    }

    /// Returns a builder for an [`OrderIndex`] with this name; `source` reads a user's orders from
    /// the database: [`OrderIndex::builder`].
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

    /// Creates a [`BucketedHash`] with this name.
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

    /// Creates a [`BucketedSet`] with this name.
    ///
    /// # Errors
    /// As [`BucketedSet::new`].
    pub fn bucketed_set<M: Element>(&self, name: &str, buckets: u64) -> Result<BucketedSet<M>> {
        BucketedSet::new(self, name, buckets)
    }

    /// Creates a [`BucketedSortedSet`] with this name.
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

    /// Creates a [`BucketedList`] with this name.
    ///
    /// # Errors
    /// As [`BucketedList::new`].
    pub fn bucketed_list<V: Element>(&self, name: &str) -> Result<BucketedList<V>> {
        BucketedList::new(self, name)
    }
}

#[cfg(feature = "inspect")]
impl Seawall {
    /// Creates a [`Survey`] of the keys: 10,000 keys a second, on replicas where there are any.
    pub fn survey(&self) -> Survey {
        Survey::new(self)
    }

    /// Creates a survey of hot keys, no matter which program uses them: [`HotSurvey::new`].
    pub fn hot_survey(&self) -> HotSurvey {
        HotSurvey::new(self)
    }

    /// Creates a survey of how evenly data and accesses are spread over slots and nodes:
    /// [`SkewSurvey::new`].
    pub fn skew_survey(&self) -> SkewSurvey {
        SkewSurvey::new(self)
    }

    /// Creates a deletion of all keys that match this pattern: [`Sweep::new`].
    pub fn sweep(&self, pattern: impl Into<String>) -> Sweep {
        Sweep::new(self, pattern)
    }

    /// Deletes these keys at a limited pace: [`unlink_keys`](crate::survey::unlink_keys).
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
