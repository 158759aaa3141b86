//! The cache as users see it, and the only place that knows its keys' type.
//!
//! Turns keys into entries ([`KeySpace`]) and loaders of keys into loaders of entries, and hands both
//! down. Calls go one way:
//!
//! ```text
//! Cache<K, V> ─► Reader<V> ─► LoadCoordinator<V> ─► Publisher<V> ─► LocalTier<V>, RemoteTier
//!          └──── writes, invalidations ────────────────►┘
//! ```

use std::{
    borrow::Borrow, collections::HashMap, error::Error as StdError, fmt, future::Future,
    hash::Hash, result::Result as StdResult, sync::Arc, time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};
use seawall_client::{
    Handle,
    error::Result,
    key::{KeyBuffer, KeyPart},
};

use crate::{
    AuditorBuilder, BigValue, CacheBuilder, CacheError, CacheKey, CacheValue, Explanation,
    Freshness, KeyRef, LoadError, Loaded, Read,
    audit::{AuditSampler, work::Work},
    hot::warmer::Warmer,
    load::loader::{BatchLoader, Loader},
    read::reader::{Admission, Reader},
    store::{keys::KeySpace, publisher::Publisher},
};

/// A loader of many keys.
pub(crate) type LoadMany<K, V> =
    Arc<dyn Fn(Vec<K>) -> BoxFuture<'static, StdResult<HashMap<K, V>, LoadError>> + Send + Sync>;

/// A cache of `V` by `K`; a cheap clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use seawall::{Seawall, cache::Cache};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let shops: Cache<u64, String> = seawall.cache("shop").ttl(Duration::from_secs(60)).build()?;
///
/// // In real life: select … where id = 42
/// let load = || async { Ok::<_, std::io::Error>(Some("tea house".to_owned())) };
/// let shop = shops.get_or_load(&42, load).await?;
/// assert_eq!(shop.value.as_deref().map(String::as_str), Some("tea house"));
///
/// // After the database was changed:
/// let _ = shops.invalidate(&42).await?;
/// # seawall.shutdown().await; Ok(()) }
/// ```
pub struct Cache<K, V> {
    pub(crate) inner: Arc<Inner<K, V>>,
}

/// What the handles of one cache share.
pub(crate) struct Inner<K, V> {
    pub(crate) reader: Reader<V>,
    pub(crate) keys: KeySpace<K>,
    pub(crate) sampler: AuditSampler<K, V>,
    pub(crate) handle: Handle,
    /// Known to hot keys for as long as the cache lives.
    pub(crate) _warmer: Arc<Warmer<V>>,
}

impl<K: CacheKey, V: CacheValue> Cache<K, V> {
    /// Starts building a cache. Caches of one name share their entries, in all processes; give all of
    /// them the same settings.
    pub fn builder(handle: &Handle, name: &str) -> CacheBuilder<K, V> {
        CacheBuilder::new(handle.clone(), name)
    }

    /// Returns the value, from the first tier that has it; loads it if none has.
    ///
    /// However many callers in however many processes ask for an absent key at once, the loader of
    /// one of them runs. It returns a value, an `Option` (`None`: there is none, which is remembered
    /// for a short time), or a [`Loaded`], which can say more. In a cache whose values are options, an
    /// `Option` is a value.
    ///
    /// A loader that is the same for all callers is bound once: see [`Cache::with_loader`].
    ///
    /// # Errors
    /// [`CacheError`], if there is no value and nothing older that may stand in for it.
    ///
    /// # Cancel safety
    /// A load that began goes on and is stored; others who wait for it are not affected.
    pub async fn get_or_load<Q, F, Fut, L, E>(
        &self,
        key: &Q,
        load: F,
    ) -> StdResult<Read<V>, CacheError>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = StdResult<L, E>> + Send + 'static,
        L: Into<Loaded<V>>,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        if let Some(read) = self.inner.hit_local(key, Freshness::Cached) {
            return Ok(read);
        }
        self.read_below(Freshness::Cached, key, || boxed(move |_| load())).await
    }

    /// Like [`get_or_load`](Cache::get_or_load), with an explicit freshness requirement.
    ///
    /// # Errors
    /// As [`Cache::get_or_load`].
    pub async fn get_or_load_as<Q, F, Fut, L, E>(
        &self,
        freshness: Freshness,
        key: &Q,
        load: F,
    ) -> StdResult<Read<V>, CacheError>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = StdResult<L, E>> + Send + 'static,
        L: Into<Loaded<V>>,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        if let Some(read) = self.inner.hit_local(key, freshness) {
            return Ok(read);
        }
        self.read_below(freshness, key, || boxed(move |_| load())).await
    }

    /// Like [`get_or_load_as`](Cache::get_or_load_as), for a loader that looks at what it replaces: a
    /// value past its lifetime, or one that was invalidated and kept. If that is still right, the
    /// loader returns [`Loaded::NotModified`], and the value is fresh again.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::{io, sync::Arc};
    /// use seawall::{Seawall, cache::{Cache, Freshness, Loaded}};
    ///
    /// // A row with its update time: the source is asked for the whole row only if that has changed.
    /// async fn select(cached: Option<Arc<(u64, String)>>) -> io::Result<Loaded<(u64, String)>> {
    ///     let updated_at = 7;
    ///     match cached {
    ///         Some(cached) if cached.0 == updated_at => Ok(Loaded::NotModified),
    ///         _ => Ok(Loaded::Found((updated_at, "tea house".to_owned()))),
    ///     }
    /// }
    ///
    /// let seawall = Seawall::connect("embedded:").await?;
    /// let shops: Cache<u64, (u64, String)> = seawall.cache("shop").build()?;
    /// let shop = shops.get_or_revalidate(Freshness::Cached, &42, select).await?;
    /// assert_eq!(shop.value.map(|shop| shop.0), Some(7));
    /// # seawall.shutdown().await; Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Cache::get_or_load`].
    pub async fn get_or_revalidate<Q, F, Fut, L, E>(
        &self,
        freshness: Freshness,
        key: &Q,
        load: F,
    ) -> StdResult<Read<V>, CacheError>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
        F: FnOnce(Option<Arc<V>>) -> Fut + Send + 'static,
        Fut: Future<Output = StdResult<L, E>> + Send + 'static,
        L: Into<Loaded<V>>,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        if let Some(read) = self.inner.hit_local(key, freshness) {
            return Ok(read);
        }
        self.read_below(freshness, key, || boxed(load)).await
    }

    /// Answers everything that is not a fresh copy in memory. Boxed, so that such a hit does not carry
    /// what only the others need.
    pub(crate) fn read_below<'a, Q>(
        &'a self,
        freshness: Freshness,
        key: &'a Q,
        loader: impl FnOnce() -> Loader<V> + Send + 'a,
    ) -> BoxFuture<'a, StdResult<Read<V>, CacheError>>
    where
        Q: KeyRef<K> + ?Sized,
    {
        let inner = &self.inner;
        Box::pin(async move {
            let entry_key = inner.keys.entry_key(key)?;
            // Awaited where it is made: moving it would copy all that it may ever need.
            inner
                .reader
                .read_or_load(entry_key, freshness, Admission::Asks, loader)
                .await
                .inspect(|read| inner.sampler.see(key, read))
        })
    }

    /// Returns the value if a tier has it; loads nothing. `None` means that no tier knows, not that
    /// there is none: that is a [`Read`] without a value.
    ///
    /// # Errors
    /// [`CacheError::Redis`] if Redis failed and the local tier has nothing.
    pub async fn get<Q>(&self, key: &Q) -> StdResult<Option<Read<V>>, CacheError>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
    {
        self.get_as(Freshness::Cached, key).await
    }

    /// Like [`get`](Cache::get), with an explicit freshness requirement.
    ///
    /// # Errors
    /// As [`Cache::get`].
    pub async fn get_as<Q>(
        &self,
        freshness: Freshness,
        key: &Q,
    ) -> StdResult<Option<Read<V>>, CacheError>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
    {
        let read = self.get_unsampled(freshness, key).await?;
        Ok(read.inspect(|read| self.inner.sampler.see(key, read)))
    }

    /// Like [`get_as`](Cache::get_as), for the auditor: its own reads are not to be audited.
    pub(crate) async fn get_unsampled<Q: KeyRef<K> + ?Sized>(
        &self,
        freshness: Freshness,
        key: &Q,
    ) -> StdResult<Option<Read<V>>, CacheError> {
        let entry_key = self.inner.keys.entry_key(key)?;
        let no_loader = None::<fn() -> Loader<V>>;
        self.inner.reader.read(entry_key, freshness, Admission::Asks, no_loader).await
    }

    /// Returns the values of many keys, in their order. Calls `load` with the keys that no tier has and
    /// no other task is loading; what it leaves out is missing.
    ///
    /// # Errors
    /// Each key has an error of its own: see [`Cache::get_or_load`].
    pub async fn get_many<F, Fut, E>(
        &self,
        keys: &[K],
        load: F,
    ) -> Vec<StdResult<Read<V>, CacheError>>
    where
        K: Eq + Hash,
        F: Fn(Vec<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = StdResult<HashMap<K, V>, E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        self.get_many_with(keys, &load_many(load)).await
    }

    pub(crate) async fn get_many_with(
        &self,
        keys: &[K],
        load: &LoadMany<K, V>,
    ) -> Vec<StdResult<Read<V>, CacheError>>
    where
        K: Eq + Hash,
    {
        let inner = &self.inner;
        let make = |positions: &[usize]| {
            let keys = positions.iter().map(|&position| (position, keys[position].clone()));
            by_position(load, keys.collect())
        };
        let entry_keys = keys.iter().map(|key| inner.keys.entry_key(key)).collect();
        let answers = inner.reader.read_many(entry_keys, &make).await;
        for (key, answer) in keys.iter().zip(&answers) {
            if let Ok(read) = answer {
                inner.sampler.see(key, read);
            }
        }
        answers
    }

    /// Declares a key hot for this long from now, whatever the counts say: every process fetches its
    /// entry and keeps it. Call it again to make it last longer.
    ///
    /// # Errors
    /// As [`HotKeys::declare`](crate::hotkey::HotKeys::declare).
    pub async fn declare_hot<Q>(&self, key: &Q, lasting: Duration) -> Result<()>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
    {
        let entry_key = self.inner.keys.entry_key(key)?;
        self.inner.reader.heat.keys.declare(entry_key.entry(), lasting).await
    }

    /// Takes a declaration back. Returns whether the key was declared hot.
    ///
    /// # Errors
    /// As [`HotKeys::undeclare`](crate::hotkey::HotKeys::undeclare).
    pub async fn undeclare_hot<Q>(&self, key: &Q) -> Result<bool>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
    {
        let entry_key = self.inner.keys.entry_key(key)?;
        self.inner.reader.heat.keys.undeclare(entry_key.entry()).await
    }

    /// Tells where a key stands on every tier. Changes nothing.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use seawall::{Seawall, cache::Cache};
    ///
    /// let seawall = Seawall::connect("embedded:").await?;
    /// let shops: Cache<u64, String> = seawall.cache("shop").build()?;
    /// shops.put(&42, &"tea house".to_owned()).await?;
    /// let explanation = shops.explain(&42).await?;
    /// assert!(explanation.to_string().contains("value"), "{explanation}");
    /// # seawall.shutdown().await; Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] for a key that makes no sense, [`Error::Closed`] if the handle was shut down.
    /// That Redis could not be asked is part of the answer.
    pub async fn explain<Q>(&self, key: &Q) -> Result<Explanation>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
    {
        let entry_key = self.inner.keys.entry_key(key)?;
        self.inner.reader.explain(&entry_key).await
    }

    /// Starts building an audit: compares a part of this process' hits with what `load` says (which
    /// leaves out keys that do not exist). Loads go through the cache's pipeline. `load` must read what
    /// writers write: a replica that lags by seconds is found to differ.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::collections::HashMap;
    /// use seawall::{Seawall, cache::Cache};
    ///
    /// let seawall = Seawall::connect("embedded:").await?;
    /// let shops: Cache<u64, String> = seawall.cache("shop").build()?;
    /// let select = |ids: Vec<u64>| async move {
    ///     // In real life: select … where id in (…)
    ///     Ok::<_, std::io::Error>(ids.into_iter().map(|id| (id, format!("shop {id}"))).collect::<HashMap<_, _>>())
    /// };
    /// let auditor = shops.auditor(select).sample(1.0).spawn()?;
    ///
    /// shops.put(&1, &"shop 1".to_owned()).await?;
    /// let _hit = shops.get(&1).await?;
    /// while auditor.report().equal == 0 {
    ///     tokio::task::yield_now().await;
    /// }
    /// assert_eq!((auditor.report().sampled, auditor.report().different), (1, 0));
    /// # seawall.shutdown().await; Ok(()) }
    /// ```
    pub fn auditor<F, Fut, E>(&self, load: F) -> AuditorBuilder<K, V>
    where
        K: Eq + Hash,
        V: PartialEq,
        F: Fn(Vec<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = StdResult<HashMap<K, V>, E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        AuditorBuilder::new(self.clone(), load_many(load), Work::audit)
    }
}

impl<K, V> Cache<K, V> {
    /// Returns the cache's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.inner.keys.names.name()
    }

    /// Returns the biggest values that this handle stored in the last ten minutes, of those above
    /// `warn_above_bytes`; the biggest first.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use seawall::{Seawall, cache::Cache};
    ///
    /// let seawall = Seawall::connect("embedded:").await?;
    /// let pages: Cache<u64, String> = seawall.cache("page").warn_above_bytes(1000).build()?;
    /// pages.put(&7, &(0..5000).map(|n| n.to_string()).collect()).await?;
    /// assert_eq!(pages.big_values()[0].entry, "page:7");
    /// # seawall.shutdown().await; Ok(()) }
    /// ```
    #[must_use]
    pub fn big_values(&self) -> Vec<BigValue> {
        self.publisher().big.biggest(self.inner.reader.clock.now())
    }

    pub(crate) fn publisher(&self) -> &Publisher<V> {
        &self.inner.reader.publisher
    }
}

impl<K: Clone, V> Inner<K, V> {
    /// Answers the usual read: a fresh copy in memory. The key's bytes stay where they are written,
    /// nothing is prepared for the other cases, and the clock may be a few milliseconds behind: moving
    /// things around took longer than finding the copy.
    #[inline]
    pub(crate) fn hit_local<Q>(&self, key: &Q, freshness: Freshness) -> Option<Read<V>>
    where
        Q: KeyRef<K> + ?Sized,
    {
        let reader = &self.reader;
        let local = reader.hittable(freshness)?;
        let mut id = KeyBuffer::default();
        key.write(&mut id);
        let read = local.fresh(id.as_bytes(), freshness, reader.clock.coarse_now())?;
        if reader.heat.wants() {
            self.count_read(key);
        }
        reader.metrics.local_hit(read.value.is_none());
        self.sampler.see(key, &read);
        Some(read)
    }

    /// Counts a read of a key whose entry was not needed otherwise.
    #[inline(never)]
    fn count_read(&self, key: &(impl KeyPart + ?Sized)) {
        if let Ok(entry) = self.keys.names.entry(key) {
            self.reader.heat.keys.sample(entry.as_bytes());
        }
    }
}

/// Turns a user's loader into what the cache keeps.
pub(crate) fn boxed<V, F, Fut, L, E>(load: F) -> Loader<V>
where
    F: FnOnce(Option<Arc<V>>) -> Fut + Send + 'static,
    Fut: Future<Output = StdResult<L, E>> + Send + 'static,
    L: Into<Loaded<V>>,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    Box::new(move |stale| {
        load(stale)
            .map(|loaded| match loaded {
                Ok(loaded) => Ok(loaded.into()),
                Err(error) => Err(LoadError::from(error.into())),
            })
            .boxed()
    })
}

/// Turns a user's loader of many keys into what the cache keeps.
pub(crate) fn load_many<K, V, F, Fut, E>(load: F) -> LoadMany<K, V>
where
    F: Fn(Vec<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = StdResult<HashMap<K, V>, E>> + Send + 'static,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    Arc::new(move |keys| {
        load(keys).map(|found| found.map_err(|error| LoadError::from(error.into()))).boxed()
    })
}

/// Turns a loader of keys into one of their positions in a batch.
fn by_position<K, V>(load: &LoadMany<K, V>, keys: HashMap<usize, K>) -> BatchLoader<V>
where
    K: CacheKey + Eq + Hash,
    V: Send + 'static,
{
    let load = Arc::clone(load);
    Arc::new(move |positions| {
        let keys: Vec<K> =
            positions.iter().filter_map(|position| keys.get(position).cloned()).collect();
        let found = load(keys.clone());
        async move {
            let mut found = found.await?;
            Ok(keys.iter().map(|key| found.remove(key)).collect())
        }
        .boxed()
    })
}

impl<K, V> Clone for Cache<K, V> {
    fn clone(&self) -> Self {
        Cache { inner: Arc::clone(&self.inner) }
    }
}

impl<K, V> fmt::Debug for Cache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("name", &self.name()).finish_non_exhaustive()
    }
}
