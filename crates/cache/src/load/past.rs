//! Loads past the cache: Redis is away, an invalidation of the key is queued, or what Redis has is not
//! for us.
//!
//! This is when a flood would reach the source, so the loads of a key follow each other: at most one
//! runs in this process, and all readers that it does not cover share the next one. Its result stays in
//! the local tier for `outage_ttl`, and answers readers that accept a copy. Loads through Redis take
//! part (`load_and_publish` boards here, too): Redis may go away while they run.
//!
//! Invariant: a copy of version 0 was loaded past the cache, under a ticket that was taken before the
//! load. It is as new as the last invalidation of this process, also while that one is queued.

use std::sync::Arc;

use seawall_resilience::clock::Moment;
use tracing::Instrument as _;

use super::{
    coordinator::{LoadCoordinator, ReadRequest},
    loader::{LoaderSlot, not_modified},
    single_flight::{Fault, Flight, Joined, Leader},
};
use crate::{
    CacheError, CacheValue, Freshness, Loaded, Read, Source,
    store::{entry::Entry, keys::EntryKey},
    tier::local::Ticket,
};

/// How often a reader joins a load. One covers it; more are needed only when loads end without a word,
/// which happens when the handle shuts down.
const MAX_JOINS: u32 = 4;

impl<V: CacheValue> LoadCoordinator<V> {
    /// Asks the source for a reader with this number, or finds a copy that an earlier load left.
    pub(crate) async fn read_past(
        self: &Arc<Self>,
        request: &ReadRequest<V>,
        began: u64,
        loader: &LoaderSlot<V>,
    ) -> Result<Read<V>, CacheError> {
        let ReadRequest { entry_key, freshness, deadline, .. } = request;
        let strict = !freshness.asks_memory();
        for _ in 0..MAX_JOINS {
            let copy = || self.past_copy(entry_key.entry(), *freshness);
            let (flight, leader) = match self.past.board(entry_key.entry(), began, strict, copy) {
                Joined::Known(read) => return Ok(read),
                Joined::Flight(flight, leader) => (flight, leader),
            };
            if let Some(leader) = leader {
                let (this, entry_key) = (Arc::clone(self), entry_key.clone());
                let load = this.fly_past(leader, entry_key, loader.clone());
                self.handle.spawn(load.in_current_span());
            }
            if let Some(answer) = self.landed_past(&flight, began, strict, *deadline).await {
                return answer;
            }
        }
        Err(CacheError::ReadTimeout(self.settings.read_timeout))
    }

    /// Waits for a load. Returns `None` if its result is not for this reader.
    pub(super) async fn landed_past(
        &self,
        flight: &Flight<V>,
        began: u64,
        strict: bool,
        deadline: Moment,
    ) -> Option<Result<Read<V>, CacheError>> {
        let left = deadline.since(self.clock.now());
        let Some(landing) = self.clock.timeout(left, flight.landed()).await else {
            return Some(Err(CacheError::ReadTimeout(self.settings.read_timeout)));
        };
        match landing.result {
            _ if landing.covers <= began => None,
            // A copy: the leader had looked before this reader came.
            Ok(_) if strict && !landing.loaded => None,
            Ok(entry) => {
                let source = if landing.loaded { Source::Loaded } else { Source::Local };
                Some(Ok(entry.read(source, self.clock.now())))
            }
            Err(Fault::Error(error)) => Some(Err(error)),
            Err(Fault::Outage | Fault::Changed) => None,
        }
    }

    /// Returns a copy that answers this reader while Redis is away.
    pub(crate) fn past_copy(&self, entry: &[u8], freshness: Freshness) -> Option<Read<V>> {
        let copy = self.past_entry(entry, freshness)?;
        self.metrics.local_hits.count();
        Some(copy.read(Source::Local, self.clock.now()))
    }

    fn past_entry(&self, entry: &[u8], freshness: Freshness) -> Option<Entry<V>> {
        let local = self.local.as_ref()?;
        if !freshness.asks_memory() {
            return None;
        }
        let waits = self.recovery.concerns(entry);
        let copy = local.get(entry).filter(|copy| !waits || copy.version == 0)?;
        let now = self.clock.now();
        (now < copy.fresh_until && copy.suits(freshness, now)).then_some(copy)
    }

    /// Keeps a copy of a value that was loaded past Redis, if there is a ticket for it.
    pub(super) fn keep_past(
        &self,
        entry_key: &EntryKey,
        value: Option<Arc<V>>,
        ticket: Option<Ticket>,
    ) -> Entry<V> {
        let tags = self.encoder.format.tags(&entry_key.tags, value.as_deref());
        let ticket = ticket.filter(|_| tags.is_some());
        let entry = Entry::uncached(value, self.clock.now(), tags.flatten());
        self.publisher.keep_past(entry_key, &entry, ticket);
        entry
    }

    /// Loads without Redis: protected by the pipeline, shared within this process, kept briefly.
    pub(super) async fn fly_past(
        self: Arc<Self>,
        leader: Leader<V>,
        entry_key: EntryKey,
        loader: LoaderSlot<V>,
    ) {
        leader.cleared().await;
        // What the load before this one left may do for all who wait now: a copy that is found here may
        // be invalidated before the next reader begins.
        let looked = self.past.next();
        if !leader.is_strict()
            && let Some(copy) = self.past_entry(entry_key.entry(), Freshness::Cached)
        {
            return leader.land_found(looked, Ok(copy));
        }
        let Some(loader) = loader.take() else {
            // It ran already; the others that wait have loaders of their own.
            return leader.land(0, Err(Fault::Changed));
        };
        let ticket = self.publisher.ticket(&entry_key);
        leader.start();
        let load_result = match self.runner.call(loader, None).await {
            Ok(load_result) => load_result,
            Err(error) => return leader.land(u64::MAX, Err(Fault::Error(error))),
        };
        let keep = !matches!(load_result.loaded, Loaded::DontCache(_));
        let value = match load_result.loaded {
            Loaded::Found(value) | Loaded::FoundFor(value, _) | Loaded::DontCache(value) => {
                Some(Arc::new(value))
            }
            Loaded::Missing => None,
            Loaded::NotModified => return leader.land(u64::MAX, Err(Fault::Error(not_modified()))),
        };
        let entry = self.keep_past(&entry_key, value, ticket.filter(|_| keep));
        leader.land_unstored(entry);
    }
}
