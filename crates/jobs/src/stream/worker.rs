//! A running worker: its start, its status, and its shutdown in order.

use std::{fmt, num::NonZero, sync::Arc};

use futures_util::future::{BoxFuture, join_all};
use seawall_client::{
    Handle,
    client::{Topology, slot},
    error::Result,
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

use super::{
    builder::{Handler, Settings},
    dispatch::Dispatcher,
    handler_pool::HandlerPool,
    intake::GroupConsumer,
    producer::Stream,
    reader::Reader,
    settle::Settler,
    status::{self, Counts, Meter, Status, StreamStatus},
};
use crate::renewal::renew_forever;

/// A running worker.
///
/// Dropping it stops it in the background; [`Worker::stop`] waits until it has stopped.
#[must_use = "a worker that is dropped stops"]
pub struct Worker {
    stop: watch::Sender<bool>,
    /// Becomes `true` when the worker must not wait for handlers.
    cut: watch::Sender<bool>,
    ended: watch::Receiver<Option<Drained>>,
    posts: Vec<Arc<dyn Standing>>,
    meter: Arc<Meter>,
}

/// Outcome of [`Worker::stop`] and [`Worker::abandon`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Drained {
    /// Everything that was in flight is settled.
    Clean,
    /// This many entries were not finished or wait for another attempt. They stay pending, for the
    /// next run under the same name or for other workers.
    Pending(usize),
}

/// The status of a group of streams, independent of its payload type.
trait Standing: Send + Sync {
    fn streams(&self) -> BoxFuture<'_, Result<Vec<StreamStatus>>>;
    fn in_hand(&self) -> (usize, usize);
}

impl<T: Send + 'static> Standing for GroupConsumer<T> {
    fn streams(&self) -> BoxFuture<'_, Result<Vec<StreamStatus>>> {
        Box::pin(async {
            let asked = self.streams.iter().map(|stream| status::ask(stream, &self.settings.group));
            join_all(asked).await.into_iter().collect()
        })
    }

    fn in_hand(&self) -> (usize, usize) {
        self.in_flight.count()
    }
}

/// The tasks of one group of streams.
struct Tasks<T> {
    consumer: Arc<GroupConsumer<T>>,
    reader: JoinHandle<()>,
    dispatcher: JoinHandle<()>,
    settler: JoinHandle<()>,
}

impl Worker {
    pub(super) fn start<T: Send + 'static>(
        handle: &Handle,
        streams: Vec<Stream<T>>,
        settings: Settings,
        handler: &Handler<T>,
    ) -> Self {
        let client = handle.client().clone();
        let meter = Arc::new(Meter::new(&settings.group));
        let settings = Arc::new(settings);
        let pool = HandlerPool::new(settings.concurrency);
        let stop = watch::Sender::new(false);
        let finish = watch::Sender::new(false);
        let tasks: Vec<Tasks<T>> = together(handle, streams)
            .into_iter()
            .map(|streams| {
                let streams = streams.into_iter().map(|stream| stream.core).collect();
                let consumer = GroupConsumer::new(
                    client.clone(),
                    Arc::clone(&settings),
                    streams,
                    Arc::clone(&meter),
                );
                Tasks::start(
                    handle,
                    Arc::new(consumer),
                    handler.clone(),
                    pool.clone(),
                    &stop,
                    &finish,
                )
            })
            .collect();
        let posts =
            tasks.iter().map(|tasks| Arc::clone(&tasks.consumer) as Arc<dyn Standing>).collect();
        let ended = watch::Sender::new(None);
        let cut = watch::Sender::new(false);
        let mut cut_off = cut.subscribe();
        let worker = Worker { stop: stop.clone(), cut, ended: ended.subscribe(), posts, meter };
        let stopping = handle.stopping();
        handle.spawn_at_home(async move {
            asked_to_stop(&stop, stopping).await;
            let drained = drain(tasks, &settings, &pool, &finish, &mut cut_off).await;
            ended.send_replace(Some(drained));
        });
        worker
    }

    /// Stops reading, waits for entries in flight up to the drain timeout, acknowledges, and ends.
    pub async fn stop(self) -> Drained {
        self.end().await
    }

    /// Ends at once: handlers are dropped at their current await point, and their entries stay
    /// pending, as if the process had died.
    pub async fn abandon(self) -> Drained {
        self.cut.send_replace(true);
        self.end().await
    }

    async fn end(&self) -> Drained {
        self.stop.send_replace(true);
        let mut ended = self.ended.clone();
        let drained = ended.wait_for(Option::is_some).await.ok().and_then(|drained| *drained);
        // An error means that the runtime is gone: nothing was settled after that.
        drained.unwrap_or(Drained::Pending(0))
    }

    /// Returns the counts of this worker since it started.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.meter.counts()
    }

    /// Returns the state of this worker and its group: lag, pending entries, dead letters.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub async fn status(&self) -> Result<Status> {
        let mut status =
            Status { streams: Vec::new(), counts: self.counts(), in_hand: 0, waiting: 0 };
        for consumer in &self.posts {
            status.streams.extend(consumer.streams().await?);
            let (in_hand, waiting) = consumer.in_hand();
            status.in_hand += in_hand;
            status.waiting += waiting;
        }
        Ok(status)
    }
}

/// Groups the streams that one connection can read.
fn together<T>(handle: &Handle, streams: Vec<Stream<T>>) -> Vec<Vec<Stream<T>>> {
    if handle.client().topology() != Topology::Cluster {
        return vec![streams];
    }
    let mut groups: Vec<Vec<Stream<T>>> = Vec::new();
    for stream in streams {
        match groups.iter_mut().find(|group| slot(group[0].key()) == slot(stream.key())) {
            Some(group) => group.push(stream),
            None => groups.push(vec![stream]),
        }
    }
    groups
}

impl<T: Send + 'static> Tasks<T> {
    fn start(
        handle: &Handle,
        consumer: Arc<GroupConsumer<T>>,
        handler: Handler<T>,
        pool: HandlerPool,
        stop: &watch::Sender<bool>,
        finish: &watch::Sender<bool>,
    ) -> Self {
        let (dispatch, inbox) = mpsc::unbounded_channel();
        let (completions, settled) = mpsc::unbounded_channel();
        let reader = Reader::new(Arc::clone(&consumer), dispatch.clone(), stop.subscribe());
        let (lost, taken_over) = mpsc::unbounded_channel();
        let settler = Settler::new(
            Arc::clone(&consumer),
            settled,
            dispatch,
            stop.subscribe(),
            finish.subscribe(),
            taken_over,
        );
        // An entry is renewed when a third of its idle time has passed, and looked at twice as often.
        let idle = consumer.settings.claim_idle / 2;
        let renewed = Arc::clone(&consumer);
        let renewal = renew_forever(consumer.clock.clone(), idle, move || {
            let (renewed, lost) = (Arc::clone(&renewed), lost.clone());
            async move { renewed.renew_old(&lost).await }
        });
        let settle_and_renew = async move {
            tokio::select! {
                biased;
                () = settler.run() => {}
                () = renewal => {}
            }
        };
        let tasks = 2 * std::thread::available_parallelism().map_or(1, NonZero::get);
        let dispatcher = Dispatcher {
            consumer: Arc::clone(&consumer),
            pool,
            handler,
            inbox,
            completions,
            tasks,
        };
        Tasks {
            reader: handle.spawn_at_home(reader.run()),
            dispatcher: handle.spawn_at_home(dispatcher.run()),
            settler: handle.spawn_at_home(settle_and_renew),
            consumer,
        }
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

/// Shuts the worker down: readers first, then handlers, then the settlers.
async fn drain<T>(
    mut tasks: Vec<Tasks<T>>,
    settings: &Settings,
    pool: &HandlerPool,
    finish: &watch::Sender<bool>,
    cut_off: &mut watch::Receiver<bool>,
) -> Drained {
    let clock = tasks.first().map(|tasks| tasks.consumer.clock.clone()).unwrap_or_default();
    let finished = async {
        for tasks in &mut tasks {
            let _ = (&mut tasks.reader).await;
            tasks.consumer.in_flight.idle().await;
        }
    };
    // A worker that was dropped can no longer be abandoned.
    let cut = async {
        if cut_off.wait_for(|cut| *cut).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        () = cut => {}
        drained = clock.timeout(settings.drain_timeout, finished) => if drained.is_none() {
            tracing::warn!(group = %settings.group, "handlers are not waited for any longer");
        },
    }
    pool.abandon();
    finish.send_replace(true);
    let mut left = 0;
    for tasks in tasks {
        tasks.reader.abort();
        for part in [tasks.settler, tasks.dispatcher] {
            if let Err(error) = part.await {
                tracing::error!(%error, "a part of a stream worker did not end well");
            }
        }
        let (active, waiting) = tasks.consumer.in_flight.count();
        left += active + waiting;
        if active + waiting == 0 {
            // The gauges may still show a time when there was work left.
            tasks.consumer.show().await;
        }
        if settings.passing
            && let Err(error) = tasks.consumer.forget_consumers(Some(&settings.consumer)).await
        {
            tracing::debug!(%error, "the consumer stays in the group's list");
        }
    }
    if left == 0 { Drained::Clean } else { Drained::Pending(left) }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
