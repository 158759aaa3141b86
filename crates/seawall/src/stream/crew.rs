//! Handlers at work: no more at once than allowed, panics caught, and all let go at the end.
//!
//! Shared by the stream worker and the delayed queue's.

use std::{any::Any, panic::AssertUnwindSafe, sync::Arc};

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::Outcome;

/// A worker's handlers.
#[derive(Debug, Clone)]
pub(crate) struct Crew {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    places: Arc<Semaphore>,
    /// Turns true when handlers are not waited for any longer.
    abandoned: watch::Sender<bool>,
}

/// A place at work; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat(#[expect(dead_code, reason = "held for its end")] OwnedSemaphorePermit);

/// Several places at work.
#[derive(Debug)]
pub(crate) struct Seats(OwnedSemaphorePermit);

impl Seats {
    pub(crate) fn count(&self) -> usize {
        self.0.num_permits()
    }

    /// Frees some of them.
    fn free(&mut self, count: usize) {
        drop(self.0.split(count));
    }
}

impl Crew {
    pub(crate) fn new(concurrency: usize) -> Self {
        let places = Arc::new(Semaphore::new(concurrency));
        Crew { inner: Arc::new(Inner { places, abandoned: watch::Sender::new(false) }) }
    }

    /// Waits for a place; `None` once all were let go.
    pub(crate) async fn seat(&self) -> Option<Seat> {
        Arc::clone(&self.inner.places).acquire_owned().await.ok().map(Seat)
    }

    /// Waits for a place and takes up to so many, as far as there are any then; `None` once all were let
    /// go.
    pub(crate) async fn seats(&self, most: usize) -> Option<Seats> {
        let places = &self.inner.places;
        let mut taken = Arc::clone(places).acquire_owned().await.ok()?;
        // Not before the wait: whoever waited for the first may find others free as well.
        let more = places.available_permits().min(most.saturating_sub(1));
        let more = u32::try_from(more).unwrap_or(0);
        if more > 0
            && let Ok(more) = Arc::clone(places).try_acquire_many_owned(more)
        {
            taken.merge(more);
        }
        Some(Seats(taken))
    }

    /// Runs handlers in one task, side by side, and hands their outcomes to `then`: those that were
    /// done at once together, the others one by one. One that never waits costs no task of its own.
    pub(crate) fn work_together<J: Send + 'static>(
        &self,
        mut seats: Seats,
        jobs: Vec<(J, BoxFuture<'static, Outcome>)>,
        then: impl Fn(Vec<J>, Outcome) + Send + Sync + 'static,
    ) {
        let crew = self.clone();
        tokio::spawn(async move {
            let count = jobs.len();
            let mut done = Vec::with_capacity(count);
            let mut waiting = FuturesUnordered::new();
            for (job, handler) in jobs {
                let mut caught = AssertUnwindSafe(handler).catch_unwind();
                match futures_util::poll!(&mut caught).map(settled) {
                    std::task::Poll::Ready(Outcome::Done) => done.push(job),
                    std::task::Poll::Ready(outcome) => then(vec![job], outcome),
                    std::task::Poll::Pending => {
                        waiting.push(caught.map(move |outcome| (job, settled(outcome))));
                    }
                }
            }
            seats.free(count - waiting.len());
            if !done.is_empty() {
                then(done, Outcome::Done);
            }
            let rest = async {
                while let Some((job, outcome)) = waiting.next().await {
                    seats.free(1);
                    then(vec![job], outcome);
                }
            };
            tokio::select! {
                biased;
                () = rest => {}
                () = crew.abandoned() => {}
            }
        });
    }

    /// Runs a handler in a task of its own and hands its outcome to `then`; nothing when it is let go
    /// before it ends.
    pub(crate) fn work(
        &self,
        seat: Seat,
        handler: impl Future<Output = Outcome> + Send + 'static,
        then: impl FnOnce(Outcome) + Send + 'static,
    ) {
        let crew = self.clone();
        tokio::spawn(async move {
            let caught = AssertUnwindSafe(handler).catch_unwind();
            tokio::select! {
                biased;
                outcome = caught => {
                    drop(seat);
                    then(settled(outcome));
                }
                () = crew.abandoned() => {}
            }
        });
    }

    /// Lets go of all handlers: they are dropped where they stand.
    pub(crate) fn abandon(&self) {
        self.inner.places.close();
        self.inner.abandoned.send_replace(true);
    }

    async fn abandoned(&self) {
        // The sender lives in `self`: waiting cannot fail.
        let _ = self.inner.abandoned.subscribe().wait_for(|gone| *gone).await;
    }
}

/// An outcome, also of a handler that panicked.
fn settled(caught: Result<Outcome, Box<dyn Any + Send>>) -> Outcome {
    caught.unwrap_or_else(|panic| {
        Outcome::Failed(format!("the handler panicked: {}", words(&*panic)))
    })
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no words")
}
