//! Invalidations of the last half minute, done once more when the server may have forgotten them.
//!
//! A primary that is replaced by a replica which lagged behind, or that restarts from an older
//! snapshot, brings back entries whose invalidation it had acknowledged. Nothing in such an entry
//! tells that it is a ghost. So whoever invalidated remembers for a while, and whenever a connection
//! is opened anew, to whatever server, hands what it remembers to the repair queue. Done once too
//! often, an invalidation costs one load.
//!
//! What is not covered: a process that invalidated and died before it saw the new server.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::watch;

use super::{repair::Repairs, sabotage};
use crate::clock::{Clock, Moment};

/// How long an invalidation is remembered: longer than a fail-over takes.
const WINDOW: Duration = Duration::from_secs(30);
/// How many are remembered at most; the oldest go first.
const MAX_ENTRIES: usize = 10_000;

/// What was invalidated lately.
#[derive(Default)]
pub(super) struct Recent {
    entries: Mutex<VecDeque<(Moment, Vec<u8>)>>,
}

impl Recent {
    /// Remembers entries whose invalidation was acknowledged.
    pub(super) fn remember(&self, entries: &[Vec<u8>], now: Moment) {
        if sabotage::forgets_at_once() {
            return;
        }
        let mut recent = self.lock();
        recent.extend(entries.iter().map(|entry| (now, entry.clone())));
        let beyond = recent.len().saturating_sub(MAX_ENTRIES);
        recent.drain(..beyond);
        while recent.front().is_some_and(|(then, _)| now.since(*then) > WINDOW) {
            recent.pop_front();
        }
    }

    fn since(&self, now: Moment) -> Vec<Vec<u8>> {
        let recent = self.lock();
        let fresh = recent.iter().filter(|(then, _)| now.since(*then) <= WINDOW);
        fresh.map(|(_, entry)| entry.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Moment, Vec<u8>)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hands everything recent to the repair queue whenever a connection was opened anew, until the
/// handle is shut down.
pub(super) async fn repeat_after_reconnects(
    recent: Arc<Recent>,
    repairs: Arc<Repairs>,
    clock: Clock,
    mut opened: watch::Receiver<u64>,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            changed = opened.changed() => if changed.is_err() { return },
        }
        let entries = recent.since(clock.now());
        if !entries.is_empty() {
            tracing::debug!(count = entries.len(), "a new connection: invalidating once more");
            repairs.add(entries);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_old_or_too_much_is_forgotten() {
        let recent = Recent::default();
        let start = Moment::default();
        recent.remember(&[b"old".to_vec()], start);
        let later = start + Duration::from_secs(20);
        recent.remember(&[b"new".to_vec()], later);
        assert_eq!(recent.since(later).len(), 2);
        assert_eq!(recent.since(start + Duration::from_secs(31)), [b"new".to_vec()]);
        let many: Vec<Vec<u8>> =
            (0..MAX_ENTRIES).map(|number| number.to_be_bytes().to_vec()).collect();
        recent.remember(&many, later);
        assert_eq!(recent.since(later), many, "the newest stay");
    }
}
