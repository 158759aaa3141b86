//! Runs handlers: limits how many run at once, catches panics, and drops all handlers at the end.

mod alone;
#[cfg(test)]
mod tests;

use std::{any::Any, panic::AssertUnwindSafe, sync::Arc, task::Poll};

use futures_util::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

pub(crate) use self::alone::UntilSettled;
use super::{Outcome, panics::words};

/// A worker's handlers.
#[derive(Debug, Clone)]
pub(crate) struct HandlerPool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    places: Arc<Semaphore>,
    /// Total number of places.
    all: u32,
    /// Held by the handler that is begun alone.
    turns: Arc<Semaphore>,
    /// Becomes `true` when the worker no longer waits for handlers.
    abandoned: watch::Sender<bool>,
}

/// One place for a handler, or all of them; released when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit(OwnedSemaphorePermit);

impl Permit {
    /// Splits off one of the places that it holds. Returns `None` if it holds none.
    fn split(&mut self) -> Option<Permit> {
        self.0.split(1).map(Permit)
    }
}

impl HandlerPool {
    pub(crate) fn new(concurrency: usize) -> Self {
        let (places, turns) = (Arc::new(Semaphore::new(concurrency)), Arc::new(Semaphore::new(1)));
        let all = u32::try_from(concurrency).unwrap_or(u32::MAX);
        let abandoned = watch::Sender::new(false);
        HandlerPool { inner: Arc::new(Inner { places, all, turns, abandoned }) }
    }

    /// Waits for a place. Returns `None` once the pool was abandoned.
    pub(crate) async fn permit(&self) -> Option<Permit> {
        Arc::clone(&self.inner.places).acquire_owned().await.ok().map(Permit)
    }

    /// Returns a place if one is free now and no task waits for it.
    pub(crate) fn permit_at_once(&self) -> Option<Permit> {
        Arc::clone(&self.inner.places).try_acquire_owned().ok().map(Permit)
    }

    /// Runs handlers in one task and passes their outcomes to `then`.
    ///
    /// Handlers begin in their order and run concurrently as far as there are places. The jobs of
    /// handlers that were done at once are passed together, the others one by one. A handler that
    /// never waits costs neither a task nor an extra place.
    pub(crate) fn work_through<J: Send + 'static, W: Send + 'static, H>(
        &self,
        permit: Permit,
        jobs: Vec<(J, W)>,
        begin: impl Fn(W) -> H + Send + Sync + 'static,
        then: impl Fn(Vec<J>, Outcome) + Send + Sync + 'static,
    ) where
        H: Future<Output = Outcome> + Unpin + Send + 'static,
    {
        let pool = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = pool.through(permit, jobs, begin, then) => {}
                () = pool.abandoned() => {}
            }
        });
    }

    async fn through<J, W, H: Future<Output = Outcome> + Unpin>(
        &self,
        permit: Permit,
        jobs: Vec<(J, W)>,
        begin: impl Fn(W) -> H,
        then: impl Fn(Vec<J>, Outcome),
    ) {
        let mut free = Some(permit);
        let mut done = Vec::with_capacity(jobs.len());
        let mut waiting = FuturesUnordered::new();
        for (job, work) in jobs {
            let permit = match free.take().or_else(|| self.permit_at_once()) {
                Some(permit) => permit,
                None => {
                    tell(&mut done, &then);
                    // A job of this task is waiting, or its place would be free.
                    tokio::select! {
                        biased;
                        Some((permit, job, outcome)) = waiting.next() => {
                            then(vec![job], outcome);
                            permit
                        }
                        Some(permit) = self.permit() => permit,
                        else => return,
                    }
                }
            };
            if self.inner.places.is_closed() {
                return;
            }
            let mut handler = AssertUnwindSafe(begin(work)).catch_unwind();
            match futures_util::poll!(&mut handler).map(settled) {
                Poll::Ready(outcome) => {
                    free = Some(permit);
                    match outcome {
                        Outcome::Done => done.push(job),
                        other => then(vec![job], other),
                    }
                }
                Poll::Pending => {
                    waiting.push(handler.map(move |outcome| (permit, job, settled(outcome))));
                }
            }
        }
        drop(free);
        tell(&mut done, &then);
        while let Some((permit, job, outcome)) = waiting.next().await {
            drop(permit);
            then(vec![job], outcome);
        }
    }

    /// Runs a handler in its own task and passes its outcome to `then`.
    ///
    /// `then` is not called if the pool is abandoned before the handler ends.
    pub(crate) fn work(
        &self,
        permit: Permit,
        handler: impl Future<Output = Outcome> + Send + 'static,
        then: impl FnOnce(Outcome) + Send + 'static,
    ) {
        let pool = self.clone();
        tokio::spawn(async move {
            let caught = AssertUnwindSafe(handler).catch_unwind();
            tokio::select! {
                biased;
                outcome = caught => {
                    drop(permit);
                    then(settled(outcome));
                }
                () = pool.abandoned() => {}
            }
        });
    }

    /// Abandons all handlers: they are dropped at their current await point.
    pub(crate) fn abandon(&self) {
        self.inner.places.close();
        self.inner.turns.close();
        self.inner.abandoned.send_replace(true);
    }

    /// Returns `true` if the pool was abandoned.
    fn is_let_go(&self) -> bool {
        self.inner.places.is_closed()
    }

    async fn abandoned(&self) {
        // The sender is part of `self`: waiting cannot fail.
        let _ = self.inner.abandoned.subscribe().wait_for(|gone| *gone).await;
    }
}

/// Passes on the jobs that were done at once.
fn tell<J>(done: &mut Vec<J>, then: impl Fn(Vec<J>, Outcome)) {
    if !done.is_empty() {
        then(std::mem::take(done), Outcome::Done);
    }
}

/// Returns the outcome of a handler, also of one that panicked.
fn settled(caught: Result<Outcome, Box<dyn Any + Send>>) -> Outcome {
    caught.unwrap_or_else(|panic| {
        Outcome::Failed(format!("the handler panicked: {}", words(&*panic)))
    })
}
