//! How fast orders go into the database: however fast they come, no faster than it is meant to take
//! them. What waits meanwhile waits in Redis, which is what the queue is for.
//!
//! Counted by the machine's clock and not by the toolkit's, which tests advance: it is the database's
//! real work that is spread.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Turns at the database.
#[derive(Debug)]
pub(super) struct Pace {
    /// What one order takes of a second.
    each: Duration,
    /// When the next turn may begin.
    next: Mutex<Instant>,
}

impl Pace {
    pub(super) fn new(per_second: u32) -> Self {
        let each = Duration::from_secs(1) / per_second.max(1);
        Pace { each, next: Mutex::new(Instant::now()) }
    }

    /// Waits for the turn of so many orders: until those before them have had their time.
    pub(super) async fn turn(&self, orders: usize) {
        tokio::time::sleep_until(self.book(Instant::now(), orders)).await;
    }

    /// When their turn begins.
    fn book(&self, now: Instant, orders: usize) -> Instant {
        let takes = self.each * u32::try_from(orders).unwrap_or(u32::MAX);
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = now.max(*next);
        *next = begins + takes;
        begins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_turn_has_its_time_and_what_was_not_used_is_not_kept() {
        let pace = Pace::new(1_000);
        let now = Instant::now();
        let after = |millis| now + Duration::from_millis(millis);
        assert_eq!(pace.book(now, 500), now, "the first does not wait");
        assert_eq!(pace.book(after(10), 250), after(500));
        assert_eq!(pace.book(after(20), 1), after(750));
        assert_eq!(pace.book(after(60_000), 1_000), after(60_000));
        assert_eq!(pace.book(after(60_001), 1), after(61_000));
    }
}
