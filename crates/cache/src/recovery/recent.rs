//! Repeats the invalidations of the last half minute when the server may have forgotten them.
//!
//! A primary that is replaced by a replica which lagged behind, or that restarts from an older
//! snapshot, brings back entries whose invalidation it had acknowledged, and generations that had
//! ended. Nothing in such an entry tells that it is a ghost. So a process that invalidated or cleared
//! remembers it for a while, and whenever a connection is opened anew, to whatever server, hands what
//! it remembers to the recovery queue (`task.rs`). Done once too often, an invalidation costs one load.
//!
//! What is not covered: a process that invalidated and died before it saw the new server.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use seawall_resilience::clock::{Clock, Moment};

use crate::recovery::backlog::Bump;

/// How long an invalidation is remembered: longer than a fail-over takes.
const WINDOW: Duration = Duration::from_secs(30);
/// How many are remembered at most; the oldest go first.
const MAX_ENTRIES: usize = 10_000;

/// What was invalidated lately.
#[derive(Default)]
pub(crate) struct Recent {
    done: Mutex<VecDeque<(Moment, Done)>>,
}

enum Done {
    Entry(Vec<u8>),
    Generation(Bump),
}

impl Recent {
    /// Remembers entries whose invalidation was acknowledged.
    pub(crate) fn remember(&self, entries: &[Vec<u8>], now: Moment) {
        self.extend(entries.iter().map(|entry| Done::Entry(entry.clone())), now);
    }

    /// Remembers a generation whose end was acknowledged.
    pub(crate) fn remember_bump(&self, bump: Bump, now: Moment) {
        self.extend(std::iter::once(Done::Generation(bump)), now);
    }

    fn extend(&self, done: impl Iterator<Item = Done>, now: Moment) {
        let mut recent = self.lock();
        recent.extend(done.map(|done| (now, done)));
        let beyond = recent.len().saturating_sub(MAX_ENTRIES);
        recent.drain(..beyond);
        while recent.front().is_some_and(|(then, _)| now.since(*then) > WINDOW) {
            recent.pop_front();
        }
    }

    /// Returns what was done within the window.
    pub(crate) fn since(&self, now: Moment) -> (Vec<Vec<u8>>, Vec<Bump>) {
        let (mut entries, mut bumps) = (Vec::new(), Vec::new());
        for (then, done) in self.lock().iter() {
            match done {
                _ if now.since(*then) > WINDOW => {}
                Done::Entry(entry) => entries.push(entry.clone()),
                Done::Generation(bump) => bumps.push(bump.clone()),
            }
        }
        (entries, bumps)
    }

    /// Returns when the last of it is forgotten.
    pub(crate) fn over_at(&self) -> Moment {
        self.lock().back().map_or_else(Moment::default, |(then, _)| *then + WINDOW)
    }

    /// Returns whether nothing is left to do once more.
    pub(crate) fn is_over(&self, clock: &Clock) -> bool {
        self.over_at() <= clock.now()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Moment, Done)>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
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
        let bump =
            Bump { generation: Some(b"g".to_vec()), value_tag: None, message: b"a".to_vec() };
        recent.remember_bump(bump.clone(), later);
        assert_eq!(recent.since(later).0.len(), 2);
        let (entries, bumps) = recent.since(start + Duration::from_secs(31));
        assert_eq!((entries, bumps), (vec![b"new".to_vec()], vec![bump]));
        assert_eq!(recent.over_at(), later + WINDOW);
        let many: Vec<Vec<u8>> =
            (0..MAX_ENTRIES).map(|number| number.to_be_bytes().to_vec()).collect();
        recent.remember(&many, later);
        assert_eq!(recent.since(later).0, many, "the newest stay");
    }
}
