//! Time as the toolkit sees it: a monotonic clock that tests can hold in their hands.
//!
//! Whatever waits, expires or renews in the toolkit asks a [`Clock`], never the operating system:
//! the same code then runs in a test whose hours pass in a microsecond. Correctness between
//! processes never rests on this clock; that is decided by counters and by the server's `TIME`.
//! The one exception to "ask the clock" are time-outs of the network, which are always real.
//!
//! There are two times. [`Clock::now`] stands still while the machine is suspended, as timers do.
//! Leases are measured in `lease_now`, which goes on meanwhile as the server's clock does: a holder
//! that wakes up must not believe that it still holds. Moments of the two do not compare.

use std::{
    fmt,
    ops::{Add, Sub},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;

/// A point in monotonic time, comparable with others of the same clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(u64);

impl Moment {
    /// The moment this many nanoseconds after the clock's beginning.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Moment(nanos)
    }

    /// Nanoseconds since the clock's beginning.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero when it is not.
    #[must_use]
    pub const fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, after: Duration) -> Moment {
        let nanos = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        Moment(self.0.saturating_add(nanos))
    }
}

impl Sub<Duration> for Moment {
    type Output = Moment;

    fn sub(self, before: Duration) -> Moment {
        let nanos = u64::try_from(before.as_nanos()).unwrap_or(u64::MAX);
        Moment(self.0.saturating_sub(nanos))
    }
}

/// A monotonic clock: the machine's, or one that is advanced by hand.
///
/// ```
/// use std::time::Duration;
/// use seawall_resilience::clock::Clock;
///
/// let (clock, time) = Clock::manual();
/// let start = clock.now();
/// time.advance(Duration::from_secs(3600));
/// assert_eq!(clock.now().since(start), Duration::from_secs(3600));
/// ```
#[derive(Clone, Default)]
pub struct Clock {
    manual: Option<ManualTime>,
}

/// The hand on a manual clock.
#[derive(Clone)]
pub struct ManualTime {
    nanos: Arc<watch::Sender<u64>>,
    /// How long the machine was suspended.
    suspended_nanos: Arc<AtomicU64>,
}

/// A clock of the machine, in nanoseconds since it started.
fn machine(clock: ClockId) -> Moment {
    let time = clock_gettime(clock);
    Moment((time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64))
}

/// A few milliseconds behind at most, at a third of the cost.
#[cfg(target_os = "linux")]
const COARSE: ClockId = ClockId::MonotonicCoarse;
#[cfg(not(target_os = "linux"))]
const COARSE: ClockId = ClockId::Monotonic;

/// Goes on while the machine is suspended.
#[cfg(any(target_os = "linux", target_os = "android"))]
const LEASE: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const LEASE: ClockId = ClockId::Monotonic;

/// Longest sleep before the clock of leases is looked at again: timers stand still while the machine
/// is suspended, so this is how late a lease's end may be noticed after waking up.
const LEASE_STEP: Duration = Duration::from_secs(1);

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub fn system() -> Self {
        Clock { manual: None }
    }

    /// A clock that stands still until its hand is moved.
    #[must_use]
    pub fn manual() -> (Self, ManualTime) {
        let nanos = Arc::new(watch::Sender::new(0));
        let time = ManualTime { nanos, suspended_nanos: Arc::default() };
        (Clock { manual: Some(time.clone()) }, time)
    }

    /// What time it is.
    #[must_use]
    pub fn now(&self) -> Moment {
        match &self.manual {
            None => machine(ClockId::Monotonic),
            Some(time) => time.now(),
        }
    }

    /// What time it is, or was a few milliseconds ago: for hot paths that need to know no better.
    #[must_use]
    pub fn coarse_now(&self) -> Moment {
        match &self.manual {
            None => machine(COARSE),
            Some(time) => time.now(),
        }
    }

    /// What time it is for leases: goes on while the machine is suspended. Not to be compared with
    /// [`Clock::now`].
    #[must_use]
    pub fn lease_now(&self) -> Moment {
        match &self.manual {
            None => machine(LEASE),
            Some(time) => time.with_suspension(),
        }
    }

    /// Waits until that moment of [`Clock::lease_now`]; after a suspension that it ended in, at most
    /// [`LEASE_STEP`] longer.
    pub async fn sleep_until_lease(&self, moment: Moment) {
        loop {
            let left = moment.since(self.lease_now());
            if left.is_zero() {
                return;
            }
            self.sleep(left.min(LEASE_STEP)).await;
        }
    }

    /// Waits for this long.
    pub async fn sleep(&self, time: Duration) {
        match &self.manual {
            None => tokio::time::sleep(time).await,
            Some(_) => self.sleep_until(self.now() + time).await,
        }
    }

    /// Waits until that moment; not at all when it is past.
    pub async fn sleep_until(&self, moment: Moment) {
        match &self.manual {
            None => tokio::time::sleep(moment.since(self.now())).await,
            Some(time) => {
                let mut hand = time.nanos.subscribe();
                // The sender lives in `self`: waiting cannot fail.
                let _ = hand.wait_for(|&now| now >= moment.0).await;
            }
        }
    }

    /// Waits for `work`, but no longer than this; `None` when time ran out.
    pub async fn timeout<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.sleep(limit) => None,
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.manual.is_some() { "Clock(manual)" } else { "Clock(system)" })
    }
}

impl ManualTime {
    /// Moves time forward and wakes whoever waited for it.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.send_modify(|now| *now = now.saturating_add(by));
    }

    /// Suspends the machine for this long: timers stand still, leases go on to their end.
    pub fn suspend(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.suspended_nanos.fetch_add(by, Ordering::SeqCst);
    }

    /// What time it is.
    #[must_use]
    pub fn now(&self) -> Moment {
        Moment(*self.nanos.borrow())
    }

    /// What time it is with the time of all suspensions, as others see it who were not suspended.
    #[must_use]
    pub fn with_suspension(&self) -> Moment {
        self.now() + Duration::from_nanos(self.suspended_nanos.load(Ordering::SeqCst))
    }
}

impl fmt::Debug for ManualTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualTime").field(&self.now()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sleepers_wake_when_the_hand_passes_them() {
        let (clock, time) = Clock::manual();
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep(Duration::from_secs(60)).await }
        });
        tokio::task::yield_now().await;
        time.advance(Duration::from_secs(59));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        time.advance(Duration::from_secs(1));
        sleeper.await.expect("it only slept");
    }

    #[tokio::test]
    async fn sleepers_for_a_lease_notice_a_suspension_when_they_wake() {
        let (clock, time) = Clock::manual();
        let end = clock.lease_now() + Duration::from_secs(60);
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep_until_lease(end).await }
        });
        tokio::task::yield_now().await;
        time.suspend(Duration::from_secs(600));
        assert!(clock.lease_now() > end && clock.now() < end);
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished(), "timers stood still");
        time.advance(LEASE_STEP);
        sleeper.await.expect("it only slept");
    }

    #[tokio::test]
    async fn a_timeout_gives_up_in_manual_time_too() {
        let (clock, time) = Clock::manual();
        let waiting = clock.timeout(Duration::from_secs(5), std::future::pending::<()>());
        let (given_up, ()) = tokio::join!(waiting, async { time.advance(Duration::from_secs(5)) });
        assert!(given_up.is_none());
        assert_eq!(clock.timeout(Duration::ZERO, async { 7 }).await, Some(7));
    }
}
