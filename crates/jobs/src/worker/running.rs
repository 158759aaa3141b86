//! A running worker: its signals, and its shutdown in order.
//!
//! A worker has one or more parts, each with an intake task, settlers, and items in progress. Once it
//! is told to stop, or its handle is shut down:
//!
//! 1. the intakes end: no more items come in;
//! 2. it waits until nothing is in progress, at most for the drain timeout, and not if it is abandoned;
//! 3. handlers that still run are dropped;
//! 4. the settlers send what is left, and end.

use std::{sync::Arc, time::Duration};

use seawall_client::Handle;
use tokio::{sync::watch, task::JoinHandle};

use super::HandlerPool;

/// The caller's side of a running worker. Dropping it stops the worker in the background.
#[derive(Debug)]
pub(crate) struct Running<D> {
    stop: watch::Sender<bool>,
    /// Becomes `true` when the worker must not wait for handlers.
    abandon: watch::Sender<bool>,
    ended: watch::Receiver<Option<D>>,
}

/// The signals that the tasks of a worker follow.
#[derive(Debug)]
pub(crate) struct Signals {
    stop: watch::Sender<bool>,
    finish: watch::Sender<bool>,
}

impl Signals {
    pub(crate) fn new() -> Self {
        Signals { stop: watch::Sender::new(false), finish: watch::Sender::new(false) }
    }

    /// Becomes `true` when no more items are taken in. Items that were already taken in may still begin.
    pub(crate) fn stop(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Becomes `true` when the worker no longer waits for handlers: all have ended, the drain timeout
    /// has passed, or the worker was abandoned.
    pub(crate) fn finish(&self) -> watch::Receiver<bool> {
        self.finish.subscribe()
    }
}

/// Items of one part of a worker.
pub(crate) trait InProgress: Send + Sync + 'static {
    /// Waits until no handler works on an item, and no completion is unsettled.
    fn idle(&self) -> impl Future<Output = ()> + Send;
}

/// One part of a worker: streams that one connection reads, or one shard of a queue.
#[derive(Debug)]
pub(crate) struct Part<I> {
    /// Brings items in; ends after `stop`.
    pub(crate) intake: JoinHandle<()>,
    /// The other tasks; they end after `finish`.
    pub(crate) settlers: Vec<JoinHandle<()>>,
    pub(crate) items: Arc<I>,
}

impl<D: Copy + Send + Sync + 'static> Running<D> {
    /// Watches over a worker whose tasks were started. `conclude` runs after all of them have ended.
    pub(crate) fn start<I, C>(
        handle: &Handle,
        name: String,
        Signals { stop, finish }: Signals,
        pool: HandlerPool,
        drain_timeout: Duration,
        parts: Vec<Part<I>>,
        conclude: impl FnOnce(Vec<Arc<I>>) -> C + Send + 'static,
    ) -> Self
    where
        I: InProgress,
        C: Future<Output = D> + Send,
    {
        let ended = watch::Sender::new(None);
        let abandon = watch::Sender::new(false);
        let mut abandoned = abandon.subscribe();
        let running = Running { stop: stop.clone(), abandon, ended: ended.subscribe() };
        let clock = handle.client().clock().clone();
        let stopping = handle.stopping();
        handle.spawn_at_home(async move {
            asked_to_stop(&stop, stopping).await;
            let mut parts = parts;
            let idle = async {
                for part in &mut parts {
                    join("intake", &name, &mut part.intake).await;
                    part.items.idle().await;
                }
            };
            // A worker that was dropped can no longer be abandoned.
            let abandoned = async {
                if abandoned.wait_for(|abandoned| *abandoned).await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                biased;
                () = abandoned => {}
                drained = clock.timeout(drain_timeout, idle) => if drained.is_none() {
                    tracing::warn!(worker = name, "handlers are not waited for any longer");
                },
            }
            pool.abandon();
            finish.send_replace(true);
            let mut items = Vec::with_capacity(parts.len());
            for part in parts {
                part.intake.abort();
                for mut settler in part.settlers {
                    join("settler", &name, &mut settler).await;
                }
                items.push(part.items);
            }
            ended.send_replace(Some(conclude(items).await));
        });
        running
    }

    /// Ends the worker in order. Returns `None` if its runtime is gone.
    pub(crate) async fn shutdown(&self) -> Option<D> {
        self.stop.send_replace(true);
        let mut ended = self.ended.clone();
        ended.wait_for(Option::is_some).await.ok().and_then(|drained| *drained)
    }

    /// Ends the worker without waiting for its handlers. Returns `None` if its runtime is gone.
    pub(crate) async fn abandon(&self) -> Option<D> {
        self.abandon.send_replace(true);
        self.shutdown().await
    }
}

impl<D> Drop for Running<D> {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// Waits until the worker or its handle is stopped, and tells all parts.
async fn asked_to_stop(stop: &watch::Sender<bool>, mut stopping: watch::Receiver<bool>) {
    let mut asked = stop.subscribe();
    tokio::select! {
        biased;
        _ = asked.wait_for(|stop| *stop) => {}
        _ = stopping.wait_for(|stop| *stop) => {}
    }
    stop.send_replace(true);
}

async fn join(part: &'static str, worker: &str, task: &mut JoinHandle<()>) {
    if let Err(error) = task.await {
        tracing::error!(worker, part, %error, "a part of a worker did not end well");
    }
}
