//! Circuit breaker: stops calls to a backend that does not answer, and probes whether it answers
//! again.
//!
//! Three failures in 30 s open it. While it is open, one call per second goes through as a probe
//! and all others are refused at once; a probe that succeeds closes it. If it opens again soon
//! after it closed, twice as many probes in a row must succeed (up to `max_probes`): a backend
//! that flaps is kept off instead of followed.
//!
//! The closed path, which every call takes, is one atomic load and reads no clock (unless
//! `slow_call_threshold` is set); failures and the open state take one short mutex. The rules themselves are
//! in `machine.rs` and use no clock.
//!
//! Invariants: see `machine.rs`. The caller decides what counts as a failure ([`Outcome`]): the
//! breaker cannot distinguish a refused connection from a bug of the caller.

mod builder;
mod machine;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::watch;

pub use self::builder::BreakerBuilder;
use self::machine::{Admission, Machine, Pass};
use crate::clock::{Clock, Moment};

/// Outcome of a call, as its caller judges it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The backend answered. An answer such as "no such row" counts as one.
    Ok,
    /// The backend could not be reached, did not answer in time or answered that it cannot work.
    Failed,
    /// The backend answered, but too late to be of use.
    Slow,
    /// The outcome says nothing about the backend: a bug of the caller, a refused argument, a
    /// cancelled call.
    Ignored,
}

/// State of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Calls go through.
    Closed,
    /// Calls are refused.
    Open,
    /// Calls are refused, except one probe that checks whether the backend is back.
    Probing,
}

impl BreakerState {
    fn as_gauge(self) -> f64 {
        match self {
            BreakerState::Closed => 0.0,
            BreakerState::Probing => 1.0,
            BreakerState::Open => 2.0,
        }
    }
}

/// The breaker is open: the call was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the breaker is open, look again in {retry_after:?}")]
pub struct Open {
    /// When the next probe may go through.
    pub retry_after: Duration,
}

/// Stops calls to a backend that does not answer. Cheap to clone; clones are the same breaker.
///
/// ```
/// use seawall_resilience::{Breaker, BreakerState, Outcome};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let breaker = Breaker::builder("stock database").failure_threshold(2).build()?;
/// for _ in 0..2 {
///     let permit = breaker.enter()?;
///     // … the call, which could not connect …
///     permit.record(Outcome::Failed);
/// }
/// assert_eq!(breaker.state(), BreakerState::Open);
/// let refused = breaker.enter().unwrap_err();
/// assert!(refused.retry_after.as_millis() <= 1000);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Breaker {
    shared: Arc<Shared>,
}

struct Shared {
    name: Arc<str>,
    clock: Clock,
    origin: Moment,
    slow_call_threshold: Option<Duration>,
    /// `epoch << 1 | open`, a copy of the machine's state, so that the closed path takes no lock.
    phase: AtomicU64,
    machine: Mutex<Machine>,
    changes: watch::Sender<BreakerState>,
}

impl Breaker {
    /// Creates a breaker with the default settings: 3 failures in 30 s open it, one probe per
    /// second.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self::builder(name).assemble()
    }

    /// Returns a builder for a breaker with custom settings. The name labels its metrics.
    pub fn builder(name: impl Into<Arc<str>>) -> BreakerBuilder {
        BreakerBuilder::new(name.into())
    }

    /// Requests permission for a call.
    ///
    /// Pass the outcome to the permit. A permit dropped without an outcome (a cancelled future)
    /// counts nothing; if it was the probe, the next one may start `probe_interval` after it.
    ///
    /// # Errors
    ///
    /// [`Open`] if the breaker is open and no probe is due.
    pub fn enter(&self) -> Result<Permit, Open> {
        let phase = self.shared.phase.load(Ordering::Acquire);
        let pass = if phase & 1 == 0 {
            Pass::Ordinary(phase >> 1)
        } else {
            let now = self.shared.now();
            match self.shared.change(|machine| machine.admit(now)) {
                Admission::Through(pass) => pass,
                Admission::Refused { retry_after } => return Err(self.refused(retry_after)),
            }
        };
        let entered = self.shared.slow_call_threshold.map(|_| self.shared.clock.now());
        Ok(Permit { shared: Arc::clone(&self.shared), pass, entered, open: true })
    }

    /// Checks whether [`enter`](Self::enter) would refuse now, without starting a probe.
    ///
    /// For callers that must queue for something else first.
    ///
    /// # Errors
    ///
    /// [`Open`] if the breaker is open and no probe is due.
    pub fn check(&self) -> Result<(), Open> {
        if self.shared.phase.load(Ordering::Acquire) & 1 == 0 {
            return Ok(());
        }
        let now = self.shared.now();
        let refusal = self.shared.lock().refusal(now);
        refusal.map_or(Ok(()), |retry_after| Err(self.refused(retry_after)))
    }

    /// Returns the state of the breaker.
    #[must_use]
    pub fn state(&self) -> BreakerState {
        *self.shared.changes.borrow()
    }

    /// Returns a receiver that follows the state.
    ///
    /// A slow receiver sees the newest state, not every change.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<BreakerState> {
        self.shared.changes.subscribe()
    }

    /// Returns the name of the breaker.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    fn refused(&self, retry_after: Duration) -> Open {
        metrics::counter!("seawall_breaker_refused_total", "name" => Arc::clone(&self.shared.name))
            .increment(1);
        Open { retry_after }
    }
}

impl fmt::Debug for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breaker")
            .field("name", &self.shared.name)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn now(&self) -> Duration {
        self.clock.now().since(self.origin)
    }

    fn lock(&self) -> MutexGuard<'_, Machine> {
        // The machine does not panic. Even if it did, a breaker that continues with its state is
        // better than one that panics forever.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a step of the machine and notifies receivers if the state changed. Notifies under the
    /// lock, so that changes are seen in the order in which they happened.
    fn change<R>(&self, step: impl FnOnce(&mut Machine) -> R) -> R {
        let mut machine = self.lock();
        let result = step(&mut machine);
        let state = match (machine.is_open(), machine.is_probing()) {
            (false, _) => BreakerState::Closed,
            (true, false) => BreakerState::Open,
            (true, true) => BreakerState::Probing,
        };
        self.phase.store(machine.epoch() << 1 | u64::from(machine.is_open()), Ordering::Release);
        let mut before = state;
        self.changes.send_if_modified(|current| {
            before = std::mem::replace(current, state);
            before != state
        });
        if before != state {
            self.announce(before, state);
        }
        result
    }

    fn announce(&self, before: BreakerState, state: BreakerState) {
        let name = || Arc::clone(&self.name);
        metrics::gauge!("seawall_breaker_state", "name" => name()).set(state.as_gauge());
        match (before, state) {
            (BreakerState::Closed, _) => {
                metrics::counter!("seawall_breaker_opened_total", "name" => name()).increment(1);
                tracing::warn!(breaker = &*self.name, "breaker opened");
            }
            (_, BreakerState::Closed) => tracing::info!(breaker = &*self.name, "breaker closed"),
            (_, BreakerState::Open | BreakerState::Probing) => {
                tracing::debug!(breaker = &*self.name, ?state, "breaker probes");
            }
        }
    }
}

/// Permission for one call. Pass its outcome to [`record`](Self::record).
#[must_use = "a permit that is dropped without an outcome counts nothing"]
pub struct Permit {
    shared: Arc<Shared>,
    pass: Pass,
    /// When the permit was issued; only set if slow calls count.
    entered: Option<Moment>,
    /// `true` until the outcome is recorded.
    open: bool,
}

impl Permit {
    /// Records the outcome of the call.
    ///
    /// [`Outcome::Ok`] becomes [`Outcome::Slow`] if the breaker has a `slow_call_threshold` and the call
    /// took that long.
    pub fn record(mut self, outcome: Outcome) {
        let outcome = match outcome {
            Outcome::Ok if self.was_slow() => Outcome::Slow,
            outcome => outcome,
        };
        self.settle(outcome);
    }

    /// Returns `true` if this call is the probe of an open breaker.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        matches!(self.pass, Pass::Probe(_))
    }

    fn was_slow(&self) -> bool {
        match (self.entered, self.shared.slow_call_threshold) {
            (Some(entered), Some(limit)) => self.shared.clock.now().since(entered) >= limit,
            _ => false,
        }
    }

    fn settle(&mut self, outcome: Outcome) {
        self.open = false;
        if let Pass::Ordinary(epoch) = self.pass {
            let fine = matches!(outcome, Outcome::Ok | Outcome::Ignored);
            // Outcomes of calls from another epoch are outdated: the machine would ignore them too.
            if fine || self.shared.phase.load(Ordering::Acquire) >> 1 != epoch {
                return;
            }
        }
        let now = self.shared.now();
        self.shared.change(|machine| machine.record(self.pass, outcome, now));
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.open {
            self.settle(Outcome::Ignored);
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("breaker", &self.shared.name)
            .field("probe", &self.is_probe())
            .finish_non_exhaustive()
    }
}
