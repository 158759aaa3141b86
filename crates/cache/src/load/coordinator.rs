//! Loading: asking for the lease, calling the loader, storing what it found, waking who waits.
//!
//! A load runs in a task of its own, so that a caller who gives up does not take down those who wait
//! with it. It goes through the pipeline, and its lease is renewed while it runs (`leases`).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use seawall_client::{error::Error, retry::Doubt};

use crate::{
    CacheError, CacheKey, CacheValue, EntryKey, Inner,
    load::lease::Holding,
    load::single_flight::{Fault, Leader},
    store::entry::{Prepared, Stale},
    store::parted::{Whole, is_in_parts},
    tier::local::Ticket,
    tier::remote::{Fill, Lease, Stored},
    types::Entry,
};
pub(crate) use crate::{
    load::loader::{LoaderSlot, not_modified},
    store::entry::moment,
};

/// What a load is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Readers wait for it. With a version: even a fresh entry of that version is to be replaced.
    Answer(Option<u64>),
    /// Nobody waits: an entry of this version is to be replaced, unless somebody is at it.
    Refresh(u64),
}

impl Purpose {
    /// The version that is to be replaced.
    fn replaces(self) -> Option<u64> {
        match self {
            Purpose::Answer(version) => version,
            Purpose::Refresh(version) => Some(version),
        }
    }
}

/// A load that is to happen.
pub(crate) struct Order<V> {
    pub(crate) entry_key: EntryKey,
    pub(crate) stamp: u64,
    pub(crate) purpose: Purpose,
    /// What the loader may find to be still right.
    pub(crate) stale: Option<Stale<V>>,
    pub(crate) loader: LoaderSlot<V>,
}

/// A load that holds its lease, and those who wait for it.
struct Leased<V> {
    leader: Leader<V>,
    /// Those who read past the cache wait, too: Redis may go away while this runs.
    past: Option<Leader<V>>,
    entry_key: EntryKey,
    token: u64,
    ticket: Option<Ticket>,
    /// When the source began to be read.
    started: u64,
    /// The lease is renewed until this ends.
    _held: Holding,
}

impl<V: Send + Sync + 'static> Leased<V> {
    /// Ends with what was not stored, or not known to be: for those who began before the load did.
    fn land_unstored(self, entry: Entry<V>) {
        if let Some(past) = self.past {
            past.land_unstored(entry.clone());
        }
        self.leader.land(self.started, Ok(entry));
    }

    /// Ends with an entry that the server took under the lease: for those who began before it was sent.
    fn land_stored(self, covers: u64, entry: Entry<V>) {
        if let Some(past) = self.past {
            // Unlike the others these may know of an invalidation that the server does not know of.
            past.land(self.started, Ok(entry.clone()));
        }
        self.leader.land(covers, Ok(entry));
    }

    fn fail(self, error: CacheError) {
        if let Some(past) = self.past {
            past.land(u64::MAX, Err(Fault::Error(error.clone())));
        }
        self.leader.land(u64::MAX, Err(Fault::Error(error)));
    }
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
pub(crate) struct Claim {
    pub(crate) token: u64,
    /// When the token was last sent: a lease under it cannot have begun before.
    pub(crate) asked: tokio::time::Instant,
    former: Vec<u64>,
}

impl Default for Claim {
    fn default() -> Self {
        Claim::sent(new_token(), tokio::time::Instant::now())
    }
}

impl Claim {
    /// A claim whose token was sent at this time.
    pub(crate) fn sent(token: u64, asked: tokio::time::Instant) -> Self {
        Claim { token, asked, former: Vec::new() }
    }

    /// The request may still be under way: its token is not to be used again, see `lease.lua`.
    pub(crate) fn renew(&mut self) {
        if self.former.len() == MAX_FORMER {
            self.former.remove(0);
        }
        self.former.push(std::mem::replace(&mut self.token, new_token()));
    }
}

impl<K: CacheKey, V: CacheValue> Inner<K, V> {
    /// Makes a load happen and lands it.
    pub(crate) async fn fly(self: Arc<Self>, leader: Leader<V>, order: Order<V>) {
        let Order { entry_key, stamp, purpose, .. } = &order;
        let mut claim = Claim::default();
        let deadline = self.clock.now() + self.settings.read_timeout;
        let mut wake = None;
        for _ in 0..MAX_ASKS {
            let asked = self.flights.next();
            match self.ask(entry_key, &mut claim, *stamp, purpose.replaces()).await {
                Ok(Lease::Granted) => {
                    leader.set_elsewhere(false);
                    return self.load_and_store(leader, order, claim).await;
                }
                Ok(Lease::Value(raw)) => {
                    let found = self.found(entry_key, *stamp, raw).await;
                    return leader.land_found(asked, found.ok_or(Fault::Changed));
                }
                Ok(Lease::Changed) => return leader.land(asked, Err(Fault::Changed)),
                Ok(Lease::Newer) => return leader.land(asked, Err(Fault::Outage)),
                Ok(Lease::Busy(_)) if matches!(purpose, Purpose::Refresh(_)) => return,
                Ok(Lease::Busy(left)) => {
                    leader.set_elsewhere(true);
                    let now = self.clock.now();
                    if now >= deadline {
                        let error = CacheError::ReadTimeout(self.settings.read_timeout);
                        return leader.land(asked, Err(Fault::Error(error)));
                    }
                    let Some(subscription) = &mut wake else {
                        // Subscribe, then ask again: the value may have come in between.
                        wake = Some(
                            self.remote
                                .client
                                .pubsub()
                                .join(&self.remote.names.wake(entry_key.entry())),
                        );
                        continue;
                    };
                    self.metrics.waits.increment(1);
                    let nap = left.min(LONGEST_NAP).min(deadline.since(now));
                    // A wake-up, a new connection or the nap's end: all of them mean "ask again".
                    let woken = self.clock.timeout(nap, subscription.next()).await;
                    if woken == Some(None) {
                        return leader
                            .land(u64::MAX, Err(Fault::Error(CacheError::Redis(Error::Closed))));
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "no lease");
                    return leader.land(asked, Err(Fault::Outage));
                }
            }
        }
        leader.land(0, Err(Fault::Changed));
    }

    /// An entry that was there when a lease was asked for. Without one readers look again, and find
    /// out what is to be replaced.
    async fn found(&self, entry_key: &EntryKey, stamp: u64, raw: Vec<u8>) -> Option<Entry<V>> {
        let whole = if is_in_parts(&raw) {
            match self.gather(entry_key, raw.into()).await {
                Ok(Whole::Entry(raw)) => raw?,
                Ok(Whole::Lost(_)) | Err(_) => return None,
            }
        } else {
            raw.into()
        };
        self.decode(&whole, stamp, entry_key, self.clock.now())
    }

    /// Asks for the lease; where a reply was lost, again. Not when the server merely does not answer:
    /// whoever waits here has waited for a whole time-out, and has something better to do.
    pub(crate) async fn ask(
        &self,
        entry_key: &EntryKey,
        claim: &mut Claim,
        stamp: u64,
        replaces: Option<u64>,
    ) -> Result<Lease, Error> {
        let (mut resends, mut doubt) = (0, Doubt::default());
        loop {
            let sent = Instant::now();
            claim.asked = sent.into();
            let Claim { token, former, .. } = &*claim;
            match self.remote.lease(entry_key.entry(), *token, former, stamp, replaces).await {
                Err(error) if error.is_indeterminate() => {
                    claim.renew();
                    if resends == MAX_RESENDS || self.hangs(sent) {
                        return Err(error);
                    }
                    doubt.note(&error);
                    resends += 1;
                }
                reply => return reply.map_err(|error| doubt.report(error)),
            }
        }
    }

    /// Whether a reply that did not come was waited for until its time-out: the server hangs, where a
    /// cut connection is noticed at once. Time-outs of the network are real time.
    fn hangs(&self, sent: Instant) -> bool {
        sent.elapsed() >= self.remote.client.response_timeout() / 2
    }

    async fn load_and_store(self: Arc<Self>, leader: Leader<V>, order: Order<V>, claim: Claim) {
        let Order { entry_key, stamp, stale, loader, .. } = order;
        let token = claim.token;
        let Some(loader) = loader.take() else {
            // It ran already, for its reader alone; whoever waits here has one of its own.
            self.give_back(&entry_key, token).await;
            return leader.land(0, Err(Fault::Changed));
        };
        let (_, past) = self.past.join(entry_key.entry());
        let ticket = self.ticket(&entry_key);
        let started = past.as_ref().map_or_else(|| self.flights.next(), Leader::start);
        let held = self.hold(&entry_key, &claim);
        let leased = Leased { leader, past, entry_key, token, ticket, started, _held: held };
        let shown = stale.as_ref().and_then(|stale| stale.entry.value.clone());
        let load_result = match self.call(loader, shown).await {
            Ok(load_result) => load_result,
            Err(error) => {
                self.give_back(&leased.entry_key, token).await;
                return leased.fail(error);
            }
        };
        let value = match self.prepare(load_result, stale, stamp) {
            Prepared::Store(fill, value) => return self.cut_and_store(leased, fill, value).await,
            Prepared::Prolong(entry) => return self.prolong(leased, entry).await,
            Prepared::Pass(value) => value,
            Prepared::NotModified => {
                self.give_back(&leased.entry_key, token).await;
                return leased.fail(not_modified());
            }
        };
        self.give_back(&leased.entry_key, token).await;
        let entry = Entry::uncached(value, self.clock.now(), &leased.entry_key.tags);
        leased.land_unstored(entry);
    }

    async fn cut_and_store(&self, leased: Leased<V>, fill: Fill, value: Option<Arc<V>>) {
        let Leased { entry_key, token, ticket, .. } = &leased;
        let uncached = Entry::uncached(value.clone(), self.clock.now(), &entry_key.tags);
        let stored_from = self.flights.next();
        // Redis does not know of an invalidation that waits here and would take an older value. A
        // reader who began after that one has a larger number, unless it waits by now.
        if self.recovery.concerns(entry_key.entry()) {
            self.give_back(entry_key, *token).await;
            return leased.land_unstored(uncached);
        }
        let fill = match self.cut(entry_key.entry(), fill).await {
            Ok(fill) => fill,
            Err(error) => {
                tracing::debug!(%error, "a load could not be stored in parts");
                self.keep_past(entry_key, &uncached, *ticket);
                self.give_back(entry_key, *token).await;
                return leased.land_unstored(uncached);
            }
        };
        match self.store(entry_key, *token, &fill).await {
            Ok(Some(stored)) => {
                self.metrics.stored_bytes.increment(fill.size_bytes() as u64);
                let entry = self.entry(value, &stored, &fill, entry_key);
                self.keep(entry_key, &entry, *ticket);
                leased.land_stored(stored_from, entry);
            }
            Ok(None) => {
                self.metrics.refused_fills.increment(1);
                let entry_key = entry_key.clone();
                leased.land_unstored(uncached);
                self.discard(entry_key.entry(), &fill).await;
            }
            // Stored or not, nobody knows: good for those who came before the load, and for a moment
            // for those who would do with a copy.
            Err(error) => {
                tracing::debug!(%error, "a load could not be stored");
                self.keep_past(entry_key, &uncached, *ticket);
                let (entry_key, token) = (entry_key.clone(), *token);
                leased.land_unstored(uncached);
                self.give_back(&entry_key, token).await;
                self.discard(entry_key.entry(), &fill).await;
            }
        }
    }

    /// The source says that the entry in Redis is still right.
    async fn prolong(&self, leased: Leased<V>, entry: Entry<V>) {
        let Leased { entry_key, token, ticket, .. } = &leased;
        let ttl = self.vary(self.settings.ttl);
        let stored_from = self.flights.next();
        let waits = self.recovery.concerns(entry_key.entry());
        let prolonged = if waits {
            self.give_back(entry_key, *token).await;
            None
        } else {
            if self.may_be_in_parts(entry.bytes) {
                self.prolong_parts(entry_key.entry(), ttl).await;
            }
            let reply = self.remote.prolong(entry_key.entry(), *token, entry.version, ttl);
            reply.await.unwrap_or_else(|error| {
                tracing::debug!(%error, "an entry could not be prolonged");
                None
            })
        };
        match prolonged {
            Some(stored) => {
                let entry = self.prolonged(entry, &stored, entry_key);
                self.keep(entry_key, &entry, *ticket);
                leased.land_stored(stored_from, entry);
            }
            // Gone meanwhile, or nobody knows: right for those who came before.
            None => {
                let uncached = Entry::uncached(entry.value, self.clock.now(), &entry_key.tags);
                leased.land_unstored(uncached);
            }
        }
    }

    /// Stores under the lease; where the reply was lost, again. If the first one was carried out the
    /// lease is gone and the second is refused: good for those who came before the load.
    async fn store(
        &self,
        entry_key: &EntryKey,
        token: u64,
        fill: &Fill,
    ) -> Result<Option<Stored>, Error> {
        let (mut resends, mut doubt) = (0, Doubt::default());
        loop {
            let sent = Instant::now();
            match self.remote.fill(entry_key.entry(), token, fill).await {
                Err(error)
                    if error.is_indeterminate() && resends < MAX_RESENDS && !self.hangs(sent) =>
                {
                    doubt.note(&error);
                    resends += 1;
                }
                reply => return reply.map_err(|error| doubt.report(error)),
            }
        }
    }

    /// Renews a lease until the holding is dropped.
    pub(crate) fn hold(&self, entry_key: &EntryKey, claim: &Claim) -> Holding {
        let lease = (claim.token, claim.asked);
        self.leases.hold(&self.handle, &self.remote, entry_key.entry(), lease)
    }

    pub(crate) async fn give_back(&self, entry_key: &EntryKey, token: u64) {
        // Not given back, the lease ends by itself.
        if let Err(error) = self.remote.release(entry_key.entry(), token).await {
            tracing::debug!(%error, "a lease could not be given back");
        }
    }
}

/// A token that nobody else has; never 0, which means "no lease".
pub(crate) fn new_token() -> u64 {
    rand::random::<u64>() | 1
}
