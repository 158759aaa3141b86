//! The part of a worker that begins handlers, in the order in which entries came.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use futures_util::{
    FutureExt as _,
    future::{self, BoxFuture},
};
use smallvec::{SmallVec, smallvec};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

#[cfg(feature = "sabotage")]
use super::sabotage::Bug;
use super::{
    builder::{Each, Handler},
    crew::Crew,
    delivery::{self, Delivery, Outcome},
    hand::Place,
    intake::{Post, Taken},
};

/// Entries whose handlers share a task at most.
const TOGETHER: usize = 32;

/// An entry that was given to a handler.
pub(super) struct Holding {
    pub(super) place: Place,
    pub(super) attempts: u64,
    /// Its room among those in hand, given back when it is settled.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

/// What became of entries.
pub(super) struct Verdict {
    pub(super) of: SmallVec<[Holding; 1]>,
    pub(super) outcome: Outcome,
}

pub(super) struct Dispatcher<T> {
    pub(super) post: Arc<Post<T>>,
    pub(super) crew: Crew,
    pub(super) handler: Handler<T>,
    pub(super) inbox: mpsc::UnboundedReceiver<Vec<Taken>>,
    pub(super) verdicts: mpsc::UnboundedSender<Verdict>,
    /// Tasks over which the entries of one read are spread.
    pub(super) tasks: usize,
}

impl<T: Send + 'static> Dispatcher<T> {
    /// Begins what comes until nothing more can come, or the crew was let go.
    pub(super) async fn run(mut self) {
        while let Some(list) = self.inbox.recv().await {
            let begun = match self.handler.clone() {
                Handler::Each(handler) => self.begin_each(list, &handler).await,
                Handler::Batch(handler) => self.begin_batches(list, &*handler).await,
            };
            if begun.is_none() {
                return;
            }
        }
    }

    /// Begins a handler for each entry, a share of them in one task: there are tasks for every core, and
    /// a handler that does not wait costs none of its own.
    async fn begin_each(&self, list: Vec<Taken>, handler: &Each<T>) -> Option<()> {
        let share = list.len().div_ceil(self.tasks).min(TOGETHER);
        let mut opened = list.into_iter().filter_map(|taken| self.open(taken));
        loop {
            let jobs: Vec<_> = opened.by_ref().take(share).collect();
            if jobs.is_empty() {
                return Some(());
            }
            let seat = self.crew.seat().await?;
            #[cfg(feature = "sabotage")]
            self.acknowledge_early(jobs.iter().map(|(holding, _)| holding.place).collect()).await;
            let (handler, verdicts) = (Arc::clone(handler), self.verdicts.clone());
            let begin = move |delivery| call(|| handler(delivery));
            self.crew.work_through(seat, jobs, begin, move |of, outcome| {
                // The settler ends after the handlers.
                let _ = verdicts.send(Verdict { of: of.into(), outcome });
            });
        }
    }

    /// Entries that are new go together; those that were delivered before go alone, so that one that
    /// always fails fails alone.
    async fn begin_batches(
        &self,
        list: Vec<Taken>,
        handler: &(dyn Fn(Vec<Delivery<T>>) -> BoxFuture<'static, Outcome> + Send + Sync),
    ) -> Option<()> {
        let opened: Vec<_> = list.into_iter().filter_map(|taken| self.open(taken)).collect();
        let (mut fresh, old): (Vec<_>, Vec<_>) =
            opened.into_iter().partition(|(holding, _)| holding.attempts == 1);
        while !fresh.is_empty() {
            let rest = fresh.split_off(fresh.len().min(self.post.settings.batch));
            let (holdings, deliveries): (Vec<_>, Vec<_>) = fresh.into_iter().unzip();
            self.begin(holdings.into(), || handler(deliveries)).await?;
            fresh = rest;
        }
        for (holding, delivery) in old {
            self.begin(smallvec![holding], || handler(vec![delivery])).await?;
        }
        Some(())
    }

    /// Waits for a place and begins a handler; `None` once the crew was let go.
    async fn begin(
        &self,
        of: SmallVec<[Holding; 1]>,
        handler: impl FnOnce() -> BoxFuture<'static, Outcome>,
    ) -> Option<()> {
        let seat = self.crew.seat().await?;
        #[cfg(feature = "sabotage")]
        self.acknowledge_early(of.iter().map(|holding| holding.place).collect()).await;
        let verdicts = self.verdicts.clone();
        self.crew.work(seat, call(handler), move |outcome| {
            // The settler ends after the handlers.
            let _ = verdicts.send(Verdict { of, outcome });
        });
        Some(())
    }

    #[cfg(feature = "sabotage")]
    async fn acknowledge_early(&self, places: Vec<Place>) {
        if self.post.settings.has(Bug::AckBeforeCommit) {
            for place in places {
                let (key, ack) = self.post.acknowledgement(&[place]);
                let _ = self.post.link.send(&key, &ack).await;
            }
        }
    }

    /// Understands an entry; what cannot be handed to a handler gets its verdict here.
    fn open(&self, taken: Taken) -> Option<(Holding, Delivery<T>)> {
        let Taken { place, attempts, fields, room } = taken;
        let holding = Holding { place, attempts, room };
        let limit = self.post.settings.deliveries;
        #[cfg(feature = "sabotage")]
        let limit = if self.post.settings.has(Bug::NoLimit) { u64::MAX } else { limit };
        let outcome = match fields {
            // Somebody deleted it: there is nothing left to handle.
            None => Outcome::Done,
            Some(_) if attempts > limit => Outcome::Park(format!(
                "delivered {limit} times and never settled: its handler, or the process with it, ended"
            )),
            Some(fields) => {
                let stream = &self.post.streams[place.stream];
                // It is the caller's, and what it is given may be anybody's.
                let decoded = catch_unwind(AssertUnwindSafe(|| stream.decode(&fields)))
                    .unwrap_or_else(|_| Err("its decoder panicked".to_owned()));
                match decoded {
                    Ok(payload) => {
                        let delivery = Delivery {
                            stream: Arc::clone(&stream.name),
                            id: place.id,
                            reference: delivery::reference(&fields),
                            attempt: attempts,
                            payload,
                        };
                        return Some((holding, delivery));
                    }
                    Err(why) => Outcome::Park(format!("not understood: {why}")),
                }
            }
        };
        let _ = self.verdicts.send(Verdict { of: smallvec![holding], outcome });
        None
    }
}

/// A handler's future; it may panic before that exists.
fn call(handler: impl FnOnce() -> BoxFuture<'static, Outcome>) -> BoxFuture<'static, Outcome> {
    catch_unwind(AssertUnwindSafe(handler)).unwrap_or_else(|_| {
        let failed = Outcome::Failed("the handler panicked".to_owned());
        future::ready(failed).boxed()
    })
}
