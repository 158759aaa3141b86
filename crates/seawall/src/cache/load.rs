//! Loading: asking for the lease, calling the loader, storing what it found, waking who waits.
//!
//! A load runs in a task of its own, so that a caller who gives up does not take down those who wait
//! with it. It goes through the governor, and has a deadline shorter than its lease.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    CacheError, Inner, LoadError, Loaded, Subject,
    envelope::Kind,
    flight::{Fault, Pilot},
    level2::{Fill, Lease, Stored},
    read_types::{Entry, Tags},
};
use crate::{clock::Moment, error::Error, guard::CallError, key::KeyPart};

type Loader<V> = Box<dyn FnOnce() -> BoxFuture<'static, Result<Loaded<V>, LoadError>> + Send>;

/// A reader's loader, which runs at most once: for everybody, or for the reader alone.
pub(super) struct LoaderSlot<V>(Arc<Mutex<Option<Loader<V>>>>);

impl<V> LoaderSlot<V> {
    pub(super) fn new(loader: Loader<V>) -> Self {
        LoaderSlot(Arc::new(Mutex::new(Some(loader))))
    }

    fn take(&self) -> Option<Loader<V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<V> Clone for LoaderSlot<V> {
    fn clone(&self) -> Self {
        LoaderSlot(Arc::clone(&self.0))
    }
}

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

/// What a load produced, before it is stored.
pub(super) struct Product<V> {
    pub(super) loaded: Loaded<V>,
    cost: Duration,
}

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

/// What is to be done with a product.
enum Prepared<V> {
    Store(Fill, Option<Arc<V>>),
    Pass(Option<Arc<V>>),
    NotModified,
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
                    let result = match self.decode(&raw, stamp, &subject, self.clock.now()) {
                        Some(entry) => Ok(entry),
                        None => Err(Fault::Changed),
                    };
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
                self.give_back(&subject, token, Some(fresh_for)).await;
                // Readers look at the entry, which is fresh again.
                return pilot.land(started, Err(Fault::Changed));
            }
        };
        let stored_from = self.flights.next();
        match self.store(&subject, token, &fill).await {
            Ok(Some(stored)) => {
                self.metrics.stored_bytes.increment(fill.bytes.len() as u64);
                let entry = self.entry(value, &stored, &fill, &subject);
                self.keep(&subject, &entry, ticket);
                pilot.land(stored_from, Ok(entry));
            }
            Ok(None) => {
                self.metrics.refused_fills.increment(1);
                pilot.land(started, Ok(uncached(value)));
            }
            // Stored or not, nobody knows: good for those who came before the load, not for others.
            Err(error) => {
                tracing::debug!(%error, "a load could not be stored");
                pilot.land(started, Ok(uncached(value)));
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

    /// Calls the loader through the governor.
    pub(super) async fn call(&self, loader: &LoaderSlot<V>) -> Result<Product<V>, CacheError> {
        let began = self.clock.now();
        let loaded = self.call_any(loader).await?;
        Ok(Product { loaded, cost: self.clock.now().since(began) })
    }

    /// The same for whatever a loader loads: one value, or a whole batch.
    pub(super) async fn call_any<T>(
        &self,
        loader: &LoaderSlot<T>,
    ) -> Result<Loaded<T>, CacheError> {
        let Some(loader) = loader.take() else {
            // It ran already, and what it found was overtaken.
            return Err(CacheError::Busy);
        };
        let began = self.clock.now();
        let deadline = began + self.settings.load_within;
        self.metrics.loads.increment(1);
        let work = async {
            match &self.settings.governor {
                Some(governor) => governor.call(deadline, loader).await,
                None => match self.clock.timeout(self.settings.load_within, loader()).await {
                    Some(result) => result.map_err(CallError::Failed),
                    None => Err(CallError::DeadlineExceeded { ran: self.settings.load_within }),
                },
            }
        };
        let mut stop = self.seawall.stopping();
        let result = tokio::select! {
            result = work => result,
            // The lease is given back on the way out: nobody elsewhere waits for it to end.
            _ = stop.wait_for(|stop| *stop) => return Err(CacheError::Redis(Error::Closed)),
        };
        self.metrics.load_seconds.record(self.clock.now().since(began));
        result.map_err(|error| {
            self.metrics.load_failures.increment(1);
            match error {
                CallError::Shed(shed) => {
                    self.metrics.sheds.increment(1);
                    CacheError::Shed { retry_after: shed.retry_after }
                }
                CallError::DeadlineExceeded { ran } => CacheError::Deadline(ran),
                CallError::Failed(error) => CacheError::Load(error),
            }
        })
    }

    fn prepare(&self, product: Product<V>, stamp: u64) -> Prepared<V> {
        let (value, fresh_for) = match product.loaded {
            Loaded::Found(value) => (value, self.settings.fresh_for),
            Loaded::FoundFor(value, fresh_for) => (value, fresh_for),
            Loaded::DontCache(value) => return Prepared::Pass(Some(Arc::new(value))),
            Loaded::Missing if self.settings.missing_for.is_zero() => return Prepared::Pass(None),
            Loaded::Missing => return Prepared::Store(self.absent(product.cost, stamp), None),
            Loaded::NotModified => return Prepared::NotModified,
        };
        match self.fill(&value, fresh_for, product.cost, stamp) {
            Some(fill) => Prepared::Store(fill, Some(Arc::new(value))),
            None => Prepared::Pass(Some(Arc::new(value))),
        }
    }

    /// A value as it is stored; `None` when it cannot be.
    pub(super) fn fill(
        &self,
        value: &V,
        fresh_for: Duration,
        cost: Duration,
        stamp: u64,
    ) -> Option<Fill> {
        match self.format.encode(value) {
            Ok(encoded) => Some(Fill {
                kind: Kind::Value,
                codec: encoded.codec,
                bytes: encoded.bytes,
                fresh_for: self.vary(fresh_for),
                stale_for: self.settings.stale_for,
                cost,
                stamp,
            }),
            Err(error) => {
                self.metrics.oversized.increment(1);
                tracing::warn!(cache = self.level2.names.name(), %error, "a value is not cached");
                None
            }
        }
    }

    /// "There is none" as it is stored.
    pub(super) fn absent(&self, cost: Duration, stamp: u64) -> Fill {
        Fill {
            kind: Kind::Absent,
            codec: 0,
            bytes: Vec::new(),
            fresh_for: self.vary(self.settings.missing_for),
            stale_for: Duration::ZERO,
            cost,
            stamp,
        }
    }

    async fn give_back(&self, subject: &Subject, token: u64, fresh_again: Option<Duration>) {
        // Not given back, the lease ends by itself.
        if let Err(error) = self.level2.release(subject.entry(), token, fresh_again).await {
            tracing::debug!(%error, "a lease could not be given back");
        }
    }

    /// Varies a lifetime, so that what was stored together does not end together.
    pub(super) fn vary(&self, time: Duration) -> Duration {
        let part = self.settings.jitter;
        if part == 0.0 {
            return time;
        }
        let factor = 1.0 - part + 2.0 * part * rand::random::<f64>();
        time.mul_f64(factor).max(Duration::from_millis(1))
    }

    /// An entry that was just stored.
    pub(super) fn entry(
        &self,
        value: Option<Arc<V>>,
        stored: &Stored,
        fill: &Fill,
        subject: &Subject,
    ) -> Entry<V> {
        self.known(subject.entry(), value.is_some());
        let now = self.clock.now();
        let server = self.level2.link.server_millis_at(now);
        Entry {
            value,
            version: stored.version,
            fresh_until: moment(stored.fresh_until, now, server),
            stale_until: moment(stored.stale_until, now, server),
            written: now,
            cost: fill.cost,
            bytes: u32::try_from(fill.bytes.len()).unwrap_or(u32::MAX),
            invalidated: false,
            tags: subject.tags.clone(),
        }
    }

    /// A copy for the first level, which keeps it for a shorter time.
    pub(super) fn for_level1(&self, entry: &Entry<V>) -> Entry<V> {
        let limit = self.clock.now() + self.settings.level1_for;
        Entry { fresh_until: entry.fresh_until.min(limit), ..entry.clone() }
    }
}

impl<V> Entry<V> {
    /// A value that is not in Redis.
    pub(super) fn uncached(value: Option<Arc<V>>, now: Moment, tags: &Tags) -> Self {
        Entry {
            value,
            version: 0,
            fresh_until: now,
            stale_until: now,
            written: now,
            cost: Duration::ZERO,
            bytes: 0,
            invalidated: false,
            tags: tags.clone(),
        }
    }
}

/// A time of the server's clock as a moment of ours.
pub(super) fn moment(server_millis: u64, now: Moment, server_now: i64) -> Moment {
    let ahead = i64::try_from(server_millis).unwrap_or(i64::MAX).saturating_sub(server_now);
    let nanos = ahead.unsigned_abs().saturating_mul(1_000_000);
    Moment::from_nanos(if ahead >= 0 {
        now.as_nanos().saturating_add(nanos)
    } else {
        now.as_nanos().saturating_sub(nanos)
    })
}

/// A token that nobody else has; never 0, which means "no lease".
pub(super) fn new_token() -> u64 {
    rand::random::<u64>() | 1
}

pub(super) fn not_modified() -> CacheError {
    let text = "the loader said NotModified, but there is nothing that it could mean";
    CacheError::Load(Arc::new(std::io::Error::other(text)))
}
