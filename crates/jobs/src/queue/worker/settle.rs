//! The part of a worker that settles the items of one shard: acknowledges them or gives them back.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use seawall_client::error::Result;

use super::held::HeldItems;
use crate::{
    queue::{
        core::Core,
        job::{Acked, Given},
        lease::{Attempts, Back},
    },
    worker::{Next, Outcome, Settle, UntilSettled},
};

/// Most items that one call acknowledges.
const AT_ONCE: usize = 64;

/// Result of an item.
pub(super) struct Completion {
    pub(super) id: String,
    pub(super) token: u64,
    pub(super) attempts: Attempts,
    pub(super) said: Said,
    pub(super) until_settled: Option<UntilSettled>,
}

pub(super) enum Said {
    /// The handler returned this outcome.
    Outcome(Outcome),
    /// No handler was called; the item is due again after this delay.
    Unbegun(Duration),
    /// The item cannot be decoded, and no handler was called.
    Unread(String),
}

/// A leased item.
struct Item {
    id: String,
    token: u64,
    attempts: Attempts,
    _until_settled: Option<UntilSettled>,
}

/// An item that is given back.
struct Return {
    item: Item,
    after: Duration,
    back: Back,
    reason: String,
}

pub(super) struct Settler {
    core: Arc<Core>,
    shard: usize,
    retry_delay: Duration,
    held: Arc<HeldItems>,
    acks: Vec<Item>,
    returns: VecDeque<Return>,
}

impl Settle for Settler {
    type Report = Completion;

    fn take(&mut self, Completion { id, token, attempts, said, until_settled }: Completion) {
        let item = Item { id, token, attempts, _until_settled: until_settled };
        let counted = Back::Counted { limit: self.core.policy.attempts };
        let (after, back, reason) = match said {
            Said::Unbegun(after) => (after, Back::Unbegun, String::new()),
            Said::Unread(why) => (Duration::ZERO, Back::Unread, why),
            Said::Outcome(outcome) => match outcome.next(self.retry_delay, attempts.counted) {
                Next::Done => return self.acks.push(item),
                Next::Again { after, counts: true, reason } => {
                    (after, counted, reason.unwrap_or("not done in time").to_owned())
                }
                Next::Again { after, counts: false, .. } => (after, Back::Free, String::new()),
                Next::Dead { reason } => (Duration::ZERO, Back::Dead, reason.to_owned()),
            },
        };
        self.returns.push_back(Return { item, after, back, reason });
    }

    fn has_open(&self) -> bool {
        !self.acks.is_empty() || !self.returns.is_empty()
    }

    async fn send(&mut self) -> Result<()> {
        let sent = self.acknowledge().await;
        let sent = if sent.is_ok() { self.give_back().await } else { sent };
        sent.inspect_err(|error| {
            tracing::debug!(queue = self.core.name, %error, "the queue waits for Redis");
        })
    }
}

impl Settler {
    pub(super) fn new(
        core: Arc<Core>,
        shard: usize,
        retry_delay: Duration,
        held: Arc<HeldItems>,
    ) -> Self {
        let (acks, returns) = (Vec::new(), VecDeque::new());
        Settler { core, shard, retry_delay, held, acks, returns }
    }

    async fn acknowledge(&mut self) -> Result<()> {
        while !self.acks.is_empty() {
            let some = &self.acks[..self.acks.len().min(AT_ONCE)];
            let items: Vec<(&str, u64)> = some.iter().map(|item| (&*item.id, item.token)).collect();
            let outcomes = self.core.shards[self.shard].ack(&items, self.core.policy).await?;
            let count = items.len();
            for (item, outcome) in self.acks.drain(..count).zip(outcomes) {
                let metrics = &self.core.metrics;
                let counter = match outcome {
                    Acked::Done => &metrics.handled,
                    Acked::Lost => &metrics.lost,
                };
                counter.increment(1);
                self.held.remove(&item.id, item.token);
            }
        }
        Ok(())
    }

    async fn give_back(&mut self) -> Result<()> {
        while let Some(Return { item, after, back, reason }) = self.returns.front() {
            let shard = &self.core.shards[self.shard];
            let leased = (&*item.id, item.token, item.attempts);
            let given = shard.give_back(leased, *after, *back, reason).await?;
            if given == Given::Dead {
                tracing::error!(queue = self.core.name, id = item.id, reason, "dead");
            }
            let metrics = &self.core.metrics;
            let counter = match given {
                Given::Waiting => &metrics.retried,
                Given::Dead => &metrics.dead,
                Given::Lost => &metrics.lost,
            };
            counter.increment(1);
            self.held.remove(&item.id, item.token);
            self.returns.pop_front();
        }
        Ok(())
    }
}
