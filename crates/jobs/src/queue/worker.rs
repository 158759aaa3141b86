//! The worker of a delayed queue: its settings and its start.
//!
//! For each shard, one task claims items and begins their handlers, and another settles them and
//! extends the leases of items in progress.

mod claim;
mod dispatch;
mod held;
mod settle;

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use seawall_client::{
    Handle,
    error::{Error, Result},
};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use self::{
    claim::Claimer,
    dispatch::{Dispatcher, Handler},
    held::HeldItems,
    settle::Settler,
};
use super::{core::Core, delayed::Delayed, job::Job};
use crate::worker::{HandlerPool, Outcome, Part, Running, Signals, renew_while, settle};

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

    /// Sets how long [`DelayedWorker::shutdown`] waits for items in progress. Default: 10 seconds.
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
    pub fn spawn<F, R>(self, handler: F) -> Result<DelayedWorker>
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
        let pool = HandlerPool::new(self.settings.concurrency);
        let signals = Signals::new();
        let start = |shard| self.start_part(shard, &handler, &pool, &signals);
        let parts = (0..self.core.shards.len()).map(start).collect();
        let (name, timeout) = (self.core.name.clone(), self.settings.drain_timeout);
        let conclude = async |_| ();
        let running = Running::start(&self.handle, name, signals, pool, timeout, parts, conclude);
        Ok(DelayedWorker { running })
    }

    /// Starts the tasks of one shard.
    fn start_part(
        &self,
        shard: usize,
        handler: &Handler<T>,
        pool: &HandlerPool,
        signals: &Signals,
    ) -> Part<HeldItems> {
        let client = self.handle.client();
        let held = Arc::new(HeldItems::default());
        let (completions, reports) = mpsc::unbounded_channel();
        let dispatcher = Dispatcher {
            client: client.clone(),
            core: Arc::clone(&self.core),
            shard,
            pool: pool.clone(),
            handler: Arc::clone(handler),
            completions,
            held: Arc::clone(&held),
        };
        let core = Arc::clone(&self.core);
        let claimer = Claimer::new(client, core, shard, &self.settings, Arc::new(dispatcher));
        let (core, retry_delay) = (Arc::clone(&self.core), self.settings.retry_delay);
        let settler = settle(
            Settler::new(core, shard, retry_delay, Arc::clone(&held)),
            reports,
            signals.finish(),
            client.clock().clone(),
            client.network_clock().clone(),
        );
        let (core, leased) = (Arc::clone(&self.core), Arc::clone(&held));
        let lease = core.policy.lease;
        let extend = move || {
            let (core, leased) = (Arc::clone(&core), Arc::clone(&leased));
            async move { leased.extend(&core.shards[shard], lease).await }
        };
        let settle_and_extend = renew_while(client.clock().clone(), lease, extend, settler);
        Part {
            intake: self.handle.spawn_at_home(claimer.run(signals.stop())),
            settlers: vec![self.handle.spawn_at_home(settle_and_extend)],
            items: held,
        }
    }
}

/// A running worker.
///
/// Dropping it stops it in the background; [`DelayedWorker::shutdown`] waits until it has stopped.
#[must_use = "a worker that is dropped ends"]
pub struct DelayedWorker {
    running: Running<()>,
}

impl DelayedWorker {
    /// Stops claiming, waits for items in progress up to the drain timeout, and ends.
    pub async fn shutdown(self) {
        // `None` means that the runtime is gone, and then there is nothing left to wait for.
        let _ = self.running.shutdown().await;
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
