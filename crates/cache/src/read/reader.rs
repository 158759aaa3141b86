//! The read path: what callers ask for, the look into memory and the look into Redis.

use std::{borrow::Borrow, error::Error as StdError, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use seawall_client::{
    error::Error,
    key::{KeyBuffer, KeyPart},
};
use seawall_resilience::clock::Moment;

use crate::{
    Cache, CacheError, CacheKey, CacheValue, EntryKey, Freshness, Inner, KeyRef, Loaded, Read,
    Source,
    load::coordinator::{LoaderSlot, moment},
    load::loader::Loader,
    read::load_or_wait::Reader,
    store::envelope::{Header, Kind},
    store::parted::{Whole, is_in_parts},
    store::shape,
    tier::local::Ticket,
    types::Entry,
};

impl<K: CacheKey, V: CacheValue> Cache<K, V> {
    /// The value, from the first level that has it; loaded when none has.
    ///
    /// However many callers in however many processes ask for an absent key at once, the loader of
    /// exactly one of them runs.
    ///
    /// # Errors
    /// [`CacheError`], when there is no value and nothing older that may stand in for it.
    ///
    /// # Cancel safety
    /// A load that began goes on and is stored; others who wait for it are not affected.
    pub async fn get_or_load<Q, F, Fut, E>(&self, key: &Q, load: F) -> Result<Read<V>, CacheError>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<Loaded<V>, E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        if let Some(read) = self.inner.hit_local(key, Freshness::Cached) {
            return Ok(read);
        }
        let loader = || boxed(move |_| load());
        self.get_admitted(Freshness::Cached, key, Admission::Asks, loader).await
    }

    /// The same for a reader with wishes of its own.
    ///
    /// # Errors
    /// As [`Cache::get_or_load`].
    pub async fn get_or_load_as<Q, F, Fut, E>(
        &self,
        freshness: Freshness,
        key: &Q,
        load: F,
    ) -> Result<Read<V>, CacheError>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<Loaded<V>, E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        if let Some(read) = self.inner.hit_local(key, freshness) {
            return Ok(read);
        }
        self.get_admitted(freshness, key, Admission::Asks, || boxed(move |_| load())).await
    }

    /// The same for a loader that looks at what it is to replace: a value past its lifetime, or one
    /// that was invalidated and kept. If that is still right it says [`Loaded::NotModified`], and the
    /// value is fresh again.
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
    pub async fn get_or_revalidate<Q, F, Fut, E>(
        &self,
        freshness: Freshness,
        key: &Q,
        load: F,
    ) -> Result<Read<V>, CacheError>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
        F: FnOnce(Option<Arc<V>>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Loaded<V>, E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        if let Some(read) = self.inner.hit_local(key, freshness) {
            return Ok(read);
        }
        self.get_admitted(freshness, key, Admission::Asks, || boxed(load)).await
    }

    /// Everything that is not a fresh copy in memory, for a reader who may have had its share of a
    /// hot key before. Boxed, so that such a hit does not carry what only the others need.
    pub(crate) fn get_admitted<'a, Q>(
        &'a self,
        freshness: Freshness,
        key: &'a Q,
        admission: Admission,
        loader: impl FnOnce() -> Loader<V> + Send + 'a,
    ) -> BoxFuture<'a, Result<Read<V>, CacheError>>
    where
        Q: KeyRef<K> + ?Sized,
    {
        let inner = &self.inner;
        Box::pin(async move {
            let entry_key = inner.entry_key(key)?;
            let (hit, older) = inner.look_local(entry_key.entry(), freshness, inner.clock.now());
            if let Some(read) = hit {
                inner.sampler.see(key, &read);
                return Ok(read);
            }
            if admission == Admission::Asks
                && let Some(rationed) = inner.ration(entry_key.entry(), older.as_ref())
            {
                return rationed;
            }
            let deadline = inner.clock.now() + inner.settings.read_timeout;
            let looked = inner.look_remote(&entry_key, freshness).await;
            if let Some(read) = inner.plain_hit(&entry_key, &looked, freshness) {
                inner.sampler.see(key, &read);
                return Ok(read);
            }
            let loader = Some(LoaderSlot::new(loader()));
            let reader = Reader { entry_key, freshness, older, loader, deadline };
            let read = Inner::load_or_wait(inner, reader, looked).boxed().await?;
            read.inspect(|read| inner.sampler.see(key, read))
                .ok_or(CacheError::ReadTimeout(inner.settings.read_timeout))
        })
    }

    /// The value if a level has it; nothing is loaded. `None` means that nobody knows, not that
    /// there is none: that is a [`Read`] without a value.
    ///
    /// # Errors
    /// [`CacheError::Redis`] when Redis failed and the first level has nothing.
    pub async fn get<Q>(&self, key: &Q) -> Result<Option<Read<V>>, CacheError>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
    {
        self.get_as(Freshness::Cached, key).await
    }

    /// The same for a reader with wishes of its own.
    ///
    /// # Errors
    /// As [`Cache::get`].
    pub async fn get_as<Q>(
        &self,
        freshness: Freshness,
        key: &Q,
    ) -> Result<Option<Read<V>>, CacheError>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
    {
        let read = self.get_untapped(freshness, key).await?;
        Ok(read.inspect(|read| self.inner.sampler.see(key, read)))
    }

    /// The same for the auditor, whose own reads are not to be audited.
    pub(crate) async fn get_untapped<Q: KeyRef<K> + ?Sized>(
        &self,
        freshness: Freshness,
        key: &Q,
    ) -> Result<Option<Read<V>>, CacheError> {
        let inner = &self.inner;
        let entry_key = inner.entry_key(key)?;
        let (hit, older) = inner.look_local(entry_key.entry(), freshness, inner.clock.now());
        if let Some(read) = hit {
            return Ok(Some(read));
        }
        if let Some(rationed) = inner.ration(entry_key.entry(), older.as_ref()) {
            return rationed.map(Some);
        }
        let deadline = inner.clock.now() + inner.settings.read_timeout;
        let looked = inner.look_remote(&entry_key, freshness).await;
        let reader = Reader { entry_key, freshness, older, loader: None, deadline };
        Inner::load_or_wait(inner, reader, looked).await
    }
}

impl<K: CacheKey, V: CacheValue> Inner<K, V> {
    /// The usual case: a fresh copy in memory. The key's bytes stay where they are written, nothing
    /// is prepared for the other cases, and the clock may be a few milliseconds behind: moving things
    /// around took longer than finding the copy.
    #[inline]
    fn hit_local<Q>(&self, key: &Q, freshness: Freshness) -> Option<Read<V>>
    where
        Q: KeyRef<K> + ?Sized,
    {
        let local = self.local.as_ref()?;
        // The filter and the recovery queue know whole entries.
        if !freshness.asks_memory() || self.filter.is_some() || !self.recovery.is_empty() {
            return None;
        }
        let mut id = KeyBuffer::default();
        key.write(&mut id);
        let read = local.fresh(id.as_bytes(), freshness, self.clock.coarse_now())?;
        if self.heat.wants() {
            self.count_read(key);
        }
        self.metrics.local_hits.count();
        if read.value.is_none() {
            self.metrics.negative_hits.increment(1);
        }
        self.sampler.see(key, &read);
        Some(read)
    }

    /// Counts a read of a key whose entry was not needed otherwise.
    #[inline(never)]
    fn count_read(&self, key: &(impl KeyPart + ?Sized)) {
        if let Ok(entry) = self.remote.names.entry(key) {
            self.heat.keys.sample(entry.as_bytes());
        }
    }

    /// A fresh copy in the first level, or an older one that may stand in when all else fails.
    pub(crate) fn look_local(
        &self,
        key: &[u8],
        freshness: Freshness,
        now: Moment,
    ) -> (Option<Read<V>>, Option<Entry<V>>) {
        self.heat.count(key);
        if let Some(read) = self.filtered(key, freshness, now) {
            return (Some(read), None);
        }
        let Some(local) = &self.local else { return (None, None) };
        if !freshness.asks_memory() {
            return (None, None);
        }
        // While an invalidation waits, only what was loaded past the cache after it: see `past`.
        let waits = self.recovery.concerns(key);
        // Before the copy is looked for: one that was found before it was compared may be old.
        let serves = local.serves();
        match local.get(key).filter(|entry| !waits || entry.version == 0) {
            Some(entry) if serves && now < entry.fresh_until && entry.suits(freshness, now) => {
                self.metrics.local_hits.count();
                if entry.value.is_none() {
                    self.metrics.negative_hits.increment(1);
                }
                (Some(entry.read(Source::Local, now)), None)
            }
            Some(entry) if entry.suits(freshness, now) => (None, Some(entry)),
            _ => (None, None),
        }
    }

    /// What Redis has, and what is needed to use it rightly.
    pub(crate) async fn look_remote(
        self: &Arc<Self>,
        entry_key: &EntryKey,
        freshness: Freshness,
    ) -> Looked<V> {
        // Both before the command is sent: what comes after it must not be taken for older.
        let began = self.flights.next();
        let ticket = self.ticket(entry_key);
        // What is in Redis under a key whose invalidation it did not take is not to be trusted. This
        // is asked before the command is sent: after it the invalidation may be through.
        if self.recovery.concerns(entry_key.entry()) {
            let (at, found) = (self.clock.now(), Ok((None, 0)));
            return Looked { began, ticket, at, found, lost: None, past: true };
        }
        if let Some((entry, stamp)) = self.look_copy(entry_key, freshness).await {
            let (at, found) = (self.clock.now(), Ok((Some(entry), stamp)));
            return Looked { began, ticket, at, found, lost: None, past: false };
        }
        let mut found = self.remote.get(entry_key.entry(), &entry_key.generations).await;
        if let Ok((Some(raw), _)) = &found
            && self.is_newer(raw)
        {
            self.metrics.unreadable.increment(1);
            let (at, found) = (self.clock.now(), Ok((None, 0)));
            return Looked { began, ticket, at, found, lost: None, past: true };
        }
        let mut lost = None;
        if let Ok((Some(raw), stamp)) = &mut found
            && is_in_parts(raw)
        {
            // Boxed, so that other reads do not carry what only these need.
            let (raw, stamp) = (std::mem::take(raw), *stamp);
            found = match Box::pin(self.gather(entry_key, raw)).await {
                Ok(Whole::Entry(raw)) => Ok((raw, stamp)),
                Ok(Whole::Lost(version)) => {
                    lost = Some(version);
                    Ok((None, stamp))
                }
                Err(error) => Err(error),
            };
        }
        let at = self.clock.now();
        let found = found.map(|(raw, stamp)| {
            (raw.and_then(|raw| self.decode(&raw, stamp, entry_key, at)), stamp)
        });
        Looked { began, ticket, at, found, lost, past: false }
    }

    /// The usual case, without any preparation for the others: a fresh entry that wants no tending.
    fn plain_hit(
        &self,
        entry_key: &EntryKey,
        looked: &Looked<V>,
        freshness: Freshness,
    ) -> Option<Read<V>> {
        let Ok((Some(entry), _)) = &looked.found else { return None };
        let now = looked.at;
        let fresh = now < entry.fresh_until && !entry.invalidated && entry.suits(freshness, now);
        if !fresh || self.is_tended() || self.recovery.concerns(entry_key.entry()) {
            return None;
        }
        self.keep(entry_key, entry, looked.ticket);
        Some(self.hit(entry, now))
    }

    /// Keeps a copy in the first level.
    pub(crate) fn keep(&self, entry_key: &EntryKey, entry: &Entry<V>, ticket: Option<Ticket>) {
        if let (Some(local), Some(ticket)) = (&self.local, ticket)
            && self.heat.admits(entry_key.entry())
        {
            local.insert(entry_key.entry(), self.for_local(entry), ticket);
        }
    }

    pub(crate) fn hit(&self, entry: &Entry<V>, now: Moment) -> Read<V> {
        self.metrics.remote_hits.count();
        if entry.value.is_none() {
            self.metrics.negative_hits.increment(1);
        }
        entry.read(Source::Remote, now)
    }

    /// Whether a newer release wrote this entry: it is neither read nor replaced.
    pub(crate) fn is_newer(&self, raw: &[u8]) -> bool {
        Header::read(raw).is_some_and(|(header, _)| {
            header.kind == Kind::Value && shape::is_newer(header.shape, self.format.shape)
        })
    }

    /// What an entry in Redis means to us; `None` when it holds nothing that we can read.
    pub(crate) fn decode(
        &self,
        raw: &[u8],
        stamp: u64,
        entry_key: &EntryKey,
        now: Moment,
    ) -> Option<Entry<V>> {
        let Some((header, bytes)) = Header::read(raw) else {
            self.metrics.unreadable.increment(1);
            return None;
        };
        if header.kind == Kind::Vacant || header.stamp != stamp {
            return None;
        }
        let value = if header.kind == Kind::Value {
            let readable = header.shape == self.format.shape;
            let value = readable.then(|| self.format.decode(header.codec, bytes)).flatten();
            if value.is_none() {
                self.metrics.unreadable.increment(1);
                return None;
            }
            value.map(Arc::new)
        } else {
            None
        };
        let server = self.remote.client.server_millis_of(entry_key.entry(), now);
        Some(Entry {
            value,
            version: header.version,
            fresh_until: moment(header.fresh_until, now, server),
            stale_until: moment(header.stale_until, now, server),
            written: moment(header.version / 1000, now, server),
            cost: Duration::from_micros(u64::from(header.cost_micros)),
            bytes: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            invalidated: header.invalidated,
            tags: entry_key.tags.clone(),
        })
    }
}

/// A loader as the cache keeps it.
fn boxed<V, F, Fut, E>(load: F) -> Loader<V>
where
    F: FnOnce(Option<Arc<V>>) -> Fut + Send + 'static,
    Fut: Future<Output = Result<Loaded<V>, E>> + Send + 'static,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    Box::new(move |stale| {
        load(stale).map(|loaded| loaded.map_err(|error| Arc::from(error.into()))).boxed()
    })
}

/// Whether a reader still has to ask for its share of a hot key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It does.
    Asks,
    /// It has had it: what is left to do belongs to the same read.
    Had,
}

/// What a look into Redis found.
pub(crate) struct Looked<V> {
    /// The reader's number: loads with a later one are new enough for it.
    pub(crate) began: u64,
    pub(crate) ticket: Option<Ticket>,
    /// When the answer came.
    pub(crate) at: Moment,
    pub(crate) found: Result<(Option<Entry<V>>, u64), Error>,
    /// The version of an entry whose parts are gone.
    pub(crate) lost: Option<u64>,
    /// The read goes past the cache: an invalidation of this key waits, and Redis was not asked; or
    /// Redis has an entry of a newer release.
    pub(crate) past: bool,
}
