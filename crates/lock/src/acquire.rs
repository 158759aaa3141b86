//! Taking: one attempt, and waiting for one's turn.
//!
//! ```text
//!   wait in line ─► attempt ─► held
//!                     │ ▲
//!                     ▼ │ a message, a reconnect, or min(what is left of the lease, a jittered cap)
//!                  subscribe once, then listen
//! ```
//!
//! Messages make a hand-over quick; nothing rests on them. A lost one costs at most the cap.
//!
//! The ids of a request are chosen before anything is sent and stay the same over all attempts of one
//! call, so that an attempt whose reply was lost is simply made again. Whoever goes away in the
//! middle, by an error or by dropping the future, leaves a note with the lease renewer, which gives back
//! whatever the server may have done: [`Pending`].

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use rand::RngExt;
use redis::Value;
use seawall_client::{
    Handle,
    client::{Event, ScriptInvocation, Subscription},
    error::{Error, Result},
    retry::Doubt,
};
use seawall_resilience::clock::Moment;

use super::{
    guard::Guard,
    hold::{Hold, validity},
    lease_renewer::LeaseRenewer,
    owner::OwnerId,
    request::{Answer, LockOptions, LockRequest, millis},
};

/// What an attempt to take a lock came to.
#[derive(Debug)]
#[must_use = "a guard that is dropped gives its lock back"]
pub enum AcquireOutcome {
    /// It is held until the guard is released, dropped or lost.
    Acquired(Guard),
    /// Somebody else holds it.
    Busy {
        /// When it is worth trying again, if it is not released before.
        retry_after: Duration,
    },
}

impl AcquireOutcome {
    /// The guard, if there is one.
    #[must_use]
    pub fn acquired(self) -> Option<Guard> {
        match self {
            AcquireOutcome::Acquired(guard) => Some(guard),
            AcquireOutcome::Busy { .. } => None,
        }
    }
}

/// A request that the server may know of without anybody holding a guard.
pub(super) struct Pending {
    renewer: Arc<LeaseRenewer>,
    clock: seawall_resilience::clock::Clock,
    request: Option<LockRequest>,
    /// Whether the server may know of it.
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

    /// The call of an attempt; from now on the server may know of the request.
    fn prepare(&mut self, waits: bool) -> ScriptInvocation {
        self.sent = true;
        self.request().acquire(waits)
    }

    /// What a reply to an attempt says; `None` when it came too late to be of use, which is like a
    /// lost reply.
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

    /// One attempt, and when it was begun.
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

    /// It is held: nothing is given up any more.
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
            // The server may get to the attempt as late as a reply may take, and the lease begins then.
            let until = self.clock.lease_now() + request.options.lease_ttl * 2;
            self.renewer.give_up(request, until);
        }
    }
}

/// Tries once.
pub(super) async fn try_acquire(
    handle: &Handle,
    options: Arc<LockOptions>,
    owner: Option<OwnerId>,
) -> Result<AcquireOutcome> {
    let request = LockRequest::new(options, owner.unwrap_or_else(OwnerId::random));
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

/// Tries several at once, one pipeline for each server; in order, an attempt for each.
pub(super) async fn try_all(
    handle: &Handle,
    all_options: &[Arc<LockOptions>],
    owner: OwnerId,
) -> Result<Vec<AcquireOutcome>> {
    let requests = all_options.iter().map(|options| LockRequest::new(Arc::clone(options), owner));
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

/// Tries until it is held or `within` is over.
#[tracing::instrument(level = "debug", name = "lock_acquire", skip_all, fields(key = %options.key.escape_ascii()))]
pub(super) async fn acquire(
    handle: &Handle,
    options: Arc<LockOptions>,
    owner: Option<OwnerId>,
    within: Duration,
) -> Result<AcquireOutcome> {
    let clock = handle.clock();
    let began = clock.now();
    let deadline = began + within;
    let renewer = LeaseRenewer::of(handle);
    let request = LockRequest::new(options, owner.unwrap_or_else(OwnerId::random));
    // A fair lock has its line at the server.
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
        // What was told before this attempt is not news after it.
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
                // The ids are the same: no earlier attempt took it either.
                doubt = Doubt::default();
                Ok(free_in)
            }
            Ok((None, _)) => Ok(Duration::ZERO),
            // The same ids make it safe to ask again.
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
        let cap = jittered(options.poll_interval);
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

/// Between half of it and all, so that waiters of many processes do not look at the same moment.
pub(super) fn jittered(cap: Duration) -> Duration {
    let cap_ms = millis(cap).max(2);
    Duration::from_millis(rand::rng().random_range(cap_ms / 2..=cap_ms))
}

/// A hold made of a request that the server confirmed.
pub(super) fn hold(
    handle: &Handle,
    request: LockRequest,
    token: super::Token,
    before: Moment,
) -> Hold {
    let losses = LeaseRenewer::of(handle).metrics.lost.clone();
    Hold::new(request, token, before, handle.clock().clone(), losses)
}
