//! The workers that write orders: one task for each shard, all in one consumer group.
//!
//! An entry is settled after its transaction is committed, so that a worker that dies in between
//! leaves it pending, and the same name after a restart, or another worker after a while, takes it
//! up. Writing it again has no further effect. A database that is away is waited for, with the entry
//! in hand and without end; that is not the entry's fault. An entry that fails for another reason is
//! left and tried again later, [`DELIVERIES`] times in all, and then parked with the dead letters,
//! while others go on.

use std::{convert::Infallible, sync::Arc, time::Duration};

use seawall::{clock::Clock, link::Lane};
use tokio::{sync::watch, task::JoinHandle};

use super::{
    Sales,
    queue::{Entry, Queue},
    store::{self, Placed},
};
use crate::{
    error::{Error, Result},
    keys::Shard,
};

/// How often an entry is tried.
pub const DELIVERIES: u64 = 5;
/// How often a worker looks for what dead ones left behind.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Pauses after a store did not answer: doubled up to the longer one.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long workers may go on with what waits, once they are told to end.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// All workers of this process.
#[derive(Debug)]
pub struct Workers {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts one for each shard. `instance` names this process, the same after a restart.
    pub(crate) fn start(sales: &Arc<Sales>, instance: &str) -> Self {
        let stop = watch::Sender::new(false);
        let worker = |shard| {
            let link = sales.gate.link().clone();
            let worker = Worker {
                sales: Arc::clone(sales),
                clock: link.clock().clone(),
                queue: Queue::new(link, shard, instance.to_owned()),
                shard,
                stop: stop.subscribe(),
                pause: SHORTEST_PAUSE,
            };
            tokio::spawn(worker.run())
        };
        let tasks = Shard::all().map(worker).collect();
        Workers { stop, tasks }
    }

    /// Lets the workers write what waits, and ends them.
    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        let handles: Vec<_> = self.tasks.iter().map(JoinHandle::abort_handle).collect();
        let all = futures_util::future::join_all(self.tasks);
        match tokio::time::timeout(DRAIN_LIMIT, all).await {
            Ok(ends) => {
                for error in ends.into_iter().filter_map(Result::err) {
                    tracing::error!(%error, "an order worker did not end well");
                }
            }
            Err(_) => {
                tracing::warn!("orders still wait; they stay in the stream");
                handles.iter().for_each(tokio::task::AbortHandle::abort);
            }
        }
    }
}

/// Why a worker does not go on.
enum End {
    /// A crash point, or the handle was closed: the task ends here.
    Killed,
    /// It was told to end.
    Asked,
    /// Redis did not answer: begin anew, with what is pending.
    Failed(Error),
}

impl From<seawall::Error> for End {
    fn from(error: seawall::Error) -> Self {
        match error {
            seawall::Error::Closed => End::Killed,
            error => End::Failed(error.into()),
        }
    }
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        End::Failed(error)
    }
}

struct Worker {
    sales: Arc<Sales>,
    queue: Queue,
    shard: Shard,
    clock: Clock,
    stop: watch::Receiver<bool>,
    pause: Duration,
}

impl Worker {
    async fn run(mut self) {
        loop {
            let Err(end) = self.work().await;
            match end {
                End::Killed => return,
                End::Asked => break,
                End::Failed(error) => {
                    tracing::warn!(shard = %self.shard, %error, "orders wait");
                    if self.rest().await.is_err() {
                        break;
                    }
                }
            }
        }
        if let Err(End::Failed(error)) = self.drain().await {
            tracing::warn!(shard = %self.shard, %error, "orders may still wait in the stream");
        }
    }

    /// Works until something is in the way.
    async fn work(&mut self) -> Result<Infallible, End> {
        self.queue.ensure_group().await?;
        let mut lane = self.queue.lane().await?;
        self.finish_pending().await?;
        let mut look_at = self.clock.now();
        loop {
            if self.clock.now() >= look_at {
                look_at = self.clock.now() + LOOK_EVERY;
                for entry in self.queue.take_over().await? {
                    self.handle_again(&entry).await?;
                }
            }
            for entry in self.next(&mut lane).await? {
                self.handle(&entry).await?;
            }
        }
    }

    async fn next(&mut self, lane: &mut Lane) -> Result<Vec<Entry>, End> {
        let mut stop = self.stop.clone();
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => Err(End::Asked),
            batch = self.queue.wait(lane) => {
                let batch = batch?;
                self.pause = SHORTEST_PAUSE;
                Ok(batch)
            }
        }
    }

    /// What was delivered to this name before, and what is there already: once told to end, no more
    /// than that.
    async fn drain(&mut self) -> Result<(), End> {
        self.finish_pending().await?;
        loop {
            let batch = self.queue.take().await?;
            if batch.is_empty() {
                return Ok(());
            }
            for entry in batch {
                self.handle(&entry).await?;
            }
        }
    }

    async fn finish_pending(&mut self) -> Result<(), End> {
        let mut after = "0".to_owned();
        loop {
            let batch = self.queue.pending(&after).await?;
            let Some(last) = batch.last() else { return Ok(()) };
            after.clone_from(&last.id);
            for entry in batch {
                self.handle_again(&entry).await?;
            }
        }
    }

    /// An entry that was delivered before.
    async fn handle_again(&mut self, entry: &Entry) -> Result<(), End> {
        if self.queue.deliveries(entry).await? <= DELIVERIES {
            return self.handle(entry).await;
        }
        if let Some(order) = &entry.order {
            // So that the owner learns of it; the unit stays held until somebody has looked.
            let now = self.sales.gate.link().server_millis();
            if let Err(error) = store::record_failed(&self.sales.db, order, now).await {
                tracing::error!(order = order.id, %error, "a parked order has no row");
            }
        }
        self.park(entry, "tried too often").await
    }

    async fn handle(&mut self, entry: &Entry) -> Result<(), End> {
        let Some(order) = &entry.order else { return self.park(entry, "not understood").await };
        loop {
            let now = self.sales.gate.link().server_millis();
            match store::place(&self.sales.db, order, now, &self.sales.crash_points).await {
                Ok(Placed::Killed) => return Err(End::Killed),
                Ok(placed) => {
                    if placed != Placed::Kept {
                        tracing::warn!(order = order.id, ?placed, "the database refused an order");
                    }
                    return Ok(self.queue.settle(&entry.id, order, placed).await?);
                }
                Err(Error::Unavailable { cause, .. }) => {
                    tracing::warn!(shard = %self.shard, cause, "orders wait for the database");
                    self.rest().await?;
                }
                Err(error) => {
                    tracing::error!(order = order.id, entry = entry.id, %error, "left for later");
                    return Ok(());
                }
            }
        }
    }

    async fn park(&self, entry: &Entry, why: &str) -> Result<(), End> {
        tracing::error!(shard = %self.shard, entry = entry.id, why, "an order entry was parked");
        Ok(self.queue.park(entry, why).await?)
    }

    /// Waits a little, longer each time, unless the worker is told to end.
    async fn rest(&mut self) -> Result<(), End> {
        let mut stop = self.stop.clone();
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => Err(End::Asked),
            () = self.clock.sleep(pause) => Ok(()),
        }
    }
}
