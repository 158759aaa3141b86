//! The breaker: stops calling what does not answer, and looks now and then whether it does again.
//!
//! Three failures in 30 s open it. While it is open one call a second goes through as a probe, all
//! others are refused at once; a probe that succeeds closes it. When it opens again soon after it
//! closed, twice as many probes in a row must succeed (up to `steady_probes`): a backend that flaps
//! is held off instead of followed.
//!
//! The closed path, which every call takes, is one atomic load and reads no clock (unless
//! `slow_after` is set); failures and the open state take one short mutex. The rules themselves
//! are in `machine.rs` and know no clock.
//!
//! Invariants: see `machine.rs`. What counts as a failure is the caller's judgement ([`Outcome`]):
//! the breaker cannot know a refused connection from a caller's bug.

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

/// What became of a call, as its caller judges it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered. An answer such as "no such row" is one.
    Ok,
    /// The backend could not be reached, did not answer in time or answered that it cannot work.
    Failed,
    /// It was answered, but too late to be of use.
    Slow,
    /// It says nothing about the backend: a caller's bug, a refused argument, a cancelled call.
    Ignored,
}

/// Where a breaker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Calls go through.
    Closed,
    /// Calls are refused.
    Open,
    /// Calls are refused, and one is out to see whether the backend is back.
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

/// Stops calling a backend that does not answer. A cheap clone; clones are the same breaker.
///
/// ```
/// use seawall_resilience::{Breaker, BreakerState, Outcome};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let breaker = Breaker::builder("stock database").failures(2).build()?;
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
    slow_after: Option<Duration>,
    /// `epoch << 1 | open`, a copy of what the machine says, so that the closed path takes no lock.
    phase: AtomicU64,
    machine: Mutex<Machine>,
    changes: watch::Sender<BreakerState>,
}

impl Breaker {
    /// A breaker with the default settings: 3 failures in 30 s open it, one probe a second.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self::builder(name).assemble()
    }

    /// A breaker with settings of its own. The name is the label of its metrics.
    pub fn builder(name: impl Into<Arc<str>>) -> BreakerBuilder {
        BreakerBuilder::new(name.into())
    }

    /// Asks to make a call. The permit takes its outcome; dropped without one (a cancelled future)
    /// it counts nothing, and if it was the probe, another may go at the next second.
    ///
    /// # Errors
    ///
    /// [`Open`] when the breaker is open and no probe is due.
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
        let entered = self.shared.slow_after.map(|_| self.shared.clock.now());
        Ok(Permit { shared: Arc::clone(&self.shared), pass, entered, open: true })
    }

    /// Whether [`enter`](Self::enter) would refuse now; lets no probe out. For those who must queue
    /// for something else first.
    ///
    /// # Errors
    ///
    /// [`Open`] when the breaker is open and no probe is due.
    pub fn check(&self) -> Result<(), Open> {
        if self.shared.phase.load(Ordering::Acquire) & 1 == 0 {
            return Ok(());
        }
        let now = self.shared.now();
        let refusal = self.shared.lock().refusal(now);
        refusal.map_or(Ok(()), |retry_after| Err(self.refused(retry_after)))
    }

    /// Where the breaker stands.
    #[must_use]
    pub fn state(&self) -> BreakerState {
        *self.shared.changes.borrow()
    }

    /// Follows the state. A receiver that does not keep up sees the newest state, not each one.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<BreakerState> {
        self.shared.changes.subscribe()
    }

    /// The name it was built with.
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
        // The machine does not panic; and a breaker that panics for ever would be worse than one
        // that goes on with what it knows.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a step of the machine and tells everyone if the state changed. Told under the lock, so
    /// that changes are seen in the order in which they happened.
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

/// A call that was let through. Hand its outcome to [`record`](Self::record).
#[must_use = "a permit that is dropped without an outcome counts nothing"]
pub struct Permit {
    shared: Arc<Shared>,
    pass: Pass,
    /// When it was let through; only known if slow calls count.
    entered: Option<Moment>,
    /// Its outcome is still to come.
    open: bool,
}

impl Permit {
    /// Takes the outcome of the call. [`Outcome::Ok`] becomes [`Outcome::Slow`] by itself when the
    /// breaker has a `slow_after` and the call took that long.
    pub fn record(mut self, outcome: Outcome) {
        let outcome = match outcome {
            Outcome::Ok if self.was_slow() => Outcome::Slow,
            outcome => outcome,
        };
        self.settle(outcome);
    }

    /// True when this call is the probe of an open breaker.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        matches!(self.pass, Pass::Probe(_))
    }

    fn was_slow(&self) -> bool {
        match (self.entered, self.shared.slow_after) {
            (Some(entered), Some(limit)) => self.shared.clock.now().since(entered) >= limit,
            _ => false,
        }
    }

    fn settle(&mut self, outcome: Outcome) {
        self.open = false;
        if let Pass::Ordinary(epoch) = self.pass {
            let fine = matches!(outcome, Outcome::Ok | Outcome::Ignored);
            // What a call of another epoch saw is history: the machine would not look at it either.
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
