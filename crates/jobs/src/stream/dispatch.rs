//! The part of a worker that begins handlers, in the order in which entries came.
//!
//! An entry whose last attempt was begun, perhaps, and never ended may have ended its process. It is
//! begun alone: no other handler of the worker is at work, the attempt is noted in Redis before it
//! begins, and nothing else begins before it is settled. So the death of a process is blamed on the one
//! entry that was at work, and its neighbours pay with a delay.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use futures_util::{
    FutureExt as _,
    future::{self, BoxFuture},
};
use smallvec::{SmallVec, smallvec};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::{
    attempts::Attempts,
    builder::{Each, Handler},
    delivery::{self, Delivery, Outcome},
    handler_pool::HandlerPool,
    in_flight::Place,
    intake::{GroupConsumer, Taken},
};

/// Entries whose handlers share a task at most.
const TOGETHER: usize = 32;

/// An entry that was given to a handler.
pub(super) struct Holding {
    pub(super) place: Place,
    /// As they were when the handler began.
    pub(super) attempts: Attempts,
    pub(super) began: Began,
    /// Its room among those in hand, given back when it is settled.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

/// How a handler began.
pub(super) enum Began {
    /// It did not.
    Not,
    /// Beside others.
    Together,
    /// With nothing else at work; whoever waits for its end is told when this is dropped.
    Alone(#[expect(dead_code, reason = "held for its end")] oneshot::Sender<()>),
}

impl Holding {
    /// How manieth attempt this is, or was the last: an upper bound.
    pub(super) fn number(&self) -> u64 {
        match self.began {
            Began::Together => self.attempts.counted() + 1,
            Began::Not | Began::Alone(_) => self.attempts.number(),
        }
    }

    /// The attempts after this one failed.
    pub(super) fn failed(&self) -> Attempts {
        match self.began {
            Began::Not => self.attempts,
            Began::Together => self.attempts.ended_together(),
            Began::Alone(_) => self.attempts.ended(),
        }
    }

    /// The attempts after this one ended without counting.
    pub(super) fn postponed(&self) -> Attempts {
        match self.began {
            Began::Not => self.attempts,
            Began::Together => self.attempts.ended(),
            Began::Alone(_) => self.attempts.uncounted(),
        }
    }
}

/// What became of entries.
pub(super) struct Completion {
    pub(super) of: SmallVec<[Holding; 1]>,
    pub(super) outcome: Outcome,
}

pub(super) struct Dispatcher<T> {
    pub(super) consumer: Arc<GroupConsumer<T>>,
    pub(super) pool: HandlerPool,
    pub(super) handler: Handler<T>,
    pub(super) inbox: mpsc::UnboundedReceiver<Vec<Taken>>,
    pub(super) completions: mpsc::UnboundedSender<Completion>,
    /// Tasks over which the entries of one read are spread.
    pub(super) tasks: usize,
}

impl<T: Send + 'static> Dispatcher<T> {
    /// Begins what comes until nothing more can come, or the handler pool was let go.
    pub(super) async fn run(mut self) {
        while let Some(list) = self.inbox.recv().await {
            let (alone, list): (Vec<_>, Vec<_>) =
                list.into_iter().partition(|taken| taken.attempts.is_unexplained());
            let mut begun = match self.handler.clone() {
                Handler::Each(handler) => self.begin_each(list, &handler).await,
                Handler::Batch(handler) => self.begin_batches(list, &*handler).await,
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

    /// Begins a handler with nothing else at work, and waits until its entry is settled; `None` once the
    /// handler pool was let go.
    async fn begin_alone(&self, taken: Taken) -> Option<()> {
        let Some(mut taken) = self.admit(taken) else { return Some(()) };
        let place = taken.place;
        let turn = self.pool.turn(&self.consumer.clock).await?;
        taken.attempts = taken.attempts.begun_alone();
        let note = [(place, Some(taken.attempts))];
        let noted = || async { Ok(self.consumer.renew(place.stream, &note).await?.is_empty()) };
        if !turn.note(noted).await? {
            self.consumer.in_flight.release([place]);
            return Some(());
        }
        let (settled, ended) = oneshot::channel();
        let Some((holding, delivery)) = self.open(taken, Began::Alone(settled)) else {
            return Some(());
        };
        let handler = match self.handler.clone() {
            Handler::Each(handler) => call(|| handler(delivery)),
            Handler::Batch(handler) => call(|| handler(vec![delivery])),
        };
        let completions = self.completions.clone();
        let then = move |outcome| {
            // The settler ends after the handlers.
            let _ = completions.send(Completion { of: smallvec![holding], outcome });
        };
        turn.work(handler, then, ended).await;
        Some(())
    }

    /// Begins a handler for each entry, a share of them in one task: there are tasks for every core, and
    /// a handler that does not wait costs none of its own.
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
            let begin = move |delivery| call(|| handler(delivery));
            self.pool.work_through(permit, jobs, begin, move |of, outcome| {
                // The settler ends after the handlers.
                let _ = completions.send(Completion { of: of.into(), outcome });
            });
        }
    }

    /// Entries that are new go together; those that were tried before go one by one, so that one that always
    /// fails fails alone.
    async fn begin_batches(
        &self,
        list: Vec<Taken>,
        handler: &(dyn Fn(Vec<Delivery<T>>) -> BoxFuture<'static, Outcome> + Send + Sync),
    ) -> Option<()> {
        let opened: Vec<_> =
            list.into_iter().filter_map(|taken| self.open_together(taken)).collect();
        let (mut fresh, old): (Vec<_>, Vec<_>) =
            opened.into_iter().partition(|(holding, _)| holding.attempts == Attempts::FIRST);
        while !fresh.is_empty() {
            let rest = fresh.split_off(fresh.len().min(self.consumer.settings.batch));
            let (holdings, deliveries): (Vec<_>, Vec<_>) = fresh.into_iter().unzip();
            self.begin(holdings.into(), || handler(deliveries)).await?;
            fresh = rest;
        }
        for (holding, delivery) in old {
            self.begin(smallvec![holding], || handler(vec![delivery])).await?;
        }
        Some(())
    }

    /// Waits for a place and begins a handler; `None` once the handler pool was let go.
    async fn begin(
        &self,
        of: SmallVec<[Holding; 1]>,
        handler: impl FnOnce() -> BoxFuture<'static, Outcome>,
    ) -> Option<()> {
        let permit = self.pool.permit().await?;
        let completions = self.completions.clone();
        self.pool.work(permit, call(handler), move |outcome| {
            // The settler ends after the handlers.
            let _ = completions.send(Completion { of, outcome });
        });
        Some(())
    }

    fn open_together(&self, taken: Taken) -> Option<(Holding, Delivery<T>)> {
        self.open(self.admit(taken)?, Began::Together)
    }

    /// An entry that is there and has attempts left; any other gets its completion here.
    fn admit(&self, taken: Taken) -> Option<Taken> {
        let limit = self.consumer.settings.deliveries;
        let outcome = match (&taken.fields, taken.attempts) {
            // Somebody deleted it: there is nothing left to handle.
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

    /// Decodes an entry; one that cannot be decoded gets its completion here.
    fn open(&self, taken: Taken, began: Began) -> Option<(Holding, Delivery<T>)> {
        let Taken { place, attempts, fields, room } = taken;
        let holding = Holding { place, attempts, began, room };
        let fields = fields.unwrap_or_default();
        let stream = &self.consumer.streams[place.stream];
        // It is the caller's, and what it is given may be anybody's.
        let decoded = catch_unwind(AssertUnwindSafe(|| stream.decode(&fields)))
            .unwrap_or_else(|_| Err("its decoder panicked".to_owned()));
        match decoded {
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
                // No handler has begun: it is no attempt.
                let (attempts, room) = (holding.postponed(), holding.room);
                let unbegun = Holding { place, attempts, began: Began::Not, room };
                let _ = self.completions.send(Completion { of: smallvec![unbegun], outcome });
                None
            }
        }
    }

    /// A completion on an entry that no handler has begun.
    fn settle(&self, taken: Taken, outcome: Outcome) {
        let Taken { place, attempts, room, .. } = taken;
        let holding = Holding { place, attempts, began: Began::Not, room };
        let _ = self.completions.send(Completion { of: smallvec![holding], outcome });
    }
}

/// A handler's future; it may panic before that exists.
fn call(handler: impl FnOnce() -> BoxFuture<'static, Outcome>) -> BoxFuture<'static, Outcome> {
    catch_unwind(AssertUnwindSafe(handler)).unwrap_or_else(|_| {
        let failed = Outcome::Failed("the handler panicked".to_owned());
        future::ready(failed).boxed()
    })
}
