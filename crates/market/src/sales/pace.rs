//! Rate limit for writing orders: however fast they arrive, the database receives them at a bounded
//! rate. Orders that wait do so in Redis, which is the purpose of the queue.
//!
//! Uses the machine's clock and not the toolkit's, which tests advance: it spreads the real work of
//! the database.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Turns at the database.
#[derive(Debug)]
pub(super) struct Pace {
    /// Duration of one order.
    each: Duration,
    /// Start of the next turn.
    next: Mutex<Instant>,
}

impl Pace {
    pub(super) fn new(per_second: u32) -> Self {
        let each = Duration::from_secs(1) / per_second.max(1);
        Pace { each, next: Mutex::new(Instant::now()) }
    }

    /// Waits for a turn to write `orders` orders: until the earlier ones have had their time.
    pub(super) async fn turn(&self, orders: usize) {
        tokio::time::sleep_until(self.book(Instant::now(), orders)).await;
    }

    /// Returns the start of the turn.
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
