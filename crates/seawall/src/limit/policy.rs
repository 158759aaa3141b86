//! How much is allowed: a rate with a burst, or a count in a sliding window.
//!
//! A policy is checked once, when the limiter is built, and converted to whole numbers for both the
//! scripts (Lua numbers are exact up to 2^53) and the local meters.

use std::time::Duration;

use seawall_client::error::{Error, Result};

use super::{gcra::Gcra, window::Slicing};

/// Largest number that a script has to hold exactly, with room for one division.
pub(super) const MAX_EXACT: u64 = 1 << 52;

/// A count per period, spread evenly, with a burst on top of it (GCRA).
///
/// In any stretch of time `t`, at most `burst + count · t / period` is allowed.
///
/// ```
/// use seawall::limit::Rate;
///
/// // Ten a second on average, at most thirty at once.
/// let rate = Rate::per_second(10).burst(30);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    count: u64,
    period: Duration,
    burst: u64,
}

impl Rate {
    /// Allows `count` per `period`.
    #[must_use]
    pub const fn of(count: u64, period: Duration) -> Self {
        Rate { count, period, burst: count }
    }

    /// Allows `count` per second.
    #[must_use]
    pub const fn per_second(count: u64) -> Self {
        Self::of(count, Duration::from_secs(1))
    }

    /// Allows `count` per minute.
    #[must_use]
    pub const fn per_minute(count: u64) -> Self {
        Self::of(count, Duration::from_secs(60))
    }

    /// Allows `count` per hour.
    #[must_use]
    pub const fn per_hour(count: u64) -> Self {
        Self::of(count, Duration::from_secs(3_600))
    }

    /// Allows `count` per day.
    #[must_use]
    pub const fn per_day(count: u64) -> Self {
        Self::of(count, Duration::from_secs(86_400))
    }

    /// Sets how many may come at once. Default: the count of one period.
    ///
    /// A burst of 1 admits nothing that comes closer together than the rate says.
    #[must_use]
    pub const fn burst(mut self, burst: u64) -> Self {
        self.burst = burst;
        self
    }
}

/// A count in *any* window of this length, wherever it begins.
///
/// ```
/// use std::time::Duration;
/// use seawall::limit::Window;
///
/// // Five codes per hour, and never more, not even around the full hour.
/// let window = Window::of(5, Duration::from_secs(3_600));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    limit: u64,
    length: Duration,
}

impl Window {
    /// Allows `limit` in any window of this length.
    #[must_use]
    pub const fn of(limit: u64, length: Duration) -> Self {
        Window { limit, length }
    }
}

/// How much is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// A rate with a burst: smooth, and the cheaper one.
    Rate(Rate),
    /// A count in a sliding window: a hard limit.
    Window(Window),
}

impl From<Rate> for Policy {
    fn from(rate: Rate) -> Self {
        Policy::Rate(rate)
    }
}

impl From<Window> for Policy {
    fn from(window: Window) -> Self {
        Policy::Window(window)
    }
}

impl Policy {
    /// Returns the most that is ever allowed at once.
    #[must_use]
    pub fn most(&self) -> u64 {
        match self {
            Policy::Rate(rate) => rate.burst,
            Policy::Window(window) => window.limit,
        }
    }

    /// Returns the time in which [`Policy::most`] is restored after it was used up.
    #[must_use]
    pub fn recovery(&self) -> Duration {
        match self {
            Policy::Rate(rate) => {
                let nanos = rate.period.as_nanos() * u128::from(rate.burst);
                let nanos = nanos.div_ceil(u128::from(rate.count.max(1)));
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
            Policy::Window(window) => window.length,
        }
    }

    /// Returns the policy in whole numbers, for one of `instances` processes that share it.
    pub(super) fn algorithm(&self, instances: u32) -> Result<Algorithm> {
        let instances = u64::from(instances);
        if instances == 0 {
            return Err(Error::Invalid("instances is 0: nobody would be limited".into()));
        }
        // At least one each: a share of zero would refuse everything.
        let share = |most: u64| (most / instances).max(1);
        match self {
            Policy::Rate(Rate { count, period, burst }) => {
                let burst = if *burst == 0 { 0 } else { share(*burst) };
                Gcra::new(*count, micros("the rate's period", *period)?, burst, instances)
                    .map(Algorithm::Gcra)
            }
            Policy::Window(Window { limit, length }) => {
                let limit = if *limit == 0 { 0 } else { share(*limit) };
                Slicing::new(limit, micros("the window", *length)?).map(Algorithm::Window)
            }
        }
    }
}

/// A policy in whole numbers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Algorithm {
    Gcra(Gcra),
    Window(Slicing),
}

fn micros(what: &str, time: Duration) -> Result<u64> {
    match u64::try_from(time.as_micros()) {
        Ok(micros @ 1..=MAX_EXACT) => Ok(micros),
        _ => Err(Error::Invalid(format!(
            "{what} is {time:?}: it must be at least a microsecond and at most 140 years"
        ))),
    }
}
