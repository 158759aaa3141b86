//! Measures the longest time that the event loop was busy with one task.
//!
//! While the loop is busy no client on a socket is served, so this is the stall that clients see.
//! INFO shows the longest one, with its cause and time; CONFIG RESETSTAT resets it. One measurement
//! covers the requests of one connection's batch, or one of the loop's own duties. Waiting for the
//! engine's lock counts, because clients wait meanwhile, too.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use seawall_engine::HostInfo;

use crate::hub::lock;

/// What the loop can be busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Requests of one batch.
    Requests,
    /// Time-outs, expiry.
    Tick,
    /// Checking every connection and the log's jobs.
    Sweep,
    /// Collecting replies.
    Collect,
    /// Writing the log.
    Log,
    /// Sending replies.
    Send,
    /// Requests of commands to the host, such as SAVE.
    Host,
}

impl Duty {
    fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tick => "tick",
            Self::Sweep => "sweep",
            Self::Collect => "collect",
            Self::Log => "log",
            Self::Send => "send",
            Self::Host => "host",
        }
    }
}

/// The longest stall so far.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    longest_nanos: AtomicU64,
    what: Mutex<Option<(Duty, i64)>>,
}

impl Turns {
    /// Records that the loop was busy with `duty` for `nanos`, until now.
    pub(crate) fn note(&self, duty: Duty, nanos: u64, now_unix_ms: impl Fn() -> i64) {
        if nanos > self.longest_nanos.load(Ordering::Relaxed) {
            self.longest_nanos.store(nanos, Ordering::Relaxed);
            *lock(&self.what) = Some((duty, now_unix_ms() / 1000));
        }
    }

    /// Writes the figures to INFO. Starts over if they were reset there.
    pub(crate) fn describe(&self, info: &mut HostInfo) {
        if std::mem::take(&mut info.longest_turn_reset) {
            self.longest_nanos.store(0, Ordering::Relaxed);
            *lock(&self.what) = None;
        }
        info.longest_turn_usec = self.longest_nanos.load(Ordering::Relaxed) / 1000;
        if let Some((duty, at)) = *lock(&self.what) {
            info.longest_turn_duty = duty.name();
            info.longest_turn_unix = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_counts_until_it_is_reset() {
        let (turns, mut info) = (Turns::default(), HostInfo::default());
        turns.note(Duty::Log, 5_000_000, || 1000);
        turns.note(Duty::Send, 3_000_000, || 2000);
        turns.describe(&mut info);
        assert_eq!((info.longest_turn_usec, info.longest_turn_duty), (5000, "log"));
        assert_eq!(info.longest_turn_unix, 1);
        info.longest_turn_reset = true;
        turns.describe(&mut info);
        assert_eq!(info.longest_turn_usec, 0);
        turns.note(Duty::Tick, 1_000_000, || 3000);
        turns.describe(&mut info);
        assert_eq!((info.longest_turn_usec, info.longest_turn_duty), (1000, "tick"));
    }
}
