//! The part of a worker that settles entries: acknowledges, parks, and retries.
//!
//! An entry keeps its room among the entries in flight until it is settled, so an unavailable Redis
//! stops the reading.
//!
//! An attempt that ended without success is recorded in Redis at once, not only when the next one
//! begins. If this process dies, the next worker then knows that the entry did not cause it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use seawall_client::error::Result;
use seawall_resilience::clock::Moment;
use tokio::sync::{mpsc, watch};

use super::{
    attempts::Attempts,
    dispatch::{Began, Completion, Holding},
    in_flight::Place,
    intake::{AT_ONCE, GroupConsumer, Known, Taken},
    retries::Retries,
};
use crate::worker::{Next, Settle};

/// Most entries that one command acknowledges.
const MOST: usize = 1_024;

/// What the settler is told.
pub(super) enum Report {
    Completion(Completion),
    /// Entries that turned out to be another worker's when they were renewed.
    Lost(Vec<Place>),
}

/// An attempt that has ended and is not recorded in Redis yet.
struct Note {
    attempts: Attempts,
    /// After an attempt that was begun alone, nothing else begins before its end is recorded in
    /// Redis.
    _began: Began,
}

pub(super) struct Settler<T> {
    consumer: Arc<GroupConsumer<T>>,
    again: mpsc::UnboundedSender<Vec<Taken>>,
    /// Becomes `true` when no more retries are begun.
    stop: watch::Receiver<bool>,
    acks: Vec<Holding>,
    parks: VecDeque<(Holding, String)>,
    /// Attempts that are not recorded in Redis yet.
    notes: BTreeMap<Place, Note>,
    retries: Retries,
}

impl<T: Send + 'static> Settle for Settler<T> {
    type Report = Report;

    fn take(&mut self, report: Report) {
        match report {
            Report::Completion(completion) => self.sort(completion),
            Report::Lost(places) => self.let_go(&places),
        }
    }

    fn has_open(&self) -> bool {
        !self.acks.is_empty() || !self.parks.is_empty() || !self.notes.is_empty()
    }

    fn retry_at(&self) -> Option<Moment> {
        if *self.stop.borrow() { None } else { self.retries.next_at() }
    }

    async fn send(&mut self) -> Result<()> {
        let settled = self.settle().await;
        // A full memory refuses dead letters, and must not stop the retries.
        let begun = if *self.stop.borrow() { Ok(()) } else { self.begin_again().await };
        settled.and(begun)
    }
}

impl<T> Settler<T> {
    pub(super) fn new(
        consumer: Arc<GroupConsumer<T>>,
        again: mpsc::UnboundedSender<Vec<Taken>>,
        stop: watch::Receiver<bool>,
    ) -> Self {
        Settler {
            consumer,
            again,
            stop,
            acks: Vec::new(),
            parks: VecDeque::new(),
            notes: BTreeMap::new(),
            retries: Retries::default(),
        }
    }

    /// Decides what a completion means for each of its entries.
    fn sort(&mut self, completion: Completion) {
        let limit = self.consumer.settings.deliveries;
        let retry_delay = self.consumer.settings.retry_delay;
        // If several entries failed together, the cause is unknown: each is tried by itself next.
        let together = completion.of.len() > 1;
        for holding in completion.of {
            let failed = if together { holding.postponed() } else { holding.failed() };
            let counted = failed.counted();
            match completion.outcome.next(retry_delay, counted) {
                Next::Done => self.acks.push(holding),
                Next::Dead { reason } => self.parks.push_back((holding, reason.to_owned())),
                Next::Again { counts: true, reason, .. } if counted >= limit => {
                    let own = || format!("not done after {counted} attempts");
                    self.parks.push_back((holding, reason.map_or_else(own, str::to_owned)));
                }
                Next::Again { after, counts: true, reason } => {
                    if let Some(reason) = reason {
                        let (entry, attempt) = (holding.place.id, holding.number());
                        tracing::warn!(%entry, attempt, reason, "tried again");
                    }
                    self.wait(holding, after, failed);
                }
                Next::Again { after, counts: false, .. } => {
                    let attempts = holding.postponed();
                    self.wait(holding, after, attempts);
                }
            }
        }
    }

    fn wait(&mut self, holding: Holding, after: Duration, attempts: Attempts) {
        self.consumer.meter.retried(1);
        let Holding { place, began, room, .. } = holding;
        self.notes.insert(place, Note { attempts, _began: began });
        self.consumer.in_flight.rest(place);
        self.retries.add(self.consumer.clock.now() + after, place, attempts, room);
    }

    /// Sends acknowledgements, parks entries and records attempts, in this order.
    async fn settle(&mut self) -> Result<()> {
        self.acknowledge().await?;
        self.park().await?;
        self.note().await
    }

    /// Parks entries, one by one.
    async fn park(&mut self) -> Result<()> {
        while let Some((holding, reason)) = self.parks.front() {
            let (place, attempts) = (holding.place, holding.failed().counted());
            let parked = self.consumer.park(place, reason, attempts).await;
            if parked.inspect_err(|error| tracing::debug!(%error, "not parked yet"))? {
                tracing::error!(entry = %place.id, attempts, reason, "parked");
                self.consumer.meter.parked(1);
            }
            self.consumer.in_flight.release([place]);
            self.parks.pop_front();
        }
        Ok(())
    }

    /// Records attempts that have ended.
    async fn note(&mut self) -> Result<()> {
        let notes: Vec<_> =
            self.notes.iter().map(|(place, note)| (*place, Some(note.attempts))).collect();
        // Ordered by place, so the entries of a stream are together.
        for group in notes.chunk_by(|one, other| one.0.stream == other.0.stream) {
            for some in group.chunks(AT_ONCE) {
                let lost = self.consumer.renew(some[0].0.stream, some).await;
                let lost = lost.inspect_err(|error| tracing::debug!(%error, "not noted yet"))?;
                self.notes.retain(|place, _| some.iter().all(|(sent, _)| sent != place));
                self.let_go(&lost);
            }
        }
        Ok(())
    }

    /// Acknowledges all that is done, with one pipeline.
    ///
    /// # Errors
    /// The last error of a stream; entries of the others are acknowledged.
    async fn acknowledge(&mut self) -> Result<()> {
        if self.acks.is_empty() {
            return Ok(());
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
        let mut outcome = Ok(());
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
                    tracing::debug!(%error, "not acknowledged yet");
                    self.acks.extend(group);
                    outcome = Err(error);
                }
            }
        }
        outcome
    }

    /// Begins the retries that are due.
    ///
    /// # Errors
    /// The last error of a group; the others are begun.
    async fn begin_again(&mut self) -> Result<()> {
        let now = self.consumer.clock.now();
        let mut outcome = Ok(());
        for group in self.retries.take_due(now) {
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
                    self.retries.put_back(now, group);
                    outcome = Err(error);
                }
            }
        }
        outcome
    }

    /// Forgets entries that another worker has taken over: their retries belong to that worker.
    ///
    /// A handler that is running goes on, and its acknowledgement counts.
    fn let_go(&mut self, lost: &[Place]) {
        if !lost.is_empty() {
            self.consumer.in_flight.release(self.retries.remove(lost));
            tracing::debug!(entries = lost.len(), "taken over by others");
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
