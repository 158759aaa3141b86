//! Time for the toolkit: a monotonic clock that tests can control.
//!
//! All code in the toolkit that waits, expires or renews reads a [`Clock`], never the operating
//! system, so the same code runs in a test whose hours pass in a microsecond. Correctness between
//! processes never depends on this clock; counters and the server's `TIME` decide that. Network
//! time-outs have a clock of their own, which is real time unless a simulator provides it.
//!
//! There are two times. [`Clock::now`] stands still while the machine is suspended, as timers do.
//! Leases are measured with `lease_now`, which continues during a suspension as the server's clock
//! does: a holder that wakes up must not believe that it still holds. Moments of the two cannot be
//! compared.

mod manual;

use std::{
    fmt,
    ops::{Add, Sub},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::time::{ClockId, clock_gettime};

pub use self::manual::ManualTime;

/// A point in monotonic time, comparable with others of the same clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(u64);

impl Moment {
    /// Returns the moment this many nanoseconds after the clock's origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Moment(nanos)
    }

    /// Returns the nanoseconds since the clock's origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later.
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

/// The most that [`millis`] returns, about 35,000 years. Its sum with today's date is exact in a Lua
/// number, and far from the end of an `i64`.
const MAX_MILLIS: u64 = 1 << 50;

/// Converts a duration to whole milliseconds, rounded down. Longer than 2^50 ms counts as 2^50 ms.
///
/// ```
/// use std::time::Duration;
/// use seawall_resilience::clock::millis;
///
/// assert_eq!(millis(Duration::from_micros(1_999)), 1);
/// assert_eq!(millis(Duration::MAX), 1 << 50);
/// ```
#[must_use]
pub const fn millis(time: Duration) -> u64 {
    let millis = time.as_millis();
    if millis > MAX_MILLIS as u128 { MAX_MILLIS } else { millis as u64 }
}

/// A monotonic clock: the machine's, or one that a test advances manually.
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

/// Reads a clock of the machine, in nanoseconds since it started.
fn machine(clock: ClockId) -> Moment {
    let time = clock_gettime(clock);
    Moment((time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64))
}

/// At most a few milliseconds behind, at a third of the cost.
#[cfg(target_os = "linux")]
const COARSE: ClockId = ClockId::MonotonicCoarse;
#[cfg(not(target_os = "linux"))]
const COARSE: ClockId = ClockId::Monotonic;

/// On Linux and Android, continues while the machine is suspended.
#[cfg(any(target_os = "linux", target_os = "android"))]
const LEASE: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const LEASE: ClockId = ClockId::Monotonic;

/// The date at which a manual clock starts, as time since 1970: 2026-01-01T00:00:00Z.
const MANUAL_DATE: Duration = Duration::from_secs(1_767_225_600);

/// Longest sleep before the lease clock is read again. Timers stand still while the machine is
/// suspended, so the end of a lease may be noticed this late after waking up.
const LEASE_STEP: Duration = Duration::from_secs(1);

impl Clock {
    /// Returns the machine's clock.
    #[must_use]
    pub fn system() -> Self {
        Clock { manual: None }
    }

    /// Creates a clock that stands still until a test advances it.
    #[must_use]
    pub fn manual() -> (Self, ManualTime) {
        let time = ManualTime::default();
        (Clock { manual: Some(time.clone()) }, time)
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Moment {
        match &self.manual {
            None => machine(ClockId::Monotonic),
            Some(time) => time.now(),
        }
    }

    /// Returns the current time, up to a few milliseconds old, for hot paths that need no more
    /// precision.
    #[must_use]
    pub fn coarse_now(&self) -> Moment {
        match &self.manual {
            None => machine(COARSE),
            Some(time) => time.now(),
        }
    }

    /// Returns the current time for leases, which continues while the machine is suspended.
    ///
    /// Do not compare it with [`Clock::now`].
    #[must_use]
    pub fn lease_now(&self) -> Moment {
        match &self.manual {
            None => machine(LEASE),
            Some(time) => time.with_suspension(),
        }
    }

    /// Returns the date as time since 1970: the machine's, which may be set back. A manual clock
    /// starts on 2026-01-01 and counts suspensions, too.
    #[must_use]
    pub fn unix_time(&self) -> Duration {
        match &self.manual {
            None => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            Some(time) => MANUAL_DATE + time.with_suspension().since(Moment(0)),
        }
    }

    /// Waits until this moment of [`Clock::lease_now`].
    ///
    /// If it falls into a suspension, the wait ends at most [`LEASE_STEP`] after waking up.
    pub async fn sleep_until_lease(&self, moment: Moment) {
        loop {
            let left = moment.since(self.lease_now());
            if left.is_zero() {
                return;
            }
            self.sleep(left.min(LEASE_STEP)).await;
        }
    }

    /// Waits for this duration.
    pub async fn sleep(&self, time: Duration) {
        match &self.manual {
            None => tokio::time::sleep(time).await,
            Some(manual) => manual.reached(manual.now() + time).await,
        }
    }

    /// Waits until this moment; returns at once if it is in the past.
    pub async fn sleep_until(&self, moment: Moment) {
        match &self.manual {
            None => tokio::time::sleep(moment.since(self.now())).await,
            Some(manual) => manual.reached(moment).await,
        }
    }

    /// Waits until this moment, or forever if there is none.
    pub async fn sleep_until_some(&self, moment: Option<Moment>) {
        match moment {
            Some(moment) => self.sleep_until(moment).await,
            None => std::future::pending().await,
        }
    }

    /// Waits for `work`, at most `limit`. Returns `None` if time ran out.
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
