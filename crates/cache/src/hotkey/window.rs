//! Reads of one key within a sliding window, in this process: for decisions without Redis.
//!
//! The same twenty parts as `script/report.lua` keeps for the whole fleet: a read counts for between
//! 19 and 20 of them.

use std::time::Duration;

use seawall_resilience::clock::Moment;

/// Parts of a window.
const PARTS: usize = 20;

/// Reads in the parts of a window.
#[derive(Debug, Clone, Default)]
pub(super) struct Window {
    /// Number of the newest part.
    newest: u64,
    /// By age, the newest first.
    parts: [u64; PARTS],
}

impl Window {
    /// Adds reads, and says how many there are in the window now.
    pub(super) fn add(&mut self, reads: u64, window: Duration, now: Moment) -> u64 {
        let width = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX) / PARTS as u64;
        let number = now.as_nanos() / width.max(1);
        let passed = usize::try_from(number.saturating_sub(self.newest)).unwrap_or(PARTS);
        if passed > 0 {
            self.parts.rotate_right(passed.min(PARTS) % PARTS);
            self.parts[..passed.min(PARTS)].fill(0);
            self.newest = number;
        }
        self.parts[0] += reads;
        self.parts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_leave_the_window_as_it_slides() {
        let second = Duration::from_secs(1);
        let at = |millis| Moment::default() + Duration::from_millis(millis);
        let mut window = Window::default();
        assert_eq!(window.add(10, second, at(5_000)), 10);
        assert_eq!(window.add(10, second, at(5_500)), 20);
        assert_eq!(window.add(1, second, at(5_960)), 21);
        assert_eq!(window.add(0, second, at(6_010)), 11, "the first ten are a second old");
        assert_eq!(window.add(0, second, at(60_000)), 0);
        assert_eq!(window.add(3, second, at(1_000)), 3, "a clock that went back");
    }
}
