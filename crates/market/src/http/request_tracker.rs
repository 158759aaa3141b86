//! Tracks requests in progress: each runs to its end, even if its client is gone.
//!
//! A client may disconnect at any moment, and a response may come too late. Dropping the work at
//! that point would leave a query half read on its connection, and skip the steps that must follow
//! a commit. So dropped work continues in its own task. Work whose client waits, which is nearly
//! all of it, needs no task.
//!
//! Bounds: a task ends after [`WORK_LIMIT`], whatever it waits for. Beyond [`MOST`] tasks no more
//! are spawned; such work ends with its client.

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

/// Time limit of a response, including the body of its request.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Time limit of work whose client no longer waits.
const WORK_LIMIT: Duration = Duration::from_secs(60);
/// Time limit of such work once the server has stopped.
const DRAIN_LIMIT: Duration = Duration::from_secs(3);
/// Maximum tasks that run without a client: twice the maximum number of connections.
const MOST: u32 = 16_384;

/// Reason why there is no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// It takes too long; the work continues.
    Late,
    /// It panicked.
    Broken,
}

/// Requests that this process works on.
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
    /// Runs `work` to its end.
    ///
    /// # Cancel safety
    /// Dropping the future drops the response; the work continues.
    pub(crate) async fn run<F>(&self, work: F) -> Result<F::Output, NoAnswer>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        // State left behind by a panic is dropped with the request.
        let work = Box::pin(AssertUnwindSafe(work).catch_unwind());
        let mut held = Held { work: Some(work), room: &self.room, limit: self.work_limit };
        let done = poll_fn(|context| held.poll(context));
        match tokio::time::timeout(self.answer_limit, done).await {
            Ok(done) => done.map_err(|_| NoAnswer::Broken),
            Err(_) => Err(NoAnswer::Late),
        }
    }

    /// Waits, with a time limit, until no work runs without its client.
    pub(crate) async fn drained(&self) {
        if tokio::time::timeout(DRAIN_LIMIT, self.room.acquire_many(MOST)).await.is_err() {
            tracing::warn!("some requests did not end in time and are cut off");
        }
    }
}

/// Work that a client waits for; if dropped before its end, it continues in a task.
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
        // Without a runtime the whole process is ending.
        if let Some(work) = self.work.take()
            && let Ok(runtime) = Handle::try_current()
            && let Ok(place) = Arc::clone(self.room).try_acquire_owned()
        {
            let limit = self.limit;
            runtime.spawn(async move {
                // The result has no receiver.
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
