//! Runs handlers: limits how many run at once, catches panics, and drops all handlers at the end.

mod alone;

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

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        sync::{
            Mutex,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use futures_util::future;
    use tokio::sync::mpsc;

    use super::*;

    type Told = (Vec<usize>, Outcome);

    /// A callback for jobs by number, and the channel that receives what it is called with.
    fn told() -> (impl Fn(Vec<usize>, Outcome) + Clone, mpsc::UnboundedReceiver<Told>) {
        let (sender, told) = mpsc::unbounded_channel();
        let then = move |jobs, outcome| sender.send((jobs, outcome)).expect("somebody listens");
        (then, told)
    }

    fn jobs(numbers: std::ops::Range<usize>) -> Vec<(usize, usize)> {
        numbers.map(|number| (number, number)).collect()
    }

    #[tokio::test]
    async fn what_does_not_wait_needs_one_place_and_is_told_together() {
        let pool = HandlerPool::new(1);
        let (then, mut told) = told();
        let begin = |number| match number {
            3 => panic!("the third"),
            5 => future::ready(Outcome::Park("the fifth".to_owned())).boxed(),
            _ => future::ready(Outcome::Done).boxed(),
        };
        let begin = move |number| async move { begin(number).await }.boxed();
        let permit = pool.permit().await.expect("free");
        pool.work_through(permit, jobs(0..8), begin, then);
        let panicked = Outcome::Failed("the handler panicked: the third".to_owned());
        assert_eq!(told.recv().await, Some((vec![3], panicked)));
        assert_eq!(told.recv().await, Some((vec![5], Outcome::Park("the fifth".to_owned()))));
        assert_eq!(told.recv().await, Some((vec![0, 1, 2, 4, 6, 7], Outcome::Done)));
        assert!(pool.permit().await.is_some(), "its place is free again");
    }

    #[tokio::test]
    async fn those_that_wait_are_no_more_at_once_than_there_are_places() {
        const PLACES: usize = 3;
        let pool = HandlerPool::new(PLACES);
        let (then, mut told) = told();
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        for share in 0..2 {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            let begin = move |_| {
                let (now, most) = (Arc::clone(&now), Arc::clone(&most));
                async move {
                    most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    for _ in 0..3 {
                        tokio::task::yield_now().await;
                    }
                    now.fetch_sub(1, Ordering::Relaxed);
                    Outcome::Done
                }
                .boxed()
            };
            let permit = pool.permit().await.expect("free");
            pool.work_through(permit, jobs(share * 20..share * 20 + 20), begin, then.clone());
        }
        let mut seen = BTreeSet::new();
        while seen.len() < 40 {
            let (jobs, outcome) = told.recv().await.expect("all are told");
            assert_eq!((jobs.len(), outcome), (1, Outcome::Done));
            seen.extend(jobs);
        }
        assert_eq!(most.load(Ordering::Relaxed), PLACES);
    }

    #[tokio::test]
    async fn with_one_place_all_begin_in_their_order() {
        let pool = HandlerPool::new(1);
        let (then, mut told) = told();
        let begun = Arc::new(Mutex::new(Vec::new()));
        for share in 0..3 {
            let begun = Arc::clone(&begun);
            let begin = move |number: usize| {
                begun.lock().expect("whole").push(number);
                // Every second one waits.
                async move {
                    if number.is_multiple_of(2) {
                        tokio::task::yield_now().await;
                    }
                    Outcome::Done
                }
                .boxed()
            };
            let permit = pool.permit().await.expect("there is one");
            pool.work_through(permit, jobs(share * 5..share * 5 + 5), begin, then.clone());
        }
        let mut ended = 0;
        while ended < 15 {
            ended += told.recv().await.expect("all are told").0.len();
        }
        assert_eq!(*begun.lock().expect("whole"), (0..15).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn who_is_let_go_begins_nothing_more() {
        let pool = HandlerPool::new(1);
        let (then, mut told) = told();
        let ends = pool.clone();
        let begin = move |number: usize| {
            if number == 2 {
                ends.abandon();
            }
            future::ready(Outcome::Failed(number.to_string())).boxed()
        };
        let permit = pool.permit().await.expect("free");
        pool.work_through(permit, jobs(0..8), begin, then);
        for number in 0..3_usize {
            let failed = Outcome::Failed(number.to_string());
            assert_eq!(told.recv().await, Some((vec![number], failed)));
        }
        assert_eq!(told.recv().await, None);
    }
}
