//! The write path: the database first, then the entry, then every first level.
//!
//! An invalidation that Redis does not take is tried a few times and then handed to the repair
//! queue. It counts as done only when it is [`Invalidation::Applied`]; until then this process at
//! least reads that key past the cache.

use std::{sync::Arc, time::Duration};

use serde::{Serialize, de::DeserializeOwned};

use super::{
    Cache, Inner, OnInvalidate, Version,
    messages::{about_all, about_keys, about_tag, tag_hash},
};
use crate::{
    bigkey::MAX_COMMAND_MEMBERS,
    error::{Error, Result},
    key::KeyPart,
};

/// How often an invalidation is tried before it is queued.
const MAX_TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// How far an invalidation got.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use seawall::{Error, Seawall, cache::{Cache, Freshness, Invalidation, Loaded}};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let shops: Cache<u64, String> = seawall.cache("shop").build()?;
/// shops.put(&42, &"tea house".to_owned()).await?;
///
/// let update = async { Ok::<_, Error>(()) }; // in real life: update shop set name = …
/// let ((), done) = shops.write(&42, update).await?;
/// match done {
///     Invalidation::Applied(version) => {
///         let select = || async { Ok::<_, Error>(Loaded::Found("coffee house".to_owned())) };
///         let read = shops.get_or_load_as(Freshness::After(version), &42, select).await?;
///         assert_eq!(read.value.as_deref().map(String::as_str), Some("coffee house"));
///     }
///     Invalidation::Queued => println!("other processes may see the old name for a while"),
/// }
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "promises count from `Applied`"]
pub enum Invalidation {
    /// Redis has it: no strong read, and without a first level no read at all, that begins from now
    /// on sees anything older. The version is for [`Freshness::After`](super::Freshness::After).
    Applied(Version),
    /// Redis did not answer; the repair queue goes on trying.
    Queued,
}

impl<K, V> Cache<K, V>
where
    K: KeyPart + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// Changes the source, then invalidates.
    ///
    /// The entry is invalidated whatever `work` says: an error may come after the change was made.
    ///
    /// # Errors
    /// Those of `work`; the invalidation itself cannot fail, at worst it is queued. A key that makes
    /// no sense is refused before `work` runs.
    ///
    /// # Cancel safety
    /// Dropping the future while `work` runs or after it hands the invalidation to the repair queue.
    pub async fn write<T, E>(
        &self,
        key: &K,
        work: impl Future<Output = std::result::Result<T, E>>,
    ) -> std::result::Result<(T, Invalidation), E>
    where
        E: From<Error>,
    {
        let entry = self.inner.subject(key)?.entry().to_vec();
        let mut pending = Pending { inner: &self.inner, entry: Some(entry) };
        let result = work.await;
        let applied = match &pending.entry {
            Some(entry) => self.inner.invalidate(vec![entry.clone()]).await,
            None => Invalidation::Queued,
        };
        pending.entry = None;
        result.map(|value| (value, applied))
    }

    /// Makes sure that nobody reads what this key held: see [`Invalidation`].
    ///
    /// # Errors
    /// [`Error::Invalid`] for a key that makes no sense.
    pub async fn invalidate(&self, key: &K) -> Result<Invalidation> {
        let subject = self.inner.subject(key)?;
        Ok(self.inner.invalidate(vec![subject.entry().to_vec()]).await)
    }

    /// The same for many keys, up to 1,000 in one step and one message.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a key that makes no sense; none is invalidated then.
    pub async fn invalidate_many(&self, keys: &[K]) -> Result<Invalidation> {
        let entries: Result<Vec<Vec<u8>>> =
            keys.iter().map(|key| Ok(self.inner.subject(key)?.entry().to_vec())).collect();
        let entries = entries?;
        if entries.is_empty() {
            return Ok(Invalidation::Applied(Version(0)));
        }
        let mut result = Invalidation::Applied(Version(0));
        for slice in entries.chunks(MAX_COMMAND_MEMBERS) {
            result = match (result, self.inner.invalidate(slice.to_vec()).await) {
                (Invalidation::Applied(one), Invalidation::Applied(other)) => {
                    Invalidation::Applied(Version(one.0.max(other.0)))
                }
                _ => Invalidation::Queued,
            };
        }
        Ok(result)
    }

    /// Drops everything with this tag, in one step.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the cache has no tags; else as [`Link::send`](crate::Link::send):
    /// not done, or not known to be.
    pub async fn clear_tag(&self, tag: &str) -> Result<()> {
        let inner = &self.inner;
        if inner.settings.tags.is_none() {
            return Err(Error::Invalid(format!(
                "cache {:?} was built without `tags`",
                self.name()
            )));
        }
        if let Some(level1) = &inner.level1 {
            level1.clear_tag(tag_hash(tag));
        }
        inner.level2.bump(&inner.level2.names.tag(tag), &about_tag(tag)).await
    }

    /// Drops the whole namespace, in one step.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the cache is not `clearable`; else as [`Cache::clear_tag`].
    pub async fn clear(&self) -> Result<()> {
        let inner = &self.inner;
        if !inner.settings.clearable {
            return Err(Error::Invalid(format!(
                "cache {:?} was built without `clearable`",
                self.name()
            )));
        }
        if let Some(level1) = &inner.level1 {
            level1.clear();
        }
        if let Some(filter) = &inner.filter {
            filter.lost_track();
        }
        inner.level2.bump(inner.level2.names.generation(), &about_all()).await
    }
}

impl<K, V> Inner<K, V>
where
    K: KeyPart + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// Invalidates entries: here at once, in Redis with a few tries, else by the repair queue.
    pub(super) async fn invalidate(&self, entries: Vec<Vec<u8>>) -> Invalidation {
        entries.iter().for_each(|entry| self.heat.keys.wrote(entry));
        self.drop_copies(&entries);
        let message = about_keys(&entries);
        let keep = self.settings.on_invalidate == OnInvalidate::KeepForStale;
        let mut pause = FIRST_PAUSE;
        for attempt in 1..=MAX_TRIES {
            match self.level2.invalidate(&entries, keep, &message).await {
                Ok(version) => {
                    // What was read between the first drop and Redis' answer may be older.
                    self.drop_copies(&entries);
                    self.metrics.invalidations.increment(entries.len() as u64);
                    self.recent.remember(&entries, self.clock.now());
                    self.invalidate_again_later(entries);
                    return Invalidation::Applied(Version(version));
                }
                Err(error) => {
                    tracing::debug!(%error, attempt, "an invalidation did not reach Redis");
                    if attempt < MAX_TRIES {
                        self.clock.sleep(pause).await;
                        pause *= 2;
                    }
                }
            }
        }
        self.metrics.queued_invalidations.increment(entries.len() as u64);
        self.repairs.add(entries.clone());
        // What was being read while we tried may have got in again.
        self.drop_copies(&entries);
        Invalidation::Queued
    }

    pub(super) fn drop_copies<E: AsRef<[u8]>>(&self, entries: &[E]) {
        for entry in entries {
            if let Some(level1) = &self.level1 {
                level1.invalidate(entry.as_ref());
            }
            self.known(entry.as_ref(), true);
        }
    }

    fn invalidate_again_later(&self, entries: Vec<Vec<u8>>) {
        let Some(delay) = self.settings.second_invalidation_after else { return };
        let (clock, repairs) = (self.clock.clone(), Arc::clone(&self.repairs));
        let mut stop = self.seawall.stopping();
        self.seawall.spawn(async move {
            tokio::select! {
                () = clock.sleep(delay) => repairs.add(entries),
                // Better early than never.
                _ = stop.wait_for(|stop| *stop) => repairs.add(entries),
            }
        });
    }
}

/// An invalidation that must happen even if its caller goes away.
struct Pending<'a, K, V>
where
    K: KeyPart + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    inner: &'a Inner<K, V>,
    entry: Option<Vec<u8>>,
}

impl<K, V> Drop for Pending<'_, K, V>
where
    K: KeyPart + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            let entries = vec![entry];
            self.inner.drop_copies(&entries);
            self.inner.repairs.add(entries);
        }
    }
}
