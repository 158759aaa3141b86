//! A running worker: the start of its tasks, its status, and what is done after they have ended.

use std::{fmt, num::NonZero, sync::Arc};

use futures_util::future::{BoxFuture, join_all};
use seawall_client::{
    Handle,
    client::{Topology, slot},
    error::Result,
};
use tokio::sync::mpsc;

use super::{
    builder::Settings,
    dispatch::Dispatcher,
    handler::Handler,
    intake::GroupConsumer,
    producer::Stream,
    reader::Reader,
    settle::Settler,
    status::{self, Counts, Meter, Status, StreamStatus},
};
use crate::worker::{HandlerPool, InProgress, Part, Running, Signals, renew_while, settle};

/// A running worker.
///
/// Dropping it stops it in the background; [`Worker::shutdown`] waits until it has stopped.
#[must_use = "a worker that is dropped ends"]
pub struct Worker {
    running: Running<Drained>,
    posts: Vec<Arc<dyn Standing>>,
    meter: Arc<Meter>,
}

/// Outcome of [`Worker::shutdown`] and [`Worker::abandon`].
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

impl<T: Send + 'static> InProgress for GroupConsumer<T> {
    async fn idle(&self) {
        self.in_flight.idle().await;
    }
}

impl Worker {
    pub(super) fn start<T: Send + 'static>(
        handle: &Handle,
        streams: Vec<Stream<T>>,
        settings: Settings,
        handler: &Handler<T>,
    ) -> Self {
        let meter = Arc::new(Meter::new(&settings.group));
        let settings = Arc::new(settings);
        let pool = HandlerPool::new(settings.concurrency);
        let signals = Signals::new();
        let parts: Vec<_> = together(handle, streams)
            .into_iter()
            .map(|streams| {
                let streams = streams.into_iter().map(|stream| stream.core).collect();
                let (client, meter) = (handle.client().clone(), Arc::clone(&meter));
                let consumer = GroupConsumer::new(client, Arc::clone(&settings), streams, meter);
                start_part(handle, Arc::new(consumer), handler.clone(), pool.clone(), &signals)
            })
            .collect();
        let posts = parts.iter().map(|part| Arc::clone(&part.items) as Arc<dyn Standing>).collect();
        let (name, timeout) = (settings.group.clone(), settings.drain_timeout);
        let running =
            Running::start(handle, name, signals, pool, timeout, parts, async move |consumers| {
                conclude(&settings, consumers).await
            });
        Worker { running, posts, meter }
    }

    /// Stops reading, waits for entries in flight up to the drain timeout, acknowledges, and ends.
    pub async fn shutdown(self) -> Drained {
        // Without a runtime nothing is settled any more.
        self.running.shutdown().await.unwrap_or(Drained::Pending(0))
    }

    /// Ends without waiting for handlers: they are dropped at their current await point, and their
    /// entries stay pending. What had already ended is still settled, in three attempts at most.
    pub async fn abandon(self) -> Drained {
        self.running.abandon().await.unwrap_or(Drained::Pending(0))
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

/// Starts the tasks of streams that are read together.
fn start_part<T: Send + 'static>(
    handle: &Handle,
    consumer: Arc<GroupConsumer<T>>,
    handler: Handler<T>,
    pool: HandlerPool,
    signals: &Signals,
) -> Part<GroupConsumer<T>> {
    let (dispatch, inbox) = mpsc::unbounded_channel();
    let (completions, reports) = mpsc::unbounded_channel();
    let reader = Reader::new(Arc::clone(&consumer), dispatch.clone(), signals.stop());
    let settler = settle(
        Settler::new(Arc::clone(&consumer), dispatch, signals.stop()),
        reports,
        signals.finish(),
        consumer.clock.clone(),
        consumer.client.network_clock().clone(),
    );
    // An entry is renewed when a third of its idle time has passed, and looked at twice as often.
    let idle = consumer.settings.claim_idle / 2;
    let (renewed, lost) = (Arc::clone(&consumer), completions.clone());
    let renew = move || {
        let (renewed, lost) = (Arc::clone(&renewed), lost.clone());
        async move { renewed.renew_old(&lost).await }
    };
    let settle_and_renew = renew_while(consumer.clock.clone(), idle, renew, settler);
    let tasks = 2 * std::thread::available_parallelism().map_or(1, NonZero::get);
    let dispatcher =
        Dispatcher { consumer: Arc::clone(&consumer), pool, handler, inbox, completions, tasks };
    Part {
        intake: handle.spawn_at_home(reader.run()),
        settlers: vec![
            handle.spawn_at_home(settle_and_renew),
            handle.spawn_at_home(dispatcher.run()),
        ],
        items: consumer,
    }
}

/// Counts what is left, and removes a consumer that does not return.
async fn conclude<T>(settings: &Settings, consumers: Vec<Arc<GroupConsumer<T>>>) -> Drained {
    let mut left = 0;
    for consumer in consumers {
        let (active, waiting) = consumer.in_flight.count();
        left += active + waiting;
        if active + waiting == 0 {
            // The gauges may still show a time when there was work left.
            consumer.show().await;
        }
        if settings.passing
            && let Err(error) = consumer.forget_consumers(Some(&settings.consumer)).await
        {
            tracing::debug!(%error, "the consumer stays in the group's list");
        }
    }
    if left == 0 { Drained::Clean } else { Drained::Pending(left) }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
