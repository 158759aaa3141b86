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

use super::{
    Cache, CacheError, CacheKey, CacheValue, Freshness, Inner, Loaded, Read, Source, Subject,
    flight::{Fault, Flight, Joined, Pilot},
    level1::Ticket,
    load::LoaderSlot,
    loader::not_modified,
    many::{LoadMany, one_of_many},
    read_types::Entry,
};

/// How often a reader joins a load. One covers it; more come only when loads end without a word,
/// which is when the handle shuts down.
const MAX_JOINS: u32 = 4;

impl<K: CacheKey, V: CacheValue> Inner<K, V> {
    /// What the source says, for a reader with this number.
    pub(super) async fn read_past(
        self: &Arc<Self>,
        subject: &Subject,
        freshness: Freshness,
        began: u64,
        loader: &LoaderSlot<V>,
        deadline: Moment,
    ) -> Result<Read<V>, CacheError> {
        let strict = !freshness.asks_memory();
        for _ in 0..MAX_JOINS {
            let copy = || self.past_copy(subject.entry(), freshness);
            let (flight, pilot) = match self.past.board(subject.entry(), began, strict, copy) {
                Joined::Known(read) => return Ok(read),
                Joined::Flight(flight, pilot) => (flight, pilot),
            };
            if let Some(pilot) = pilot {
                let (this, subject) = (Arc::clone(self), subject.clone());
                self.handle.spawn(this.fly_past(pilot, subject, loader.clone()));
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
            // A copy: the pilot had looked before this reader came.
            Ok(_) if strict && !landing.loaded => None,
            Ok(entry) => {
                let source = if landing.loaded { Source::Loaded } else { Source::Level1 };
                Some(Ok(entry.read(source, self.clock.now())))
            }
            Err(Fault::Error(error)) => Some(Err(error)),
            Err(Fault::Outage | Fault::Changed) => None,
        }
    }

    /// A copy that answers this reader while Redis is away.
    pub(super) fn past_copy(&self, entry: &[u8], freshness: Freshness) -> Option<Read<V>> {
        let copy = self.past_entry(entry, freshness)?;
        self.metrics.level1_hits.count();
        Some(copy.read(Source::Level1, self.clock.now()))
    }

    fn past_entry(&self, entry: &[u8], freshness: Freshness) -> Option<Entry<V>> {
        let level1 = self.level1.as_ref()?;
        if !freshness.asks_memory() {
            return None;
        }
        let waits = self.repairs.concerns(entry);
        let copy = level1.get(entry).filter(|copy| !waits || copy.version == 0)?;
        let now = self.clock.now();
        (now < copy.fresh_until && copy.suits(freshness, now)).then_some(copy)
    }

    /// A load without Redis: protected by the governor, shared within this process, kept briefly.
    async fn fly_past(self: Arc<Self>, pilot: Pilot<V>, subject: Subject, loader: LoaderSlot<V>) {
        pilot.cleared().await;
        // What the load before this one left may do for all who wait now: a copy that is found here may
        // be invalidated before whoever comes next begins.
        let looked = self.past.next();
        if !pilot.is_strict()
            && let Some(copy) = self.past_entry(subject.entry(), Freshness::Cached)
        {
            return pilot.land_found(looked, Ok(copy));
        }
        let Some(loader) = loader.take() else {
            // It ran already; whoever waits here has one of its own.
            return pilot.land(0, Err(Fault::Changed));
        };
        let ticket = self.ticket(&subject);
        pilot.start();
        let product = match self.call(loader, None).await {
            Ok(product) => product,
            Err(error) => return pilot.land(u64::MAX, Err(Fault::Error(error))),
        };
        let keep = !matches!(product.loaded, Loaded::DontCache(_));
        let value = match product.loaded {
            Loaded::Found(value) | Loaded::FoundFor(value, _) | Loaded::DontCache(value) => {
                Some(Arc::new(value))
            }
            Loaded::Missing => None,
            Loaded::NotModified => return pilot.land(u64::MAX, Err(Fault::Error(not_modified()))),
        };
        let entry = Entry::uncached(value, self.clock.now(), &subject.tags);
        if keep {
            self.keep_past(&subject, &entry, ticket);
        }
        pilot.land_unstored(entry);
    }

    /// To be taken before the source is read, not just before the fill: a namespace that is cleared
    /// meanwhile leaves the lease alone.
    pub(super) fn ticket(&self, subject: &Subject) -> Option<Ticket> {
        self.level1.as_ref().map(|level1| level1.ticket(subject.entry()))
    }

    /// Keeps what Redis could not be given, for a moment.
    pub(super) fn keep_past(&self, subject: &Subject, entry: &Entry<V>, ticket: Option<Ticket>) {
        if let (Some(level1), Some(ticket)) = (&self.level1, ticket) {
            let until = self.clock.now() + self.settings.outage_ttl;
            let copy = Entry { fresh_until: until, stale_until: until, ..entry.clone() };
            level1.insert(subject.entry(), copy, ticket);
        }
    }
}

/// A key of a batch that is read past the cache.
struct Boarded<K, V> {
    key: K,
    subject: Subject,
    ticket: Option<Ticket>,
    pilot: Pilot<V>,
}

impl<K, V> Cache<K, V>
where
    K: CacheKey + Eq + Hash,
    V: CacheValue,
{
    /// The same for some keys of a batch: one call of the loader for those that nobody else loads.
    /// Keys without an answer are to be read by themselves.
    pub(super) async fn load_past(
        &self,
        wanted: Vec<(usize, K, Subject)>,
        began: u64,
        load: &LoadMany<K, V>,
    ) -> Vec<(usize, Result<Read<V>, CacheError>)> {
        let inner = &self.inner;
        let deadline = inner.clock.now() + inner.settings.read_timeout;
        let (mut answers, mut flights, mut boarded) = (Vec::new(), Vec::new(), Vec::new());
        for (index, key, subject) in wanted {
            let ticket = inner.ticket(&subject);
            let copy = || inner.past_copy(subject.entry(), Freshness::Cached);
            match inner.past.board(subject.entry(), began, false, copy) {
                Joined::Known(read) => answers.push((index, Ok(read))),
                Joined::Flight(flight, Some(pilot)) if pilot.is_next() => {
                    // By itself: the batch is not to wait for the load before it.
                    let loader = LoaderSlot::new(one_of_many(load, &key));
                    let this = Arc::clone(inner);
                    inner.handle.spawn(this.fly_past(pilot, subject, loader));
                    flights.push((index, flight));
                }
                Joined::Flight(flight, pilot) => {
                    flights.push((index, flight));
                    boarded.extend(pilot.map(|pilot| Boarded { key, subject, ticket, pilot }));
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
        for Boarded { pilot, .. } in &boarded {
            pilot.start();
        }
        let keys = boarded.iter().map(|boarded| boarded.key.clone()).collect();
        let mut found: HashMap<K, V> = match self.call_many(keys, &load).await {
            Ok((found, _)) => found,
            Err(error) => {
                for Boarded { pilot, .. } in boarded {
                    pilot.land(u64::MAX, Err(Fault::Error(error.clone())));
                }
                return;
            }
        };
        for Boarded { key, subject, ticket, pilot } in boarded {
            let value = found.remove(&key).map(Arc::new);
            let entry = Entry::uncached(value, inner.clock.now(), &subject.tags);
            inner.keep_past(&subject, &entry, ticket);
            pilot.land_unstored(entry);
        }
    }
}
