//! What a delayed queue hands out, and its answers.

use std::time::Duration;

use seawall_client::error::Error;

use super::shard::Attempts;

/// An item in a consumer's hands, under a lease.
#[derive(Debug, Clone)]
pub struct Job<T> {
    pub(super) shard: usize,
    pub(super) id: String,
    pub(super) token: u64,
    pub(super) attempts: Attempts,
    pub(super) payload: T,
}

impl<T> Job<T> {
    /// The item's id: what names it through every attempt. A handler that writes it under a unique key
    /// in its own transaction applies the item once, however often it is handed out.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How often it was begun, this time included; 1 the first time. An upper bound: an item whose lease
    /// ended may not have been begun.
    #[must_use]
    pub fn attempt(&self) -> u64 {
        self.attempts.number()
    }

    /// What was added.
    #[must_use]
    pub fn payload(&self) -> &T {
        &self.payload
    }

    /// What was added, to keep.
    #[must_use]
    pub fn into_payload(self) -> T {
        self.payload
    }
}

/// What [`Delayed::claim`](super::Delayed::claim) found.
#[derive(Debug)]
pub struct Claim<T> {
    /// What is due, the earliest first; each is under a lease from now on.
    pub jobs: Vec<Job<T>>,
    /// How long until something more is due or a lease ends, by the server's clock; nothing when the
    /// queue is empty. Zero if a shard failed.
    pub next_in: Option<Duration>,
    /// Error of the first shard that failed, while others had jobs.
    pub failed: Option<Error>,
}

impl<T> Claim<T> {
    /// Notes when a shard has something more.
    pub(super) fn due_in(&mut self, next: Option<Duration>) {
        self.next_in = match (self.next_in, next) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
}

/// What became of an item that was to be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Added {
    /// It is there now.
    Now,
    /// There was one of its id before; nothing was changed.
    Before(JobState),
}

/// Where an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// It waits until it is due, or until a consumer is free.
    Waiting,
    /// A consumer has it in hand.
    Leased,
    /// It failed too often.
    Dead,
    /// It was finished lately.
    Finished,
}

/// What became of an item that was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Acked {
    /// It is finished.
    Done,
    /// Its lease had ended and somebody else has it: it will be done once more.
    Lost,
}

/// What became of an item that was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Given {
    /// It waits for its next attempt.
    Waiting,
    /// That was its last attempt: it is among the dead.
    Dead,
    /// Its lease had ended and somebody else has it, or had.
    Lost,
}

/// What became of a wish to cancel, move or revive an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Changed {
    /// It is done.
    Done,
    /// A consumer has the item in hand: too late, or too early.
    Leased,
    /// The item is among the dead: it can be revived or cancelled.
    Dead,
    /// There is no such item, or not where it would have to be.
    Unknown,
}

/// An item that failed too often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dead {
    /// Its id.
    pub id: String,
    /// Why it died.
    pub reason: String,
    /// How many attempts counted since it was added or revived: those that failed, the last one included,
    /// and those whose lease ended while the item was handed out alone. 0 when it was never handed out, as
    /// for an item that cannot be decoded.
    pub attempts: u64,
    /// What was added, as it is in Redis.
    pub payload: Vec<u8>,
}

/// What [`Delayed::dead`](super::Delayed::dead) found.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DeadItems {
    /// The dead of the shards that answered.
    pub items: Vec<Dead>,
    /// The shards that did not.
    pub failed: Vec<FailedShard>,
}

/// A shard of a queue that did not answer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FailedShard {
    /// Its number, from 0.
    pub shard: usize,
    /// Why.
    pub error: Error,
}

/// How many items are where, in the shards that answered.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DelayedStatus {
    /// Those that wait, due or not.
    pub waiting: u64,
    /// Those in consumers' hands.
    pub leased: u64,
    /// Those that failed too often.
    pub dead: u64,
    /// The shards that did not answer, and are not counted.
    pub failed: Vec<FailedShard>,
}
