//! A queue of items that become due at a set time.
//!
//! An item waits in a sorted set, scored by the millisecond at which it is due. It is leased to one
//! consumer at a time, and ends with an acknowledgement or as a dead letter. Scripts decide all of
//! that by the server's clock. A lease has a token that is larger than every earlier token of the
//! shard, for any item. So a consumer whose lease expired cannot settle an item that another
//! consumer has by now, even if the item was cancelled and added again meanwhile.
//!
//! All keys of a queue are in one slot. A queue that is too large for one node is split into
//! shards, each in its own slot; the item's id selects the shard.

mod add;
mod builder;
mod claim;

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use futures_util::future::join_all;
use seawall_client::{
    Handle,
    error::{Error, Result},
};

pub use self::builder::DelayedBuilder;
use super::{
    core::Core,
    job::{Acked, Changed, DeadItems, DelayedStatus, FailedShard, Given, Job},
    lease::Back,
    shard::{Change, Shard},
    worker::DelayedWorkerBuilder,
};

/// Most items of one call.
const MAX_AT_ONCE: usize = 1_000;

/// A queue of items that become due at a set time; cheap to clone. See the [module](super) for an
/// example.
pub struct Delayed<T> {
    pub(super) handle: Handle,
    pub(super) core: Arc<Core>,
    payload: PhantomData<fn() -> T>,
}

impl<T> Delayed<T> {
    /// Returns the queue's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// Finishes a job.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send). Safe to retry.
    pub async fn ack(&self, job: &Job<T>) -> Result<Acked> {
        let shard = &self.core.shards[job.shard];
        let outcome = shard.ack(&[(&job.id, job.token)], self.core.policy).await?;
        outcome.first().copied().ok_or_else(|| Error::unexpected("no answer for an item"))
    }

    /// Gives a job back for another attempt after this delay, or as a dead letter if it was the
    /// last one.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send). A retry returns [`Given::Lost`].
    pub async fn nack(&self, job: &Job<T>, after: Duration, reason: &str) -> Result<Given> {
        let back = Back::Counted { limit: self.core.policy.attempts };
        self.core.give_back(job, after, back, reason).await
    }

    /// Gives a job back for another attempt after this delay, without counting this attempt.
    ///
    /// # Errors
    /// As [`Delayed::nack`].
    pub async fn postpone(&self, job: &Job<T>, after: Duration) -> Result<Given> {
        self.core.give_back(job, after, Back::Free, "").await
    }

    /// Makes a job a dead letter, with a reason.
    ///
    /// # Errors
    /// As [`Delayed::nack`].
    pub async fn bury(&self, job: &Job<T>, reason: &str) -> Result<Given> {
        self.core.give_back(job, Duration::ZERO, Back::Dead, reason).await
    }

    /// Extends a job's lease, so that it expires this long from now.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send). Safe to retry.
    pub async fn extend(&self, job: &Job<T>, lease: Duration) -> Result<Acked> {
        let outcome = self.core.shards[job.shard].extend(&[(&job.id, job.token)], lease).await?;
        Ok(if outcome == [true] { Acked::Done } else { Acked::Lost })
    }

    /// Removes an item that is waiting or dead.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send). A retry returns [`Changed::Unknown`].
    pub async fn cancel(&self, id: impl AsRef<str>) -> Result<Changed> {
        self.core.shard(id.as_ref())?.change(id.as_ref(), Change::Cancel).await
    }

    /// Makes a waiting item due after this delay from now.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send). Safe to retry.
    pub async fn reschedule(&self, id: impl AsRef<str>, after: Duration) -> Result<Changed> {
        self.core.shard(id.as_ref())?.change(id.as_ref(), Change::Move(after)).await
    }

    /// Makes a dead item due after this delay from now, with all of its attempts again.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send). A retry returns [`Changed::Unknown`].
    pub async fn revive(&self, id: impl AsRef<str>, after: Duration) -> Result<Changed> {
        self.core.shard(id.as_ref())?.change(id.as_ref(), Change::Revive(after)).await
    }

    /// Returns dead items, at most `count` of each shard (and never more than a thousand of each).
    ///
    /// Within a shard the items that died first come first. All shards are asked at the same time;
    /// those that fail are listed in [`DeadItems::failed`].
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send), if all shards fail.
    pub async fn dead(&self, count: usize) -> Result<DeadItems> {
        let asked = self.core.shards.iter().map(|shard| shard.dead(count.min(MAX_AT_ONCE)));
        let (answers, failed) = answered(join_all(asked).await)?;
        Ok(DeadItems { items: answers.into_iter().flatten().collect(), failed })
    }

    /// Returns the number of items in each state.
    ///
    /// All shards are asked at the same time; those that fail are listed in
    /// [`DelayedStatus::failed`] and not counted.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send), if all shards fail.
    pub async fn status(&self) -> Result<DelayedStatus> {
        let asked = self.core.shards.iter().map(Shard::counts);
        let (answers, failed) = answered(join_all(asked).await)?;
        let mut status = DelayedStatus { failed, ..DelayedStatus::default() };
        for [waiting, leased, dead] in answers {
            status.waiting += waiting;
            status.leased += leased;
            status.dead += dead;
        }
        Ok(status)
    }

    /// Returns a builder for a worker on this queue.
    #[must_use]
    pub fn worker(&self) -> DelayedWorkerBuilder<T> {
        DelayedWorkerBuilder::new(self)
    }
}

/// Splits replies into answers and failed shards; returns an error if no shard answered.
fn answered<T>(replies: Vec<Result<T>>) -> Result<(Vec<T>, Vec<FailedShard>)> {
    let (mut answers, mut failed) = (Vec::with_capacity(replies.len()), Vec::new());
    for (shard, reply) in replies.into_iter().enumerate() {
        match reply {
            Ok(answer) => answers.push(answer),
            Err(error) => failed.push(FailedShard { shard, error }),
        }
    }
    if answers.is_empty() && !failed.is_empty() {
        return Err(failed.swap_remove(0).error);
    }
    Ok((answers, failed))
}

impl<T> Clone for Delayed<T> {
    fn clone(&self) -> Self {
        Delayed { handle: self.handle.clone(), core: Arc::clone(&self.core), payload: PhantomData }
    }
}

impl<T> fmt::Debug for Delayed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delayed")
            .field("name", &self.core.name)
            .field("shards", &self.core.shards.len())
            .finish_non_exhaustive()
    }
}
