//! The part of a worker that begins handlers, in the order in which entries came.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

#[cfg(feature = "sabotage")]
use super::sabotage::Bug;
use super::{
    builder::Handler,
    crew::Crew,
    delivery::{self, Delivery, Outcome},
    hand::Place,
    intake::{Post, Taken},
};

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
}

impl<T: Send + 'static> Dispatcher<T> {
    /// Begins what comes until nothing more can come, or the crew was let go.
    pub(super) async fn run(mut self) {
        while let Some(list) = self.inbox.recv().await {
            let begun = match self.handler.clone() {
                Handler::Each(handler) => {
                    let mut begun = Some(());
                    for taken in list {
                        let Some((holding, delivery)) = self.open(taken) else { continue };
                        begun = self.begin(smallvec![holding], || handler(delivery)).await;
                        if begun.is_none() {
                            break;
                        }
                    }
                    begun
                }
                Handler::Batch(handler) => self.begin_batches(list, &*handler).await,
            };
            if begun.is_none() {
                return;
            }
        }
    }

    /// Entries that are new go together; those that were delivered before go alone, so that one that
    /// always fails fails alone.
    async fn begin_batches<R>(
        &self,
        list: Vec<Taken>,
        handler: &(dyn Fn(Vec<Delivery<T>>) -> R + Send + Sync),
    ) -> Option<()>
    where
        R: Future<Output = Outcome> + Send + 'static,
    {
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
    async fn begin<R>(&self, of: SmallVec<[Holding; 1]>, handler: impl FnOnce() -> R) -> Option<()>
    where
        R: Future<Output = Outcome> + Send + 'static,
    {
        let seat = self.crew.seat().await?;
        #[cfg(feature = "sabotage")]
        if self.post.settings.has(Bug::AckBeforeCommit) {
            for holding in &of {
                let (key, ack) = self.post.acknowledgement(&[holding.place]);
                let _ = self.post.link.send(&key, &ack).await;
            }
        }
        let verdicts = self.verdicts.clone();
        // A handler may panic before its future exists.
        let future = std::panic::catch_unwind(std::panic::AssertUnwindSafe(handler));
        match future {
            Ok(future) => self.crew.work(seat, future, move |outcome| {
                // The settler ends after the handlers.
                let _ = verdicts.send(Verdict { of, outcome });
            }),
            Err(_) => {
                let outcome = Outcome::Failed("the handler panicked".to_owned());
                let _ = verdicts.send(Verdict { of, outcome });
            }
        }
        Some(())
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
                match stream.decode(&fields) {
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
