//! What changes a cache: writes to the source, invalidations, values that the caller knows.

use std::{borrow::Borrow, future::Future, result::Result as StdResult};

use seawall_client::error::{Error, Result};

use crate::{
    Cache, CacheKey, CacheValue, Invalidation, KeyRef, PutOutcome, Version, WriteError,
    store::pending::Pending,
};

impl<K: CacheKey, V: CacheValue> Cache<K, V> {
    /// Changes the source, then invalidates.
    ///
    /// The entry is invalidated whatever `work` returns: an error may come after the change was made.
    ///
    /// # Errors
    /// [`WriteError`], which keeps the error of `work` as it is and says whether `work` ran.
    ///
    /// # Cancel safety
    /// Dropping the future while `work` runs or after it hands the invalidation to the recovery queue.
    pub async fn write<Q, T, E>(
        &self,
        key: &Q,
        work: impl Future<Output = StdResult<T, E>>,
    ) -> StdResult<(T, Invalidation), WriteError<E>>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
    {
        let entry = self.entry_name(key).map_err(WriteError::NotRun)?;
        let publisher = self.publisher();
        if publisher.recovery.has_ended() {
            return Err(WriteError::NotRun(Error::Closed));
        }
        let mut pending = Pending::entries(publisher, vec![entry]);
        let value = work.await;
        let applied = pending.invalidate().await;
        let value = value.map_err(WriteError::Work)?;
        Ok((value, applied.map_err(WriteError::NotInvalidated)?))
    }

    /// Makes sure that no reader gets what this key held: see [`Invalidation`].
    ///
    /// # Errors
    /// [`Error::Invalid`] for a key that makes no sense, [`Error::Closed`] if the handle was shut down:
    /// nothing would ever carry it out.
    ///
    /// # Cancel safety
    /// Dropping the future hands the invalidation to the recovery queue.
    pub async fn invalidate<Q>(&self, key: &Q) -> Result<Invalidation>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
    {
        self.publisher().invalidate(vec![self.entry_name(key)?]).await
    }

    /// Like [`invalidate`](Cache::invalidate) for many keys, up to 1,000 in one step and one message.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a key that makes no sense; none is invalidated then. [`Error::Closed`] if
    /// the handle was shut down.
    ///
    /// # Cancel safety
    /// Dropping the future hands what is left to the recovery queue.
    pub async fn invalidate_many(&self, keys: &[K]) -> Result<Invalidation> {
        let entries: Result<Vec<Vec<u8>>> =
            keys.iter().map(|key| Ok(self.inner.keys.entry_key(key)?.entry().to_vec())).collect();
        self.publisher().invalidate(entries?).await
    }

    /// Returns the name of a key's entry in Redis: what a row of a
    /// [`RecoveryLog`](crate::RecoveryLog) names.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a key that makes no sense.
    pub fn entry_name<Q>(&self, key: &Q) -> Result<Vec<u8>>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
    {
        Ok(self.inner.keys.entry_key(key)?.entry().to_vec())
    }

    /// Drops everything with this tag, however many entries there are: those whose keys have it and
    /// those whose values carry it. With both kinds of tags these are two scripts, one after the other;
    /// `Ok` means that both were carried out. A load that is under way is not returned to readers that begin after this.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the cache has no tags; else as
    /// [`Client::send`](seawall_client::Client::send): not done, or not known to be. In the second case
    /// the recovery queue does it once more.
    ///
    /// # Cancel safety
    /// Dropping the future hands it to the recovery queue.
    pub async fn clear_tag(&self, tag: &str) -> Result<()> {
        let of_keys = self.inner.keys.tags.is_some();
        if !of_keys && self.publisher().remote.tag_clears.is_none() {
            return Err(self.built_without("tags"));
        }
        self.publisher().clear_tag(tag, of_keys).await
    }

    /// Drops the whole namespace, in one step.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the cache is not `clearable`; else as [`Cache::clear_tag`].
    ///
    /// # Cancel safety
    /// As [`Cache::clear_tag`].
    pub async fn clear(&self) -> Result<()> {
        if !self.inner.keys.clearable {
            return Err(self.built_without("clearable"));
        }
        self.publisher().clear().await
    }

    /// Stores a value that the caller knows to be the newest. Where several may write at once, prefer
    /// [`Cache::write`] or [`Cache::put_if_newer`].
    ///
    /// An invalidation or another write that comes while this is under way wins, and so does one that
    /// comes after an error: a request that hung in the network and arrives late stores nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a value that is too large; else as
    /// [`Client::send`](seawall_client::Client::send). After an error the entry's state is unknown:
    /// invalidate it.
    ///
    /// # Cancel safety
    /// Dropping the future may leave the old value, the new one, or none, in all processes the same.
    /// What it leaves open, the recovery queue ends by an invalidation: a value that others were not
    /// told of, or the lease that readers wait for. So it does after an error that leaves this open. A
    /// request that arrives after that may keep readers waiting for up to two time-outs of a reply.
    pub async fn put<Q>(&self, key: &Q, value: &V) -> Result<Version>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
    {
        let entry_key = self.inner.keys.entry_key(key)?;
        self.publisher().put(&entry_key, value).await
    }

    /// Stores what a source with versions of its own says (an update time, a position in its log). Late
    /// events lose, and a load that is under way is refused. `None` says that the source deleted it.
    /// Versions start at 1.
    ///
    /// # Errors
    /// As [`Cache::put`].
    pub async fn put_if_newer<Q>(
        &self,
        key: &Q,
        version: u64,
        value: Option<&V>,
    ) -> Result<PutOutcome>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
    {
        if version == 0 {
            return Err(Error::Invalid(
                "versions of a source start at 1; 0 means that there is none".into(),
            ));
        }
        let entry_key = self.inner.keys.entry_key(key)?;
        self.publisher().put_if_newer(&entry_key, version, value).await
    }

    fn built_without(&self, option: &str) -> Error {
        Error::Invalid(format!("cache {:?} was built without `{option}`", self.name()))
    }
}
