//! Entries that wait for another attempt, by the time at which it is due.

use std::collections::BTreeMap;

use seawall_resilience::clock::Moment;
use tokio::sync::OwnedSemaphorePermit;

use super::{attempts::Attempts, in_flight::Place, intake::AT_ONCE};

/// Entries that may wait without taking room among the entries in flight.
const MAX_WAITING: usize = 4_096;

/// The table.
#[derive(Debug, Default)]
pub(super) struct Retries {
    waiting: BTreeMap<(Moment, Place), Waiting>,
}

/// An entry that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) attempts: Attempts,
    pub(super) room: Option<OwnedSemaphorePermit>,
}

impl Retries {
    /// Adds an entry. It keeps its room only if many entries wait.
    pub(super) fn add(
        &mut self,
        due: Moment,
        place: Place,
        attempts: Attempts,
        room: Option<OwnedSemaphorePermit>,
    ) {
        let room = if self.waiting.len() < MAX_WAITING { None } else { room };
        self.waiting.insert((due, place), Waiting { attempts, room });
    }

    /// Returns the time at which the next attempt is due.
    pub(super) fn next_at(&self) -> Option<Moment> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }

    /// Removes the entries that are due and returns them in groups, each of one stream and small enough
    /// for one call.
    pub(super) fn take_due(&mut self, now: Moment) -> Vec<Vec<(Place, Waiting)>> {
        let mut due: Vec<Vec<(Place, Waiting)>> = Vec::new();
        while let Some(first) = self.waiting.first_entry() {
            if first.key().0 > now {
                break;
            }
            let ((_, place), waiting) = first.remove_entry();
            let fits = |group: &&mut Vec<(Place, Waiting)>| {
                group[0].0.stream == place.stream && group.len() < AT_ONCE
            };
            match due.iter_mut().find(fits) {
                Some(group) => group.push((place, waiting)),
                None => due.push(vec![(place, waiting)]),
            }
        }
        due
    }

    /// Puts a group back that could not be begun; it stays due.
    pub(super) fn put_back(&mut self, now: Moment, group: Vec<(Place, Waiting)>) {
        self.waiting.extend(group.into_iter().map(|(place, waiting)| ((now, place), waiting)));
    }

    /// Removes those of these entries that wait, and returns them.
    pub(super) fn remove(&mut self, places: &[Place]) -> Vec<Place> {
        let waits = |place: &&Place| self.waiting.keys().any(|(_, waits)| waits == *place);
        let removed: Vec<Place> = places.iter().filter(waits).copied().collect();
        self.waiting.retain(|(_, place), _| !removed.contains(place));
        removed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;

    fn place(stream: usize, id: u64) -> Place {
        Place { stream, id: format!("{id}-0").parse().expect("an id") }
    }

    fn at(nanos: u64) -> Moment {
        Moment::from_nanos(nanos)
    }

    #[test]
    fn what_is_due_is_taken_by_stream_and_can_be_put_back() {
        let mut retries = Retries::default();
        for (due, place) in [(3, place(0, 1)), (1, place(1, 2)), (2, place(0, 3)), (9, place(0, 4))]
        {
            retries.add(at(due), place, Attempts::FIRST, None);
        }
        assert_eq!(retries.next_at(), Some(at(1)));
        let mut due = retries.take_due(at(3));
        let places = |group: &Vec<(Place, Waiting)>| -> Vec<Place> {
            group.iter().map(|(place, _)| *place).collect()
        };
        let taken: Vec<Vec<Place>> = due.iter().map(places).collect();
        assert_eq!(taken, [vec![place(1, 2)], vec![place(0, 3), place(0, 1)]]);
        assert_eq!(retries.next_at(), Some(at(9)));
        retries.put_back(at(3), due.remove(1));
        assert_eq!(retries.remove(&[place(0, 1), place(1, 2)]), [place(0, 1)]);
        assert_eq!(retries.take_due(at(3)).iter().map(places).collect::<Vec<_>>(), [[place(0, 3)]]);
    }

    #[test]
    fn only_beyond_the_limit_do_they_keep_their_room() {
        let room = Arc::new(Semaphore::new(MAX_WAITING + 5));
        let mut retries = Retries::default();
        for id in 0..MAX_WAITING as u64 + 5 {
            let permit = Arc::clone(&room).try_acquire_owned().ok();
            retries.add(at(id), place(0, id + 1), Attempts::FIRST, permit);
        }
        assert_eq!(room.available_permits(), MAX_WAITING);
        drop(retries.take_due(at(u64::MAX)));
        assert_eq!(room.available_permits(), MAX_WAITING + 5);
    }
}
