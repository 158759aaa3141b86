//! Handlers at work: no more at once than allowed, panics caught, and all let go at the end.
//!
//! Shared by the stream worker and the delayed queue's.

use std::{any::Any, panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt as _;
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

impl Crew {
    pub(crate) fn new(concurrency: usize) -> Self {
        let places = Arc::new(Semaphore::new(concurrency));
        Crew { inner: Arc::new(Inner { places, abandoned: watch::Sender::new(false) }) }
    }

    /// Waits for a place; `None` once all were let go.
    pub(crate) async fn seat(&self) -> Option<Seat> {
        Arc::clone(&self.inner.places).acquire_owned().await.ok().map(Seat)
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
                    then(outcome.unwrap_or_else(|panic| {
                        Outcome::Failed(format!("the handler panicked: {}", words(&*panic)))
                    }));
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

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no words")
}
