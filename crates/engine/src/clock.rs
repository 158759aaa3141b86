//! Time comes from outside.
//!
//! The engine never reads the system's clock: hosts pass one in, and tests pass one that they
//! advance by hand. It is read once per batch, so that all commands of one batch see the same
//! instant, and once more per command for the statistics.

use std::sync::atomic::{AtomicI64, Ordering};

/// The engine's source of time.
pub trait Clock: Send + Sync {
    /// Microseconds since the Unix epoch.
    fn unix_micros(&self) -> i64;
    /// Nanoseconds since some fixed point; never goes back.
    fn monotonic_nanos(&self) -> u64;
}

/// A clock that stands still until it is advanced.
#[derive(Debug)]
pub struct ManualClock {
    micros: AtomicI64,
}

impl ManualClock {
    /// Starts at this many milliseconds since the Unix epoch.
    #[must_use]
    pub fn at_millis(millis: i64) -> ManualClock {
        ManualClock { micros: AtomicI64::new(millis * 1000) }
    }

    /// Moves time forward.
    pub fn advance(&self, by: std::time::Duration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.micros.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn unix_micros(&self) -> i64 {
        self.micros.load(Ordering::SeqCst)
    }

    fn monotonic_nanos(&self) -> u64 {
        self.unix_micros().unsigned_abs() * 1000
    }
}
