//! The part of a worker that begins handlers, in the order in which entries arrived.
//!
//! An entry whose last attempt may have begun and never ended runs alone.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::{
    attempts::Attempts,
    delivery::{self, Delivery},
    handler::{Batch, Each, Handler},
    in_flight::Place,
    intake::{GroupConsumer, Taken},
    observe::Seen,
    settle::Report,
};
use crate::worker::{HandlerPool, Outcome, UntilSettled, decoded};

/// Most entries whose handlers share a task.
const TOGETHER: usize = 32;

/// An entry that was given to a handler.
pub(super) struct Holding {
    pub(super) place: Place,
    /// Attempts at the time when the handler began.
    pub(super) attempts: Attempts,
    pub(super) began: Began,
    /// Its room among the entries in flight, released when it is settled.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

/// How a handler began.
pub(super) enum Began {
    /// It did not begin.
    Not,
    /// Beside other handlers.
    Together,
    /// While no other handler ran.
    Alone(#[expect(dead_code, reason = "held until it is dropped")] UntilSettled),
}

impl Holding {
    /// Returns the 1-based number of this attempt, or of the last one, as an upper bound.
    pub(super) fn number(&self) -> u64 {
        match self.began {
            Began::Together => self.attempts.counted() + 1,
            Began::Not | Began::Alone(_) => self.attempts.number(),
        }
    }

    /// Returns the attempts after this one failed.
    pub(super) fn failed(&self) -> Attempts {
        match self.began {
            Began::Not => self.attempts,
            Began::Together => self.attempts.ended_together(),
            Began::Alone(_) => self.attempts.ended(),
        }
    }

    /// Returns the attempts after this one ended without counting.
    pub(super) fn postponed(&self) -> Attempts {
        match self.began {
            Began::Not => self.attempts,
            Began::Together => self.attempts.ended(),
            Began::Alone(_) => self.attempts.uncounted(),
        }
    }
}

/// The outcome of one or more entries.
pub(super) struct Completion {
    pub(super) of: SmallVec<[Holding; 1]>,
    pub(super) outcome: Outcome,
}

pub(super) struct Dispatcher<T> {
    pub(super) consumer: Arc<GroupConsumer<T>>,
    pub(super) pool: HandlerPool,
    pub(super) handler: Handler<T>,
    pub(super) inbox: mpsc::UnboundedReceiver<Vec<Taken>>,
    pub(super) completions: mpsc::UnboundedSender<Report>,
    /// Number of tasks over which the entries of one read are spread.
    pub(super) tasks: usize,
}

impl<T: Send + 'static> Dispatcher<T> {
    /// Begins entries until the senders are gone or the handler pool was abandoned.
    pub(super) async fn run(mut self) {
        while let Some(list) = self.inbox.recv().await {
            let (alone, list): (Vec<_>, Vec<_>) =
                list.into_iter().partition(|taken| taken.attempts.is_unexplained());
            let mut begun = match self.handler.clone() {
                Handler::Each(handler) => self.begin_each(list, &handler).await,
                Handler::Batch(handler) => self.begin_batches(list, &handler).await,
            };
            for taken in alone {
                if begun.is_some() {
                    begun = self.begin_alone(taken).await;
                }
            }
            if begun.is_none() {
                return;
            }
        }
    }

    /// Begins a handler while no other runs, and waits until its entry is settled.
    ///
    /// Returns `None` once the handler pool was abandoned.
    async fn begin_alone(&self, taken: Taken) -> Option<()> {
        let Some(mut taken) = self.admit(taken) else { return Some(()) };
        let place = taken.place;
        taken.attempts = taken.attempts.begun_alone();
        let note = [(place, Some(taken.attempts))];
        let record = || async { Ok(self.consumer.renew(place.stream, &note).await?.is_empty()) };
        let begin = |until_settled: Option<UntilSettled>| {
            let Some(until_settled) = until_settled else {
                self.consumer.in_flight.release([place]);
                return None;
            };
            let (holding, delivery) = self.open(taken, Began::Alone(until_settled))?;
            let handler = self.handler.clone();
            let seen = Seen::begin(&self.consumer, std::slice::from_ref(&delivery));
            let call = seen.call(&self.consumer, move || handler.call_with_one(delivery));
            let completions = self.completions.clone();
            Some((call, move |outcome| tell(&completions, smallvec![holding], outcome)))
        };
        self.pool.run_alone(&self.consumer.client, record, begin).await
    }

    /// Begins a handler for each entry, several entries in one task.
    ///
    /// There are tasks for every core, and a handler that does not wait costs no extra task.
    async fn begin_each(&self, list: Vec<Taken>, handler: &Each<T>) -> Option<()> {
        let share = list.len().div_ceil(self.tasks).min(TOGETHER);
        let mut opened = list.into_iter().filter_map(|taken| self.open_together(taken));
        loop {
            let jobs: Vec<_> = opened.by_ref().take(share).collect();
            if jobs.is_empty() {
                return Some(());
            }
            let permit = self.pool.permit().await?;
            let (handler, completions) = (Arc::clone(handler), self.completions.clone());
            let consumer = Arc::clone(&self.consumer);
            let begin = move |delivery| {
                let seen = Seen::begin(&consumer, std::slice::from_ref(&delivery));
                let handler = Arc::clone(&handler);
                seen.call(&consumer, move || handler(delivery))
            };
            let then = move |of: Vec<_>, outcome| tell(&completions, of.into(), outcome);
            self.pool.work_through(permit, jobs, begin, then);
        }
    }

    /// Begins new entries together in batches, and entries that were tried before one by one, so
    /// that an entry that always fails does so alone.
    async fn begin_batches(&self, list: Vec<Taken>, handler: &Batch<T>) -> Option<()> {
        let opened: Vec<_> =
            list.into_iter().filter_map(|taken| self.open_together(taken)).collect();
        let (mut fresh, old): (Vec<_>, Vec<_>) =
            opened.into_iter().partition(|(holding, _)| holding.attempts == Attempts::FIRST);
        while !fresh.is_empty() {
            let rest = fresh.split_off(fresh.len().min(self.consumer.settings.batch));
            let (holdings, deliveries): (Vec<_>, Vec<_>) = fresh.into_iter().unzip();
            self.begin(holdings.into(), deliveries, handler).await?;
            fresh = rest;
        }
        for (holding, delivery) in old {
            self.begin(smallvec![holding], vec![delivery], handler).await?;
        }
        Some(())
    }

    /// Waits for a place and begins a handler. Returns `None` once the handler pool was abandoned.
    async fn begin(
        &self,
        of: SmallVec<[Holding; 1]>,
        deliveries: Vec<Delivery<T>>,
        handler: &Batch<T>,
    ) -> Option<()> {
        let permit = self.pool.permit().await?;
        let (handler, completions) = (Arc::clone(handler), self.completions.clone());
        let seen = Seen::begin(&self.consumer, &deliveries);
        let call = seen.call(&self.consumer, move || handler(deliveries));
        self.pool.work(permit, call, move |outcome| tell(&completions, of, outcome));
        Some(())
    }

    fn open_together(&self, taken: Taken) -> Option<(Holding, Delivery<T>)> {
        self.open(self.admit(taken)?, Began::Together)
    }

    /// Returns an entry that exists and has attempts left; any other is completed here.
    fn admit(&self, taken: Taken) -> Option<Taken> {
        let limit = self.consumer.settings.deliveries;
        let outcome = match (&taken.fields, taken.attempts) {
            // The entry was deleted: there is nothing left to handle.
            (None, _) => Outcome::Done,
            (Some(_), attempts) if attempts.counted() < limit => return Some(taken),
            (Some(_), attempts) if attempts.is_unexplained() => Outcome::Park(format!(
                "begun alone and never settled, after {limit} attempts that count: its handler, or \
                 the process with it, ended"
            )),
            (Some(_), attempts) => {
                Outcome::Park(format!("not done after {} attempts", attempts.counted()))
            }
        };
        self.settle(taken, outcome);
        None
    }

    /// Decodes an entry; one that cannot be decoded is completed here.
    fn open(&self, taken: Taken, began: Began) -> Option<(Holding, Delivery<T>)> {
        let Taken { place, attempts, fields, room } = taken;
        let holding = Holding { place, attempts, began, room };
        let fields = fields.unwrap_or_default();
        let stream = &self.consumer.streams[place.stream];
        match decoded(|| stream.decode(&fields)) {
            Ok(payload) => {
                let delivery = Delivery {
                    stream: Arc::clone(&stream.name),
                    id: place.id,
                    reference: delivery::reference(&fields),
                    attempt: holding.number(),
                    payload,
                };
                Some((holding, delivery))
            }
            Err(why) => {
                let outcome = Outcome::Park(format!("not understood: {why}"));
                // No handler has begun, so it is not an attempt.
                let (attempts, room) = (holding.postponed(), holding.room);
                let unbegun = Holding { place, attempts, began: Began::Not, room };
                tell(&self.completions, smallvec![unbegun], outcome);
                None
            }
        }
    }

    /// Completes an entry that no handler has begun.
    fn settle(&self, taken: Taken, outcome: Outcome) {
        let Taken { place, attempts, room, .. } = taken;
        let holding = Holding { place, attempts, began: Began::Not, room };
        tell(&self.completions, smallvec![holding], outcome);
    }
}

/// Tells the settler, which ends after the handlers.
fn tell(completions: &mpsc::UnboundedSender<Report>, of: SmallVec<[Holding; 1]>, outcome: Outcome) {
    let _ = completions.send(Report::Completion(Completion { of, outcome }));
}
