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

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use futures_util::future::join_all;
use metrics::Histogram;
use seawall_client::{
    Handle,
    error::{Error, Result},
};
use seawall_resilience::clock::Moment;
use serde::{Serialize, de::DeserializeOwned};
use xxhash_rust::xxh3::xxh3_64;

use super::{
    decode::decode,
    job::{Acked, Added, Changed, Claim, DeadItems, DelayedStatus, FailedShard, Given, Job},
    shard::{Back, Change, Claimed, DeliveryPolicy, MAX_BYTES_AT_ONCE, Shard},
    worker::DelayedWorkerBuilder,
};

/// Largest number of shards of a queue.
pub const MAX_SHARDS: usize = 256;
/// Longest accepted id and payload.
const MAX_ID_BYTES: usize = 1_024;
const MAX_PAYLOAD_BYTES: usize = 1 << 20;
/// Most items of one call.
const MAX_AT_ONCE: usize = 1_000;

impl<T> Delayed<T> {
    /// Returns a builder for a delayed queue of `T` with this name.
    #[must_use]
    pub fn builder(handle: &Handle, name: impl Into<String>) -> DelayedBuilder<T> {
        DelayedBuilder {
            handle: handle.clone(),
            name: name.into(),
            shards: 1,
            policy: DeliveryPolicy {
                lease: Duration::from_secs(30),
                attempts: 5,
                remember: Duration::from_secs(300),
            },
            payload: PhantomData,
        }
    }
}

/// Settings of a [`Delayed`]; all processes that use the queue must use the same settings.
#[derive(Debug)]
pub struct DelayedBuilder<T> {
    handle: Handle,
    name: String,
    shards: usize,
    policy: DeliveryPolicy,
    payload: PhantomData<fn() -> T>,
}

impl<T> DelayedBuilder<T> {
    /// Sets the number of shards. Default: 1.
    ///
    /// Items are ordered by due time only within a shard. The number cannot be changed while the
    /// queue has items.
    #[must_use]
    pub fn shards(mut self, count: usize) -> Self {
        self.shards = count;
        self
    }

    /// Sets how long a consumer may keep an item without extending its lease. Default: 30 seconds.
    #[must_use]
    pub fn lease_ttl(mut self, time: Duration) -> Self {
        self.policy.lease = time;
        self
    }

    /// Sets the number of attempts after which an item is dead. Default: 5.
    ///
    /// An attempt counts if it failed, or if its lease expired while the item was handed out alone.
    /// A claim whose reply was lost is not an attempt. A consumer that dies with several items in
    /// progress counts for none of them: each of them is then handed out alone.
    #[must_use]
    pub fn max_attempts(mut self, count: u64) -> Self {
        self.policy.attempts = count;
        self
    }

    /// Sets how long the id of a finished item cannot be added again. Default: 5 minutes.
    ///
    /// Within this time, retrying an `add` whose reply was lost does not do the work twice.
    #[must_use]
    pub fn dedup_ttl(mut self, time: Duration) -> Self {
        self.policy.remember = time;
        self
    }

    /// Builds the queue.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the setting that is out of range.
    pub fn build(self) -> Result<Delayed<T>> {
        if self.shards == 0 || self.shards > MAX_SHARDS {
            return Err(Error::Invalid(format!("shards must be from 1 to {MAX_SHARDS}")));
        }
        if self.policy.lease < Duration::from_millis(10) {
            return Err(Error::Invalid("a lease_ttl below 10 ms ends before it begins".into()));
        }
        if self.policy.attempts == 0 {
            return Err(Error::Invalid(
                "max_attempts is 0: everything would be dead at once".into(),
            ));
        }
        let key = |number: usize| match self.shards {
            1 => self.handle.key("delayed", &self.name),
            _ => self.handle.key("delayed", &(&self.name, number)),
        };
        let client = self.handle.client();
        let shards = (0..self.shards)
            .map(|number| Ok(Shard::new(client.clone(), &key(number)?)))
            .collect::<Result<Vec<_>>>()?;
        self.handle.needs_every_key("queues");
        let core = Core {
            metrics: Metrics::new(&self.name),
            name: self.name.clone(),
            shards,
            policy: self.policy,
        };
        Ok(Delayed { handle: self.handle, core: Arc::new(core), payload: PhantomData })
    }
}

/// A queue of items that become due at a set time; cheap to clone. See the [module](super) for an
/// example.
pub struct Delayed<T> {
    pub(super) handle: Handle,
    pub(super) core: Arc<Core>,
    payload: PhantomData<fn() -> T>,
}

/// A worker's view of a queue: everything but the handle, which its tasks must not keep alive.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) name: String,
    pub(super) shards: Vec<Shard>,
    pub(super) policy: DeliveryPolicy,
    pub(super) metrics: Metrics,
}

/// The histograms of a queue's workers.
#[derive(Debug)]
pub(super) struct Metrics {
    pub(super) handler_seconds: Histogram,
    pub(super) delay_seconds: Histogram,
}

impl Metrics {
    fn new(queue: &str) -> Self {
        let seconds = |name: &'static str| metrics::histogram!(name, "queue" => queue.to_owned());
        Metrics {
            handler_seconds: seconds("seawall_queue_handler_seconds"),
            delay_seconds: seconds("seawall_queue_delay_seconds"),
        }
    }
}

impl Core {
    fn shard(&self, id: &str) -> Result<&Shard> {
        if id.is_empty() || id.len() > MAX_ID_BYTES {
            return Err(Error::Invalid(format!("an id has from 1 to {MAX_ID_BYTES} bytes")));
        }
        Ok(&self.shards[self.number(id)])
    }

    fn number(&self, id: &str) -> usize {
        (xxh3_64(id.as_bytes()) % self.shards.len() as u64) as usize
    }

    async fn give_back<T>(
        &self,
        job: &Job<T>,
        after: Duration,
        back: Back,
        reason: &str,
    ) -> Result<Given> {
        let item = (&*job.id, job.token, job.attempts);
        self.shards[job.shard].give_back(item, after, back, reason).await
    }

    /// Records that the claimed item is begun, if it must run alone. Returns `false` if its lease
    /// is lost.
    ///
    /// If the attempt cannot be recorded it is not counted, and the item is handed out alone again
    /// when its lease expires.
    async fn note(&self, shard: usize, claimed: &[Claimed]) -> bool {
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
                    if let Err(error) = given.await {
                        tracing::debug!(queue = self.name, id, %error, "not among the dead yet");
                    }
                }
            }
        }
        jobs
    }
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

impl<T: Serialize> Delayed<T> {
    /// Adds an item that becomes due after this delay, by the server's clock.
    ///
    /// An id that is in the queue, or was finished within [`DelayedBuilder::dedup_ttl`], is not
    /// added again.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the id or payload is too long; otherwise as
    /// [`Client::send`](seawall_client::Client::send). Safe to retry.
    pub async fn add(&self, id: impl AsRef<str>, payload: &T, after: Duration) -> Result<Added> {
        let id = id.as_ref();
        let shard = self.core.shard(id)?;
        let added = shard.add(&[(id, encode(payload)?, after)], self.core.policy).await?;
        added.first().copied().ok_or_else(|| Error::unexpected("no answer for an item"))
    }

    /// Adds several items and returns an outcome for each, in order.
    ///
    /// It takes one round trip per shard for each thousand items, or each megabyte.
    ///
    /// # Errors
    /// As [`Delayed::add`]; earlier items may have been added. Safe to retry.
    pub async fn add_all(&self, items: &[(String, T, Duration)]) -> Result<Vec<Added>> {
        let mut parts: Vec<Vec<usize>> = vec![Vec::new(); self.core.shards.len()];
        for (index, (id, _, _)) in items.iter().enumerate() {
            self.core.shard(id)?;
            parts[self.core.number(id)].push(index);
        }
        let mut outcomes = vec![Added::Now; items.len()];
        for (shard, indexes) in self.core.shards.iter().zip(parts) {
            let mut indexes = indexes.into_iter().peekable();
            // Each iteration takes at least one.
            while indexes.peek().is_some() {
                let (mut batch, mut places, mut bytes) = (Vec::new(), Vec::new(), 0);
                while batch.len() < MAX_AT_ONCE
                    && bytes < MAX_BYTES_AT_ONCE
                    && let Some(index) = indexes.next()
                {
                    let (id, payload, after) = &items[index];
                    let payload = encode(payload)?;
                    bytes += payload.len();
                    batch.push((id.as_str(), payload, *after));
                    places.push(index);
                }
                let added = shard.add(&batch, self.core.policy).await?;
                for (index, added) in places.into_iter().zip(added) {
                    outcomes[index] = added;
                }
            }
        }
        Ok(outcomes)
    }
}

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
            let claiming = self.core.shards[number].claim(left, alone, self.core.policy);
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

/// Error of a shard that did not answer within this time while other shards' jobs were waiting.
fn too_slow(waited: Duration) -> Error {
    Error::Indeterminate { waited, cause: "a shard is too slow".into() }
}

fn encode(payload: &impl Serialize) -> Result<Vec<u8>> {
    let bytes = serde_json::to_vec(payload)
        .map_err(|error| Error::Invalid(format!("the payload cannot be written: {error}")))?;
    if bytes.len() > MAX_PAYLOAD_BYTES {
        let length = bytes.len();
        return Err(Error::Invalid(format!(
            "a payload of {length} bytes is longer than the {MAX_PAYLOAD_BYTES} that are allowed"
        )));
    }
    Ok(bytes)
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
