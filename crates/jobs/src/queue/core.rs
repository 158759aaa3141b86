//! The shards of a delayed queue, and what all of its users do with claimed items.

use std::time::Duration;

use metrics::{Counter, Histogram};
use seawall_client::error::{Error, Result};
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::xxh3_64;

use super::{
    decode::decode,
    job::{Given, Job},
    lease::{Back, Claimed},
    shard::{DeliveryPolicy, Shard},
};

/// Largest number of shards of a queue.
pub const MAX_SHARDS: usize = 256;
/// Longest accepted id.
const MAX_ID_BYTES: usize = 1_024;

/// A worker's view of a queue: everything but the handle, which its tasks must not keep alive.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) name: String,
    pub(super) shards: Vec<Shard>,
    pub(super) policy: DeliveryPolicy,
    pub(super) metrics: Metrics,
}

/// The metrics of a queue.
#[derive(Debug)]
pub(super) struct Metrics {
    pub(super) handler_seconds: Histogram,
    pub(super) delay_seconds: Histogram,
    pub(super) handled: Counter,
    pub(super) retried: Counter,
    pub(super) dead: Counter,
    pub(super) lost: Counter,
}

impl Metrics {
    pub(super) fn new(queue: &str) -> Self {
        let seconds = |name: &'static str| metrics::histogram!(name, "queue" => queue.to_owned());
        let items = |outcome: &'static str| {
            let name = "seawall_queue_items_total";
            metrics::counter!(name, "queue" => queue.to_owned(), "outcome" => outcome)
        };
        Metrics {
            handler_seconds: seconds("seawall_queue_handler_seconds"),
            delay_seconds: seconds("seawall_queue_delay_seconds"),
            handled: items("handled"),
            retried: items("retried"),
            dead: items("dead"),
            lost: items("lost"),
        }
    }
}

impl Core {
    pub(super) fn shard(&self, id: &str) -> Result<&Shard> {
        if id.is_empty() || id.len() > MAX_ID_BYTES {
            return Err(Error::Invalid(format!("an id has from 1 to {MAX_ID_BYTES} bytes")));
        }
        Ok(&self.shards[self.number(id)])
    }

    pub(super) fn number(&self, id: &str) -> usize {
        (xxh3_64(id.as_bytes()) % self.shards.len() as u64) as usize
    }

    pub(super) async fn give_back<T>(
        &self,
        job: &Job<T>,
        after: Duration,
        back: Back,
        reason: &str,
    ) -> Result<Given> {
        let item = (&*job.id, job.token, job.attempts);
        self.shards[job.shard].give_back(item, after, back, reason).await
    }

    /// Claims due items of a shard ([`Shard::claim`]).
    pub(super) async fn claim(
        &self,
        shard: usize,
        count: usize,
        alone: bool,
    ) -> Result<(Vec<Claimed>, Option<Duration>)> {
        let claims = self.shards[shard].claim(count, alone, self.policy).await?;
        if claims.died > 0 {
            let (queue, items) = (&*self.name, claims.died);
            tracing::error!(queue, items, "leases ended too often: dead");
            self.metrics.dead.increment(items);
        }
        Ok((claims.items, claims.next_in))
    }

    /// Records that the claimed item is begun, if it must run alone. Returns `false` if its lease
    /// is lost.
    ///
    /// If the attempt cannot be recorded it is not counted, and the item is handed out alone again
    /// when its lease expires.
    pub(super) async fn note(&self, shard: usize, claimed: &[Claimed]) -> bool {
        let Some(alone) = claimed.first().filter(|claimed| claimed.attempts.alone) else {
            return true;
        };
        let item = (&*alone.id, alone.token);
        match self.shards[shard].begin(item, alone.attempts, self.policy.lease).await {
            Ok(ours) => ours,
            Err(error) => {
                tracing::debug!(queue = self.name, id = alone.id, %error, "not noted");
                true
            }
        }
    }

    /// Decodes claimed items; an item that cannot be decoded is dead at once.
    ///
    /// Never fails: an error of one item must not drop the others, which are leased by now.
    pub(super) async fn open<T: DeserializeOwned>(
        &self,
        shard: usize,
        claimed: Vec<Claimed>,
    ) -> Vec<Job<T>> {
        let mut jobs = Vec::with_capacity(claimed.len());
        for Claimed { id, token, attempts, payload, due } in claimed {
            match decode(&payload) {
                Ok(payload) => jobs.push(Job { shard, id, token, attempts, payload, due }),
                Err(error) => {
                    let reason = format!("not understood: {error}");
                    tracing::error!(queue = self.name, id, reason, "dead");
                    let back = Back::Unread;
                    let given = self.shards[shard].give_back(
                        (&id, token, attempts),
                        Duration::ZERO,
                        back,
                        &reason,
                    );
                    // An item that could not be given back is handed out again when its lease
                    // expires.
                    match given.await {
                        Ok(Given::Dead) => self.metrics.dead.increment(1),
                        Ok(Given::Waiting | Given::Lost) => {}
                        Err(error) => {
                            tracing::debug!(queue = self.name, id, %error, "not among the dead yet");
                        }
                    }
                }
            }
        }
        jobs
    }
}
