//! Loads in progress: in one process at most one for a key, and who may share its result.
//!
//! Sharing is where caches go wrong: a reader that begins after an invalidation returned must not be
//! given what was read from the source before it. So readers and the decisive steps of a load draw
//! numbers from one counter, and a result *covers* only those readers whose number is smaller than
//! that of its decisive step. For a stored value that step is the fill: the server refused it if
//! anything had been invalidated since the lease, so whoever began before the fill was sent may have
//! it. For a value that could not be stored it is the start of the load. Whoever is not covered reads
//! again.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tokio::sync::watch;

use super::read_types::{CacheError, Entry};

type ByKey<V> = HashMap<Box<[u8]>, Arc<Flight<V>>>;

/// The loads of one cache in this process.
pub(super) struct Flights<V> {
    flights: Mutex<ByKey<V>>,
    order: AtomicU64,
}

/// One load.
pub(super) struct Flight<V> {
    landing: watch::Sender<Option<Landing<V>>>,
    /// Whether this process holds the lease.
    loading: AtomicBool,
}

/// How a load ended.
pub(super) struct Landing<V> {
    /// Readers with a smaller number may have the result.
    pub(super) covers: u64,
    pub(super) result: Result<Entry<V>, Fault>,
}

/// Why a load has no result.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// For all who wait.
    Error(CacheError),
    /// Redis failed: each reader sees for itself what to do without it.
    Outage,
    /// What was to be refreshed has changed: look again.
    Changed,
}

impl<V> Clone for Landing<V> {
    fn clone(&self) -> Self {
        Landing { covers: self.covers, result: self.result.clone() }
    }
}

impl<V> Default for Flights<V> {
    fn default() -> Self {
        Flights { flights: Mutex::default(), order: AtomicU64::new(0) }
    }
}

impl<V> Flights<V> {
    /// The next number.
    pub(super) fn next(&self) -> u64 {
        self.order.fetch_add(1, Ordering::SeqCst)
    }

    /// The load of this key; the boarding card says that the caller has to make it happen.
    pub(super) fn join(self: &Arc<Self>, key: &[u8]) -> (Arc<Flight<V>>, Option<Pilot<V>>) {
        let mut flights = self.lock();
        if let Some(flight) = flights.get(key) {
            return (Arc::clone(flight), None);
        }
        let flight =
            Arc::new(Flight { landing: watch::Sender::new(None), loading: AtomicBool::new(false) });
        flights.insert(key.into(), Arc::clone(&flight));
        let pilot =
            Pilot { flights: Arc::clone(self), key: key.into(), flight: Arc::clone(&flight) };
        (flight, Some(pilot))
    }

    /// Whether this key is being loaded.
    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.lock().contains_key(key)
    }

    fn lock(&self) -> MutexGuard<'_, ByKey<V>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V> Flight<V> {
    /// Waits for the end.
    pub(super) async fn landed(&self) -> Landing<V> {
        let mut landing = self.landing.subscribe();
        let landed = landing.wait_for(Option::is_some).await;
        // The sender is in `self`, and `wait_for` saw a landing.
        landed
            .ok()
            .and_then(|landing| landing.clone())
            .unwrap_or(Landing { covers: 0, result: Err(Fault::Changed) })
    }

    /// Whether this process holds the lease.
    pub(super) fn is_loading(&self) -> bool {
        self.loading.load(Ordering::Relaxed)
    }
}

/// Who makes a load happen. Dropped without a landing (a panic in the loader), it tells those who
/// wait to look again.
pub(super) struct Pilot<V> {
    flights: Arc<Flights<V>>,
    key: Box<[u8]>,
    flight: Arc<Flight<V>>,
}

impl<V> Pilot<V> {
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(super) fn set_loading(&self) {
        self.flight.loading.store(true, Ordering::Relaxed);
    }

    /// Ends the load.
    pub(super) fn land(self, covers: u64, result: Result<Entry<V>, Fault>) {
        self.end(Landing { covers, result });
    }

    fn end(&self, landing: Landing<V>) {
        let mut flights = self.flights.lock();
        if flights.get(&self.key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
            flights.remove(&self.key);
        }
        drop(flights);
        self.flight.landing.send_if_modified(|landed| {
            let first = landed.is_none();
            if first {
                *landed = Some(landing);
            }
            first
        });
    }
}

impl<V> Drop for Pilot<V> {
    fn drop(&mut self) {
        self.end(Landing { covers: 0, result: Err(Fault::Changed) });
    }
}
