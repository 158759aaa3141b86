//! Loads for a batch of keys: leases in one trip, one call of the loader, fills in one trip.
//!
//! What fails, fails for its own keys only. Keys without an answer are read by themselves later.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use tracing::Instrument as _;

use super::{
    coordinator::LoadCoordinator,
    lease::{Asked, Claim, Holding},
    loader::{BatchLoader, LoaderSlot, one_of_many},
    single_flight::{Fault, Joined, Leader},
};
use crate::{
    CacheError, CacheValue, Freshness, Read, Source,
    store::{
        entry::Entry,
        keys::EntryKey,
        parted::is_in_parts,
        publisher::{Grant, Published},
    },
    tier::{local::Ticket, remote_lease::Wanted, remote_tags::Stamp},
};

/// The answer for one key of a batch.
pub(crate) type Answer<V> = Result<Read<V>, CacheError>;
/// Answers by the positions of their keys.
type Answers<V> = Vec<(usize, Answer<V>)>;

/// A key that the tiers did not have.
pub(crate) struct Missing {
    /// Its position in the batch.
    pub(crate) position: usize,
    pub(crate) stamp: Stamp,
    /// The version of an entry that looks good in Redis and no longer counts.
    pub(crate) replaces: Option<u64>,
    pub(crate) token: u64,
    pub(crate) entry_key: EntryKey,
    /// Taken before anything was read.
    pub(crate) ticket: Option<Ticket>,
}

/// A key whose lease this batch holds.
struct Granted<V> {
    position: usize,
    stamp: Stamp,
    grant: Grant,
    /// Those who read past the cache meanwhile wait for this load, too.
    past: Option<Leader<V>>,
    /// Renews the lease until this is dropped.
    _held: Holding,
}

impl<V: Send + Sync + 'static> Granted<V> {
    /// Lands a value for readers that began before the load, and answers the batch.
    fn land(self, entry: Entry<V>, answer: Read<V>) -> (usize, Answer<V>) {
        match self.past {
            Some(past) if entry.version == 0 => past.land_unstored(entry),
            Some(past) => {
                let started = past.started();
                past.land(started, Ok(entry));
            }
            None => {}
        }
        (self.position, Ok(answer))
    }
}

/// A key that is read past the cache.
struct Boarded<V> {
    position: usize,
    entry_key: EntryKey,
    ticket: Option<Ticket>,
    leader: Leader<V>,
}

impl<V: CacheValue> LoadCoordinator<V> {
    /// Takes the leases that are free, loads for them and stores. Runs to its end even if the caller
    /// goes away: leases must not be left behind.
    pub(crate) async fn load_missing(
        self: &Arc<Self>,
        missing: Vec<Missing>,
        load: BatchLoader<V>,
    ) -> Answers<V> {
        let (done, results) = tokio::sync::oneshot::channel();
        let this = Arc::clone(self);
        let loads = async move {
            // If no reader waits any more, everything is stored all the same.
            let _ = done.send(this.load_leased(missing, load).await);
        };
        self.handle.spawn(loads.in_current_span());
        results.await.unwrap_or_default()
    }

    async fn load_leased(
        self: Arc<Self>,
        missing: Vec<Missing>,
        load: BatchLoader<V>,
    ) -> Answers<V> {
        let (mut answers, granted) = self.ask_leases(missing).await;
        if granted.is_empty() {
            return answers;
        }
        let positions: Vec<usize> = granted.iter().map(|granted| granted.position).collect();
        match self.runner.call_any(move || load(positions)).await {
            Err(error) => {
                let back = granted.iter().map(|Granted { grant, .. }| {
                    self.publisher.release(&grant.entry_key, grant.token)
                });
                join_all(back).await;
                for Granted { position, past, .. } in granted {
                    if let Some(past) = past {
                        past.land(u64::MAX, Err(Fault::Error(error.clone())));
                    }
                    answers.push((position, Err(error.clone())));
                }
            }
            Ok((found, cost)) => {
                let found = granted.into_iter().zip(found).collect();
                answers.extend(self.publish_many(found, cost).await);
            }
        }
        answers
    }

    /// Asks for the leases of a batch. Returns what turned out to be there, and what was granted.
    async fn ask_leases(&self, missing: Vec<Missing>) -> (Answers<V>, Vec<Granted<V>>) {
        let wanted = missing.iter().map(|missing| Wanted {
            entry: missing.entry_key.entry().to_vec(),
            token: missing.token,
            stamp: missing.stamp,
            replaces: missing.replaces,
        });
        let (sent, leases) = self.leases.ask_many(&wanted.collect::<Vec<_>>()).await;
        let (mut answers, mut granted) = (Vec::new(), Vec::new());
        for (missing, lease) in missing.into_iter().zip(leases) {
            let Missing { position, stamp, replaces, token, entry_key, ticket } = missing;
            let mut claim = Claim::sent(token, sent);
            let asked = match lease {
                Err(error) if error.is_indeterminate() => {
                    // It may be ours: no other process could load before it ends by itself.
                    claim.renew(self.publisher.remote.new_token());
                    self.leases.ask(&entry_key, &mut claim, stamp, replaces).await
                }
                reply => reply.map(|reply| self.leases.asked(&entry_key, &claim, reply)),
            };
            match asked {
                Ok(Asked::Granted(held)) => {
                    let (_, past) = self.past.join(entry_key.entry());
                    if let Some(past) = &past {
                        past.start();
                    }
                    let grant = Grant { entry_key, token: held.token, ticket };
                    granted.push(Granted { position, stamp, grant, past, _held: held });
                }
                Ok(Asked::Value(raw)) if !is_in_parts(&raw) => {
                    let now = self.clock.now();
                    let entry: Option<Entry<V>> = self.decoder.decode(&raw, stamp, &entry_key, now);
                    // If a tag was cleared since, it is read by itself later.
                    if let Some(entry) = entry.filter(|entry| entry.clears == stamp.clears) {
                        self.metrics.remote_hit(entry.value.is_none());
                        answers.push((position, Ok(entry.read(Source::Remote, now))));
                    }
                }
                // Read one by one later.
                Ok(Asked::Value(_) | Asked::Busy(_) | Asked::Changed | Asked::Newer) | Err(_) => {}
            }
        }
        (answers, granted)
    }

    /// Publishes what a batch loaded, and lands it.
    async fn publish_many(
        self: &Arc<Self>,
        found: Vec<(Granted<V>, Option<V>)>,
        cost: Duration,
    ) -> Answers<V> {
        let (mut answers, mut landing, mut batch) = (Vec::new(), Vec::new(), Vec::new());
        for (granted, value) in found {
            let (value, of) = (value.map(Arc::new), (cost, granted.stamp));
            match self.publisher.prepare_one(&granted.grant, value, of).await {
                Ok((fill, value)) => {
                    batch.push((granted.grant.clone(), fill, value));
                    landing.push(granted);
                }
                Err(uncached) => {
                    let answer = uncached.read(Source::Loaded, self.clock.now());
                    answers.push(granted.land(uncached, answer));
                }
            }
        }
        let mut leftovers = Vec::new();
        let published = self.publisher.store_many(batch).await;
        for (granted, published) in landing.into_iter().zip(published) {
            let entry = match published {
                Published::Stored(entry) => entry,
                Published::Unstored(entry, leftover) => {
                    leftovers.extend(leftover);
                    entry
                }
                Published::Nothing => continue,
            };
            let answer = entry.read(Source::Loaded, self.clock.now());
            answers.push(granted.land(entry, answer));
        }
        if !leftovers.is_empty() {
            // No caller waits for this: Redis may take its time to fail once more.
            let publisher = Arc::clone(&self.publisher);
            self.handle.spawn(async move {
                for leftover in leftovers {
                    publisher.clean_up(leftover).await;
                }
            });
        }
        answers
    }

    /// Loads some keys of a batch past the cache: one call of the loader for those that no other task
    /// loads. Keys without an answer are to be read by themselves.
    pub(crate) async fn load_past(
        self: &Arc<Self>,
        wanted: Vec<(usize, EntryKey)>,
        began: u64,
        load: &BatchLoader<V>,
    ) -> Answers<V> {
        let deadline = self.clock.now() + self.settings.read_timeout;
        let (mut answers, mut flights, mut boarded) = (Vec::new(), Vec::new(), Vec::new());
        for (position, entry_key) in wanted {
            let ticket = self.publisher.ticket(&entry_key);
            let copy = || self.past_copy(entry_key.entry(), Freshness::Cached);
            match self.past.board(entry_key.entry(), began, false, copy) {
                Joined::Known(read) => answers.push((position, Ok(read))),
                Joined::Flight(flight, Some(leader)) if leader.is_next() => {
                    // By itself: the batch must not wait for the load before it.
                    let loader = LoaderSlot::new(one_of_many(load, position));
                    self.handle.spawn(Arc::clone(self).fly_past(leader, entry_key, loader));
                    flights.push((position, flight));
                }
                Joined::Flight(flight, leader) => {
                    flights.push((position, flight));
                    boarded.extend(leader.map(|leader| Boarded {
                        position,
                        entry_key,
                        ticket,
                        leader,
                    }));
                }
            }
        }
        if !boarded.is_empty() {
            self.handle.spawn(Arc::clone(self).fly_past_many(boarded, Arc::clone(load)));
        }
        for (position, flight) in flights {
            let landed = self.landed_past(&flight, began, false, deadline).await;
            answers.extend(landed.map(|answer| (position, answer)));
        }
        answers
    }

    async fn fly_past_many(self: Arc<Self>, boarded: Vec<Boarded<V>>, load: BatchLoader<V>) {
        for Boarded { leader, .. } in &boarded {
            leader.start();
        }
        let positions = boarded.iter().map(|boarded| boarded.position).collect();
        let found = match self.runner.call_any(move || load(positions)).await {
            Ok((found, _)) => found,
            Err(error) => {
                for Boarded { leader, .. } in boarded {
                    leader.land(u64::MAX, Err(Fault::Error(error.clone())));
                }
                return;
            }
        };
        for (Boarded { entry_key, ticket, leader, .. }, value) in boarded.into_iter().zip(found) {
            let entry = self.keep_past(&entry_key, value.map(Arc::new), ticket);
            leader.land_unstored(entry);
        }
    }
}
