//! Whether Redis is thought to be away: then nobody waits for it, except one now and then who looks.
//!
//! Smaller than a breaker on purpose: a limiter always has an answer of its own, so a single failure
//! is enough to stop asking for a moment, and a single answer is enough to ask again. On a Cluster
//! this is kept for each node, so that one that is away concerns its own subjects only.

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

/// How long nobody asks after a failure.
pub(super) const PAUSE: Duration = Duration::from_millis(250);
/// Nodes of a Cluster that are told apart; beyond that, some share their fate.
const PARTS: usize = 64;

/// The servers, each of which can be away on its own.
#[derive(Debug)]
pub(super) struct Parts([Away; PARTS]);

impl Parts {
    pub(super) fn new() -> Self {
        Parts(std::array::from_fn(|_| Away::default()))
    }

    /// The server that has this key.
    pub(super) fn of(&self, client: &Client, key: &[u8]) -> &Away {
        &self.0[client.node_number(key) as usize % PARTS]
    }
}

/// When a server may be asked again, and who waits for it.
#[derive(Debug, Default)]
pub(super) struct Away {
    /// 0 while it answers.
    until: AtomicU64,
    pub(super) silence: Arc<Silence>,
}

impl Away {
    /// True when Redis is to be asked: it is there, or it is this caller's turn to look.
    pub(super) fn may_ask(&self, now: Moment) -> bool {
        let until = self.until.load(Ordering::Acquire);
        if until == 0 {
            return true;
        }
        // Whoever moves the time on is the one who looks; should it be dropped on the way, the next
        // one looks a pause later.
        until <= now.as_nanos()
            && self
                .until
                .compare_exchange(until, mark(now), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// Redis answered. True when it had been away.
    pub(super) fn answered(&self) -> bool {
        self.until.load(Ordering::Relaxed) != 0 && self.until.swap(0, Ordering::AcqRel) != 0
    }

    /// Redis did not answer. True when that is news.
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
