//! Answers reads: looks into memory, then into Redis, then has the entry loaded.
//!
//! ```text
//! hit_local ─ a fresh copy ──────────────────────────────► Local
//! read ─ look_local ─┬─ filter, fresh copy ──────────────► Filtered, Local
//!        ration ─────┼─ a hot key had its share ─────────► Stale, Shed
//!        look ───────┼─ Hit ─────────────────────────────► Remote
//!                    ├─ Stale ── refresh ────────────────► Stale
//!                    ├─ Miss ─── coordinator.load ───────► Loaded, Remote; else look again
//!                    └─ Away ─── coordinator.read_past ──► Loaded, Local
//! ```
//!
//! A reader decides what an answer is worth to it; who loads is the
//! [`LoadCoordinator`]'s decision, and only the [`Publisher`] makes anything visible.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use seawall_client::error::Error;
use seawall_resilience::clock::{Clock, Moment};
use tracing::Instrument as _;

use super::lookup::{Look, Lookup};
use crate::{
    CacheError, CacheValue, Freshness, Read, Source, Version,
    filter::Filter,
    hot::heat::Heat,
    load::{
        coordinator::{LoadCoordinator, ReadRequest, Waited},
        loader::{Loader, LoaderSlot},
        single_flight::Fault,
    },
    metrics::Metrics,
    recovery::queue::RecoveryQueue,
    settings::Settings,
    spans::ReadSpan,
    store::{decoder::Decoder, entry::Entry, keys::EntryKey, publisher::Publisher},
    tier::{local::LocalTier, remote::RemoteTier},
};

/// How often a reader looks again because what it waited for was not for it.
const MAX_LOOKS: u32 = 16;

/// Reads the entries of one cache.
pub(crate) struct Reader<V> {
    pub(crate) clock: Clock,
    pub(crate) settings: Arc<Settings>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) heat: Heat,
    pub(crate) filter: Option<Arc<Filter>>,
    pub(crate) recovery: Arc<RecoveryQueue>,
    pub(crate) local: Option<Arc<LocalTier<V>>>,
    pub(crate) remote: Arc<RemoteTier>,
    pub(crate) decoder: Decoder<V>,
    pub(crate) coordinator: Arc<LoadCoordinator<V>>,
    pub(crate) publisher: Arc<Publisher<V>>,
}

/// Whether a reader still has to ask for its share of a hot key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It does.
    Asks,
    /// It has had it: what is left to do belongs to the same read.
    Had,
}

impl<V> Reader<V> {
    pub(crate) fn new(
        coordinator: Arc<LoadCoordinator<V>>,
        publisher: Arc<Publisher<V>>,
        decoder: Decoder<V>,
    ) -> Self {
        Reader {
            clock: publisher.clock.clone(),
            settings: Arc::clone(&publisher.settings),
            metrics: Arc::clone(&publisher.metrics),
            heat: publisher.heat.clone(),
            filter: publisher.filter.clone(),
            recovery: Arc::clone(&publisher.recovery),
            local: publisher.local.clone(),
            remote: Arc::clone(&publisher.remote),
            decoder,
            coordinator,
            publisher,
        }
    }

    /// Returns the local tier if the usual hit may be looked for there. The filter and the recovery
    /// queue know whole entries, so they need the longer way.
    #[inline]
    pub(crate) fn hittable(&self, freshness: Freshness) -> Option<&LocalTier<V>> {
        let local = self.local.as_ref()?;
        if !freshness.asks_memory() || self.filter.is_some() || !self.recovery.is_empty() {
            return None;
        }
        Some(local)
    }

    /// Returns a fresh copy, or an older one that may stand in when all else fails.
    pub(super) fn look_local(
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
        // While an invalidation is queued, only what was loaded past the cache after it: see
        // `load/past.rs`.
        let waits = self.recovery.concerns(key);
        // Before the copy is looked for: one that was found before it was compared may be old.
        let serves = local.serves();
        match local.get(key).filter(|entry| !waits || entry.version == 0) {
            Some(entry) if serves && now < entry.fresh_until && entry.suits(freshness, now) => {
                self.metrics.local_hit(entry.value.is_none());
                (Some(entry.read(Source::Local, now)), None)
            }
            Some(entry) if entry.suits(freshness, now) => (None, Some(entry)),
            _ => (None, None),
        }
    }

    /// Answers for a key that cannot exist. Only readers that accept any tier's word get this answer:
    /// the others ask for more than a filter that is up to a second behind can promise.
    fn filtered(&self, entry: &[u8], freshness: Freshness, now: Moment) -> Option<Read<V>> {
        let filter = self.filter.as_ref()?;
        if !matches!(freshness, Freshness::Cached | Freshness::StaleOk) || !filter.stops(entry, now)
        {
            return None;
        }
        Some(Read {
            value: None,
            source: Source::Filtered,
            age: Duration::ZERO,
            version: Version(0),
        })
    }

    /// Answers without Redis when a hot key has had its share: with the older copy, or a refusal.
    pub(super) fn ration(
        &self,
        entry: &[u8],
        older: Option<&Entry<V>>,
    ) -> Option<Result<Read<V>, CacheError>> {
        let retry_after = self.heat.keys.get(entry)?.admit().err()?;
        Some(match older {
            Some(older) => Ok(self.stale(older)),
            None => {
                self.metrics.sheds.increment(1);
                Err(CacheError::Shed { retry_after })
            }
        })
    }

    /// Answers with a fresh entry of Redis, and keeps a copy.
    pub(super) fn hit(&self, entry_key: &EntryKey, entry: &Entry<V>, look: &Look<V>) -> Read<V> {
        self.publisher.keep(entry_key, entry, look.ticket);
        self.metrics.remote_hit(entry.value.is_none());
        entry.read(Source::Remote, look.at)
    }

    /// Answers with an entry past its lifetime.
    pub(super) fn stale(&self, entry: &Entry<V>) -> Read<V> {
        self.metrics.stale_hits.increment(1);
        entry.read(Source::Stale, self.clock.now())
    }

    /// Loading failed: a value past its lifetime may stand in.
    fn stand_in(&self, older: Option<&Entry<V>>, error: CacheError) -> Result<Read<V>, CacheError> {
        match older {
            Some(entry) => {
                tracing::debug!(%error, "an older value stands in");
                Ok(self.stale(entry))
            }
            None => Err(error),
        }
    }
}

impl<V: CacheValue> Reader<V> {
    /// Answers a read that has a loader.
    pub(crate) async fn read_or_load(
        &self,
        entry_key: EntryKey,
        freshness: Freshness,
        admission: Admission,
        loader: impl FnOnce() -> Loader<V>,
    ) -> Result<Read<V>, CacheError> {
        let read = self.read(entry_key, freshness, admission, Some(loader)).await?;
        read.ok_or(CacheError::ReadTimeout(self.settings.read_timeout))
    }

    /// Answers a read. Returns `None` only without a loader, if no tier has the entry.
    pub(crate) async fn read(
        &self,
        entry_key: EntryKey,
        freshness: Freshness,
        admission: Admission,
        loader: Option<impl FnOnce() -> Loader<V>>,
    ) -> Result<Option<Read<V>>, CacheError> {
        let began = self.clock.now();
        let (hit, older) = self.look_local(entry_key.entry(), freshness, began);
        if let Some(read) = hit {
            return Ok(Some(read));
        }
        if admission == Admission::Asks
            && let Some(rationed) = self.ration(entry_key.entry(), older.as_ref())
        {
            return rationed.map(Some);
        }
        let span = ReadSpan::one(&self.metrics, began);
        // Awaited where it is made: moving it would copy all that it may ever need.
        let read = if span.span.is_disabled() {
            self.read_beyond(entry_key, freshness, older, loader, began).await
        } else {
            // Boxed, so that a read without a span does not carry what only this one needs.
            let beyond = Box::pin(self.read_beyond(entry_key, freshness, older, loader, began));
            beyond.instrument(span.span.clone()).await
        };
        span.end(&read, &self.clock);
        read
    }

    /// Answers a read that memory could not answer.
    async fn read_beyond(
        &self,
        entry_key: EntryKey,
        freshness: Freshness,
        older: Option<Entry<V>>,
        loader: Option<impl FnOnce() -> Loader<V>>,
        began: Moment,
    ) -> Result<Option<Read<V>>, CacheError> {
        let look = self.look(&entry_key, freshness, older.as_ref()).await;
        if let Lookup::Hit(entry) = &look.lookup
            && !self.coordinator.tends_hits()
        {
            // The usual case, without any preparation for the others.
            return Ok(Some(self.hit(&entry_key, entry, &look)));
        }
        let loader = loader.map(|loader| LoaderSlot::new(loader()));
        let deadline = began + self.settings.read_timeout;
        let request = ReadRequest { entry_key, freshness, older, loader, deadline };
        self.load_or_wait(request, look).boxed().await
    }

    /// Acts on a look into Redis: answers, or has the entry loaded. Looks again when what it waited for
    /// was not for this reader.
    async fn load_or_wait(
        &self,
        mut request: ReadRequest<V>,
        first: Look<V>,
    ) -> Result<Option<Read<V>>, CacheError> {
        // One number for the whole read: whatever begins after its first look is new enough for it.
        let (began, clears) = (first.began, first.stamp.clears);
        let mut first = Some(first);
        for _ in 0..MAX_LOOKS {
            let ReadRequest { entry_key, freshness, older, loader, .. } = &mut request;
            let look = match first.take() {
                Some(look) => look,
                None => self.look(entry_key, *freshness, older.as_ref()).await,
            };
            let (at, stamp) = (look.at, look.stamp);
            let (sought, suits) = match look.lookup {
                Lookup::Hit(ref entry) => {
                    let read = self.hit(entry_key, entry, &look);
                    self.coordinator.refresh_if_due(entry_key, entry, stamp, at, loader.as_ref());
                    return Ok(Some(read));
                }
                Lookup::Stale(entry) => {
                    if let Some(loader) = loader.take() {
                        self.coordinator.refresh(entry_key, stamp, &entry, loader);
                    }
                    return Ok(Some(self.stale(&entry)));
                }
                Lookup::Miss(sought, suits) => (sought, suits),
                Lookup::Away(error) => {
                    self.metrics.outages.increment(1);
                    return self.past_or(request, began, Some(error)).await;
                }
                Lookup::Bypass(error) => {
                    self.metrics.unreadable.increment(u64::from(error.is_some()));
                    *older = None;
                    return self.past_or(request, began, error).await;
                }
                Lookup::Failed(error) => return Err(error),
            };
            *older = suits.or_else(|| older.take());
            self.metrics.misses.increment(1);
            let Some(loader) = loader.clone() else {
                let now = self.clock.now();
                return Ok(request.older.map(|entry| entry.read(Source::Stale, now)));
            };
            let landing = match self.coordinator.load(&request, sought, &loader).await {
                Waited::Landed(landing) if landing.suits(began, clears) => landing,
                // Not for this reader: the load began before it did. Look again.
                Waited::Landed(_) => continue,
                Waited::Instead(entry) => return Ok(Some(self.stale(&entry))),
                Waited::Busy => return Err(CacheError::Busy),
                Waited::Alone(own) => {
                    request.loader = Some(own);
                    return self.past_or(request, began, None).await;
                }
                Waited::TooLong => {
                    let error = CacheError::ReadTimeout(self.settings.read_timeout);
                    return self.stand_in(request.older.as_ref(), error).map(Some);
                }
            };
            let now = self.clock.now();
            match landing.result {
                // What the source said after this read began answers it, however short it lives and
                // whatever its version.
                Ok(entry) if landing.loaded => {
                    return Ok(Some(entry.read(Source::Loaded, now)));
                }
                // It was stored while this read was on its way to the lease.
                Ok(entry) if entry.is_current(request.freshness, now) => {
                    return Ok(Some(entry.read(Source::Remote, now)));
                }
                Ok(_) | Err(Fault::Changed) => {}
                Err(Fault::Outage) => {
                    self.metrics.outages.increment(1);
                    return self.past_or(request, began, None).await;
                }
                Err(Fault::Error(error)) => {
                    return self.stand_in(request.older.as_ref(), error).map(Some);
                }
            }
        }
        // Invalidations keep coming faster than loads end. A load that began after this read did is
        // right by itself.
        request.older = None;
        self.past_or(request, began, None).await
    }

    /// Reads past the cache: a copy that may stand in, else the source. Returns the error if there is
    /// no loader.
    async fn past_or(
        &self,
        request: ReadRequest<V>,
        began: u64,
        error: Option<Error>,
    ) -> Result<Option<Read<V>>, CacheError> {
        let ReadRequest { entry_key, freshness, older, loader, .. } = &request;
        let now = self.clock.now();
        if let Some(older) = older.as_ref().filter(|older| older.suits(*freshness, now)) {
            return Ok(Some(self.stale(older)));
        }
        match (loader, error) {
            (Some(loader), _) => {
                self.coordinator.read_past(&request, began, loader).await.map(Some)
            }
            (None, Some(error)) => Err(error.into()),
            (None, None) => Ok(self.coordinator.past_copy(entry_key.entry(), *freshness)),
        }
    }
}
