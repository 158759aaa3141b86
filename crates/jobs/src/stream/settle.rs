//! The part of a worker that settles entries: acknowledges, parks, and retries.
//!
//! Acknowledgements that arrive while one is being sent go together in the next, so batches grow
//! with the load. A command that Redis did not answer is sent again until it does; all of them are
//! safe to repeat. An entry keeps its room among the entries in flight until it is settled, so an
//! unavailable Redis stops the reading.
//!
//! An attempt that ended without success is recorded in Redis at once, not only when the next one
//! begins. If this process dies, the next worker then knows that the entry did not cause it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use seawall_resilience::{Backoff, clock::Moment};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use super::{
    attempts::Attempts,
    delivery::Outcome,
    dispatch::{Began, Completion, Holding},
    in_flight::Place,
    intake::{AT_ONCE, GroupConsumer, Known, Taken},
};

/// Most completions and acknowledgements that are handled together.
const MOST: usize = 1_024;
/// Entries that may wait for another attempt without taking room among the entries in flight.
const MAX_WAITING: usize = 4_096;
/// Longest delay between two attempts at an entry that failed.
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// Delays after Redis did not answer: doubled from the shorter one up to the longer one.
const PAUSES: Backoff = Backoff::doubling(Duration::from_millis(20), Duration::from_secs(1));
/// Attempts to settle the remaining entries when the worker ends.
const LAST_ATTEMPTS: usize = 3;

/// An attempt that has ended and is not recorded in Redis yet.
struct Note {
    attempts: Attempts,
    /// After an attempt that was begun alone, nothing else begins before its end is recorded in
    /// Redis.
    _began: Began,
}

/// An entry that waits for another attempt.
struct Waiting {
    attempts: Attempts,
    room: Option<OwnedSemaphorePermit>,
}

pub(super) struct Settler<T> {
    consumer: Arc<GroupConsumer<T>>,
    inbox: mpsc::UnboundedReceiver<Completion>,
    again: mpsc::UnboundedSender<Vec<Taken>>,
    /// Becomes `true` when no more attempts are begun.
    stop: watch::Receiver<bool>,
    /// Becomes `true` when all handlers have ended.
    finish: watch::Receiver<bool>,
    acks: Vec<Holding>,
    parks: Vec<(Holding, String)>,
    /// Attempts that are not recorded in Redis yet.
    notes: BTreeMap<Place, Note>,
    waiting: BTreeMap<(Moment, Place), Waiting>,
    /// Entries that turned out to be another worker's when they were renewed.
    lost: mpsc::UnboundedReceiver<Vec<Place>>,
    /// Commands that failed are not sent again before this time.
    not_before: Moment,
    pauses: Backoff,
}

impl<T> Settler<T> {
    pub(super) fn new(
        consumer: Arc<GroupConsumer<T>>,
        inbox: mpsc::UnboundedReceiver<Completion>,
        again: mpsc::UnboundedSender<Vec<Taken>>,
        stop: watch::Receiver<bool>,
        finish: watch::Receiver<bool>,
        lost: mpsc::UnboundedReceiver<Vec<Place>>,
    ) -> Self {
        let now = consumer.clock.now();
        Settler {
            not_before: now,
            consumer,
            inbox,
            again,
            stop,
            finish,
            lost,
            acks: Vec::new(),
            parks: Vec::new(),
            notes: BTreeMap::new(),
            waiting: BTreeMap::new(),
            pauses: PAUSES,
        }
    }

    /// Settles completions until the worker ends.
    pub(super) async fn run(mut self) {
        let clock = self.consumer.clock.clone();
        let mut finish = self.finish.clone();
        let mut completions = Vec::new();
        loop {
            let mut finishing = false;
            let wake_at = self.wake_at();
            tokio::select! {
                biased;
                _ = self.inbox.recv_many(&mut completions, MOST) => {}
                _ = finish.wait_for(|finish| *finish) => finishing = true,
                Some(lost) = self.lost.recv() => self.let_go(&lost),
                () = clock.sleep_until_some(wake_at) => {}
            }
            completions.drain(..).for_each(|completion| self.sort(completion));
            // Completions that never cease must not hide what was lost.
            while let Ok(lost) = self.lost.try_recv() {
                self.let_go(&lost);
            }
            if finishing {
                return self.end().await;
            }
            if clock.now() >= self.not_before {
                self.settle().await;
                if !*self.stop.borrow() {
                    self.begin_again().await;
                }
            }
        }
    }

    /// Returns `true` if there is something to send to Redis.
    fn has_work(&self) -> bool {
        !self.acks.is_empty() || !self.parks.is_empty() || !self.notes.is_empty()
    }

    /// Returns the time at which there is something to do even if no completion arrives.
    fn wake_at(&self) -> Option<Moment> {
        let work = self.has_work().then_some(self.not_before);
        let retry = match self.waiting.first_key_value() {
            Some(((due, _), _)) if !*self.stop.borrow() => Some((*due).max(self.not_before)),
            _ => None,
        };
        [work, retry].into_iter().flatten().min()
    }

    /// Settles the rest when all handlers have ended; entries that cannot be settled now stay
    /// pending.
    async fn end(mut self) {
        while let Ok(completion) = self.inbox.try_recv() {
            self.sort(completion);
        }
        for _ in 0..LAST_ATTEMPTS {
            self.settle().await;
            if !self.has_work() {
                break;
            }
            self.consumer.client.network_clock().sleep(self.pauses.peek()).await;
        }
    }

    /// Decides what a completion means for each of its entries.
    fn sort(&mut self, completion: Completion) {
        let limit = self.consumer.settings.deliveries;
        // If several entries failed together, the cause is unknown: each is tried by itself next.
        let together = completion.of.len() > 1;
        for holding in completion.of {
            let failed = if together { holding.postponed() } else { holding.failed() };
            let last = failed.counted() >= limit;
            match &completion.outcome {
                Outcome::Done => self.acks.push(holding),
                Outcome::Park(reason) => self.parks.push((holding, reason.clone())),
                Outcome::Failed(reason) if last => self.parks.push((holding, reason.clone())),
                Outcome::Retry(_) if last => {
                    let reason = format!("not done after {} attempts", failed.counted());
                    self.parks.push((holding, reason));
                }
                Outcome::Failed(reason) => {
                    let id = holding.place.id;
                    tracing::warn!(entry = %id, attempt = holding.number(), reason, "tried again");
                    let doubled = u32::try_from(failed.counted().clamp(1, 16)).unwrap_or(16) - 1;
                    let pause =
                        self.consumer.settings.retry_delay.saturating_mul(2_u32.pow(doubled));
                    self.wait(holding, pause.min(LONGEST_RETRY), failed);
                }
                Outcome::Retry(after) => self.wait(holding, *after, failed),
                Outcome::Postpone(after) => {
                    let attempts = holding.postponed();
                    self.wait(holding, *after, attempts);
                }
            }
        }
    }

    fn wait(&mut self, holding: Holding, after: Duration, attempts: Attempts) {
        self.consumer.meter.retried(1);
        let Holding { place, began, room, .. } = holding;
        self.notes.insert(place, Note { attempts, _began: began });
        self.consumer.in_flight.rest(place);
        let room = if self.waiting.len() < MAX_WAITING { None } else { room };
        let due = self.consumer.clock.now() + after;
        self.waiting.insert((due, place), Waiting { attempts, room });
    }

    /// Sends the waiting acknowledgements and parks the waiting entries.
    async fn settle(&mut self) {
        let mut failed = self.acknowledge().await;
        for (holding, reason) in std::mem::take(&mut self.parks) {
            if failed {
                self.parks.push((holding, reason));
                continue;
            }
            let attempts = holding.failed().counted();
            match self.consumer.park(holding.place, &reason, attempts).await {
                Ok(parked) => {
                    if parked {
                        let id = holding.place.id;
                        tracing::error!(entry = %id, attempts, reason, "parked");
                        self.consumer.meter.parked(1);
                    }
                    self.consumer.in_flight.release([holding.place]);
                }
                Err(error) => {
                    tracing::debug!(%error, "not parked yet");
                    self.parks.push((holding, reason));
                    failed = true;
                }
            }
        }
        if !failed {
            failed = self.note().await;
        }
        self.reckon(failed);
    }

    /// Records attempts that have ended. Returns `true` if something has to be sent again.
    async fn note(&mut self) -> bool {
        let notes: Vec<_> =
            self.notes.iter().map(|(place, note)| (*place, Some(note.attempts))).collect();
        // Ordered by place, so the entries of a stream are together.
        for group in notes.chunk_by(|one, other| one.0.stream == other.0.stream) {
            for some in group.chunks(AT_ONCE) {
                match self.consumer.renew(some[0].0.stream, some).await {
                    Ok(lost) => {
                        self.notes.retain(|place, _| some.iter().all(|(sent, _)| sent != place));
                        self.let_go(&lost);
                    }
                    Err(error) => {
                        tracing::debug!(%error, "not noted yet");
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Acknowledges. Returns `true` if something has to be sent again.
    async fn acknowledge(&mut self) -> bool {
        if self.acks.is_empty() {
            return false;
        }
        let mut acks = std::mem::take(&mut self.acks);
        if self.consumer.streams.len() > 1 {
            acks.sort_unstable_by_key(|holding| holding.place.stream);
        }
        let mut groups: Vec<Vec<Holding>> = Vec::new();
        for holding in acks {
            match groups.last_mut() {
                Some(group)
                    if group.len() < MOST && group[0].place.stream == holding.place.stream =>
                {
                    group.push(holding);
                }
                _ => groups.push(vec![holding]),
            }
        }
        let places: Vec<Vec<Place>> = groups
            .iter()
            .map(|group| group.iter().map(|holding| holding.place).collect())
            .collect();
        let commands = places.iter().map(|places| self.consumer.acknowledgement(places)).collect();
        let mut failed = false;
        for ((reply, group), places) in
            self.consumer.client.send_all(commands).await.into_iter().zip(groups).zip(places)
        {
            match reply {
                Ok(_) => {
                    self.consumer.meter.handled(places.len());
                    self.consumer.in_flight.release(places);
                    make_room(group);
                }
                Err(error) => {
                    failed = true;
                    tracing::debug!(%error, "not acknowledged yet");
                    self.acks.extend(group);
                }
            }
        }
        failed
    }

    /// Begins the retries that are due.
    async fn begin_again(&mut self) {
        let now = self.consumer.clock.now();
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
        let mut failed = false;
        for group in due {
            let ids =
                group.iter().map(|(place, waiting)| (place.id, Known::These(waiting.attempts)));
            match self.consumer.retake(group[0].0.stream, ids).await {
                Ok(mut taken) => {
                    for (place, waiting) in group {
                        self.notes.remove(&place);
                        match taken.iter_mut().find(|taken| taken.place == place) {
                            Some(taken) => {
                                taken.room = waiting.room;
                                self.consumer.in_flight.resume(place);
                            }
                            // It belongs to another worker by now, or was deleted.
                            None => self.consumer.in_flight.release([place]),
                        }
                    }
                    // If the dispatcher has ended, so has this task.
                    let _ = self.again.send(taken);
                }
                Err(error) => {
                    tracing::debug!(%error, "not taken again yet");
                    failed = true;
                    for (place, waiting) in group {
                        self.waiting.insert((now, place), waiting);
                    }
                }
            }
        }
        if failed {
            self.reckon(true);
        }
    }

    /// Forgets entries that another worker has taken over: their retries belong to that worker.
    ///
    /// A handler that is running goes on, and its acknowledgement counts.
    fn let_go(&mut self, lost: &[Place]) {
        if lost.is_empty() {
            return;
        }
        let waiting = |place: &&Place| self.waiting.keys().any(|(_, waits)| waits == *place);
        let theirs: Vec<Place> = lost.iter().filter(waiting).copied().collect();
        self.waiting.retain(|(_, place), _| !theirs.contains(place));
        self.consumer.in_flight.release(theirs);
        tracing::debug!(entries = lost.len(), "taken over by others");
    }

    fn reckon(&mut self, failed: bool) {
        if failed {
            self.not_before = self.consumer.clock.now() + self.pauses.pause();
        } else {
            self.pauses.reset();
        }
    }
}

/// Releases the room of settled entries together, because each release locks the semaphore.
fn make_room(settled: Vec<Holding>) {
    let mut rooms = settled.into_iter().filter_map(|holding| holding.room);
    if let Some(mut all) = rooms.next() {
        rooms.for_each(|room| all.merge(room));
    }
}
