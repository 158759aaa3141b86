//! Tracks Redis availability. During an outage checks skip Redis; one probe per interval checks for
//! recovery.
//!
//! Simpler than a breaker on purpose: a limiter can always decide locally, so a single failure is
//! enough to skip Redis for a moment, and a single answer is enough to ask it again. On a Cluster
//! this is tracked per node, so that an unavailable node affects its own subjects only.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use seawall_client::client::Client;
use seawall_resilience::clock::Moment;

use super::silence::Silence;

/// How long checks skip Redis after a failure.
pub(super) const PAUSE: Duration = Duration::from_millis(250);
/// Nodes of a Cluster that are tracked separately; with more nodes, some share one state.
const PARTS: usize = 64;

/// The servers, each of which can be unavailable on its own.
#[derive(Debug)]
pub(super) struct Parts([Away; PARTS]);

impl Parts {
    pub(super) fn new() -> Self {
        Parts(std::array::from_fn(|_| Away::default()))
    }

    /// Returns the state of the server that has this key.
    pub(super) fn of(&self, client: &Client, key: &[u8]) -> &Away {
        &self.0[client.node_number(key) as usize % PARTS]
    }
}

/// When a server may be asked again, and the checks that wait for it.
#[derive(Debug, Default)]
pub(super) struct Away {
    /// 0 while it answers.
    until: AtomicU64,
    pub(super) silence: Arc<Silence>,
}

impl Away {
    /// Returns `true` if the caller may ask Redis: it is available, or this caller is the probe.
    pub(super) fn may_ask(&self, now: Moment) -> bool {
        let until = self.until.load(Ordering::Acquire);
        if until == 0 {
            return true;
        }
        // The caller whose exchange succeeds is the probe. If it is dropped on the way, another
        // caller probes one pause later.
        until <= now.as_nanos()
            && self
                .until
                .compare_exchange(until, mark(now), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// Records that Redis answered. Returns `true` if it had been unavailable.
    pub(super) fn answered(&self) -> bool {
        self.until.load(Ordering::Relaxed) != 0 && self.until.swap(0, Ordering::AcqRel) != 0
    }

    /// Records that Redis did not answer. Returns `true` if it had been available.
    pub(super) fn failed(&self, now: Moment) -> bool {
        self.until.swap(mark(now), Ordering::AcqRel) == 0
    }
}

fn mark(now: Moment) -> u64 {
    (now + PAUSE).as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_looks_at_a_time() {
        let away = Away::default();
        let at = |millis: u64| Moment::from_nanos(millis * 1_000_000);
        assert!(away.may_ask(at(0)));
        assert!(away.failed(at(0)));
        assert!(!away.failed(at(1)), "no news");
        assert!(!away.may_ask(at(100)));
        assert!(away.may_ask(at(251)));
        assert!(!away.may_ask(at(251)), "somebody looks already");
        assert!(away.may_ask(at(502)), "the one who looked was dropped");
        assert!(away.answered());
        assert!(!away.answered());
        assert!(away.may_ask(at(502)));
    }
}
