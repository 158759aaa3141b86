//! The jobs that a delayed queue hands out, and the outcomes of its calls.

use std::time::Duration;

use seawall_client::error::Error;

use super::lease::{Attempts, Due};

/// An item that is leased to a consumer.
#[derive(Debug, Clone)]
pub struct Job<T> {
    pub(super) shard: usize,
    pub(super) id: String,
    pub(super) token: u64,
    pub(super) attempts: Attempts,
    pub(super) payload: T,
    pub(super) due: Due,
}

impl<T> Job<T> {
    /// Returns the item's id, which stays the same through every attempt.
    ///
    /// A handler that writes the id under a unique key in its own transaction applies the item
    /// once, even if the item is handed out several times.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the 1-based number of this attempt.
    ///
    /// It is an upper bound: an item whose lease expired may never have reached a handler.
    #[must_use]
    pub fn attempt(&self) -> u64 {
        self.attempts.number()
    }

    /// Returns the payload.
    #[must_use]
    pub fn payload(&self) -> &T {
        &self.payload
    }

    /// Consumes the job and returns the payload.
    #[must_use]
    pub fn into_payload(self) -> T {
        self.payload
    }
}

/// Outcome of [`Delayed::claim`](super::Delayed::claim).
#[derive(Debug)]
pub struct Claim<T> {
    /// Due items, earliest first; each is leased from now on.
    pub jobs: Vec<Job<T>>,
    /// Time until the next item is due or the next lease expires, by the server's clock.
    ///
    /// `None` if the queue is empty. Zero if a shard failed.
    pub next_in: Option<Duration>,
    /// Error of the first shard that failed, if other shards returned jobs.
    pub failed: Option<Error>,
}

impl<T> Claim<T> {
    /// Lowers `next_in` to the time at which a shard has its next item.
    pub(super) fn due_in(&mut self, next: Option<Duration>) {
        self.next_in = match (self.next_in, next) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
}

/// Outcome of [`Delayed::add`](super::Delayed::add).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Added {
    /// The item was added.
    Now,
    /// An item with this id already exists; nothing was changed.
    Before(JobState),
}

/// State of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// The item is waiting until it is due, or until a consumer is free.
    Waiting,
    /// A consumer holds the item's lease.
    Leased,
    /// The item failed too often and is a dead letter.
    Dead,
    /// The item was finished within the deduplication time.
    Finished,
}

/// Outcome of [`Delayed::ack`](super::Delayed::ack) and
/// [`Delayed::extend`](super::Delayed::extend).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Acked {
    /// The call succeeded.
    Done,
    /// The lease expired and another consumer has the item, so it will be handled again.
    Lost,
}

/// Outcome of giving a job back, as with [`Delayed::nack`](super::Delayed::nack).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Given {
    /// The item is waiting for its next attempt.
    Waiting,
    /// That was the last attempt: the item is a dead letter.
    Dead,
    /// The lease expired, and another consumer has or had the item.
    Lost,
}

/// Outcome of cancelling, rescheduling or reviving an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Changed {
    /// The change was made.
    Done,
    /// A consumer holds the item's lease, so the item cannot be changed now.
    Leased,
    /// The item is a dead letter: it can be revived or cancelled.
    Dead,
    /// No such item exists, or it is not in a state that allows this change.
    Unknown,
}

/// An item that failed too often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dead {
    /// The item's id.
    pub id: String,
    /// Reason of the failure.
    pub reason: String,
    /// Number of attempts that count since the item was added or revived.
    ///
    /// Counted are attempts that failed, including the last one, and attempts whose lease expired
    /// while the item was handed out alone. It is 0 if the item never reached a handler, for
    /// example because it cannot be decoded.
    pub attempts: u64,
    /// The payload, as stored in Redis.
    pub payload: Vec<u8>,
}

/// Outcome of [`Delayed::dead`](super::Delayed::dead).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DeadItems {
    /// Dead items of the shards that answered.
    pub items: Vec<Dead>,
    /// Shards that did not answer.
    pub failed: Vec<FailedShard>,
}

/// A shard of a queue that did not answer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FailedShard {
    /// Index of the shard, from 0.
    pub shard: usize,
    /// Why the shard failed.
    pub error: Error,
}

/// Number of items in each state, summed over the shards that answered.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DelayedStatus {
    /// Items that are waiting, due or not.
    pub waiting: u64,
    /// Items that are leased to consumers.
    pub leased: u64,
    /// Items that failed too often.
    pub dead: u64,
    /// Shards that did not answer; their items are not counted.
    pub failed: Vec<FailedShard>,
}
