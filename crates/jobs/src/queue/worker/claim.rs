//! The part of a worker that claims due items of one shard.
//!
//! It claims when the server said that something is due, when a message says that an earlier item was
//! added, and at least once per poll interval: a lost message costs at most that.
//!
//! A claim reserves permits for the items it may return, but only for a moment: a shard that hangs
//! releases them to the others. Items that it returns later wait under their lease until permits
//! are free.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use seawall_client::client::{Client, Event, Subscription};
use seawall_resilience::clock::Moment;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::{Settings, dispatch::Dispatcher};
use crate::{
    queue::{core::Core, job::Job},
    worker::{Outage, Permit},
};

/// How long a claim in progress keeps its permits from other shards.
const PERMITS_KEPT_FOR: Duration = Duration::from_millis(50);
/// Most items that one claim takes.
const AT_ONCE: usize = 64;

/// The task that brings in the items of one shard.
pub(super) struct Claimer<T> {
    client: Client,
    core: Arc<Core>,
    shard: usize,
    poll: Duration,
    dispatcher: Arc<Dispatcher<T>>,
    messages: Subscription,
    /// Leased items that wait for a permit, at most those of one claim.
    without_permit: VecDeque<Job<T>>,
    claim_at: Moment,
    outage: Outage,
}

/// The event that woke the task.
enum Woken {
    Permit(Option<Permit>),
    Message(Option<Event>),
    Time,
    Stop,
}

impl<T: DeserializeOwned + Send + 'static> Claimer<T> {
    pub(super) fn new(
        client: &Client,
        core: Arc<Core>,
        shard: usize,
        settings: &Settings,
        dispatcher: Arc<Dispatcher<T>>,
    ) -> Self {
        Claimer {
            messages: client.pubsub().join(&core.shards[shard].channel),
            client: client.clone(),
            core,
            shard,
            poll: settings.poll,
            dispatcher,
            without_permit: VecDeque::new(),
            claim_at: client.clock().now(),
            outage: Outage::new(client.clock()),
        }
    }

    /// Claims until it is told to stop, and gives back what no handler has begun.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let (clock, pool) = (self.client.clock().clone(), self.dispatcher.pool.clone());
        loop {
            let has_waiting = !self.without_permit.is_empty();
            let claim_at = self.claim_at.max(self.outage.not_before());
            let claims = !has_waiting && clock.now() >= claim_at;
            let wake_at = (!has_waiting && !claims).then_some(claim_at);
            let woken = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => Woken::Stop,
                permit = pool.permit(), if claims || has_waiting => Woken::Permit(permit),
                event = self.messages.next() => Woken::Message(event),
                () = clock.sleep_until_some(wake_at) => Woken::Time,
            };
            match woken {
                Woken::Stop | Woken::Message(None) | Woken::Permit(None) => break,
                Woken::Message(Some(Event::Message(_) | Event::Resumed)) => {
                    self.claim_at = clock.now();
                }
                Woken::Permit(Some(permit)) if has_waiting => {
                    if let Some(job) = self.without_permit.pop_front() {
                        self.dispatcher.begin(job, permit);
                    }
                }
                Woken::Permit(Some(permit)) => self.claim(permit).await,
                Woken::Message(Some(Event::Interrupted)) | Woken::Time => {}
            }
        }
        self.without_permit.into_iter().for_each(|job| self.dispatcher.give_back(job));
    }

    /// Claims due items, as many as there are free permits.
    async fn claim(&mut self, permit: Permit) {
        let mut permits = vec![permit];
        while permits.len() < AT_ONCE
            && let Some(permit) = self.dispatcher.pool.permit_at_once()
        {
            permits.push(permit);
        }
        let count = permits.len();
        let core = Arc::clone(&self.core);
        let claiming = core.claim(self.shard, count, true);
        tokio::pin!(claiming);
        let network_clock = self.client.network_clock();
        let claimed = match network_clock.timeout(PERMITS_KEPT_FOR, &mut claiming).await {
            Some(claimed) => claimed,
            None => {
                permits.clear();
                claiming.await
            }
        };
        self.outage.note(&claimed);
        let (claimed, next) = match claimed {
            Ok(claimed) => claimed,
            Err(error) => {
                return tracing::debug!(queue = core.name, %error, "the queue waits for Redis");
            }
        };
        let full = claimed.len() == count;
        if claimed.first().is_some_and(|claimed| claimed.attempts.alone) {
            drop(permits);
            claimed.into_iter().for_each(|alone| self.dispatcher.begin_alone(alone));
            // More due items may follow it.
            self.claim_at = self.client.clock().now();
            return;
        }
        for job in core.open(self.shard, claimed).await {
            self.dispatcher.held.insert(&job.id, job.token);
            match permits.pop().or_else(|| self.dispatcher.pool.permit_at_once()) {
                Some(permit) => self.dispatcher.begin(job, permit),
                None => self.without_permit.push_back(job),
            }
        }
        let wait = if full { Duration::ZERO } else { next.unwrap_or(self.poll) };
        self.claim_at = self.client.clock().now() + wait.min(self.poll);
    }
}
