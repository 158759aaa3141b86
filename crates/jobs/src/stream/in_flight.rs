//! What a worker has in its hands: delivered, and not settled yet.
//!
//! Redis may deliver an entry that is in hand once more (after a lost reply everything pending is
//! looked at again; a fail-over may have forgotten a delivery): it is begun only when it is not here.
//! The table is also what is renewed, so that others leave it alone however long a handler takes.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use seawall_resilience::clock::Moment;
use tokio::sync::Notify;

use super::entry::EntryId;

/// An entry of one of the worker's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    /// Which of the streams.
    pub(super) stream: usize,
    pub(super) id: EntryId,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    /// Since when nobody told Redis that it is being worked on.
    since: Moment,
    /// Whether it waits for its next attempt.
    waiting: bool,
}

/// The table.
#[derive(Debug, Default)]
pub(super) struct InFlightEntries {
    held: Mutex<Table>,
    /// Told when nothing is being worked on.
    idle: Notify,
}

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<Place, Held>,
    active: usize,
}

impl InFlightEntries {
    /// Takes those of these entries that are not in hand.
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

    /// Notes that an entry waits for its next attempt.
    pub(super) fn rest(&self, place: Place) {
        self.mark(place, true);
    }

    /// Notes that an entry that waited is at work again.
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
            self.idle.notify_waiters();
        }
    }

    /// Lets go of entries that are settled, or another worker's.
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
            self.idle.notify_waiters();
        }
    }

    /// What has not been renewed for this long; it counts as renewed now.
    pub(super) fn to_renew(&self, older_than: Duration, now: Moment) -> Vec<Place> {
        let mut table = self.table();
        let mut due = Vec::new();
        for (place, held) in &mut table.entries {
            if now.since(held.since) >= older_than {
                held.since = now;
                due.push(*place);
            }
        }
        due
    }

    /// How many entries are being worked on, and how many wait for another attempt.
    pub(super) fn count(&self) -> (usize, usize) {
        let table = self.table();
        (table.active, table.entries.len() - table.active)
    }

    /// Waits until nothing is being worked on.
    pub(super) async fn idle(&self) {
        // Each turn but the first follows a notification.
        loop {
            let told = self.idle.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if self.table().active == 0 {
                return;
            }
            told.await;
        }
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
