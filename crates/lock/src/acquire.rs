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
//! The ids of a claim are chosen before anything is sent and stay the same over all attempts of one
//! call, so that an attempt whose reply was lost is simply made again. Whoever goes away in the
//! middle, by an error or by dropping the future, leaves a note with the keeper, which gives back
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
    claim::{Answer, Claim, Plan, millis},
    guard::Guard,
    hold::{Hold, validity},
    keeper::Keeper,
    owner::OwnerId,
};

/// What an attempt to take a lock came to.
#[derive(Debug)]
#[must_use = "a guard that is dropped gives its lock back"]
pub enum Attempt {
    /// It is held until the guard is released, dropped or lost.
    Acquired(Guard),
    /// Somebody else holds it.
    Busy {
        /// When it is worth trying again, if it is not released before.
        retry_after: Duration,
    },
}

impl Attempt {
    /// The guard, if there is one.
    #[must_use]
    pub fn acquired(self) -> Option<Guard> {
        match self {
            Attempt::Acquired(guard) => Some(guard),
            Attempt::Busy { .. } => None,
        }
    }
}

/// A claim that the server may know of without anybody holding a guard.
pub(super) struct Pending {
    keeper: Arc<Keeper>,
    clock: seawall_resilience::clock::Clock,
    claim: Option<Claim>,
    /// Whether the server may know of it.
    sent: bool,
}

impl Pending {
    pub(super) fn new(handle: &Handle, claim: Claim) -> Self {
        let keeper = Keeper::of(handle);
        Pending { keeper, clock: handle.clock().clone(), claim: Some(claim), sent: false }
    }

    pub(super) fn claim(&self) -> &Claim {
        self.claim.as_ref().expect("a claim is taken out only when the pending ends")
    }

    /// The call of an attempt; from now on the server may know of the claim.
    fn prepare(&mut self, waits: bool) -> ScriptInvocation {
        self.sent = true;
        self.claim().acquire(waits)
    }

    /// What a reply to an attempt says; `None` when it came too late to be of use, which is like a
    /// lost reply.
    fn judge(
        &mut self,
        reply: Result<Value>,
        before: Moment,
        waits: bool,
    ) -> Result<Option<Answer>> {
        let answer = Answer::read(reply.map_err(|error| self.claim().plan.named(error))?)?;
        if let Answer::Busy { .. } = answer {
            self.sent = waits && self.claim().queues_at_server();
        } else if self.clock.lease_now() >= validity(before, self.claim().plan.lease) {
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
        let reply = match self.claim().plan.replicas {
            None => handle.client().run(&call).await,
            Some(replicas) => super::replicas::run(handle.client(), &call, replicas).await,
        };
        Ok((self.judge(reply, before, waits)?, before))
    }

    /// It is held: nothing is given up any more.
    pub(super) fn held(mut self) -> Claim {
        self.sent = false;
        self.claim.take().expect("a claim is taken out only when the pending ends")
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take()
            && self.sent
        {
            // The server may get to the attempt as late as a reply may take, and the lease begins then.
            let until = self.clock.lease_now() + claim.plan.lease * 2;
            self.keeper.give_up(claim, until);
        }
    }
}

/// Tries once.
pub(super) async fn try_acquire(
    handle: &Handle,
    plan: Arc<Plan>,
    owner: Option<OwnerId>,
) -> Result<Attempt> {
    let claim = Claim::new(plan, owner.unwrap_or_else(OwnerId::random));
    let mut pending = Pending::new(handle, claim);
    let keeper = Keeper::of(handle);
    match pending.attempt(handle, false).await? {
        (Some(Answer::Held(token)), before) => {
            keeper.metrics.acquired.increment(1);
            Ok(Attempt::Acquired(Guard::new(handle, pending.held(), token, before)))
        }
        (Some(Answer::Busy { free_in }), _) => {
            keeper.metrics.busy.increment(1);
            Ok(Attempt::Busy { retry_after: free_in })
        }
        (None, _) => Ok(Attempt::Busy { retry_after: Duration::ZERO }),
    }
}

/// Tries several at once, one pipeline for each server; in order, an attempt for each.
pub(super) async fn try_all(
    handle: &Handle,
    plans: &[Arc<Plan>],
    owner: OwnerId,
) -> Result<Vec<Attempt>> {
    let claims = plans.iter().map(|plan| Claim::new(Arc::clone(plan), owner));
    let mut pending: Vec<_> = claims.map(|claim| Pending::new(handle, claim)).collect();
    let calls: Vec<_> = pending.iter_mut().map(|pending| pending.prepare(false)).collect();
    let before = handle.clock().lease_now();
    let replies = handle.client().run_all(&calls).await;
    let mut attempts = Vec::with_capacity(plans.len());
    for (mut pending, reply) in pending.into_iter().zip(replies) {
        attempts.push(match pending.judge(reply, before, false)? {
            Some(Answer::Held(token)) => {
                Keeper::of(handle).metrics.acquired.increment(1);
                Attempt::Acquired(Guard::new(handle, pending.held(), token, before))
            }
            Some(Answer::Busy { free_in }) => Attempt::Busy { retry_after: free_in },
            None => Attempt::Busy { retry_after: Duration::ZERO },
        });
    }
    Ok(attempts)
}

/// Tries until it is held or `within` is over.
#[tracing::instrument(level = "debug", name = "lock_acquire", skip_all, fields(key = %plan.key.escape_ascii()))]
pub(super) async fn acquire(
    handle: &Handle,
    plan: Arc<Plan>,
    owner: Option<OwnerId>,
    within: Duration,
) -> Result<Attempt> {
    let clock = handle.clock();
    let began = clock.now();
    let deadline = began + within;
    let keeper = Keeper::of(handle);
    let claim = Claim::new(plan, owner.unwrap_or_else(OwnerId::random));
    // A fair lock has its line at the server.
    let mut own = None;
    let mut turn = None;
    let subscription = match claim.line() {
        None => &mut own,
        Some(line) => {
            let Some(mine) = clock.timeout(within, keeper.lines.turn(line)).await else {
                keeper.metrics.busy.increment(1);
                return Ok(Attempt::Busy { retry_after: claim.plan.look_every });
            };
            &mut *turn.insert(mine).subscription
        }
    };
    let mut pending = Pending::new(handle, claim);
    let mut doubt = Doubt::default();
    loop {
        // What was told before this attempt is not news after it.
        if let Some(subscription) = subscription.as_mut() {
            while let Some(Some(_)) = subscription.next().now_or_never() {}
        }
        let outcome = match pending.attempt(handle, !within.is_zero()).await {
            Ok((Some(Answer::Held(token)), before)) => {
                keeper.metrics.acquired.increment(1);
                let waited = clock.now().since(began);
                keeper.metrics.wait_seconds.record(waited.as_secs_f64());
                return Ok(Attempt::Acquired(Guard::new(handle, pending.held(), token, before)));
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
            keeper.metrics.busy.increment(1);
            return outcome
                .map(|retry_after| Attempt::Busy { retry_after })
                .map_err(|error| doubt.report(error));
        }
        let plan = &pending.claim().plan;
        if subscription.is_none() {
            let fresh = subscription.insert(handle.client().pubsub().join(&plan.key));
            if fresh.is_live() {
                continue;
            }
        }
        let cap = jittered(plan.look_every);
        let pause = outcome.map_or(cap, |free_in| cap.min(free_in.max(Duration::from_millis(1))));
        if let Some(subscription) = subscription.as_mut() {
            listen(subscription, pending.claim(), clock.sleep(pause.min(left))).await?;
        }
    }
}

/// Waits until there is a reason to try again.
async fn listen(
    subscription: &mut Subscription,
    claim: &Claim,
    pause: impl Future<Output = ()>,
) -> Result<()> {
    tokio::pin!(pause);
    loop {
        tokio::select! {
            biased;
            event = subscription.next() => match event {
                None => return Err(Error::Closed),
                Some(Event::Message(message)) if !claim.is_called(&message) => {}
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

/// A hold made of a claim that the server confirmed.
pub(super) fn hold(handle: &Handle, claim: Claim, token: super::Token, before: Moment) -> Hold {
    let losses = Keeper::of(handle).metrics.lost.clone();
    Hold::new(claim, token, before, handle.clock().clone(), losses)
}
