//! Claiming items without a worker.

use std::time::Duration;

use seawall_client::error::{Error, Result};
use seawall_resilience::clock::Moment;
use serde::de::DeserializeOwned;

use super::{Delayed, MAX_AT_ONCE};
use crate::queue::job::Claim;

impl<T: DeserializeOwned> Delayed<T> {
    /// Claims up to `count` due items, each with a lease.
    ///
    /// A claim never returns more than a thousand items, or a megabyte of payloads of one shard. If
    /// more items are due, [`Claim::next_in`] says so.
    ///
    /// Shards are asked one after the other. A shard that fails is skipped and reported in
    /// [`Claim::failed`]. Once a shard has returned jobs, the call waits for the others no longer
    /// than a quarter of the lease.
    ///
    /// An item whose lease expired is handed out alone, whatever `count` is. If the caller handles
    /// it while no other handler runs, no other item is blamed if this one ends the process.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send), if a shard failed and no other shard had
    /// due items. If the reply is lost, the claimed items are handed out again when their lease
    /// expires; that is not an attempt.
    pub async fn claim(&self, count: usize) -> Result<Claim<T>> {
        let count = count.min(MAX_AT_ONCE);
        let mut claim = Claim { jobs: Vec::new(), next_in: None, failed: None };
        // Start with a random shard, so that none of them starves.
        let first = self.handle.randomness().index(self.core.shards.len());
        // Set once a shard has returned jobs: they must not wait for a shard that hangs.
        let clock = self.handle.client().network_clock();
        let mut until: Option<Moment> = None;
        for turn in 0..self.core.shards.len() {
            let number = (first + turn) % self.core.shards.len();
            let left = count - claim.jobs.len();
            if left == 0 {
                break;
            }
            let alone = claim.jobs.is_empty();
            let claiming = self.core.claim(number, left, alone);
            let claimed = match until {
                None => claiming.await,
                Some(until) => clock
                    .timeout(until.since(clock.now()), claiming)
                    .await
                    // Whatever that shard handed out stays leased.
                    .unwrap_or_else(|| Err(too_slow(self.core.policy.lease / 4))),
            };
            match claimed {
                Ok((claimed, next)) => {
                    claim.due_in(next);
                    let alone = claimed.first().is_some_and(|claimed| claimed.attempts.alone);
                    if self.core.note(number, &claimed).await {
                        claim.jobs.extend(self.core.open(number, claimed).await);
                    }
                    if alone && !claim.jobs.is_empty() {
                        // Other shards may have due items.
                        claim.due_in((turn + 1 < self.core.shards.len()).then_some(Duration::ZERO));
                        break;
                    }
                }
                Err(error) => {
                    tracing::debug!(queue = self.core.name, shard = number, %error, "not claimed");
                    claim.failed.get_or_insert(error);
                }
            }
            if until.is_none() && !claim.jobs.is_empty() {
                until = Some(clock.now() + self.core.policy.lease / 4);
            }
        }
        match claim.failed.take() {
            Some(error) if claim.jobs.is_empty() => Err(error),
            None => Ok(claim),
            Some(error) => {
                // Every item of that shard may be due.
                claim.due_in(Some(Duration::ZERO));
                Ok(Claim { failed: Some(error), ..claim })
            }
        }
    }
}

/// Error of a shard that did not answer within this time while other shards' jobs were waiting.
fn too_slow(waited: Duration) -> Error {
    Error::Indeterminate { waited, cause: "a shard is too slow".into() }
}
