//! The part of a worker that begins handlers for the items of one shard.
//!
//! An item whose lease expired may have ended its consumer, so it runs alone.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use seawall_client::client::Client;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::{
    held::HeldItems,
    settle::{Completion, Said},
};
use crate::{
    queue::{core::Core, decode::decode, job::Job, lease::Claimed},
    worker::{HandlerPool, Observed, Outcome, Permit, UntilSettled},
};

/// The function that is called for each item.
pub(super) type Handler<T> = Arc<dyn Fn(Job<T>) -> BoxFuture<'static, Outcome> + Send + Sync>;

pub(super) struct Dispatcher<T> {
    pub(super) client: Client,
    pub(super) core: Arc<Core>,
    pub(super) shard: usize,
    pub(super) pool: HandlerPool,
    pub(super) handler: Handler<T>,
    /// Tells the settler, which ends after the handlers, or after they were dropped.
    pub(super) completions: mpsc::UnboundedSender<Completion>,
    pub(super) held: Arc<HeldItems>,
}

impl<T: DeserializeOwned + Send + 'static> Dispatcher<T> {
    /// Begins an item in its own task.
    pub(super) fn begin(&self, job: Job<T>, permit: Permit) {
        let (id, token, attempts) = (job.id.clone(), job.token, job.attempts);
        let completions = self.completions.clone();
        self.pool.work(permit, self.observed(job), move |outcome| {
            let said = Said::Outcome(outcome);
            let _ = completions.send(Completion { id, token, attempts, said, until_settled: None });
        });
    }

    /// Gives back an item that no handler has begun, without counting an attempt.
    pub(super) fn give_back(&self, Job { id, token, attempts, .. }: Job<T>) {
        let said = Said::Unbegun(Duration::ZERO);
        let _ =
            self.completions.send(Completion { id, token, attempts, said, until_settled: None });
    }

    /// Begins an item while no other handler runs.
    pub(super) fn begin_alone(self: &Arc<Self>, claimed: Claimed) {
        self.held.insert(&claimed.id, claimed.token);
        // In its own task: other items are claimed, and leases extended, while it waits for its turn.
        let this = Arc::clone(self);
        tokio::spawn(async move { this.run_alone(claimed).await });
    }

    /// Runs the item once no other handler runs, and keeps others from beginning until it is settled.
    async fn run_alone(&self, Claimed { id, token, attempts, payload, due }: Claimed) {
        let (shard, lease) = (&self.core.shards[self.shard], self.core.policy.lease);
        let item = id.clone();
        let record = || shard.begin((&item, token), attempts, lease);
        let begin = |until_settled: Option<UntilSettled>| {
            let is_ours = until_settled.is_some();
            let completions = self.completions.clone();
            let tell = move |id: String, said: Said| {
                let _ = completions.send(Completion { id, token, attempts, said, until_settled });
            };
            if !is_ours {
                // Giving it back reports that the lease is lost.
                tell(id, Said::Unbegun(Duration::ZERO));
                return None;
            }
            // Decoded only now: the decoder itself may be what ends the process.
            match decode(&payload) {
                Ok(payload) => {
                    let job =
                        Job { shard: self.shard, id: id.clone(), token, attempts, payload, due };
                    Some((self.observed(job), move |outcome| tell(id, Said::Outcome(outcome))))
                }
                Err(why) => {
                    tell(id, Said::Unread(format!("not understood: {why}")));
                    None
                }
            }
        };
        // `None` if the worker has ended meanwhile: the lease expires.
        let _ = self.pool.run_alone(&self.client, record, begin).await;
    }

    /// Returns the call of a handler inside a span; notes how late it begins.
    fn observed(
        &self,
        job: Job<T>,
    ) -> Observed<impl FnOnce() -> BoxFuture<'static, Outcome> + Send + use<T>> {
        let core = &self.core;
        let began = self.client.clock().now();
        core.metrics.delay_seconds.record(job.due.delay(began));
        let span = tracing::debug_span!(
            "queue_handle",
            otel.name = %format_args!("process {}", core.name),
            otel.kind = "consumer",
            messaging.system = "redis",
            messaging.operation.name = "process",
            messaging.operation.type = "process",
            messaging.destination.name = core.name,
            seawall.attempt = job.attempt(),
            error.type = tracing::field::Empty,
        );
        let handler = Arc::clone(&self.handler);
        let seconds = &core.metrics.handler_seconds;
        Observed::new(span, self.client.clock(), began, seconds, move || handler(job))
    }
}
