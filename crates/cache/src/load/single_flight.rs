//! Runs at most one load per key in this process, and decides which readers may share its result.
//!
//! Sharing is where caches go wrong: a reader that begins after an invalidation returned must not be
//! given what was read from the source before it. So readers and the decisive steps of a load draw
//! numbers from one counter, and a result *covers* only those readers whose number is smaller than that
//! of its decisive step. For a stored value that step is the fill: the server refused it if anything
//! had been invalidated since the lease, so a reader that began before the fill was sent may have it.
//! For a value that could not be stored it is the start of the load. A reader that is not covered reads
//! again, with the number of its first look: the next load begins after that, so the reader is covered
//! then.
//!
//! Loads through Redis and reads past it are kept apart (`flights` and `past` of the
//! coordinator), because only the first ones were checked by the server. They draw from the same
//! counter.
//!
//! Past the cache a reader whom the running load cannot cover does not wait for its end to begin
//! another: it boards the *next* one, which all such readers share and which begins when the running
//! one has landed. A reader that finds out only after a load has landed that Redis is away may have
//! begun before that load, which then is right for it. So the last loads are remembered for a moment.
//! However many readers there are and however late they come, one load runs.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use seawall_resilience::clock::{Clock, Moment};
use tokio::sync::SetOnce;

use crate::{CacheError, store::entry::Entry};

type ByKey<V> = HashMap<Box<[u8]>, Runway<V>>;

/// The loads of one cache in this process.
pub(crate) struct SingleFlight<V> {
    flights: Mutex<ByKey<V>>,
    order: Arc<AtomicU64>,
    landed: Mutex<Landed<V>>,
    /// Measures how long results are remembered.
    clock: Clock,
}

/// What landed lately without being stored.
struct Landed<V> {
    /// Oldest first.
    loads: VecDeque<Remembered<V>>,
    /// Whether a task lets go of them in time.
    is_tended: bool,
}

impl<V> Default for Landed<V> {
    fn default() -> Self {
        Landed { loads: VecDeque::new(), is_tended: false }
    }
}

impl<V> Landed<V> {
    fn forget_old(&mut self, now: Moment) {
        while self.loads.front().is_some_and(|first| now.since(first.at) > REMEMBERED_FOR) {
            self.loads.pop_front();
        }
    }
}

/// A load that landed.
struct Remembered<V> {
    key: Box<[u8]>,
    flight: Arc<Flight<V>>,
    /// By the clock of the network: it is about who waits for it.
    at: Moment,
}

/// How many loads are remembered, and for how long: readers who began before them are on their way
/// for no longer than Redis' time-outs.
const MAX_REMEMBERED: usize = 128;
const REMEMBERED_FOR: Duration = Duration::from_secs(3);

/// Outcome of [`SingleFlight::board`].
pub(crate) enum Joined<V, T> {
    /// No load was needed.
    Known(T),
    /// A load. With a [`Leader`] the caller must run it.
    Flight(Arc<Flight<V>>, Option<Leader<V>>),
}

/// The loads of one key.
struct Runway<V> {
    current: Arc<Flight<V>>,
    /// Begins when the current one has landed.
    next: Option<Arc<Flight<V>>>,
}

/// One load.
pub(crate) struct Flight<V> {
    /// Wakes those who wait in the order in which they came.
    landing: SetOnce<Landing<V>>,
    /// Whether another process holds the lease.
    elsewhere: AtomicBool,
    /// The number of the load's start; 0 before it. Written under the lock of the flights.
    started: AtomicU64,
    /// Whether a reader waits for it that accepts no copy.
    strict: AtomicBool,
}

impl<V> Flight<V> {
    fn new() -> Arc<Self> {
        Arc::new(Flight {
            landing: SetOnce::new(),
            elsewhere: AtomicBool::new(false),
            started: AtomicU64::new(0),
            strict: AtomicBool::new(false),
        })
    }
}

/// How a load ended.
pub(crate) struct Landing<V> {
    /// Readers with a smaller number may have the result.
    pub(crate) covers: u64,
    /// The number of the load's start, or of the moment at which the entry was found.
    started: u64,
    /// Whether the source said so, and not an entry that was there already: the readers whom it
    /// covers take it, whatever its lifetime and version.
    pub(crate) loaded: bool,
    pub(crate) result: Result<Entry<V>, Fault>,
}

/// Why a load has no result.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// For all who wait.
    Error(CacheError),
    /// Redis failed, or its entry is not for us: each reader decides for itself what to do.
    Outage,
    /// What was to be refreshed has changed: look again.
    Changed,
}

impl<V> Landing<V> {
    fn new(covers: u64, loaded: bool, result: Result<Entry<V>, Fault>) -> Self {
        Landing { covers, started: covers, loaded, result }
    }

    /// Returns whether this is for a reader with this number, which saw no later clear of any tag than
    /// this one.
    ///
    /// A fill is refused when the entry was invalidated since the load began, and not when a tag was
    /// cleared that its value carries. So who came after the load began takes the result only if no tag
    /// at all was cleared in between; otherwise it looks again, and finds out which.
    pub(crate) fn suits(&self, began: u64, clears: u64) -> bool {
        let is_newer = |entry: &Entry<V>| entry.clears >= clears || self.started > began;
        self.covers > began && self.result.as_ref().map_or(true, is_newer)
    }
}

impl<V> Clone for Landing<V> {
    fn clone(&self) -> Self {
        Landing { result: self.result.clone(), ..*self }
    }
}

impl<V> SingleFlight<V> {
    /// Creates an empty set of loads. `clock` measures how long results are remembered.
    pub(crate) fn new(clock: Clock) -> Self {
        // Numbers begin at 1: 0 belongs to no load.
        SingleFlight {
            flights: Mutex::default(),
            order: Arc::new(AtomicU64::new(1)),
            landed: Mutex::default(),
            clock,
        }
    }

    /// Creates another set of loads that draws from the same counter.
    pub(crate) fn beside(&self) -> Self {
        SingleFlight { order: Arc::clone(&self.order), ..SingleFlight::new(self.clock.clone()) }
    }

    /// Draws the next number.
    pub(crate) fn next(&self) -> u64 {
        self.order.fetch_add(1, Ordering::SeqCst)
    }

    /// Joins the in-flight load for `key`. Returns `Some(Leader)` if the caller must run it.
    pub(crate) fn join(self: &Arc<Self>, key: &[u8]) -> (Arc<Flight<V>>, Option<Leader<V>>) {
        let mut flights = self.lock();
        match flights.get(key) {
            Some(runway) => (Arc::clone(&runway.current), None),
            None => self.depart(&mut flights, key),
        }
    }

    /// Joins a load that covers a reader with this number, unless none runs and the answer is `known`.
    /// A load that leaves its result where `known` looks for it, before it lands, is never repeated by
    /// a caller that came too late to join. A `strict` reader accepts nothing that is known.
    pub(crate) fn board<T>(
        self: &Arc<Self>,
        key: &[u8],
        began: u64,
        strict: bool,
        known: impl FnOnce() -> Option<T>,
    ) -> Joined<V, T> {
        let mut flights = self.lock();
        if let Some(landed) = self.remembered(key, began) {
            return Joined::Flight(landed, None);
        }
        let Some(runway) = flights.get_mut(key) else {
            if let Some(known) = known() {
                return Joined::Known(known);
            }
            let (flight, leader) = self.depart(&mut flights, key);
            flight.strict.store(strict, Ordering::Relaxed);
            return Joined::Flight(flight, leader);
        };
        let started = runway.current.started.load(Ordering::Relaxed);
        if started == 0 || started > began {
            runway.current.strict.fetch_or(strict, Ordering::Relaxed);
            return Joined::Flight(Arc::clone(&runway.current), None);
        }
        let leader = runway.next.is_none().then(|| Leader {
            flights: Arc::clone(self),
            key: key.into(),
            flight: Flight::new(),
            after: Some(Arc::clone(&runway.current)),
        });
        if let Some(leader) = &leader {
            runway.next = Some(Arc::clone(&leader.flight));
        }
        let next = runway.next.as_ref().map_or_else(Flight::new, Arc::clone);
        next.strict.fetch_or(strict, Ordering::Relaxed);
        Joined::Flight(next, leader)
    }

    /// Returns a load that landed lately and covers a reader with this number.
    fn remembered(&self, key: &[u8], began: u64) -> Option<Arc<Flight<V>>> {
        let mut landed = self.landed();
        landed.forget_old(self.clock.now());
        let covers = |last: &&Remembered<V>| {
            *last.key == *key && last.flight.started.load(Ordering::Relaxed) > began
        };
        landed.loads.iter().rev().find(covers).map(|last| Arc::clone(&last.flight))
    }

    fn landed(&self) -> MutexGuard<'_, Landed<V>> {
        self.landed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn depart(
        self: &Arc<Self>,
        flights: &mut ByKey<V>,
        key: &[u8],
    ) -> (Arc<Flight<V>>, Option<Leader<V>>) {
        let flight = Flight::new();
        let runway = Runway { current: Arc::clone(&flight), next: None };
        flights.insert(key.into(), runway);
        let (flights, key) = (Arc::clone(self), key.into());
        let leader = Leader { flights, key, flight: Arc::clone(&flight), after: None };
        (flight, Some(leader))
    }

    /// Returns whether this key is being loaded.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        self.lock().contains_key(key)
    }

    fn lock(&self) -> MutexGuard<'_, ByKey<V>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V: Send + Sync + 'static> SingleFlight<V> {
    fn remember(self: &Arc<Self>, key: &[u8], flight: &Arc<Flight<V>>) {
        let mut landed = self.landed();
        landed.loads.retain(|last| *last.key != *key);
        if landed.loads.len() == MAX_REMEMBERED {
            landed.loads.pop_front();
        }
        let (key, flight) = (key.into(), Arc::clone(flight));
        landed.loads.push_back(Remembered { key, flight, at: self.clock.now() });
        if let (false, Ok(runtime)) = (landed.is_tended, tokio::runtime::Handle::try_current()) {
            landed.is_tended = true;
            runtime.spawn(forget_in_time(Arc::downgrade(self), self.clock.clone()));
        }
    }
}

/// Drops remembered loads when their time is over, also when no reader asks any more.
async fn forget_in_time<V: Send + Sync + 'static>(flights: Weak<SingleFlight<V>>, clock: Clock) {
    loop {
        clock.sleep(REMEMBERED_FOR).await;
        let Some(flights) = flights.upgrade() else { return };
        let mut landed = flights.landed();
        landed.forget_old(flights.clock.now());
        if landed.loads.is_empty() {
            landed.is_tended = false;
            return;
        }
    }
}

impl<V> Flight<V> {
    /// Waits for the end.
    pub(crate) async fn landed(&self) -> Landing<V> {
        self.landing.wait().await.clone()
    }

    /// Returns whether another process holds the lease.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.elsewhere.load(Ordering::Relaxed)
    }
}

/// The right and duty to run a load. Dropped without a landing, it tells those who wait to look again.
pub(crate) struct Leader<V> {
    flights: Arc<SingleFlight<V>>,
    key: Box<[u8]>,
    flight: Arc<Flight<V>>,
    /// The load that has to land first.
    after: Option<Arc<Flight<V>>>,
}

impl<V> Leader<V> {
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Notes whether another process holds the lease.
    pub(crate) fn set_elsewhere(&self, elsewhere: bool) {
        self.flight.elsewhere.store(elsewhere, Ordering::Relaxed);
    }

    /// Returns whether another load has to land first.
    pub(crate) fn is_next(&self) -> bool {
        self.after.is_some()
    }

    /// Waits until the load before this one has landed.
    pub(crate) async fn cleared(&self) {
        if let Some(after) = &self.after {
            after.landed().await;
        }
    }

    /// Draws the number of the load's start. A reader with a larger one boards the next load.
    pub(crate) fn start(&self) -> u64 {
        let _flights = self.flights.lock();
        let started = self.flights.next();
        self.flight.started.store(started, Ordering::Relaxed);
        started
    }

    /// Returns the number of the load's start.
    pub(crate) fn started(&self) -> u64 {
        self.flight.started.load(Ordering::Relaxed)
    }

    /// Returns whether a reader waits that accepts no copy.
    pub(crate) fn is_strict(&self) -> bool {
        self.flight.strict.load(Ordering::Relaxed)
    }

    /// Ends the load.
    pub(crate) fn land(self, covers: u64, result: Result<Entry<V>, Fault>) {
        self.end(Landing::new(covers, true, result));
    }

    /// Ends a load that was stored, for readers with a smaller number than `covers`.
    pub(crate) fn land_stored(self, started: u64, covers: u64, entry: Entry<V>) {
        self.end(Landing { started, ..Landing::new(covers, true, Ok(entry)) });
    }

    /// Ends the load with an entry that was there after all.
    pub(crate) fn land_found(self, covers: u64, result: Result<Entry<V>, Fault>) {
        self.end(Landing::new(covers, false, result));
    }

    fn end(&self, landing: Landing<V>) {
        let mut flights = self.flights.lock();
        if let Some(runway) = flights.get_mut(&self.key) {
            if Arc::ptr_eq(&runway.current, &self.flight) {
                match runway.next.take() {
                    Some(next) => runway.current = next,
                    None => drop(flights.remove(&self.key)),
                }
            } else if runway.next.as_ref().is_some_and(|next| Arc::ptr_eq(next, &self.flight)) {
                runway.next = None;
            }
        }
        drop(flights);
        // A leader that has landed is dropped after that: the first one counts.
        let _ = self.flight.landing.set(landing);
    }
}

impl<V: Send + Sync + 'static> Leader<V> {
    /// Ends a load whose result is not in Redis, for readers that began before it did. Those of them
    /// that come later find it, too.
    pub(crate) fn land_unstored(self, entry: Entry<V>) {
        let covers = self.started();
        self.flights.remember(&self.key, &self.flight);
        self.land(covers, Ok(entry));
    }
}

impl<V> Drop for Leader<V> {
    fn drop(&mut self) {
        self.end(Landing::new(0, false, Err(Fault::Changed)));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// What was not stored is remembered for who is on the way, not for good.
    #[tokio::test]
    async fn what_was_not_stored_is_let_go() {
        let flights: Arc<SingleFlight<u64>> = Arc::new(SingleFlight::new(Clock::system()));
        let (_, leader) = flights.join(b"key");
        let leader = leader.expect("nobody else loads");
        let (value, began) = (Arc::new(7), flights.next());
        leader.start();
        leader.land_unstored(Entry::uncached(
            Some(Arc::clone(&value)),
            Clock::system().now(),
            None,
        ));
        assert!(flights.remembered(b"key", began).is_some(), "for who began before it");
        let deadline = Instant::now() + Duration::from_secs(60);
        while Arc::strong_count(&value) > 1 {
            assert!(Instant::now() < deadline, "it is kept for good");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
