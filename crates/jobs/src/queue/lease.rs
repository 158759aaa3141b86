//! Leased items: how a claim returns them, which of their attempts count, and how they are given back.

use std::time::Duration;

use seawall_resilience::clock::Moment;

/// Result of a claim.
pub(super) struct Claims {
    pub(super) items: Vec<Claimed>,
    /// Time until the next item is due.
    pub(super) next_in: Option<Duration>,
    /// Number of items that died, because their leases ended too often.
    pub(super) died: u64,
}

/// An item as a claim returns it.
pub(super) struct Claimed {
    pub(super) id: String,
    pub(super) token: u64,
    pub(super) attempts: Attempts,
    pub(super) payload: Vec<u8>,
    pub(super) due: Due,
}

/// How late an item was claimed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    /// Time from the moment at which it was due to the claim, by the server's clock.
    pub(super) late: Duration,
    pub(super) claimed: Moment,
}

impl Due {
    /// Returns the time from the moment at which the item was due until now.
    pub(super) fn delay(self, now: Moment) -> Duration {
        self.late + now.since(self.claimed)
    }
}

/// Attempts at a leased item, including the current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attempts {
    /// Attempts that count, or will count if the current one fails.
    pub(super) counted: u64,
    /// Whether an earlier attempt may have begun and never ended: the current one must run alone.
    pub(super) alone: bool,
}

impl Attempts {
    /// Returns the 1-based number of this attempt, as an upper bound.
    pub(super) fn number(self) -> u64 {
        self.counted + u64::from(self.alone)
    }
}

/// How an item is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Back {
    /// For another attempt; dead after `limit` attempts.
    Counted { limit: u64 },
    /// For another attempt, without counting this one.
    Free,
    /// For another attempt; the handler was not called.
    Unbegun,
    /// As a dead letter.
    Dead,
    /// As a dead letter; the handler was not called.
    Unread,
}
