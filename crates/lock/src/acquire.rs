//! Acquires a lock: a single attempt, or waiting until it is free.
//!
//! ```text
//!   wait in line ─► attempt ─► held
//!                     │ ▲
//!                     ▼ │ a message, a reconnect, or min(what is left of the lease, a jittered cap)
//!                  subscribe once, then listen
//! ```
//!
//! Messages make a hand-over fast; correctness does not depend on them. A lost message costs at
//! most the cap.
//!
//! The ids of a request are chosen before anything is sent and stay the same for all attempts of
//! one call, so an attempt whose reply was lost is simply repeated. If a call ends early, by an
//! error or because its future is dropped, [`Pending`] hands the request to the lease renewer,
//! which undoes whatever the server may have done.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use redis::Value;
use seawall_client::{
    Handle,
    client::{Event, ScriptInvocation, Subscription},
    error::{Error, Result},
    retry::Doubt,
};
use seawall_resilience::{
    clock::{Moment, millis},
    random::Randomness,
};
use tracing::{Instrument as _, field::Empty};

use super::{
    guard::Guard,
    hold::{Hold, validity},
    lease_renewer::LeaseRenewer,
    owner::OwnerId,
    request::{Answer, LockOptions, LockRequest},
};

/// Outcome of an attempt to acquire a lock.
#[derive(Debug)]
#[must_use = "a guard that is dropped gives its lock back"]
pub enum AcquireOutcome {
    /// The lock is held until the guard is released, dropped or lost.
    Acquired(Guard),
    /// Another owner holds the lock.
    Busy {
        /// When to try again, if the lock is not released earlier.
        retry_after: Duration,
    },
}

impl AcquireOutcome {
    /// Returns the guard if the lock was acquired.
    #[must_use]
    pub fn acquired(self) -> Option<Guard> {
        match self {
            AcquireOutcome::Acquired(guard) => Some(guard),
            AcquireOutcome::Busy { .. } => None,
        }
    }
}

/// A request that the server may know of while no guard exists.
pub(super) struct Pending {
    renewer: Arc<LeaseRenewer>,
    clock: seawall_resilience::clock::Clock,
    request: Option<LockRequest>,
    /// `true` if the server may know of the request.
    sent: bool,
}

impl Pending {
    pub(super) fn new(handle: &Handle, request: LockRequest) -> Self {
        let renewer = LeaseRenewer::of(handle);
        Pending { renewer, clock: handle.clock().clone(), request: Some(request), sent: false }
    }

    pub(super) fn request(&self) -> &LockRequest {
        self.request.as_ref().expect("a request is taken out only when the pending ends")
    }

    /// Returns the call of an attempt. From now on the server may know of the request.
    fn prepare(&mut self, waits: bool) -> ScriptInvocation {
        self.sent = true;
        self.request().acquire(waits)
    }

    /// Interprets the reply to an attempt. Returns `None` if it came too late to be of use, which
    /// is treated like a lost reply.
    fn judge(
        &mut self,
        reply: Result<Value>,
        before: Moment,
        waits: bool,
    ) -> Result<Option<Answer>> {
        let answer = Answer::read(reply.map_err(|error| self.request().options.named(error))?)?;
        if let Answer::Busy { .. } = answer {
            self.sent = waits && self.request().queues_at_server();
        } else if self.clock.lease_now() >= validity(before, self.request().options.lease_ttl) {
            return Ok(None);
        }
        Ok(Some(answer))
    }

    /// Makes one attempt and returns its answer and the time at which it began.
    pub(super) async fn attempt(
        &mut self,
        handle: &Handle,
        waits: bool,
    ) -> Result<(Option<Answer>, Moment)> {
        let call = self.prepare(waits);
        let before = self.clock.lease_now();
        let reply = match self.request().options.replicas {
            None => handle.client().run(&call).await,
            Some(replicas) => super::replicas::run(handle.client(), &call, replicas).await,
        };
        Ok((self.judge(reply, before, waits)?, before))
    }

    /// Takes the request out because it is held: dropping no longer gives it up.
    pub(super) fn held(mut self) -> LockRequest {
        self.sent = false;
        self.request.take().expect("a request is taken out only when the pending ends")
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(request) = self.request.take()
            && self.sent
        {
            // The server may execute the attempt as late as a reply may take, and the lease begins
            // then.
            let until = self.clock.lease_now() + request.options.lease_ttl * 2;
            self.renewer.give_up(request, until);
        }
    }
}

/// Runs an acquisition inside a span. The span does not contain the key, which may be personal data.
async fn observed(work: impl Future<Output = Result<AcquireOutcome>>) -> Result<AcquireOutcome> {
    let span = tracing::debug_span!(
        "lock_acquire",
        otel.kind = "client",
        db.system.name = "redis",
        db.operation.name = "EVALSHA",
        seawall.lock.outcome = Empty,
        error.type = Empty,
    );
    let outcome = work.instrument(span.clone()).await;
    match &outcome {
        Ok(AcquireOutcome::Acquired(_)) => span.record("seawall.lock.outcome", "acquired"),
        Ok(AcquireOutcome::Busy { .. }) => span.record("seawall.lock.outcome", "busy"),
        Err(error) => span.record("error.type", error.error_type()),
    };
    outcome
}

/// Tries to acquire a lock once.
pub(super) async fn try_acquire(
    handle: &Handle,
    options: Arc<LockOptions>,
    owner: Option<OwnerId>,
) -> Result<AcquireOutcome> {
    observed(try_once(handle, options, owner)).await
}

async fn try_once(
    handle: &Handle,
    options: Arc<LockOptions>,
    owner: Option<OwnerId>,
) -> Result<AcquireOutcome> {
    let request = LockRequest::new(options, owner, handle.randomness());
    let mut pending = Pending::new(handle, request);
    let renewer = LeaseRenewer::of(handle);
    match pending.attempt(handle, false).await? {
        (Some(Answer::Held(token)), before) => {
            renewer.metrics.acquired.increment(1);
            Ok(AcquireOutcome::Acquired(Guard::new(handle, pending.held(), token, before)))
        }
        (Some(Answer::Busy { free_in }), _) => {
            renewer.metrics.busy.increment(1);
            Ok(AcquireOutcome::Busy { retry_after: free_in })
        }
        (None, _) => Ok(AcquireOutcome::Busy { retry_after: Duration::ZERO }),
    }
}

/// Tries to acquire several locks at once, in one pipeline per server. Returns one outcome for
/// each, in order.
pub(super) async fn try_all(
    handle: &Handle,
    all_options: &[Arc<LockOptions>],
    owner: OwnerId,
) -> Result<Vec<AcquireOutcome>> {
    let requests = all_options
        .iter()
        .map(|options| LockRequest::new(Arc::clone(options), Some(owner), handle.randomness()));
    let mut pending: Vec<_> = requests.map(|request| Pending::new(handle, request)).collect();
    let calls: Vec<_> = pending.iter_mut().map(|pending| pending.prepare(false)).collect();
    let before = handle.clock().lease_now();
    let replies = handle.client().run_all(&calls).await;
    let mut attempts = Vec::with_capacity(all_options.len());
    for (mut pending, reply) in pending.into_iter().zip(replies) {
        attempts.push(match pending.judge(reply, before, false)? {
            Some(Answer::Held(token)) => {
                LeaseRenewer::of(handle).metrics.acquired.increment(1);
                AcquireOutcome::Acquired(Guard::new(handle, pending.held(), token, before))
            }
            Some(Answer::Busy { free_in }) => AcquireOutcome::Busy { retry_after: free_in },
            None => AcquireOutcome::Busy { retry_after: Duration::ZERO },
        });
    }
    Ok(attempts)
}

/// Retries until the lock is held or `within` is over.
pub(super) async fn acquire(
    handle: &Handle,
    options: Arc<LockOptions>,
    owner: Option<OwnerId>,
    within: Duration,
) -> Result<AcquireOutcome> {
    observed(acquire_within(handle, options, owner, within)).await
}

async fn acquire_within(
    handle: &Handle,
    options: Arc<LockOptions>,
    owner: Option<OwnerId>,
    within: Duration,
) -> Result<AcquireOutcome> {
    let clock = handle.clock();
    let began = clock.now();
    let deadline = began + within;
    let renewer = LeaseRenewer::of(handle);
    let request = LockRequest::new(options, owner, handle.randomness());
    // The queue of a fair lock is at the server.
    let mut own = None;
    let mut turn = None;
    let subscription = match request.line() {
        None => &mut own,
        Some(line) => {
            let Some(mine) = clock.timeout(within, renewer.lines.turn(line)).await else {
                renewer.metrics.busy.increment(1);
                return Ok(AcquireOutcome::Busy { retry_after: request.options.poll_interval });
            };
            &mut *turn.insert(mine).subscription
        }
    };
    let mut pending = Pending::new(handle, request);
    let mut doubt = Doubt::default();
    loop {
        // Messages from before this attempt are not news after it.
        if let Some(subscription) = subscription.as_mut() {
            while let Some(Some(_)) = subscription.next().now_or_never() {}
        }
        let outcome = match pending.attempt(handle, !within.is_zero()).await {
            Ok((Some(Answer::Held(token)), before)) => {
                renewer.metrics.acquired.increment(1);
                let waited = clock.now().since(began);
                renewer.metrics.wait_seconds.record(waited.as_secs_f64());
                return Ok(AcquireOutcome::Acquired(Guard::new(
                    handle,
                    pending.held(),
                    token,
                    before,
                )));
            }
            Ok((Some(Answer::Busy { free_in }), _)) => {
                // The ids are the same, so no earlier attempt acquired the lock either.
                doubt = Doubt::default();
                Ok(free_in)
            }
            Ok((None, _)) => Ok(Duration::ZERO),
            // Repeating the attempt is safe because the ids are the same.
            Err(error) if error.is_outage() => {
                doubt.note(&error);
                Err(error)
            }
            Err(error) => return Err(doubt.report(error)),
        };
        let left = deadline.since(clock.now());
        if left.is_zero() {
            renewer.metrics.busy.increment(1);
            return outcome
                .map(|retry_after| AcquireOutcome::Busy { retry_after })
                .map_err(|error| doubt.report(error));
        }
        let options = &pending.request().options;
        if subscription.is_none() {
            let fresh = subscription.insert(handle.client().pubsub().join(&options.key));
            if fresh.is_live() {
                continue;
            }
        }
        let cap = jittered(options.poll_interval, handle.randomness());
        let pause = outcome.map_or(cap, |free_in| cap.min(free_in.max(Duration::from_millis(1))));
        if let Some(subscription) = subscription.as_mut() {
            listen(subscription, pending.request(), clock.sleep(pause.min(left))).await?;
        }
    }
}

/// Waits until there is a reason to try again.
async fn listen(
    subscription: &mut Subscription,
    request: &LockRequest,
    pause: impl Future<Output = ()>,
) -> Result<()> {
    tokio::pin!(pause);
    loop {
        tokio::select! {
            biased;
            event = subscription.next() => match event {
                None => return Err(Error::Closed),
                Some(Event::Message(message)) if !request.is_called(&message) => {}
                Some(Event::Interrupted) => {}
                Some(Event::Message(_) | Event::Resumed) => return Ok(()),
            },
            () = &mut pause => return Ok(()),
        }
    }
}

/// Returns a random time between half of `cap` and `cap`, so that waiters of many processes do not
/// try at the same moment.
pub(super) fn jittered(cap: Duration, randomness: &Randomness) -> Duration {
    let cap_ms = millis(cap).max(2);
    Duration::from_millis(randomness.within(cap_ms / 2..=cap_ms))
}

/// Creates the hold for a request that the server confirmed.
pub(super) fn hold(
    handle: &Handle,
    request: LockRequest,
    token: super::Token,
    before: Moment,
) -> Hold {
    let renewer = LeaseRenewer::of(handle);
    let told = (renewer.metrics.lost.clone(), renewer.metrics.hold_seconds.clone());
    Hold::new(request, token, before, handle.clock().clone(), told)
}
