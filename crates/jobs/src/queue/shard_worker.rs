//! The loop that claims due items, hands them to a handler, and settles them.
//!
//! One task per shard does all communication with Redis; handlers run in their own tasks. The task
//! claims when the server said that something is due, when a message says that an earlier item was
//! added, and at least once per poll interval: a lost message costs at most that. Beside that it
//! extends the leases of items in progress, also while a claim waits for its reply.
//!
//! An item whose lease expired may have ended its consumer. It is begun alone, as in the stream's
//! worker: no other handler of the worker runs, the attempt is recorded in Redis before it begins,
//! and nothing else begins before the item is settled.
//!
//! A claim reserves permits for the items it may return, but only for a moment: a shard that hangs
//! releases them to the others. Items that it returns later wait under their lease until permits
//! are free.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use seawall_client::{
    client::{Client, Event, Subscription},
    error::Error,
};
use seawall_resilience::{
    Backoff,
    clock::{Clock, Moment},
};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    decode::decode,
    delayed::Core,
    held::HeldItems,
    job::{Acked, Given, Job},
    shard::{Attempts, Back, Claimed},
    worker::Settings,
};
use crate::{
    observed::Observed,
    renewal::renew_forever,
    stream::{
        Outcome,
        handler_pool::{HandlerPool, Permit},
    },
};

/// How long a claim in progress keeps its permits from other shards.
const SEATS_KEPT_FOR: Duration = Duration::from_millis(50);
/// Most items that one claim takes, and that one call settles.
const AT_ONCE: usize = 64;
/// Longest delay between two attempts at an item that failed.
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// Delays after Redis did not answer: doubled from the shorter one up to the longer one.
const PAUSES: Backoff = Backoff::doubling(Duration::from_millis(20), Duration::from_secs(1));
/// Attempts to settle the remaining items when the worker ends.
const LAST_ATTEMPTS: usize = 3;

/// The function that is called for each item.
pub(super) type Handler<T> = Arc<dyn Fn(Job<T>) -> BoxFuture<'static, Outcome> + Send + Sync>;

/// Result of an item.
struct Completion {
    id: String,
    token: u64,
    attempts: Attempts,
    said: Said,
    /// Dropped when the item is settled, which wakes the task that waits for it.
    _settled: Option<oneshot::Sender<()>>,
}

enum Said {
    /// The handler returned this outcome.
    Outcome(Outcome),
    /// No handler was called; the item is due again after this delay.
    Unbegun(Duration),
    /// The item cannot be decoded, and no handler was called.
    Unread(String),
}

/// The task of one shard.
pub(super) struct ShardWorker<T> {
    core: Arc<Core>,
    shard: usize,
    settings: Settings,
    pool: HandlerPool,
    handler: Handler<T>,
    clock: Clock,
    network_clock: Clock,
    messages: Subscription,
    say: mpsc::UnboundedSender<Completion>,
    hear: mpsc::UnboundedReceiver<Completion>,
    held: Arc<HeldItems>,
    /// Leased items that wait for a permit, at most those of one claim.
    without_permit: VecDeque<Job<T>>,
    /// Completions that Redis has not accepted yet.
    open: Vec<Completion>,
    claim_at: Moment,
    not_before: Moment,
    pauses: Backoff,
}

/// The event that woke the task.
enum Woken {
    Verdicts,
    Permit(Option<Permit>),
    Message(Option<Event>),
    Time,
    Stop,
}

impl<T: DeserializeOwned + Send + 'static> ShardWorker<T> {
    pub(super) fn new(
        client: &Client,
        core: Arc<Core>,
        shard: usize,
        settings: Settings,
        pool: HandlerPool,
        handler: Handler<T>,
    ) -> Self {
        let (say, hear) = mpsc::unbounded_channel();
        let clock = client.clock().clone();
        let now = clock.now();
        ShardWorker {
            messages: client.pubsub().join(&core.shards[shard].channel),
            core,
            shard,
            settings,
            pool,
            handler,
            clock,
            network_clock: client.network_clock().clone(),
            say,
            hear,
            held: Arc::default(),
            without_permit: VecDeque::new(),
            open: Vec::new(),
            claim_at: now,
            not_before: now,
            pauses: PAUSES,
        }
    }

    /// Works until it is told to stop and has finished, or until the drain timeout has passed.
    pub(super) async fn run(self, stop: watch::Receiver<bool>) {
        let (core, held, shard) = (Arc::clone(&self.core), Arc::clone(&self.held), self.shard);
        let renewal = renew_forever(self.clock.clone(), core.policy.lease, move || {
            let (core, held) = (Arc::clone(&core), Arc::clone(&held));
            async move { held.extend(&core.shards[shard], core.policy.lease).await }
        });
        tokio::select! {
            biased;
            () = self.work(stop) => {}
            () = renewal => {}
        }
    }

    async fn work(mut self, mut stop: watch::Receiver<bool>) {
        let mut completions = Vec::new();
        // Once the worker is told to stop: the moment until which it waits for items in progress.
        let mut until: Option<Moment> = None;
        loop {
            let now = self.clock.now();
            if let Some(until) = until
                && (self.held.is_empty() || now >= until)
            {
                break;
            }
            let permits = !self.without_permit.is_empty();
            let claims = until.is_none() && !permits && now >= self.claim_at.max(self.not_before);
            let next_claim = (until.is_none() && !permits && !claims)
                .then(|| self.claim_at.max(self.not_before));
            let next_settlement = (!self.open.is_empty()).then_some(self.not_before);
            let wake_at = [next_claim, next_settlement, until].into_iter().flatten().min();
            let woken = tokio::select! {
                biased;
                _ = self.hear.recv_many(&mut completions, AT_ONCE) => Woken::Verdicts,
                _ = stop.wait_for(|stop| *stop), if until.is_none() => Woken::Stop,
                permit = self.pool.permit(), if claims || permits => Woken::Permit(permit),
                event = self.messages.next(), if until.is_none() => Woken::Message(event),
                () = self.clock.sleep_until_some(wake_at) => Woken::Time,
            };
            self.open.append(&mut completions);
            match woken {
                Woken::Stop | Woken::Message(None) | Woken::Permit(None) => {
                    until = Some(self.clock.now() + self.settings.drain_timeout);
                    self.give_back_unseated();
                }
                Woken::Message(Some(Event::Message(_) | Event::Resumed)) => {
                    self.claim_at = self.clock.now();
                }
                Woken::Permit(Some(permit)) if permits => self.begin_waiting(permit).await,
                Woken::Permit(Some(permit)) => self.claim(permit).await,
                Woken::Message(Some(Event::Interrupted)) | Woken::Verdicts | Woken::Time => {}
            }
            if !self.open.is_empty() && self.clock.now() >= self.not_before {
                self.settle().await;
            }
        }
        for _ in 0..LAST_ATTEMPTS {
            if self.open.is_empty() {
                return;
            }
            self.settle().await;
        }
    }

    /// Claims due items, as many as there are free permits.
    async fn claim(&mut self, permit: Permit) {
        let mut permits = vec![permit];
        while permits.len() < AT_ONCE
            && let Some(permit) = self.pool.permit_at_once()
        {
            permits.push(permit);
        }
        let count = permits.len();
        let core = Arc::clone(&self.core);
        let claiming = core.shards[self.shard].claim(count, true, core.policy);
        tokio::pin!(claiming);
        let claimed = match self.network_clock.timeout(SEATS_KEPT_FOR, &mut claiming).await {
            Some(claimed) => claimed,
            None => {
                permits.clear();
                claiming.await
            }
        };
        let (claimed, next) = match claimed {
            Ok(claimed) => claimed,
            Err(error) => return self.failed(&error),
        };
        self.pauses.reset();
        let full = claimed.len() == count;
        if claimed.first().is_some_and(|claimed| claimed.attempts.alone) {
            drop(permits);
            for alone in claimed {
                self.begin_alone(alone);
            }
            // More due items may follow it.
            self.claim_at = self.clock.now();
            return;
        }
        for job in core.open(self.shard, claimed).await {
            self.held.insert(&job.id, job.token);
            match permits.pop().or_else(|| self.pool.permit_at_once()) {
                Some(permit) => self.begin(job, permit).await,
                None => self.without_permit.push_back(job),
            }
        }
        let wait = if full { Duration::ZERO } else { next.unwrap_or(self.settings.poll) };
        self.claim_at = self.clock.now() + wait.min(self.settings.poll);
    }

    /// Begins the first of the items that waited for a permit.
    async fn begin_waiting(&mut self, permit: Permit) {
        if let Some(job) = self.without_permit.pop_front() {
            self.begin(job, permit).await;
        }
    }

    /// Gives back the items that no handler has begun, without counting an attempt.
    fn give_back_unseated(&mut self) {
        for Job { id, token, attempts, .. } in self.without_permit.drain(..) {
            let said = Said::Unbegun(Duration::ZERO);
            self.open.push(Completion { id, token, attempts, said, _settled: None });
        }
    }

    /// Begins an item while no other handler runs.
    fn begin_alone(&mut self, claimed: Claimed) {
        self.held.insert(&claimed.id, claimed.token);
        let lone = Lone {
            core: Arc::clone(&self.core),
            shard: self.shard,
            pool: self.pool.clone(),
            clock: self.clock.clone(),
            network_clock: self.network_clock.clone(),
            handler: Arc::clone(&self.handler),
            say: self.say.clone(),
        };
        // In its own task: leases must be extended meanwhile.
        tokio::spawn(async move { lone.begin(claimed).await });
    }

    async fn begin(&mut self, job: Job<T>, permit: Permit) {
        let (id, token, attempts) = (job.id.clone(), job.token, job.attempts);
        let say = self.say.clone();
        let handler = observed(&self.core, &self.clock, Arc::clone(&self.handler), job);
        self.pool.work(permit, handler, move |outcome| {
            // The receiving task ends after its handlers, or after it has dropped them.
            let said = Said::Outcome(outcome);
            let _ = say.send(Completion { id, token, attempts, said, _settled: None });
        });
    }

    /// Settles completions; those that Redis does not accept are kept.
    async fn settle(&mut self) {
        let open = std::mem::take(&mut self.open);
        let (done, back): (Vec<_>, Vec<_>) = open.into_iter().partition(Completion::is_done);
        let shard = &self.core.shards[self.shard];
        let mut kept = Vec::new();
        let mut failure = None;
        for some in chunks(done) {
            let items: Vec<(&str, u64)> =
                some.iter().map(|completion| (&*completion.id, completion.token)).collect();
            match shard.ack(&items, self.core.policy).await {
                Ok(outcomes) => {
                    for (completion, outcome) in some.iter().zip(outcomes) {
                        count(if outcome == Acked::Done { "handled" } else { "lost" });
                        self.held.remove(&completion.id, completion.token);
                    }
                }
                Err(error) => {
                    failure = Some(error);
                    kept.extend(some);
                }
            }
        }
        for completion in back {
            if failure.is_some() {
                kept.push(completion);
                continue;
            }
            let limit = self.core.policy.attempts;
            let outcome = match &completion.said {
                Said::Outcome(outcome) => Ok(outcome),
                Said::Unbegun(after) => Err((*after, Back::Unbegun, "")),
                Said::Unread(why) => Err((Duration::ZERO, Back::Unread, why.as_str())),
            };
            let (after, how, reason) = match outcome {
                Err(unbegun) => unbegun,
                Ok(Outcome::Retry(after)) => (*after, Back::Counted { limit }, "not done in time"),
                Ok(Outcome::Failed(why)) => {
                    let counted = completion.attempts.counted;
                    let doubled = u32::try_from(counted.clamp(1, 16)).unwrap_or(16) - 1;
                    let pause = self.settings.retry_delay.saturating_mul(1 << doubled);
                    (pause.min(LONGEST_RETRY), Back::Counted { limit }, why.as_str())
                }
                Ok(Outcome::Postpone(after)) => (*after, Back::Free, ""),
                Ok(Outcome::Park(why)) => (Duration::ZERO, Back::Dead, why.as_str()),
                Ok(Outcome::Done) => continue,
            };
            let item = (&*completion.id, completion.token, completion.attempts);
            match shard.give_back(item, after, how, reason).await {
                Ok(given) => {
                    if given == Given::Dead {
                        tracing::error!(queue = self.core.name, id = completion.id, reason, "dead");
                    }
                    count(match given {
                        Given::Waiting => "retried",
                        Given::Dead => "dead",
                        Given::Lost => "lost",
                    });
                    self.held.remove(&completion.id, completion.token);
                }
                Err(error) => {
                    failure = Some(error);
                    kept.push(completion);
                }
            }
        }
        self.open = kept;
        if let Some(error) = failure {
            self.failed(&error);
        }
    }

    fn failed(&mut self, error: &Error) {
        tracing::debug!(queue = self.core.name, %error, "the queue waits for Redis");
        self.not_before = self.clock.now() + self.pauses.pause();
    }
}

impl Completion {
    fn is_done(&self) -> bool {
        matches!(self.said, Said::Outcome(Outcome::Done))
    }
}

/// State that is needed to begin an item alone.
struct Lone<T> {
    core: Arc<Core>,
    shard: usize,
    pool: HandlerPool,
    clock: Clock,
    network_clock: Clock,
    handler: Handler<T>,
    say: mpsc::UnboundedSender<Completion>,
}

impl<T: DeserializeOwned + Send + 'static> Lone<T> {
    /// Begins the item once no other handler runs, and keeps others from beginning until it is
    /// settled.
    async fn begin(self, Claimed { id, token, attempts, payload, due }: Claimed) {
        let Some(turn) = self.pool.turn(&self.clock).await else { return };
        let (shard, lease) = (&self.core.shards[self.shard], self.core.policy.lease);
        let begin = || shard.begin((&id, token), attempts, lease);
        let Some(ours) = turn.note(&self.network_clock, begin).await else { return };
        let (settled, ended) = oneshot::channel();
        let say = self.say;
        let mut settled = Some(settled);
        // The shard's task ends after its handlers, or after it has dropped them.
        let mut tell = move |id: String, said: Said| {
            let _ = say.send(Completion { id, token, attempts, said, _settled: settled.take() });
        };
        if !ours {
            // Giving it back reports that the lease is lost.
            return tell(id, Said::Unbegun(Duration::ZERO));
        }
        // Decoded only now: the decoder itself may be what ends the process.
        let payload = match decode(&payload) {
            Ok(payload) => payload,
            Err(why) => {
                let reason = format!("not understood: {why}");
                return tell(id, Said::Unread(reason));
            }
        };
        let job = Job { shard: self.shard, id: id.clone(), token, attempts, payload, due };
        let handler = observed(&self.core, &self.clock, self.handler, job);
        let then = move |outcome| tell(id, Said::Outcome(outcome));
        turn.work(handler, then, ended).await;
    }
}

/// Begins a handler inside a span, and measures it and how late it began.
fn observed<T: Send + 'static>(
    core: &Core,
    clock: &Clock,
    handler: Handler<T>,
    job: Job<T>,
) -> Observed {
    let began = clock.now();
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
    // Called inside the task, so that a panic before the first await is caught, too.
    let call = || async move { handler(job).await }.boxed();
    Observed::begin(span, clock, began, &core.metrics.handler_seconds, call)
}

/// Splits a list into parts that fit one call.
fn chunks(mut list: Vec<Completion>) -> Vec<Vec<Completion>> {
    let mut parts = Vec::new();
    while !list.is_empty() {
        let rest = list.split_off(list.len().min(AT_ONCE));
        parts.push(std::mem::replace(&mut list, rest));
    }
    parts
}

fn count(outcome: &'static str) {
    metrics::counter!("seawall_queue_items_total", "outcome" => outcome).increment(1);
}
