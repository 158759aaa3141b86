//! The loop that takes what is due, hands it to a handler, and settles it.
//!
//! One task for each shard does all the talking to Redis; handlers run in tasks of their own. It
//! claims when something is due by the server's word, when a message says that something earlier was
//! added, and in any case every so often: a lost message costs at most that. Leases of what is in hand
//! are extended at a third of their time.
//!
//! An item whose lease ended may have ended its consumer. It is begun alone, as in the stream's worker: no
//! other handler of the worker is at work, the attempt is noted in Redis before it begins, and nothing
//! else begins before it is settled.
//!
//! A claim reserves permits for what it may bring, but only for a moment: a shard that hangs gives them
//! back to the others. What it brings later waits under its lease until permits are free.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use seawall_client::{
    client::{Client, Event, Subscription},
    error::Error,
};
use seawall_resilience::clock::{Clock, Moment};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    decode::decode,
    delayed::Core,
    job::{Acked, Given, Job},
    shard::{Attempts, Back, Claimed},
    worker::Settings,
};
use crate::stream::{
    Outcome,
    handler_pool::{HandlerPool, Permit},
};

/// How long a claim under way keeps its permits from other shards.
const SEATS_KEPT_FOR: Duration = Duration::from_millis(50);
/// Items that one claim takes, and one call settles or extends, at most.
const AT_ONCE: usize = 64;
/// Longest pause between two attempts at an item that failed.
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// Pauses after Redis did not answer: doubled up to the longer one.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Attempts to settle what is left when the worker ends.
const LAST_ATTEMPTS: usize = 3;

/// What is called for each item.
pub(super) type Handler<T> = Arc<dyn Fn(Job<T>) -> BoxFuture<'static, Outcome> + Send + Sync>;

/// What became of an item.
struct Completion {
    id: String,
    token: u64,
    attempts: Attempts,
    said: Said,
    /// Who waits until it is settled is told when this is dropped.
    _settled: Option<oneshot::Sender<()>>,
}

enum Said {
    /// By its handler.
    Outcome(Outcome),
    /// It was not begun: again after this time.
    Unbegun(Duration),
    /// It cannot be decoded, and was not begun.
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
    messages: Subscription,
    say: mpsc::UnboundedSender<Completion>,
    hear: mpsc::UnboundedReceiver<Completion>,
    /// Items in hand, with their tokens.
    held: HashMap<String, u64>,
    /// Items in hand that wait for a permit, at most those of one claim.
    without_permit: VecDeque<Job<T>>,
    /// Verdicts that Redis has not taken yet.
    open: Vec<Completion>,
    claim_at: Moment,
    extend_at: Moment,
    not_before: Moment,
    pause: Duration,
}

/// What woke the task up.
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
            extend_at: now + core.policy.lease / 3,
            core,
            shard,
            settings,
            pool,
            handler,
            clock,
            say,
            hear,
            held: HashMap::new(),
            without_permit: VecDeque::new(),
            open: Vec::new(),
            claim_at: now,
            not_before: now,
            pause: SHORTEST_PAUSE,
        }
    }

    /// Works until it is told to stop and has finished, or was not waited for any longer.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut completions = Vec::new();
        // The moment until which what is in hand is waited for, once the worker is told to stop.
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
            let mut wake_at = self.extend_at;
            if until.is_none() && !permits && !claims {
                wake_at = wake_at.min(self.claim_at.max(self.not_before));
            }
            if !self.open.is_empty() {
                wake_at = wake_at.min(self.not_before);
            }
            if let Some(until) = until {
                wake_at = wake_at.min(until);
            }
            let woken = tokio::select! {
                biased;
                _ = self.hear.recv_many(&mut completions, AT_ONCE) => Woken::Verdicts,
                _ = stop.wait_for(|stop| *stop), if until.is_none() => Woken::Stop,
                permit = self.pool.permit(), if claims || permits => Woken::Permit(permit),
                event = self.messages.next(), if until.is_none() => Woken::Message(event),
                () = self.clock.sleep_until(wake_at) => Woken::Time,
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
            if self.clock.now() >= self.extend_at {
                self.extend().await;
                self.extend_at = self.clock.now() + self.core.policy.lease / 3;
            }
        }
        for _ in 0..LAST_ATTEMPTS {
            if self.open.is_empty() {
                return;
            }
            self.settle().await;
        }
    }

    /// Takes what is due, as much as there are free hands.
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
        // Real time: what is waited for is the network.
        let claimed = match tokio::time::timeout(SEATS_KEPT_FOR, &mut claiming).await {
            Ok(claimed) => claimed,
            Err(_) => {
                permits.clear();
                claiming.await
            }
        };
        let (claimed, next) = match claimed {
            Ok(claimed) => claimed,
            Err(error) => return self.failed(&error),
        };
        self.pause = SHORTEST_PAUSE;
        let full = claimed.len() == count;
        if claimed.first().is_some_and(|claimed| claimed.attempts.alone) {
            drop(permits);
            for alone in claimed {
                self.begin_alone(alone);
            }
            // There may be more behind it.
            self.claim_at = self.clock.now();
            return;
        }
        for job in core.open(self.shard, claimed).await {
            self.held.insert(job.id.clone(), job.token);
            match permits.pop().or_else(|| self.pool.permit_at_once()) {
                Some(permit) => self.begin(job, permit).await,
                None => self.without_permit.push_back(job),
            }
        }
        let wait = if full { Duration::ZERO } else { next.unwrap_or(self.settings.poll) };
        self.claim_at = self.clock.now() + wait.min(self.settings.poll);
    }

    /// Begins the first of those that waited for a permit.
    async fn begin_waiting(&mut self, permit: Permit) {
        if let Some(job) = self.without_permit.pop_front() {
            self.begin(job, permit).await;
        }
    }

    /// Gives back what no handler has begun, without counting it.
    fn give_back_unseated(&mut self) {
        for Job { id, token, attempts, .. } in self.without_permit.drain(..) {
            let said = Said::Unbegun(Duration::ZERO);
            self.open.push(Completion { id, token, attempts, said, _settled: None });
        }
    }

    /// Begins an item with nothing else at work.
    fn begin_alone(&mut self, claimed: Claimed) {
        self.held.insert(claimed.id.clone(), claimed.token);
        let lone = Lone {
            core: Arc::clone(&self.core),
            shard: self.shard,
            pool: self.pool.clone(),
            clock: self.clock.clone(),
            handler: Arc::clone(&self.handler),
            say: self.say.clone(),
        };
        // In a task of its own: what is in hand has to be extended meanwhile.
        tokio::spawn(async move { lone.begin(claimed).await });
    }

    async fn begin(&mut self, job: Job<T>, permit: Permit) {
        let (id, token, attempts) = (job.id.clone(), job.token, job.attempts);
        let say = self.say.clone();
        let handler = Arc::clone(&self.handler);
        // Called inside the task, so that a panic before the first await is caught, too.
        self.pool.work(permit, async move { handler(job).await }, move |outcome| {
            // The task ends after its handlers, or lets them go.
            let said = Said::Outcome(outcome);
            let _ = say.send(Completion { id, token, attempts, said, _settled: None });
        });
    }

    /// Carries out completions; those that Redis does not take are kept.
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
                        let_go(&mut self.held, completion);
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
                    let_go(&mut self.held, &completion);
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

    /// Extends the leases of what is in hand.
    async fn extend(&mut self) {
        let held: Vec<(&str, u64)> =
            self.held.iter().map(|(id, token)| (id.as_str(), *token)).collect();
        for some in held.chunks(AT_ONCE) {
            let lease = self.core.policy.lease;
            match self.core.shards[self.shard].extend(some, lease).await {
                Ok(kept) if kept.contains(&false) => {
                    tracing::debug!(queue = self.core.name, "a lease was lost");
                }
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "leases are not extended"),
            }
        }
    }

    fn failed(&mut self, error: &Error) {
        tracing::debug!(queue = self.core.name, %error, "the queue waits for Redis");
        self.not_before = self.clock.now() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }
}

impl Completion {
    fn is_done(&self) -> bool {
        matches!(self.said, Said::Outcome(Outcome::Done))
    }
}

/// What it takes to begin an item alone.
struct Lone<T> {
    core: Arc<Core>,
    shard: usize,
    pool: HandlerPool,
    clock: Clock,
    handler: Handler<T>,
    say: mpsc::UnboundedSender<Completion>,
}

impl<T: DeserializeOwned + Send + 'static> Lone<T> {
    /// Begins it when no other handler is at work, and keeps others from beginning until it is settled.
    async fn begin(self, Claimed { id, token, attempts, payload }: Claimed) {
        let Some(turn) = self.pool.turn(&self.clock).await else { return };
        let shard = &self.core.shards[self.shard];
        let Some(ours) = turn.note(|| shard.begin((&id, token), attempts)).await else { return };
        let (settled, ended) = oneshot::channel();
        let say = self.say;
        let mut settled = Some(settled);
        // The shard's task ends after its handlers, or lets them go.
        let mut tell = move |id: String, said: Said| {
            let _ = say.send(Completion { id, token, attempts, said, _settled: settled.take() });
        };
        if !ours {
            // Giving it back says that it is lost.
            return tell(id, Said::Unbegun(Duration::ZERO));
        }
        // Not before: its decoder may be what ends the process.
        let payload = match decode(&payload) {
            Ok(payload) => payload,
            Err(why) => {
                let reason = format!("not understood: {why}");
                return tell(id, Said::Unread(reason));
            }
        };
        let job = Job { shard: self.shard, id: id.clone(), token, attempts, payload };
        let handler = self.handler;
        let then = move |outcome| tell(id, Said::Outcome(outcome));
        turn.work(async move { handler(job).await }, then, ended).await;
    }
}

/// Forgets an item, unless it was handed to this worker once more after its lease had ended.
fn let_go(held: &mut HashMap<String, u64>, completion: &Completion) {
    if held.get(&completion.id) == Some(&completion.token) {
        held.remove(&completion.id);
    }
}

/// Parts of a list that one call can take.
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
