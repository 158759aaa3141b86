//! The write path: the database first, then the entry, then every first level.
//!
//! An invalidation that Redis does not take is tried a few times and then handed to the repair
//! queue. It counts as done only when it is [`Invalidation::Applied`]; until then this process at
//! least reads that key past the cache.

use std::borrow::Borrow;

use seawall_client::error::{Error, Result};

use crate::{
    Cache, CacheKey, CacheValue, Inner, KeyRef, Version,
    backplane::message::{about_all, about_tag, tag_hash},
    recovery::backlog::Bump,
    store::pending::Pending,
};

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
/// let update = async { Ok::<_, std::io::Error>(()) }; // in real life: update shop set name = …
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
    /// on sees anything older. The version is for [`Freshness::After`](crate::Freshness::After).
    Applied(Version),
    /// Redis did not answer; the recovery queue goes on trying.
    Queued,
}

/// Why [`Cache::write`] has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError<E> {
    /// The work failed. It may have changed the source before it did, so the entry was invalidated.
    #[error("the write failed: {0}")]
    Work(#[source] E),
    /// The work never ran: the key makes no sense, or the handle was shut down.
    #[error("nothing was written: {0}")]
    NotRun(#[source] Error),
    /// The work succeeded, but the handle was shut down meanwhile: nothing will invalidate the entry.
    #[error("written, but not invalidated: {0}")]
    NotInvalidated(#[source] Error),
}

impl<K: CacheKey, V: CacheValue> Cache<K, V> {
    /// Changes the source, then invalidates.
    ///
    /// The entry is invalidated whatever `work` says: an error may come after the change was made.
    ///
    /// # Errors
    /// [`WriteError`], which keeps the error of `work` as it is and says whether `work` ran.
    ///
    /// # Cancel safety
    /// Dropping the future while `work` runs or after it hands the invalidation to the recovery queue.
    pub async fn write<Q, T, E>(
        &self,
        key: &Q,
        work: impl Future<Output = std::result::Result<T, E>>,
    ) -> std::result::Result<(T, Invalidation), WriteError<E>>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
    {
        let entry = self.entry_name(key).map_err(WriteError::NotRun)?;
        if self.inner.recovery.has_ended() {
            return Err(WriteError::NotRun(Error::Closed));
        }
        let mut pending = Pending::entries(&self.inner, vec![entry]);
        let value = work.await;
        let applied = pending.invalidate().await;
        let value = value.map_err(WriteError::Work)?;
        Ok((value, applied.map_err(WriteError::NotInvalidated)?))
    }

    /// Makes sure that nobody reads what this key held: see [`Invalidation`].
    ///
    /// # Errors
    /// [`Error::Invalid`] for a key that makes no sense, [`Error::Closed`] when the handle was shut
    /// down: nothing would ever carry it out.
    ///
    /// # Cancel safety
    /// Dropping the future hands the invalidation to the recovery queue.
    pub async fn invalidate<Q>(&self, key: &Q) -> Result<Invalidation>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
    {
        let entry_key = self.inner.entry_key(key)?;
        Pending::entries(&self.inner, vec![entry_key.entry().to_vec()]).invalidate().await
    }

    /// The same for many keys, up to 1,000 in one step and one message.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a key that makes no sense; none is invalidated then. [`Error::Closed`]
    /// when the handle was shut down.
    ///
    /// # Cancel safety
    /// Dropping the future hands what is left to the recovery queue.
    pub async fn invalidate_many(&self, keys: &[K]) -> Result<Invalidation> {
        let entries: Result<Vec<Vec<u8>>> =
            keys.iter().map(|key| Ok(self.inner.entry_key(key)?.entry().to_vec())).collect();
        Pending::entries(&self.inner, entries?).invalidate().await
    }

    /// The name of a key's entry in Redis: what a row of a [`RecoveryLog`](crate::RecoveryLog) names.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a key that makes no sense.
    pub fn entry_name<Q>(&self, key: &Q) -> Result<Vec<u8>>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
    {
        Ok(self.inner.entry_key(key)?.entry().to_vec())
    }

    /// Drops everything with this tag, in one step.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the cache has no tags; else as [`Client::send`](seawall_client::Client::send): not
    /// done, or not known to be. Where it is not known, the recovery queue does it once more.
    ///
    /// # Cancel safety
    /// Dropping the future hands it to the recovery queue.
    pub async fn clear_tag(&self, tag: &str) -> Result<()> {
        let inner = &self.inner;
        if inner.settings.tags.is_none() {
            return Err(Error::Invalid(format!(
                "cache {:?} was built without `tags`",
                self.name()
            )));
        }
        let drop_here = || {
            if let Some(local) = &inner.local {
                local.clear_tag(tag_hash(tag));
            }
        };
        drop_here();
        let generation = inner.remote.names.tag(tag);
        let done = Pending::bump(inner, Bump { generation, message: about_tag(tag) }).end().await;
        // What was read between the first drop and Redis' answer may be older.
        drop_here();
        done
    }

    /// Drops the whole namespace, in one step.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the cache is not `clearable`; else as [`Cache::clear_tag`].
    ///
    /// # Cancel safety
    /// As [`Cache::clear_tag`].
    pub async fn clear(&self) -> Result<()> {
        let inner = &self.inner;
        if !inner.settings.clearable {
            return Err(Error::Invalid(format!(
                "cache {:?} was built without `clearable`",
                self.name()
            )));
        }
        let drop_here = || {
            if let Some(local) = &inner.local {
                local.clear();
            }
        };
        drop_here();
        if let Some(filter) = &inner.filter {
            filter.lost_track();
        }
        let generation = inner.remote.names.generation().to_vec();
        let done = Pending::bump(inner, Bump { generation, message: about_all() }).end().await;
        drop_here();
        done
    }
}

impl<K: CacheKey, V: CacheValue> Inner<K, V> {
    pub(crate) fn drop_copies<E: AsRef<[u8]>>(&self, entries: &[E]) {
        for entry in entries {
            if let Some(local) = &self.local {
                local.invalidate(entry.as_ref());
            }
            self.known(entry.as_ref(), true);
        }
    }

    pub(crate) fn was_applied(&self, entries: Vec<Vec<u8>>) {
        // What was read between the first drop and Redis' answer may be older.
        self.drop_copies(&entries);
        self.metrics.invalidations.increment(entries.len() as u64);
        self.recent.remember(&entries, self.clock.now());
        if let Some(delay) = self.settings.second_invalidation_after {
            self.recovery.add_later(self.clock.now() + delay, entries);
        }
    }
}
