//! Decides who loads an entry and who waits for it.
//!
//! A reader that found nothing joins the load of its entry, or leads it. The leader's load runs in a
//! task of its own, which owns the coordinator: a caller that goes away does not take down those who
//! wait with it. The task asks for the lease, calls the loader through the pipeline while the lease is
//! renewed (`lease.rs`), hands the result to the [`Publisher`] and lands it.
//!
//! ```text
//! load ─ join ─┬─ another one leads ─────────────────────────────► wait
//!              └─ lead: spawn fly ─ lease ─┬─ granted ─ load ─ publish ─ land
//!                                          ├─ value after all ───────── land
//!                                          └─ busy: sleep, ask again
//! ```
//!
//! | File | Idea |
//! | --- | --- |
//! | `coordinator.rs` | loads through Redis: join or lead, lease, load, publish, wait |
//! | `past.rs` | loads past Redis: an outage, a queued invalidation, an entry that is not for us |
//! | `batch.rs` | both for many keys with one call of the loader |
//! | `refresh.rs` | background loads |
//!
//! A coordinator knows nothing of readers. What it is asked and what it answers is data
//! ([`ReadRequest`], [`Waited`]); whether an answer is new enough is the reader's decision.

use std::{borrow::Cow, sync::Arc, time::Duration};

use seawall_client::{Handle, error::Error};
use seawall_resilience::clock::{Clock, Moment};
use tracing::Instrument as _;

use super::{
    lease::{Asked, Holding, LeaseKeeper},
    loader::{LoaderRunner, LoaderSlot, not_modified},
    single_flight::{Fault, Flight, Landing, Leader, SingleFlight},
};
use crate::{
    CacheError, CacheValue, Freshness, WhenBusy,
    life::Alive,
    metrics::Metrics,
    recovery::queue::RecoveryQueue,
    settings::Settings,
    store::{
        decoder::Decoder,
        encoder::Encoder,
        entry::{Entry, Stale},
        keys::EntryKey,
        parted::{Whole, is_in_parts},
        publisher::{Grant, Published, Publisher},
    },
    tier::{local::LocalTier, remote_tags::Stamp},
};

/// How often a load asks for a lease that another one holds, before it gives up.
const MAX_ASKS: u32 = 1000;
/// How long a load sleeps at most before it asks again, in case the wake-up was lost.
const LONGEST_NAP: Duration = Duration::from_millis(500);

/// The loads of one cache in this process.
pub(crate) struct LoadCoordinator<V> {
    pub(super) handle: Handle,
    pub(super) clock: Clock,
    pub(super) settings: Arc<Settings>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) publisher: Arc<Publisher<V>>,
    pub(super) encoder: Arc<Encoder<V>>,
    pub(super) decoder: Decoder<V>,
    /// Where loads past Redis look for what an earlier one left.
    pub(super) local: Option<Arc<LocalTier<V>>>,
    pub(super) recovery: Arc<RecoveryQueue>,
    pub(super) leases: LeaseKeeper,
    pub(crate) runner: LoaderRunner,
    /// Loads through Redis.
    pub(super) flights: Arc<SingleFlight<V>>,
    /// Loads that answer without Redis, and those through it that may do so too.
    pub(super) past: Arc<SingleFlight<V>>,
    /// Background work on an entry: refreshes, slides, copies.
    pub(super) refreshes: Arc<SingleFlight<V>>,
    /// Ends the tasks of the cache with its last handle and its last load.
    _alive: Alive,
}

/// A read below the local tier.
pub(crate) struct ReadRequest<V> {
    pub(crate) entry_key: EntryKey,
    pub(crate) freshness: Freshness,
    /// A copy past its lifetime that may stand in.
    pub(crate) older: Option<Entry<V>>,
    pub(crate) loader: Option<LoaderSlot<V>>,
    pub(crate) deadline: Moment,
}

/// What to load.
pub(crate) struct Sought<V> {
    pub(crate) stamp: Stamp,
    /// The version of a fresh entry that is to be replaced all the same.
    pub(crate) replaces: Option<u64>,
    /// What the loader may find to be still right.
    pub(crate) stale: Option<Stale<V>>,
}

/// Outcome of waiting for a load.
pub(crate) enum Waited<V> {
    Landed(Landing<V>),
    /// The load took too long; this older value stands in.
    Instead(Entry<V>),
    /// The load took too long, and the settings say not to wait.
    Busy,
    /// The reader is to load by itself, past the cache.
    Alone(LoaderSlot<V>),
    /// The read reached its deadline.
    TooLong,
}

/// What a load is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Readers wait for it. With a version: even a fresh entry of that version is to be replaced.
    Answer(Option<u64>),
    /// No reader waits. An entry of this version is to be replaced, unless another load is at it.
    Refresh(u64),
}

impl Purpose {
    /// Returns the version to replace.
    fn replaces(self) -> Option<u64> {
        match self {
            Purpose::Answer(version) => version,
            Purpose::Refresh(version) => Some(version),
        }
    }
}

/// A load to run.
pub(super) struct Order<V> {
    pub(super) entry_key: EntryKey,
    pub(super) stamp: Stamp,
    pub(super) purpose: Purpose,
    pub(super) stale: Option<Stale<V>>,
    pub(super) loader: LoaderSlot<V>,
}

/// A load that holds its lease, and those who wait for it.
struct Leased<V> {
    leader: Leader<V>,
    /// Those who read past the cache wait, too: Redis may go away while this runs.
    past: Option<Leader<V>>,
    /// The number of the load's start.
    started: u64,
    /// Renews the lease until this is dropped.
    _held: Holding,
}

impl<V: Send + Sync + 'static> Leased<V> {
    /// Lands a value that was not stored, or not known to be: for readers that began before the load.
    fn land_unstored(self, entry: Entry<V>) {
        if let Some(past) = self.past {
            past.land_unstored(entry.clone());
        }
        self.leader.land(self.started, Ok(entry));
    }

    /// Lands an entry that Redis took under the lease: for readers that began before it was sent.
    fn land_stored(self, covers: u64, entry: Entry<V>) {
        if let Some(past) = self.past {
            // Unlike the others these may know of an invalidation that Redis does not know of.
            past.land(self.started, Ok(entry.clone()));
        }
        self.leader.land_stored(self.started, covers, entry);
    }

    fn fail(self, error: CacheError) {
        if let Some(past) = self.past {
            past.land(u64::MAX, Err(Fault::Error(error.clone())));
        }
        self.leader.land(u64::MAX, Err(Fault::Error(error)));
    }
}

impl<V> LoadCoordinator<V> {
    pub(crate) fn new(
        handle: Handle,
        publisher: Arc<Publisher<V>>,
        decoder: Decoder<V>,
        alive: Alive,
    ) -> Arc<Self> {
        let (clock, settings) = (handle.clock().clone(), Arc::clone(&publisher.settings));
        let metrics = Arc::clone(&publisher.metrics);
        let network_clock = handle.client().network_clock();
        let flights = Arc::new(SingleFlight::new(network_clock.clone()));
        Arc::new(LoadCoordinator {
            leases: LeaseKeeper::new(handle.clone(), Arc::clone(&publisher.remote)),
            runner: LoaderRunner {
                handle: handle.clone(),
                clock: clock.clone(),
                settings: Arc::clone(&settings),
                metrics: Arc::clone(&metrics),
            },
            encoder: Arc::clone(&publisher.encoder),
            local: publisher.local.clone(),
            recovery: Arc::clone(&publisher.recovery),
            past: Arc::new(flights.beside()),
            flights,
            refreshes: Arc::new(SingleFlight::new(network_clock.clone())),
            handle,
            clock,
            settings,
            metrics,
            publisher,
            decoder,
            _alive: alive,
        })
    }

    /// Draws the number of a read: loads with a larger one are new enough for it.
    pub(crate) fn number(&self) -> u64 {
        self.flights.next()
    }

    /// Returns whether this process loads the entry for readers.
    pub(crate) fn is_loading(&self, entry_key: &EntryKey, stamp: Option<Stamp>) -> bool {
        let entry = entry_key.entry();
        // Loads past Redis know no generations.
        self.past.has(entry)
            || self.flights.has(entry)
            || stamp.is_some_and(|stamp| self.flights.has(&flight_key(entry_key, stamp)))
    }

    /// Returns whether this process refreshes the entry in the background.
    pub(crate) fn is_refreshing(&self, entry: &[u8]) -> bool {
        self.refreshes.has(entry)
    }
}

impl<V: CacheValue> LoadCoordinator<V> {
    /// Joins the load of an entry or leads it, and waits for it as the settings say.
    pub(crate) async fn load(
        self: &Arc<Self>,
        request: &ReadRequest<V>,
        sought: Sought<V>,
        loader: &LoaderSlot<V>,
    ) -> Waited<V> {
        let Sought { stamp, replaces, stale } = sought;
        let (flight, leader) = self.flights.join(&flight_key(&request.entry_key, stamp));
        let leads = leader.is_some();
        if let Some(leader) = leader {
            let (entry_key, loader) = (request.entry_key.clone(), loader.clone());
            let purpose = Purpose::Answer(replaces);
            let order = Order { entry_key, stamp, purpose, stale, loader };
            self.handle.spawn(Arc::clone(self).fly(leader, order).in_current_span());
        }
        self.wait(&flight, leads, request, loader).await
    }

    async fn wait(
        &self,
        flight: &Flight<V>,
        leads: bool,
        request: &ReadRequest<V>,
        loader: &LoaderSlot<V>,
    ) -> Waited<V> {
        let ReadRequest { older, deadline, .. } = request;
        let patient = older.is_none() && self.settings.when_busy == WhenBusy::Wait;
        if !patient {
            let budget = self.settings.wait_budget.min(deadline.since(self.clock.now()));
            if let Some(landing) = self.clock.timeout(budget, flight.landed()).await {
                return Waited::Landed(landing);
            }
            // A leader loads, or is about to, unless another process holds the lease.
            let loads_itself = loader.is_spent() || leads && !flight.is_elsewhere();
            match (older, self.settings.when_busy) {
                (Some(older), _) => return Waited::Instead(older.clone()),
                (None, WhenBusy::Refuse) if !loads_itself => return Waited::Busy,
                // Taken here, so that the load through Redis, which may be granted its lease at this
                // very moment, does not take it first: no task would be left to load.
                (None, WhenBusy::Load) if !loads_itself => {
                    if let Some(own) = loader.take() {
                        return Waited::Alone(LoaderSlot::new(own));
                    }
                }
                _ => {}
            }
        }
        let left = deadline.since(self.clock.now());
        match self.clock.timeout(left, flight.landed()).await {
            Some(landing) => Waited::Landed(landing),
            None => Waited::TooLong,
        }
    }

    /// Runs a load and lands it.
    pub(super) async fn fly(self: Arc<Self>, leader: Leader<V>, order: Order<V>) {
        let Order { entry_key, stamp, purpose, .. } = &order;
        let mut claim = self.leases.claim();
        let deadline = self.clock.now() + self.settings.read_timeout;
        let mut wake = None;
        for _ in 0..MAX_ASKS {
            let asked = self.flights.next();
            match self.leases.ask(entry_key, &mut claim, *stamp, purpose.replaces()).await {
                Ok(Asked::Granted(held)) => {
                    leader.set_elsewhere(false);
                    return self.load_and_publish(leader, order, held).await;
                }
                Ok(Asked::Value(raw)) => {
                    let found = self.found(entry_key, *stamp, raw).await;
                    return leader.land_found(asked, found.ok_or(Fault::Changed));
                }
                Ok(Asked::Changed) => return leader.land(asked, Err(Fault::Changed)),
                Ok(Asked::Newer) => return leader.land(asked, Err(Fault::Outage)),
                Ok(Asked::Busy(_)) if matches!(purpose, Purpose::Refresh(_)) => return,
                Ok(Asked::Busy(left)) => {
                    leader.set_elsewhere(true);
                    let now = self.clock.now();
                    if now >= deadline {
                        let error = CacheError::ReadTimeout(self.settings.read_timeout);
                        return leader.land(asked, Err(Fault::Error(error)));
                    }
                    let Some(subscription) = &mut wake else {
                        // Subscribe, then ask again: the value may have come in between.
                        wake = Some(self.leases.wake_ups(entry_key));
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

    /// Decodes an entry that was there when a lease was asked for. On `None` readers look again, and
    /// find out what is to be replaced.
    async fn found(&self, entry_key: &EntryKey, stamp: Stamp, raw: Vec<u8>) -> Option<Entry<V>> {
        let whole = if is_in_parts(&raw) {
            match self.decoder.gather(entry_key, raw.into()).await {
                Ok(Whole::Entry(raw)) => raw?,
                Ok(Whole::Lost(_)) | Err(_) => return None,
            }
        } else {
            raw.into()
        };
        let entry = self.decoder.decode(&whole, stamp, entry_key, self.clock.now())?;
        self.publisher.remote.spares(&entry, stamp).await.unwrap_or_default().then_some(entry)
    }

    /// Loads under a lease, publishes the result and lands it.
    async fn load_and_publish(self: Arc<Self>, leader: Leader<V>, order: Order<V>, held: Holding) {
        let Order { entry_key, stamp, stale, loader, .. } = order;
        let token = held.token;
        let Some(loader) = loader.take() else {
            // It ran already, for its reader alone; the others that wait have loaders of their own.
            self.publisher.release(&entry_key, token).await;
            return leader.land(0, Err(Fault::Changed));
        };
        let (_, past) = self.past.join(entry_key.entry());
        let ticket = self.publisher.ticket(&entry_key);
        let started = past.as_ref().map_or_else(|| self.flights.next(), Leader::start);
        let leased = Leased { leader, past, started, _held: held };
        let grant = Grant { entry_key, token, ticket };
        let shown = stale.as_ref().and_then(|stale| stale.entry.value.clone());
        let load_result = match self.runner.call(loader, shown).await {
            Ok(load_result) => load_result,
            Err(error) => {
                self.publisher.release(&grant.entry_key, token).await;
                return leased.fail(error);
            }
        };
        let prepared = self.encoder.prepare(load_result, stale, stamp);
        let stored_from = self.flights.next();
        match self.publisher.publish(&grant, prepared).await {
            Published::Stored(entry) => leased.land_stored(stored_from, entry),
            Published::Unstored(entry, leftover) => {
                // Those who wait are told first.
                leased.land_unstored(entry);
                if let Some(leftover) = leftover {
                    self.publisher.clean_up(leftover).await;
                }
            }
            Published::Nothing => leased.fail(not_modified()),
        }
    }
}

/// Returns the key of a load. Readers share a load if they want the same entry and saw the same
/// generations: a load that began under an older generation must not answer readers that came after a
/// clear. Clears of tags that values carry do not part them: there may be many, most of them of other
/// tags (see [`Landing::suits`]).
fn flight_key(entry_key: &EntryKey, stamp: Stamp) -> Cow<'_, [u8]> {
    if entry_key.generations.is_empty() {
        return Cow::Borrowed(entry_key.entry());
    }
    Cow::Owned([entry_key.entry(), &stamp.generations.to_be_bytes()].concat())
}
