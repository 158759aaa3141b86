//! Requests that are worked on: each runs to its end, whoever waits for it.
//!
//! A client may go away at any moment, and an answer may come too late. Work that is dropped there
//! leaves a query half read on its connection, and what has to follow a commit undone. So whoever
//! drops it hands it over to a task of its own, where it goes on; work that somebody waits for, as
//! nearly all of it, costs no task.
//!
//! Bounds: a task ends after [`WORK_LIMIT`] whatever it waits for. Beyond [`MOST`] tasks no further
//! one is made; such work ends with its client.

use std::{
    future::poll_fn,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::FutureExt as _;
use tokio::{runtime::Handle, sync::Semaphore};

/// How long an answer may take, the body of its request included.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// How long work may take that nobody waits for any more.
const WORK_LIMIT: Duration = Duration::from_secs(60);
/// How long work may go on without its client once the server has ended.
const DRAIN_LIMIT: Duration = Duration::from_secs(3);
/// Work that goes on without its client: twice as much as there may be connections.
const MOST: u32 = 16_384;

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// It takes too long; the work goes on.
    Late,
    /// It panicked.
    Broken,
}

/// What this process works on.
#[derive(Debug)]
pub(crate) struct RequestTracker {
    room: Arc<Semaphore>,
    answer_limit: Duration,
    work_limit: Duration,
}

impl Default for RequestTracker {
    fn default() -> Self {
        let room = Arc::new(Semaphore::new(MOST as usize));
        RequestTracker { room, answer_limit: ANSWER_LIMIT, work_limit: WORK_LIMIT }
    }
}

impl RequestTracker {
    /// Does something to its end.
    ///
    /// # Cancel safety
    /// Dropping this drops the answer; the work goes on.
    pub(crate) async fn run<F>(&self, work: F) -> Result<F::Output, NoAnswer>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        // What a panic leaves behind is dropped with the request.
        let work = Box::pin(AssertUnwindSafe(work).catch_unwind());
        let mut held = Held { work: Some(work), room: &self.room, limit: self.work_limit };
        let done = poll_fn(|context| held.poll(context));
        match tokio::time::timeout(self.answer_limit, done).await {
            Ok(done) => done.map_err(|_| NoAnswer::Broken),
            Err(_) => Err(NoAnswer::Late),
        }
    }

    /// Waits until nothing goes on without its client any more, but not for ever.
    pub(crate) async fn drained(&self) {
        if tokio::time::timeout(DRAIN_LIMIT, self.room.acquire_many(MOST)).await.is_err() {
            tracing::warn!("some requests did not end in time and are cut off");
        }
    }
}

/// Work that somebody waits for; dropped before its end, it goes on in a task.
struct Held<'a, W: Future<Output: Send> + Send + 'static> {
    work: Option<Pin<Box<W>>>,
    room: &'a Arc<Semaphore>,
    limit: Duration,
}

impl<W: Future<Output: Send> + Send + 'static> Held<'_, W> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<W::Output> {
        let Some(work) = &mut self.work else { return Poll::Pending };
        let polled = work.as_mut().poll(context);
        if polled.is_ready() {
            self.work = None;
        }
        polled
    }
}

impl<W: Future<Output: Send> + Send + 'static> Drop for Held<'_, W> {
    fn drop(&mut self) {
        // Without a runtime the whole process ends.
        if let Some(work) = self.work.take()
            && let Ok(runtime) = Handle::try_current()
            && let Ok(place) = Arc::clone(self.room).try_acquire_owned()
        {
            let limit = self.limit;
            runtime.spawn(async move {
                // Nobody waits for what it comes to.
                let _ = tokio::time::timeout(limit, work).await;
                drop(place);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn whoever_goes_away_does_not_stop_the_work() {
        let request_tracker = RequestTracker::default();
        let (go, gone) = oneshot::channel::<()>();
        let (done, end) = oneshot::channel();
        let work = async move {
            gone.await.expect("it is told");
            done.send(7).expect("somebody waits");
        };
        let mut asked = Box::pin(request_tracker.run(work));
        assert!(futures_util::poll!(asked.as_mut()).is_pending());
        drop(asked);
        let mut drained = Box::pin(request_tracker.drained());
        assert!(futures_util::poll!(drained.as_mut()).is_pending(), "it is still in hand");
        go.send(()).expect("it waits");
        drained.await;
        assert_eq!(end.await, Ok(7));
    }

    #[tokio::test]
    async fn what_takes_too_long_is_answered_and_goes_on_but_not_for_ever() {
        let soon = Duration::from_millis(10);
        let request_tracker = RequestTracker { answer_limit: soon, ..RequestTracker::default() };
        let (go, gone) = oneshot::channel::<()>();
        let (done, end) = oneshot::channel();
        let work = async move { done.send(gone.await).expect("somebody waits") };
        assert_eq!(request_tracker.run(work).await, Err(NoAnswer::Late));
        go.send(()).expect("it waits");
        assert_eq!(end.await, Ok(Ok(())));
        let request_tracker = RequestTracker { work_limit: soon * 2, ..request_tracker };
        assert_eq!(request_tracker.run(std::future::pending::<()>()).await, Err(NoAnswer::Late));
        request_tracker.drained().await;
        assert_eq!(request_tracker.room.available_permits(), MOST as usize);
    }

    #[tokio::test]
    async fn a_panic_is_no_answer_at_once_or_later() {
        let request_tracker = RequestTracker::default();
        assert_eq!(
            request_tracker.run(async { panic!("at once") }).await,
            Err::<(), _>(NoAnswer::Broken)
        );
        let later = async {
            tokio::task::yield_now().await;
            panic!("later")
        };
        assert_eq!(request_tracker.run(later).await, Err::<(), _>(NoAnswer::Broken));
        assert_eq!(request_tracker.run(async { 7 }).await, Ok(7));
    }

    #[tokio::test]
    async fn without_room_it_ends_with_its_client() {
        let request_tracker =
            RequestTracker { room: Arc::new(Semaphore::new(0)), ..RequestTracker::default() };
        let (held, mut end) = oneshot::channel::<()>();
        let work = async move {
            std::future::pending::<()>().await;
            drop(held);
        };
        let mut asked = Box::pin(request_tracker.run(work));
        assert!(futures_util::poll!(asked.as_mut()).is_pending());
        assert_eq!(end.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        drop(asked);
        assert_eq!(end.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }
}
