//! The worker of a delayed queue: its settings, start and shutdown.

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use seawall_client::{
    Handle,
    error::{Error, Result},
};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::{
    delayed::{Core, Delayed},
    job::Job,
    shard_worker::{Handler, ShardWorker},
};
use crate::stream::{Outcome, handler_pool::HandlerPool};

/// Largest accepted concurrency: each leased item costs memory here and a lease to extend.
const MOST: usize = 100_000;

#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) concurrency: usize,
    pub(super) poll: Duration,
    pub(super) retry_delay: Duration,
    pub(super) drain_timeout: Duration,
}

/// Settings of a [`DelayedWorker`].
pub struct DelayedWorkerBuilder<T> {
    handle: Handle,
    core: Arc<Core>,
    settings: Settings,
    payload: PhantomData<fn() -> T>,
}

impl<T> DelayedWorkerBuilder<T> {
    pub(super) fn new(queue: &Delayed<T>) -> Self {
        DelayedWorkerBuilder {
            handle: queue.handle.clone(),
            core: Arc::clone(&queue.core),
            settings: Settings {
                concurrency: 16,
                poll: Duration::from_secs(1),
                retry_delay: Duration::from_secs(1),
                drain_timeout: Duration::from_secs(10),
            },
            payload: PhantomData,
        }
    }

    /// Sets the number of handlers that run at once. Default: 16.
    #[must_use]
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.settings.concurrency = handlers;
        self
    }

    /// Sets how often the worker polls the queue when no message wakes it. Default: 1 second.
    #[must_use]
    pub fn poll_interval(mut self, pause: Duration) -> Self {
        self.settings.poll = pause;
        self
    }

    /// Sets the delay after an item's first failure ([`Outcome::Failed`] or a panic). Default: 1
    /// second.
    ///
    /// The delay doubles with each further failure, up to one minute.
    #[must_use]
    pub fn retry_delay(mut self, pause: Duration) -> Self {
        self.settings.retry_delay = pause;
        self
    }

    /// Sets how long [`DelayedWorker::stop`] waits for items in progress. Default: 10 seconds.
    ///
    /// Items that are not finished by then are handed out again when their lease expires.
    #[must_use]
    pub fn drain_timeout(mut self, limit: Duration) -> Self {
        self.settings.drain_timeout = limit;
        self
    }
}

impl<T: DeserializeOwned + Send + 'static> DelayedWorkerBuilder<T> {
    /// Starts the worker, which calls `handler` for each item.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the setting that is out of range. An unavailable Redis is not an
    /// error: the worker waits for it.
    pub fn run<F, R>(self, handler: F) -> Result<DelayedWorker>
    where
        F: Fn(Job<T>) -> R + Send + Sync + 'static,
        R: Future<Output: Into<Outcome>> + Send + 'static,
    {
        if self.settings.concurrency == 0 || self.settings.concurrency > MOST {
            return Err(Error::Invalid(format!("concurrency must be from 1 to {MOST}")));
        }
        if self.settings.poll < Duration::from_millis(1) {
            return Err(Error::Invalid("a poll_interval below 1 ms would never rest".into()));
        }
        let handler: Handler<T> = Arc::new(move |job| handler(job).map(Into::into).boxed());
        let stop = watch::Sender::new(false);
        let ended = watch::Sender::new(false);
        let worker = DelayedWorker { stop: stop.clone(), ended: ended.subscribe() };
        let pool = HandlerPool::new(self.settings.concurrency);
        let client = self.handle.client();
        let tasks: Vec<_> = (0..self.core.shards.len())
            .map(|shard| {
                let shard_worker = ShardWorker::new(
                    client,
                    Arc::clone(&self.core),
                    shard,
                    self.settings.clone(),
                    pool.clone(),
                    Arc::clone(&handler),
                );
                self.handle.spawn_at_home(shard_worker.run(stop.subscribe()))
            })
            .collect();
        let mut stopping = self.handle.stopping();
        self.handle.spawn_at_home(async move {
            let mut asked = stop.subscribe();
            tokio::select! {
                biased;
                _ = asked.wait_for(|stop| *stop) => {}
                _ = stopping.wait_for(|stop| *stop) => {}
            }
            stop.send_replace(true);
            for task in tasks {
                if let Err(error) = task.await {
                    tracing::error!(%error, "a part of a delayed queue's worker did not end well");
                }
            }
            pool.abandon();
            ended.send_replace(true);
        });
        Ok(worker)
    }
}

/// A running worker.
///
/// Dropping it stops it in the background; [`DelayedWorker::stop`] waits until it has stopped.
#[must_use = "a worker that is dropped stops"]
pub struct DelayedWorker {
    stop: watch::Sender<bool>,
    ended: watch::Receiver<bool>,
}

impl DelayedWorker {
    /// Stops claiming, waits for items in progress up to the drain timeout, and ends.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        // An error means that the runtime is gone, and then there is nothing left to wait for.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }
}

impl Drop for DelayedWorker {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

impl<T> fmt::Debug for DelayedWorkerBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayedWorkerBuilder")
            .field("queue", &self.core.name)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for DelayedWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayedWorker").finish_non_exhaustive()
    }
}
