//! Tracks entries that are delivered but not yet settled.
//!
//! Redis may deliver an entry in flight again: after a lost reply the worker goes through
//! everything pending, and a fail-over may have lost a delivery. Such an entry is begun only if it
//! is not in this table. The table also says what to renew, so that other workers do not take over
//! an entry whose handler takes long.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use seawall_resilience::clock::Moment;

use super::entry::EntryId;
use crate::worker::Idle;

/// An entry of one of the worker's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    /// Index of the stream.
    pub(super) stream: usize,
    pub(super) id: EntryId,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    /// Time of the delivery or of the last renewal.
    since: Moment,
    /// Whether the entry waits for its next attempt.
    waiting: bool,
}

/// The table.
#[derive(Debug, Default)]
pub(super) struct InFlightEntries {
    held: Mutex<Table>,
    /// Reached when no handler works on an entry.
    idle: Idle,
}

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<Place, Held>,
    active: usize,
}

impl InFlightEntries {
    /// Adds these entries, except those that are in flight already, and returns the added ones.
    pub(super) fn take<E>(
        &self,
        entries: Vec<E>,
        place: impl Fn(&E) -> Place,
        now: Moment,
    ) -> Vec<E> {
        let mut table = self.table();
        let mut fresh = |entry: &E| {
            let held = Held { since: now, waiting: false };
            match table.entries.entry(place(entry)) {
                std::collections::hash_map::Entry::Occupied(_) => false,
                std::collections::hash_map::Entry::Vacant(vacant) => {
                    vacant.insert(held);
                    table.active += 1;
                    true
                }
            }
        };
        entries.into_iter().filter(|entry| fresh(entry)).collect()
    }

    /// Marks an entry as waiting for its next attempt.
    pub(super) fn rest(&self, place: Place) {
        self.mark(place, true);
    }

    /// Marks a waiting entry as in progress again.
    pub(super) fn resume(&self, place: Place) {
        self.mark(place, false);
    }

    fn mark(&self, place: Place, waiting: bool) {
        let mut table = self.table();
        let table = &mut *table;
        let Some(held) = table.entries.get_mut(&place) else { return };
        match (held.waiting, waiting) {
            (false, true) => table.active -= 1,
            (true, false) => table.active += 1,
            _ => {}
        }
        held.waiting = waiting;
        if table.active == 0 {
            self.idle.reached();
        }
    }

    /// Removes entries that are settled, or belong to another worker.
    pub(super) fn release(&self, places: impl IntoIterator<Item = Place>) {
        let mut table = self.table();
        for place in places {
            if let Some(held) = table.entries.remove(&place)
                && !held.waiting
            {
                table.active -= 1;
            }
        }
        if table.active == 0 {
            self.idle.reached();
        }
    }

    /// Returns entries that were not renewed for this long.
    pub(super) fn to_renew(&self, older_than: Duration, now: Moment) -> Vec<Place> {
        let table = self.table();
        let old = |held: &Held| now.since(held.since) >= older_than;
        let places = table.entries.iter().filter(|(_, held)| old(held)).map(|(place, _)| *place);
        let mut places: Vec<Place> = places.collect();
        places.sort_unstable();
        places
    }

    /// Marks entries as renewed at this time.
    pub(super) fn renewed(&self, places: &[Place], now: Moment) {
        let mut table = self.table();
        for place in places {
            if let Some(held) = table.entries.get_mut(place) {
                held.since = now;
            }
        }
    }

    /// Returns the number of entries in progress, and of those that wait for another attempt.
    pub(super) fn count(&self) -> (usize, usize) {
        let table = self.table();
        (table.active, table.entries.len() - table.active)
    }

    /// Waits until no entry is in progress.
    pub(super) async fn idle(&self) {
        self.idle.wait(|| self.table().active == 0).await;
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(id: &str) -> Place {
        Place { stream: 0, id: id.parse().expect("an id") }
    }

    #[tokio::test]
    async fn an_entry_is_taken_once_and_renewed_when_it_is_old() {
        let hand = InFlightEntries::default();
        let (start, later) = (Moment::from_nanos(0), Moment::from_nanos(1_000));
        assert_eq!(hand.take(vec![place("1-0"), place("2-0")], |p| *p, start).len(), 2);
        assert_eq!(hand.take(vec![place("2-0"), place("3-0")], |p| *p, later), [place("3-0")]);
        let old = Duration::from_nanos(1_000);
        let mut due = hand.to_renew(old, later);
        due.sort_unstable();
        assert_eq!(due, [place("1-0"), place("2-0")]);
        hand.renewed(&due, later);
        assert!(hand.to_renew(old, later).is_empty());
        hand.rest(place("1-0"));
        assert_eq!(hand.count(), (2, 1));
        hand.release([place("2-0"), place("3-0"), place("9-0")]);
        hand.idle().await;
        hand.resume(place("1-0"));
        hand.release([place("1-0")]);
        assert_eq!(hand.count(), (0, 0));
    }
}
