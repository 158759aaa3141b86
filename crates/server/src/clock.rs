//! The machine's clock, for engines that serve real clients. Tests and simulations provide their
//! own.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use seawall_engine::Clock;

/// Wall time and monotonic time of this machine.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Creates a clock whose monotonic time begins now.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn unix_micros(&self) -> i64 {
        // A clock set before 1970 reads as zero; every later time fits for 290,000 years.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }

    fn monotonic_nanos(&self) -> u64 {
        // Read once a command, so without 128-bit arithmetic; it overflows after 580 years.
        let elapsed = self.start.elapsed();
        elapsed.as_secs() * 1_000_000_000 + u64::from(elapsed.subsec_nanos())
    }
}
