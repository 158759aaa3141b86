//! When written operations count as safe: the three sync policies as a small state machine.
//!
//! Positions flow `written → in flight → synced`; `released` follows from the policy:
//!
//! - `always`: the synced position. While one sync runs, other operations gather for the next: a
//!   group commit.
//! - `everysec`: the written position, as long as the oldest unsynced operation is younger than
//!   [`EVERYSEC_BOUND`]. A sync starts at half of it, so acknowledgements wait only if the sync
//!   takes longer than the other half. So a power cut never loses more than one second of
//!   acknowledged writes.
//! - `no`: the written position; the operating system decides when to sync.
//!
//! The state machine has no clock, lock or file, so tests drive it by hand. Invariant: after a
//! failed sync nothing is released until another file holds everything.

use std::time::Duration;

/// Maximum time of writes that a power cut may lose under `everysec`.
pub(crate) const EVERYSEC_BOUND: Duration = Duration::from_secs(1);
const EVERYSEC_START: Duration = Duration::from_millis(500);

/// When the log is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// Before each reply; many replies share a sync.
    Always,
    /// Often enough that a power cut loses at most one second.
    #[default]
    EverySecond,
    /// When the operating system decides to.
    No,
}

impl Policy {
    /// Returns the policy with this `appendfsync` name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Always, Self::EverySecond, Self::No].into_iter().find(|p| p.name() == name)
    }

    /// Returns its name for `appendfsync`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::EverySecond => "everysec",
            Self::No => "no",
        }
    }
}

/// When the next sync starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Now,
    At(Duration),
    WhenWritten,
}

/// Progress of one log file towards the disk.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) policy: Policy,
    /// Counts log files, so that a sync that outlives its file is recognized.
    pub(crate) generation: u64,
    pub(crate) closing: bool,
    /// A thread found the file busy and left the staged operations to the sync thread.
    pub(crate) behind: bool,
    written: u64,
    synced: u64,
    /// Time at which the oldest operation was written that no sync covers yet.
    oldest: Option<Duration>,
    /// The same for the operations that the running sync covers.
    in_flight: Option<Duration>,
    failed: bool,
}

impl Progress {
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            policy,
            generation: 0,
            closing: false,
            behind: false,
            written: 0,
            synced: 0,
            oldest: None,
            in_flight: None,
            failed: false,
        }
    }

    /// Records that operations up to `position` are in the file. Returns `true` if the sync thread
    /// must be notified.
    pub(crate) fn wrote(&mut self, position: u64, now: Duration) -> bool {
        self.written = self.written.max(position);
        let first = self.oldest.is_none();
        self.oldest.get_or_insert(now);
        first
    }

    /// Returns when to sync next.
    pub(crate) fn due(&self, now: Duration) -> Due {
        let Some(oldest) = self.oldest else { return Due::WhenWritten };
        if self.failed {
            return Due::WhenWritten;
        }
        let start = match self.policy {
            _ if self.closing => return Due::Now,
            Policy::Always => return Due::Now,
            Policy::EverySecond => oldest + EVERYSEC_START,
            Policy::No => return Due::WhenWritten,
        };
        if now >= start { Due::Now } else { Due::At(start) }
    }

    /// Begins a sync. Returns the position that it will cover.
    pub(crate) fn begin(&mut self) -> u64 {
        self.in_flight = self.oldest.take();
        self.written
    }

    /// Records that a sync of this file succeeded.
    pub(crate) fn synced(&mut self, position: u64) {
        self.in_flight = None;
        self.synced = self.synced.max(position);
    }

    /// Records that a sync of this file failed, for good.
    pub(crate) fn fail(&mut self) {
        self.failed = true;
    }

    /// Records that another file, durable up to `position`, replaced this one.
    pub(crate) fn replaced(&mut self, position: u64) {
        let (policy, closing, behind) = (self.policy, self.closing, self.behind);
        let generation = self.generation + 1;
        *self = Self { generation, closing, behind, ..Self::new(policy) };
        (self.written, self.synced) = (position, position);
    }

    /// Returns the position up to which replies may be delivered.
    pub(crate) fn released(&self, now: Duration) -> u64 {
        if self.failed {
            return self.synced;
        }
        match self.policy {
            Policy::Always => self.synced,
            Policy::No => self.written,
            Policy::EverySecond => {
                let lags = self
                    .in_flight
                    .or(self.oldest)
                    .is_some_and(|oldest| now.saturating_sub(oldest) >= EVERYSEC_BOUND);
                if lags { self.synced } else { self.written }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn always_releases_what_is_synced_in_groups() {
        let mut progress = Progress::new(Policy::Always);
        progress.wrote(1, ms(0));
        assert_eq!((progress.due(ms(0)), progress.released(ms(0))), (Due::Now, 0));
        let first = progress.begin();
        progress.wrote(2, ms(1));
        progress.wrote(3, ms(2));
        progress.synced(first);
        assert_eq!(progress.released(ms(2)), 1);
        let second = progress.begin();
        progress.synced(second);
        assert_eq!(progress.released(ms(3)), 3);
        assert_eq!(progress.due(ms(3)), Due::WhenWritten);
    }

    #[test]
    fn everysec_stops_acknowledging_when_a_sync_lags() {
        let mut progress = Progress::new(Policy::EverySecond);
        progress.wrote(1, ms(0));
        assert_eq!(progress.due(ms(100)), Due::At(ms(500)));
        assert_eq!(progress.due(ms(500)), Due::Now);
        let first = progress.begin();
        progress.wrote(2, ms(600));
        assert_eq!(progress.released(ms(999)), 2);
        progress.wrote(3, ms(1000));
        assert_eq!(progress.released(ms(1000)), 0, "position 1 is a second old and not safe");
        progress.synced(first);
        assert_eq!(progress.released(ms(1000)), 3, "the oldest unsynced one is 400 ms old");
        assert_eq!(progress.released(ms(1600)), 1);
    }

    #[test]
    fn a_failed_sync_releases_nothing_more() {
        for policy in [Policy::Always, Policy::EverySecond, Policy::No] {
            let mut progress = Progress::new(policy);
            progress.wrote(1, ms(0));
            progress.begin();
            progress.fail();
            progress.wrote(2, ms(1));
            assert_eq!(progress.released(ms(1)), 0);
            assert_eq!(progress.due(ms(5000)), Due::WhenWritten);
            progress.replaced(2);
            assert_eq!(progress.released(ms(2)), 2);
            assert_eq!(progress.generation, 1);
        }
    }
}
