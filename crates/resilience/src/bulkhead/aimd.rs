//! Adaptive limit: up by one while calls are fast, down by a tenth when they are slow.
//!
//! Additive increase, multiplicative decrease, as in TCP: it needs no model of the backend and
//! cannot run away, because the decrease is stronger than the increase.
//!
//! Invariants: the limit stays between `floor` and `ceiling`; it is raised only when it was reached
//! (a limit that is not reached says nothing); it is lowered at most once per `target`, because all
//! calls that are slow together are a single signal.

use std::time::Duration;

/// Fraction of the limit that is kept after a slow call: nine tenths.
const KEEP: (usize, usize) = (9, 10);

/// The rules and the current limit. Time is an argument, measured from an origin that the owner
/// chooses.
#[derive(Debug)]
pub(super) struct Aimd {
    floor: usize,
    ceiling: usize,
    target: Duration,
    limit: usize,
    /// Fast calls at the limit since it last changed; as many as the limit raise it.
    quick: usize,
    lowered_at: Option<Duration>,
}

impl Aimd {
    /// Starts at the ceiling: the configured limit applies until it proves too high.
    pub(super) fn new(floor: usize, ceiling: usize, target: Duration) -> Self {
        Self { floor, ceiling, target, limit: ceiling, quick: 0, lowered_at: None }
    }

    /// Records a call that ended now, and returns the limit. `busy` is the number of running calls,
    /// including this one.
    pub(super) fn observe(&mut self, took: Duration, busy: usize, now: Duration) -> usize {
        if took > self.target {
            let news = self.lowered_at.is_none_or(|last| now.saturating_sub(last) >= self.target);
            if news {
                self.limit = (self.limit * KEEP.0 / KEEP.1).max(self.floor);
                self.lowered_at = Some(now);
                self.quick = 0;
            }
        } else if busy >= self.limit {
            self.quick += 1;
            if self.quick >= self.limit {
                self.limit = (self.limit + 1).min(self.ceiling);
                self.quick = 0;
            }
        }
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Duration = Duration::from_millis(100);

    #[test]
    fn slow_calls_lower_it_once_per_target_and_not_below_the_floor() {
        let mut aimd = Aimd::new(5, 100, TARGET);
        let mut now = Duration::ZERO;
        assert_eq!(aimd.observe(TARGET * 2, 100, now), 90);
        assert_eq!(aimd.observe(TARGET * 2, 90, now), 90, "the same news");
        for _ in 0..100 {
            now += TARGET;
            aimd.observe(TARGET * 2, 1, now);
        }
        assert_eq!(aimd.observe(TARGET * 2, 1, now), 5);
    }

    #[test]
    fn quick_calls_raise_it_only_when_it_is_reached() {
        let mut aimd = Aimd::new(1, 10, TARGET);
        assert_eq!(aimd.observe(TARGET * 2, 10, Duration::ZERO), 9);
        for _ in 0..1000 {
            assert_eq!(aimd.observe(TARGET / 2, 8, Duration::ZERO), 9);
        }
        for _ in 0..8 {
            assert_eq!(aimd.observe(TARGET / 2, 9, Duration::ZERO), 9);
        }
        for _ in 0..1000 {
            assert_eq!(aimd.observe(TARGET / 2, 10, Duration::ZERO), 10, "and never above");
        }
    }

    #[test]
    fn a_limit_of_one_comes_back() {
        let mut aimd = Aimd::new(1, 2, TARGET);
        assert_eq!(aimd.observe(TARGET * 2, 2, Duration::ZERO), 1);
        assert_eq!(aimd.observe(TARGET / 2, 1, Duration::ZERO), 2);
    }
}
