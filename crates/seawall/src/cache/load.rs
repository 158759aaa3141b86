//! Loading: asking for the lease, calling the loader, storing what it found, waking who waits.
//!
//! A load runs in a task of its own, so that a caller who gives up does not take down those who wait
//! with it. It goes through the governor, and has a deadline shorter than its lease.

use std::{sync::Arc, time::Duration};

use serde::{Serialize, de::DeserializeOwned};

use super::{
    CacheError, Inner, Loaded, Subject,
    flight::{Fault, Pilot},
    level2::{Fill, Lease, Stored},
    parted::{Whole, is_in_parts},
    product::Prepared,
    read_types::Entry,
};
pub(super) use super::{
    loader::{LoaderSlot, not_modified},
    product::moment,
};
use crate::{error::Error, key::KeyPart};

/// What a load is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Readers wait for it. With a version: even a fresh entry of that version is to be replaced.
    Answer(Option<u64>),
    /// Nobody waits: an entry of this version is to be replaced, unless somebody is at it.
    Refresh(u64),
}

/// How often a reader asks for a lease that another one holds, before it gives up.
const MAX_ASKS: u32 = 1000;
/// How long a waiter sleeps at most before it asks again, in case the wake-up was lost.
const LONGEST_NAP: Duration = Duration::from_millis(500);
/// How often a command whose reply was lost is sent again.
const MAX_RESENDS: u32 = 3;
/// How many tokens of lost replies are remembered; older leases have ended by then.
const MAX_FORMER: usize = 8;

/// The token that a lease is asked for with, and those of requests whose replies were lost.
pub(super) struct Claim {
    pub(super) token: u64,
    former: Vec<u64>,
}

impl Default for Claim {
    fn default() -> Self {
        Claim::from(new_token())
    }
}

impl From<u64> for Claim {
    fn from(token: u64) -> Self {
        Claim { token, former: Vec::new() }
    }
}

impl Claim {
    /// The request may still be under way: its token is not to be used again, see `lease.lua`.
    pub(super) fn renew(&mut self) {
        if self.former.len() == MAX_FORMER {
            self.former.remove(0);
        }
        self.former.push(std::mem::replace(&mut self.token, new_token()));
    }
}

impl<K, V> Inner<K, V>
where
    K: KeyPart + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// Makes a load happen and lands it.
    pub(super) async fn fly(
        self: Arc<Self>,
        pilot: Pilot<V>,
        subject: Subject,
        stamp: u64,
        purpose: Purpose,
        loader: LoaderSlot<V>,
    ) {
        let replaces = match purpose {
            Purpose::Answer(version) => version,
            Purpose::Refresh(version) => Some(version),
        };
        let mut claim = Claim::default();
        let deadline = self.clock.now() + self.settings.deadline;
        let mut wake = None;
        for _ in 0..MAX_ASKS {
            let asked = self.flights.next();
            match self.ask(&subject, &mut claim, stamp, replaces).await {
                Ok(Lease::Granted) => {
                    let token = claim.token;
                    pilot.set_loading();
                    return self.load_and_store(pilot, subject, stamp, token, loader).await;
                }
                Ok(Lease::Value(raw)) => {
                    let whole = if is_in_parts(&raw) {
                        match self.gather(&subject, raw.into()).await {
                            Ok(Whole::Entry(raw)) => raw,
                            // Readers look again, and find out what is to be replaced.
                            Ok(Whole::Lost(_)) | Err(_) => None,
                        }
                    } else {
                        Some(raw.into())
                    };
                    let now = self.clock.now();
                    let result = whole
                        .and_then(|raw| self.decode(&raw, stamp, &subject, now))
                        .ok_or(Fault::Changed);
                    return pilot.land(asked, result);
                }
                Ok(Lease::Changed) => return pilot.land(asked, Err(Fault::Changed)),
                Ok(Lease::Busy(_)) if matches!(purpose, Purpose::Refresh(_)) => return,
                Ok(Lease::Busy(left)) => {
                    let now = self.clock.now();
                    if now >= deadline {
                        let error = CacheError::Deadline(self.settings.deadline);
                        return pilot.land(asked, Err(Fault::Error(error)));
                    }
                    let Some(subscription) = &mut wake else {
                        // Subscribe, then ask again: the value may have come in between.
                        wake = Some(
                            self.level2.link.hub().join(&self.level2.names.wake(subject.entry())),
                        );
                        continue;
                    };
                    self.metrics.waits.increment(1);
                    let nap = left.min(LONGEST_NAP).min(deadline.since(now));
                    // A wake-up, a new connection or the nap's end: all of them mean "ask again".
                    let woken = self.clock.timeout(nap, subscription.next()).await;
                    if woken == Some(None) {
                        return pilot
                            .land(u64::MAX, Err(Fault::Error(CacheError::Redis(Error::Closed))));
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "no lease");
                    return pilot.land(asked, Err(Fault::Outage));
                }
            }
        }
        pilot.land(0, Err(Fault::Changed));
    }

    /// Asks for the lease; where a reply was lost, again.
    pub(super) async fn ask(
        &self,
        subject: &Subject,
        claim: &mut Claim,
        stamp: u64,
        replaces: Option<u64>,
    ) -> Result<Lease, Error> {
        let mut resends = 0;
        loop {
            let Claim { token, former } = &*claim;
            match self.level2.lease(subject.entry(), *token, former, stamp, replaces).await {
                Err(error) if error.is_indeterminate() => {
                    claim.renew();
                    if resends == MAX_RESENDS {
                        return Err(error);
                    }
                    resends += 1;
                }
                reply => return reply,
            }
        }
    }

    async fn load_and_store(
        self: Arc<Self>,
        pilot: Pilot<V>,
        subject: Subject,
        stamp: u64,
        token: u64,
        loader: LoaderSlot<V>,
    ) {
        // Before the source is read, not just before the fill: a namespace that is cleared meanwhile
        // leaves the lease alone.
        let ticket = self.level1.as_ref().map(|level1| level1.ticket(subject.entry()));
        let started = self.flights.next();
        let product = match self.call(&loader).await {
            Ok(product) => product,
            Err(error) => {
                self.give_back(&subject, token, None).await;
                return pilot.land(u64::MAX, Err(Fault::Error(error)));
            }
        };
        let uncached = |value| Entry::uncached(value, self.clock.now(), &subject.tags);
        let (fill, value) = match self.prepare(product, stamp) {
            Prepared::Store(fill, value) => (fill, value),
            Prepared::Pass(value) => {
                self.give_back(&subject, token, None).await;
                return pilot.land(started, Ok(uncached(value)));
            }
            Prepared::NotModified => {
                let fresh_for = self.vary(self.settings.fresh_for);
                self.prolong_parts(subject.entry(), fresh_for).await;
                self.give_back(&subject, token, Some(fresh_for)).await;
                // Readers look at the entry, which is fresh again.
                return pilot.land(started, Err(Fault::Changed));
            }
        };
        let fill = match self.cut(subject.entry(), fill).await {
            Ok(fill) => fill,
            Err(error) => {
                tracing::debug!(%error, "a load could not be stored in parts");
                self.give_back(&subject, token, None).await;
                return pilot.land(started, Ok(uncached(value)));
            }
        };
        let stored_from = self.flights.next();
        match self.store(&subject, token, &fill).await {
            Ok(Some(stored)) => {
                self.metrics.stored_bytes.increment(fill.size_bytes() as u64);
                let entry = self.entry(value, &stored, &fill, &subject);
                self.keep(&subject, &entry, ticket);
                pilot.land(stored_from, Ok(entry));
            }
            Ok(None) => {
                self.metrics.refused_fills.increment(1);
                pilot.land(started, Ok(uncached(value)));
                self.discard(subject.entry(), &fill).await;
            }
            // Stored or not, nobody knows: good for those who came before the load, not for others.
            Err(error) => {
                tracing::debug!(%error, "a load could not be stored");
                pilot.land(started, Ok(uncached(value)));
                self.discard(subject.entry(), &fill).await;
            }
        }
    }

    /// Stores under the lease; where the reply was lost, again. If the first one was carried out the
    /// lease is gone and the second is refused: good for those who came before the load.
    async fn store(
        &self,
        subject: &Subject,
        token: u64,
        fill: &Fill,
    ) -> Result<Option<Stored>, Error> {
        let mut resends = 0;
        loop {
            match self.level2.fill(subject.entry(), Some(token), fill).await {
                Err(error) if error.is_indeterminate() && resends < MAX_RESENDS => resends += 1,
                reply => return reply,
            }
        }
    }

    /// A load without Redis: protected by the governor, shared within this process, kept briefly.
    pub(super) async fn fly_alone(
        self: Arc<Self>,
        pilot: Pilot<V>,
        subject: Subject,
        loader: LoaderSlot<V>,
    ) {
        pilot.set_loading();
        let ticket = self.level1.as_ref().map(|level1| level1.ticket(subject.entry()));
        let started = self.flights.next();
        let product = match self.call(&loader).await {
            Ok(product) => product,
            Err(error) => return pilot.land(u64::MAX, Err(Fault::Error(error))),
        };
        let keep = !matches!(product.loaded, Loaded::DontCache(_));
        let value = match product.loaded {
            Loaded::Found(value) | Loaded::FoundFor(value, _) | Loaded::DontCache(value) => {
                Some(Arc::new(value))
            }
            Loaded::Missing => None,
            Loaded::NotModified => return pilot.land(started, Err(Fault::Error(not_modified()))),
        };
        let now = self.clock.now();
        let mut entry = Entry::uncached(value, now, &subject.tags);
        entry.cost = product.cost;
        if let (Some(level1), Some(ticket), true) = (&self.level1, ticket, keep) {
            let until = now + self.settings.outage_copies_for;
            let copy = Entry { fresh_until: until, stale_until: until, ..entry.clone() };
            level1.insert(subject.entry(), copy, ticket);
        }
        pilot.land(started, Ok(entry));
    }

    async fn give_back(&self, subject: &Subject, token: u64, fresh_again: Option<Duration>) {
        // Not given back, the lease ends by itself.
        if let Err(error) = self.level2.release(subject.entry(), token, fresh_again).await {
            tracing::debug!(%error, "a lease could not be given back");
        }
    }
}

/// A token that nobody else has; never 0, which means "no lease".
pub(super) fn new_token() -> u64 {
    rand::random::<u64>() | 1
}
