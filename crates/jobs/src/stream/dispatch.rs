//! The part of a worker that begins handlers, in the order in which entries arrived.
//!
//! If the last attempt at an entry may have begun and never ended, the entry may have ended its
//! process. It is begun alone: no other handler of the worker runs, the attempt is recorded in
//! Redis before it begins, and nothing else begins before it is settled. So the death of a process
//! is blamed on the one entry that was running, and the other entries only suffer a delay.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use futures_util::{
    FutureExt as _,
    future::{self, BoxFuture},
};
use seawall_resilience::clock::Moment;
use smallvec::{SmallVec, smallvec};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tracing::Span;

use super::{
    attempts::Attempts,
    builder::{Each, Handler},
    delivery::{self, Delivery, Outcome},
    handler_pool::HandlerPool,
    in_flight::Place,
    intake::{GroupConsumer, Taken},
};
use crate::observed::Observed;

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
    /// While no other handler ran; dropping the sender wakes the task that waits for the end.
    Alone(#[expect(dead_code, reason = "held for its end")] oneshot::Sender<()>),
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
    pub(super) completions: mpsc::UnboundedSender<Completion>,
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

    /// Begins a handler while no other runs, and waits until its entry is settled.
    ///
    /// Returns `None` once the handler pool was abandoned.
    async fn begin_alone(&self, taken: Taken) -> Option<()> {
        let Some(mut taken) = self.admit(taken) else { return Some(()) };
        let place = taken.place;
        let turn = self.pool.turn(&self.consumer.clock).await?;
        taken.attempts = taken.attempts.begun_alone();
        let note = [(place, Some(taken.attempts))];
        let noted = || async { Ok(self.consumer.renew(place.stream, &note).await?.is_empty()) };
        if !turn.note(self.consumer.client.network_clock(), noted).await? {
            self.consumer.in_flight.release([place]);
            return Some(());
        }
        let (settled, ended) = oneshot::channel();
        let Some((holding, delivery)) = self.open(taken, Began::Alone(settled)) else {
            return Some(());
        };
        let seen = Seen::begin(&self.consumer, std::slice::from_ref(&delivery));
        let handler = match self.handler.clone() {
            Handler::Each(handler) => seen.call(&self.consumer, || handler(delivery)),
            Handler::Batch(handler) => seen.call(&self.consumer, || handler(vec![delivery])),
        };
        let completions = self.completions.clone();
        let then = move |outcome| {
            // The settler ends after the handlers.
            let _ = completions.send(Completion { of: smallvec![holding], outcome });
        };
        turn.work(handler, then, ended).await;
        Some(())
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
                seen.call(&consumer, || handler(delivery))
            };
            self.pool.work_through(permit, jobs, begin, move |of, outcome| {
                // The settler ends after the handlers.
                let _ = completions.send(Completion { of: of.into(), outcome });
            });
        }
    }

    /// Begins new entries together in batches, and entries that were tried before one by one, so
    /// that an entry that always fails does so alone.
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
        handler: &(dyn Fn(Vec<Delivery<T>>) -> BoxFuture<'static, Outcome> + Send + Sync),
    ) -> Option<()> {
        let permit = self.pool.permit().await?;
        let completions = self.completions.clone();
        let seen = Seen::begin(&self.consumer, &deliveries);
        let handler = seen.call(&self.consumer, || handler(deliveries));
        self.pool.work(permit, handler, move |outcome| {
            // The settler ends after the handlers.
            let _ = completions.send(Completion { of, outcome });
        });
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
        // The decoder is the caller's code, and its input may come from any program.
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
                // No handler has begun, so it is not an attempt.
                let (attempts, room) = (holding.postponed(), holding.room);
                let unbegun = Holding { place, attempts, began: Began::Not, room };
                let _ = self.completions.send(Completion { of: smallvec![unbegun], outcome });
                None
            }
        }
    }

    /// Completes an entry that no handler has begun.
    fn settle(&self, taken: Taken, outcome: Outcome) {
        let Taken { place, attempts, room, .. } = taken;
        let holding = Holding { place, attempts, began: Began::Not, room };
        let _ = self.completions.send(Completion { of: smallvec![holding], outcome });
    }
}

/// A handler that is about to be called.
struct Seen {
    span: Span,
    began: Moment,
}

impl Seen {
    /// Records how long entries waited for their first handler, and opens the span of its call.
    fn begin<T>(consumer: &GroupConsumer<T>, deliveries: &[Delivery<T>]) -> Self {
        let began = consumer.clock.now();
        // On a Cluster all streams of a consumer are in one slot.
        let key = consumer.streams.first().map_or(&[][..], |stream| &stream.key);
        let now = consumer.client.server_millis_of(key, began);
        for delivery in deliveries.iter().filter(|delivery| delivery.attempt == 1) {
            let appended = i64::try_from(delivery.id.millis()).unwrap_or(i64::MAX);
            let delay = u64::try_from(now.saturating_sub(appended)).unwrap_or(0);
            consumer.meter.delay_seconds.record(Duration::from_millis(delay));
        }
        let Some(first) = deliveries.first() else { return Seen { span: Span::none(), began } };
        let span = tracing::debug_span!(
            "stream_handle",
            otel.name = %format_args!("process {}", first.stream),
            otel.kind = "consumer",
            messaging.system = "redis",
            messaging.operation.name = "process",
            messaging.operation.type = "process",
            messaging.destination.name = &*first.stream,
            messaging.consumer.group.name = consumer.settings.group,
            messaging.message.id = %first.id,
            messaging.batch.message_count = deliveries.len(),
            seawall.attempt = first.attempt,
            error.type = tracing::field::Empty,
        );
        Seen { span, began }
    }

    /// Calls the handler inside the span, and measures it.
    fn call<T>(
        self,
        consumer: &GroupConsumer<T>,
        handler: impl FnOnce() -> BoxFuture<'static, Outcome>,
    ) -> Observed {
        let (clock, seconds) = (&consumer.clock, &consumer.meter.handler_seconds);
        Observed::begin(self.span, clock, self.began, seconds, || call(handler))
    }
}

/// Calls a handler; the call may panic before it returns a future.
fn call(handler: impl FnOnce() -> BoxFuture<'static, Outcome>) -> BoxFuture<'static, Outcome> {
    catch_unwind(AssertUnwindSafe(handler)).unwrap_or_else(|_| {
        let failed = Outcome::Failed("the handler panicked".to_owned());
        future::ready(failed).boxed()
    })
}
