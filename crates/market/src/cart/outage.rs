//! Tracks whether Redis answers, and which carts in Redis may be outdated.
//!
//! A breaker decides which calls reach Redis. While it is open, carts go to the database at once,
//! and a call probes Redis twice a second; the watching job probes if no request does. From the
//! first failure until a while after the last one, every cart is suspect: another process may have
//! changed it in the database, or a killed server may have come back without its last second of
//! writes. A suspect cart is brought up to date, once, before it is used.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use seawall::{
    clock::{Clock, Moment},
    guard::{Breaker, Outcome},
};

use crate::error::Result;

/// Maximum time a cart call waits for Redis. A call that arrives later has no effect.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// Pause before a probe, and its time limit, after which the next probe may start. One reply is
/// enough to switch back to Redis: switching back and forth loses nothing.
const PROBE_EVERY: Duration = Duration::from_millis(500);
const PROBE_LIMIT: Duration = Duration::from_secs(1);
/// Time that carts stay suspect after a failure. A cart that would be suspect for longer has been
/// brought up to date by the background job.
const SUSPECT_FOR: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(super) struct Outage {
    breaker: Breaker,
    clock: Clock,
    suspicion: Mutex<Option<Suspicion>>,
}

#[derive(Debug)]
struct Suspicion {
    /// Number of the failure.
    number: u64,
    until: Moment,
    /// Users whose carts are up to date again.
    fresh: HashSet<u64>,
}

/// A cart may be outdated since this failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stale(u64);

impl Outage {
    pub(super) fn new(clock: &Clock) -> Self {
        let breaker = Breaker::builder("cart").failure_threshold(1).max_probes(1);
        let breaker = breaker.probe_interval(PROBE_EVERY).probe_timeout(PROBE_LIMIT);
        let breaker = breaker.clock(clock.clone()).build().expect("the settings make sense");
        Outage { breaker, clock: clock.clone(), suspicion: Mutex::default() }
    }

    /// Calls Redis. Returns `None` if Redis does not answer; the call can then no longer take
    /// effect.
    pub(super) async fn attempt<T, F>(&self, ask: impl FnOnce() -> F) -> Result<Option<T>>
    where
        F: Future<Output = seawall::Result<T>>,
    {
        let Ok(permit) = self.breaker.enter() else { return Ok(None) };
        let began = self.clock.now();
        match tokio::time::timeout(PATIENCE, ask()).await {
            Ok(Err(error)) if error.is_away() => {
                permit.record(Outcome::Failed);
                tracing::debug!(%error, "carts go on in the database");
                self.suspect();
                if error.is_indeterminate() {
                    // The call may be in flight until its deadline.
                    self.clock.sleep_until(began + PATIENCE).await;
                }
                Ok(None)
            }
            Err(_) => {
                permit.record(Outcome::Failed);
                self.suspect();
                Ok(None)
            }
            Ok(answer) => {
                permit.record(Outcome::Ok);
                Ok(Some(answer?))
            }
        }
    }

    /// Records that Redis did not answer.
    pub(super) fn suspect(&self) {
        let until = self.clock.now() + SUSPECT_FOR;
        let mut suspicion = self.lock();
        let number = suspicion.as_ref().map_or(0, |before| before.number + 1);
        *suspicion = Some(Suspicion { number, until, fresh: HashSet::new() });
    }

    /// Returns the failure since which a cart in Redis may be older than the database, if there is
    /// one.
    pub(super) fn is_stale(&self, user: u64) -> Option<Stale> {
        let mut suspicion = self.lock();
        let at = suspicion.as_ref()?;
        if self.clock.now() >= at.until {
            *suspicion = None;
            return None;
        }
        (!at.fresh.contains(&user)).then_some(Stale(at.number))
    }

    /// Records that a cart is up to date, unless there was another failure since.
    pub(super) fn mark_fresh(&self, user: u64, since: Stale) {
        if let Some(suspicion) = &mut *self.lock()
            && Stale(suspicion.number) == since
        {
            suspicion.fresh.insert(user);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Suspicion>> {
        self.suspicion.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
