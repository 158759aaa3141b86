//! Reading past the cache: Redis is away, an invalidation of the key waits, or what Redis has is not
//! for us.
//!
//! This is when a flood would reach the source, so the loads of a key follow each other: at most one
//! runs in this process, and all whom it does not cover share the next one. What it found stays in
//! the first level for a moment (`outage_ttl`), and answers readers who do not ask for more.
//! Loads through Redis take part (`fly` boards here, too): Redis may go away while they run.
//!
//! Invariant: a copy of version 0 was loaded past the cache, under a ticket that was taken before the
//! load. It is as new as the last invalidation of this process, also while that one waits.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use seawall_resilience::clock::Moment;

use crate::{
    Cache, CacheError, CacheKey, CacheValue, EntryKey, Freshness, Inner, Loaded, Read, Source,
    load::coordinator::LoaderSlot,
    load::loader::not_modified,
    load::single_flight::{Fault, Flight, Joined, Leader},
    read::batch::{LoadMany, one_of_many},
    tier::local::Ticket,
    types::Entry,
};

/// How often a reader joins a load. One covers it; more come only when loads end without a word,
/// which is when the handle shuts down.
const MAX_JOINS: u32 = 4;

impl<K: CacheKey, V: CacheValue> Inner<K, V> {
    /// What the source says, for a reader with this number.
    pub(crate) async fn read_past(
        self: &Arc<Self>,
        entry_key: &EntryKey,
        freshness: Freshness,
        began: u64,
        loader: &LoaderSlot<V>,
        deadline: Moment,
    ) -> Result<Read<V>, CacheError> {
        let strict = !freshness.asks_memory();
        for _ in 0..MAX_JOINS {
            let copy = || self.past_copy(entry_key.entry(), freshness);
            let (flight, leader) = match self.past.board(entry_key.entry(), began, strict, copy) {
                Joined::Known(read) => return Ok(read),
                Joined::Flight(flight, leader) => (flight, leader),
            };
            if let Some(leader) = leader {
                let (this, entry_key) = (Arc::clone(self), entry_key.clone());
                self.handle.spawn(this.fly_past(leader, entry_key, loader.clone()));
            }
            if let Some(answer) = self.landed_past(&flight, began, strict, deadline).await {
                return answer;
            }
        }
        Err(CacheError::ReadTimeout(self.settings.read_timeout))
    }

    /// Waits for a load; `None` when it is not for this reader.
    async fn landed_past(
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

    /// A copy that answers this reader while Redis is away.
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

    /// A load without Redis: protected by the pipeline, shared within this process, kept briefly.
    async fn fly_past(
        self: Arc<Self>,
        leader: Leader<V>,
        entry_key: EntryKey,
        loader: LoaderSlot<V>,
    ) {
        leader.cleared().await;
        // What the load before this one left may do for all who wait now: a copy that is found here may
        // be invalidated before whoever comes next begins.
        let looked = self.past.next();
        if !leader.is_strict()
            && let Some(copy) = self.past_entry(entry_key.entry(), Freshness::Cached)
        {
            return leader.land_found(looked, Ok(copy));
        }
        let Some(loader) = loader.take() else {
            // It ran already; whoever waits here has one of its own.
            return leader.land(0, Err(Fault::Changed));
        };
        let ticket = self.ticket(&entry_key);
        leader.start();
        let load_result = match self.call(loader, None).await {
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
        let entry = Entry::uncached(value, self.clock.now(), &entry_key.tags);
        if keep {
            self.keep_past(&entry_key, &entry, ticket);
        }
        leader.land_unstored(entry);
    }

    /// To be taken before the source is read, not just before the fill: a namespace that is cleared
    /// meanwhile leaves the lease alone.
    pub(crate) fn ticket(&self, entry_key: &EntryKey) -> Option<Ticket> {
        self.local.as_ref().map(|local| local.ticket(entry_key.entry()))
    }

    /// Keeps what Redis could not be given, for a moment.
    pub(crate) fn keep_past(&self, entry_key: &EntryKey, entry: &Entry<V>, ticket: Option<Ticket>) {
        if let (Some(local), Some(ticket)) = (&self.local, ticket) {
            let until = self.clock.now() + self.settings.outage_ttl;
            let copy = Entry { fresh_until: until, stale_until: until, ..entry.clone() };
            local.insert(entry_key.entry(), copy, ticket);
        }
    }
}

/// A key of a batch that is read past the cache.
struct Boarded<K, V> {
    key: K,
    entry_key: EntryKey,
    ticket: Option<Ticket>,
    leader: Leader<V>,
}

impl<K, V> Cache<K, V>
where
    K: CacheKey + Eq + Hash,
    V: CacheValue,
{
    /// The same for some keys of a batch: one call of the loader for those that nobody else loads.
    /// Keys without an answer are to be read by themselves.
    pub(crate) async fn load_past(
        &self,
        wanted: Vec<(usize, K, EntryKey)>,
        began: u64,
        load: &LoadMany<K, V>,
    ) -> Vec<(usize, Result<Read<V>, CacheError>)> {
        let inner = &self.inner;
        let deadline = inner.clock.now() + inner.settings.read_timeout;
        let (mut answers, mut flights, mut boarded) = (Vec::new(), Vec::new(), Vec::new());
        for (index, key, entry_key) in wanted {
            let ticket = inner.ticket(&entry_key);
            let copy = || inner.past_copy(entry_key.entry(), Freshness::Cached);
            match inner.past.board(entry_key.entry(), began, false, copy) {
                Joined::Known(read) => answers.push((index, Ok(read))),
                Joined::Flight(flight, Some(leader)) if leader.is_next() => {
                    // By itself: the batch is not to wait for the load before it.
                    let loader = LoaderSlot::new(one_of_many(load, &key));
                    let this = Arc::clone(inner);
                    inner.handle.spawn(this.fly_past(leader, entry_key, loader));
                    flights.push((index, flight));
                }
                Joined::Flight(flight, leader) => {
                    flights.push((index, flight));
                    boarded.extend(leader.map(|leader| Boarded { key, entry_key, ticket, leader }));
                }
            }
        }
        if !boarded.is_empty() {
            inner.handle.spawn(self.clone().fly_past_many(boarded, Arc::clone(load)));
        }
        for (index, flight) in flights {
            let landed = inner.landed_past(&flight, began, false, deadline).await;
            answers.extend(landed.map(|answer| (index, answer)));
        }
        answers
    }

    async fn fly_past_many(self, boarded: Vec<Boarded<K, V>>, load: LoadMany<K, V>) {
        let inner = &self.inner;
        for Boarded { leader, .. } in &boarded {
            leader.start();
        }
        let keys = boarded.iter().map(|boarded| boarded.key.clone()).collect();
        let mut found: HashMap<K, V> = match self.call_many(keys, &load).await {
            Ok((found, _)) => found,
            Err(error) => {
                for Boarded { leader, .. } in boarded {
                    leader.land(u64::MAX, Err(Fault::Error(error.clone())));
                }
                return;
            }
        };
        for Boarded { key, entry_key, ticket, leader } in boarded {
            let value = found.remove(&key).map(Arc::new);
            let entry = Entry::uncached(value, inner.clock.now(), &entry_key.tags);
            inner.keep_past(&entry_key, &entry, ticket);
            leader.land_unstored(entry);
        }
    }
}
