//! A cache with its loader: callers name the key and nothing else.

use std::{
    borrow::Borrow, collections::HashMap, error::Error as StdError, fmt, future::Future,
    hash::Hash, result::Result as StdResult, sync::Arc,
};

use futures_util::future::join_all;

use crate::{
    Cache, CacheError, CacheKey, CacheValue, Freshness, KeyRef, Loaded, Read,
    cache::{LoadMany, boxed, load_many},
    load::loader::Loader,
};

/// What a bound loader is asked for.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoadRequest<K, V> {
    /// The key to load.
    pub key: K,
    /// The value to replace, if one is known: past its lifetime, or invalidated and kept. If it is
    /// still right, the loader returns [`Loaded::NotModified`].
    pub stale: Option<Arc<V>>,
}

type LoadOne<K, V> = Arc<dyn Fn(K) -> Loader<V> + Send + Sync>;

/// A [`Cache`] with its loader, from [`Cache::with_loader`]; a cheap clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::{collections::HashMap, io};
/// use seawall::{Seawall, cache::{Cache, Freshness}};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let cache: Cache<u64, String> = seawall.cache("shop").build()?;
/// let shops = cache
///     // In real life: select … where id = …
///     .with_loader(|load| async move { Ok::<_, io::Error>(Some(format!("shop {}", load.key))) })
///     // For `get_many`; in real life: select … where id in (…)
///     .batch_loader(|ids| async move {
///         let found = ids.into_iter().map(|id| (id, format!("shop {id}")));
///         Ok::<_, io::Error>(found.collect::<HashMap<_, _>>())
///     });
///
/// let shop = shops.get(&42).await?;
/// assert_eq!(shop.value.as_deref().map(String::as_str), Some("shop 42"));
/// let now = shops.get_as(Freshness::Strong, &42).await?;
/// assert_eq!(shops.get_many(&[42, 43]).await.len(), 2);
///
/// // Everything else is the cache's.
/// let _ = shops.cache().invalidate(&42).await?;
/// # assert!(now.value.is_some()); seawall.shutdown().await; Ok(()) }
/// ```
pub struct LoadingCache<K, V> {
    cache: Cache<K, V>,
    load: LoadOne<K, V>,
    load_many: Option<LoadMany<K, V>>,
}

impl<K: CacheKey, V: CacheValue> Cache<K, V> {
    /// Binds a loader to the cache, for all callers: see [`LoadingCache`].
    ///
    /// As for [`Cache::get_or_load`], the loader returns a value, an `Option` or a [`Loaded`].
    #[must_use]
    pub fn with_loader<F, Fut, L, E>(&self, load: F) -> LoadingCache<K, V>
    where
        F: Fn(LoadRequest<K, V>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = StdResult<L, E>> + Send + 'static,
        L: Into<Loaded<V>>,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let load = Arc::new(load);
        let load = move |key| {
            let load = Arc::clone(&load);
            boxed(move |stale| load(LoadRequest { key, stale }))
        };
        LoadingCache { cache: self.clone(), load: Arc::new(load), load_many: None }
    }
}

impl<K: CacheKey, V: CacheValue> LoadingCache<K, V> {
    /// Sets the loader of [`LoadingCache::get_many`]. Default: none, missing keys are loaded one by one.
    #[must_use]
    pub fn batch_loader<F, Fut, E>(self, load: F) -> Self
    where
        F: Fn(Vec<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = StdResult<HashMap<K, V>, E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        LoadingCache { load_many: Some(load_many(load)), ..self }
    }

    /// Returns the value, from the first tier that has it; loads it if none has.
    ///
    /// # Errors
    /// As [`Cache::get_or_load`].
    ///
    /// # Cancel safety
    /// As [`Cache::get_or_load`].
    pub async fn get<Q>(&self, key: &Q) -> StdResult<Read<V>, CacheError>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
    {
        self.get_as(Freshness::Cached, key).await
    }

    /// Like [`get`](LoadingCache::get), with an explicit freshness requirement.
    ///
    /// # Errors
    /// As [`Cache::get_or_load`].
    pub async fn get_as<Q>(&self, freshness: Freshness, key: &Q) -> StdResult<Read<V>, CacheError>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
    {
        if let Some(read) = self.cache.inner.hit_local(key, freshness) {
            return Ok(read);
        }
        self.cache.read_below(freshness, key, || (self.load)(key.to_owned())).await
    }

    /// Returns the values of many keys, in their order: see [`Cache::get_many`].
    ///
    /// # Errors
    /// Each key has an error of its own: see [`Cache::get_or_load`].
    pub async fn get_many(&self, keys: &[K]) -> Vec<StdResult<Read<V>, CacheError>>
    where
        K: Eq + Hash + Borrow<K>,
    {
        match &self.load_many {
            Some(load) => {
                let load = Arc::clone(load);
                self.cache.get_many_with(keys, &load).await
            }
            None => join_all(keys.iter().map(|key| self.get(key))).await,
        }
    }

    /// Returns the cache, for writes and invalidations.
    #[must_use]
    pub fn cache(&self) -> &Cache<K, V> {
        &self.cache
    }
}

impl<K, V> Clone for LoadingCache<K, V> {
    fn clone(&self) -> Self {
        LoadingCache {
            cache: self.cache.clone(),
            load: Arc::clone(&self.load),
            load_many: self.load_many.clone(),
        }
    }
}

impl<K, V> fmt::Debug for LoadingCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadingCache").field("name", &self.cache.name()).finish_non_exhaustive()
    }
}
