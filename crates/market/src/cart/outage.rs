//! Whether Redis answers, and whose cart it may have an old state of.
//!
//! A breaker decides who asks Redis: while it is open, carts go to the database at once, and somebody
//! tries twice a second, the job that watches if nobody else. From the first failure on, and for a while after the last one, every cart is
//! suspect: others may have changed it in the database, and a server that was killed may have come
//! back without its last second. A suspect cart is brought up to date, once, before it is touched.

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

/// How long a cart waits for Redis. A call that arrives later than this does nothing.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// The pause before somebody tries, and how long the next one waits for his answer. One answer is
/// enough to go back: going back and forth loses nothing.
const PROBE_EVERY: Duration = Duration::from_millis(500);
const PROBE_LIMIT: Duration = Duration::from_secs(1);
/// For how long after a failure carts are suspect. What is suspect for longer was brought up to date
/// by the job that looks after it.
const SUSPECT_FOR: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(super) struct Outage {
    breaker: Breaker,
    clock: Clock,
    suspicion: Mutex<Option<Suspicion>>,
}

#[derive(Debug)]
struct Suspicion {
    /// Which failure it is.
    number: u64,
    until: Moment,
    /// Users whose cart is up to date again.
    fresh: HashSet<u64>,
}

/// A cart may be old since this failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stale(u64);

impl Outage {
    pub(super) fn new(clock: &Clock) -> Self {
        let breaker = Breaker::builder("cart").failures(1).steady_probes(1);
        let breaker = breaker.probe_every(PROBE_EVERY).open_limit(PROBE_LIMIT);
        let breaker = breaker.clock(clock.clone()).build().expect("the settings make sense");
        Outage { breaker, clock: clock.clone(), suspicion: Mutex::default() }
    }

    /// Asks Redis; nothing when it does not answer. When this returns nothing, whatever was asked is
    /// not carried out any more.
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
                    // The call may be under way, until its time is over.
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

    /// Notes that Redis did not answer.
    pub(super) fn suspect(&self) {
        let until = self.clock.now() + SUSPECT_FOR;
        let mut suspicion = self.lock();
        let number = suspicion.as_ref().map_or(0, |before| before.number + 1);
        *suspicion = Some(Suspicion { number, until, fresh: HashSet::new() });
    }

    /// Whether a cart in Redis may be older than the database, and since which failure.
    pub(super) fn is_stale(&self, user: u64) -> Option<Stale> {
        let mut suspicion = self.lock();
        let at = suspicion.as_ref()?;
        if self.clock.now() >= at.until {
            *suspicion = None;
            return None;
        }
        (!at.fresh.contains(&user)).then_some(Stale(at.number))
    }

    /// Notes that a cart is up to date, unless there was another failure since.
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
