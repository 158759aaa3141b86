//! Asks for leases, and renews them while their loads run.
//!
//! A lease is short, so that other processes soon notice a dead holder. The holder extends it when a
//! third of its time has passed since it was asked for: the server's time began to run before the reply
//! came, which on a busy machine may be much later. Most loads end before that and cost nothing. One
//! task per cache renews all leases that are due, in few commands, and ends when none is left.
//!
//! Renewal does not run in the loader's task, so a loader that blocks its thread keeps its lease. A
//! failed renewal is tried again at the next turn. A lease that is gone is dropped, never revived (see
//! `renew.lua`), and the server refuses the fill of its load.
//!
//! Renewals do not go through the breaker: one that fails affects no caller, and the commands that
//! callers wait for report the outage themselves.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use seawall_client::{Handle, client::Subscription, error::Error, retry::Doubt};
use seawall_resilience::clock::Moment;
use tokio::sync::{Notify, watch};

use crate::{
    store::keys::EntryKey,
    tier::{
        remote::{Lease as Reply, MAX_RESENDS, RemoteTier},
        remote_lease::{LeaseId, Wanted},
        remote_tags::Stamp,
    },
};

/// How many tokens of lost replies are remembered; older leases have ended by then.
const MAX_FORMER: usize = 8;
/// A lease is renewed this often in its time.
const TURNS: u32 = 3;

/// The token that a lease is asked for with, and those of requests whose replies were lost.
pub(crate) struct Claim {
    pub(crate) token: u64,
    /// When the token was last sent: a lease under it cannot have begun before.
    pub(crate) asked: Moment,
    former: Vec<u64>,
}

impl Claim {
    /// A claim whose token was sent at this time.
    pub(crate) fn sent(token: u64, asked: Moment) -> Self {
        Claim { token, asked, former: Vec::new() }
    }

    /// Takes a new token. The request may still be under way, so its token must not be used again: see
    /// `lease.lua`.
    pub(crate) fn renew(&mut self, new_token: u64) {
        if self.former.len() == MAX_FORMER {
            self.former.remove(0);
        }
        self.former.push(std::mem::replace(&mut self.token, new_token));
    }
}

/// Asks for the leases of one cache, and keeps those alive that this process holds.
pub(crate) struct LeaseKeeper {
    handle: Handle,
    remote: Arc<RemoteTier>,
    leases: Arc<Leases>,
}

impl LeaseKeeper {
    pub(crate) fn new(handle: Handle, remote: Arc<RemoteTier>) -> Self {
        LeaseKeeper { handle, remote, leases: Arc::default() }
    }

    /// Draws the token of a lease that is not asked for yet.
    pub(crate) fn claim(&self) -> Claim {
        Claim::sent(self.remote.new_token(), self.remote.client.network_clock().now())
    }

    /// Asks for the lease of an entry, and renews it from then on. Asks again if a reply was lost, but
    /// not if the server hangs: the caller has then waited for a whole time-out, and has something
    /// better to do.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub(crate) async fn ask(
        &self,
        entry_key: &EntryKey,
        claim: &mut Claim,
        stamp: Stamp,
        replaces: Option<u64>,
    ) -> Result<Asked, Error> {
        let (mut resends, mut doubt) = (0, Doubt::default());
        loop {
            let sent = self.remote.client.network_clock().now();
            claim.asked = sent;
            let Claim { token, former, .. } = &*claim;
            match self.remote.lease(entry_key.entry(), *token, former, stamp, replaces).await {
                Err(error) if error.is_indeterminate() => {
                    claim.renew(self.remote.new_token());
                    if resends == MAX_RESENDS || self.remote.hangs(sent) {
                        return Err(error);
                    }
                    doubt.note(&error);
                    resends += 1;
                }
                Ok(reply) => return Ok(self.asked(entry_key, claim, reply)),
                Err(error) => return Err(doubt.report(error)),
            }
        }
    }

    /// Asks for the leases of a batch. Returns when they were sent.
    pub(crate) async fn ask_many(&self, wanted: &[Wanted]) -> (Moment, Vec<Result<Reply, Error>>) {
        let sent = self.remote.client.network_clock().now();
        (sent, self.remote.lease_many(wanted).await)
    }

    /// Subscribes to the wake-ups of an entry: it was filled, or its lease was given back.
    pub(crate) fn wake_ups(&self, entry_key: &EntryKey) -> Subscription {
        self.remote.client.pubsub().join(&self.remote.names.wake(entry_key.entry()))
    }

    /// Takes a reply to a claim: a lease that was granted is renewed until the holding is dropped.
    pub(crate) fn asked(&self, entry_key: &EntryKey, claim: &Claim, reply: Reply) -> Asked {
        match reply {
            Reply::Granted => {}
            Reply::Value(raw) => return Asked::Value(raw),
            Reply::Busy(left) => return Asked::Busy(left),
            Reply::Changed => return Asked::Changed,
            Reply::Newer => return Asked::Newer,
        }
        let lease = (claim.token, claim.asked);
        if self.leases.note(entry_key.entry(), lease, self.remote.lease_ttl) {
            let (leases, remote) = (Arc::clone(&self.leases), Arc::clone(&self.remote));
            self.handle.spawn_at_home(renew(leases, remote, self.handle.stopping()));
        }
        Asked::Granted(Holding { leases: Arc::clone(&self.leases), token: claim.token })
    }
}

/// The leases of one cache that this process holds.
#[derive(Default)]
struct Leases {
    held: Mutex<Held>,
    /// Wakes the task when a lease is due before it means to look again.
    sooner: Notify,
}

#[derive(Default)]
struct Held {
    by_token: BTreeMap<u64, Lease>,
    /// Whether the task runs.
    renewing: bool,
    /// When it means to look again.
    planned: Option<Moment>,
}

struct Lease {
    entry: Box<[u8]>,
    due: Moment,
}

/// Outcome of asking for a lease.
pub(crate) enum Asked {
    /// The caller loads.
    Granted(Holding),
    /// There is a fresh value after all.
    Value(Vec<u8>),
    /// Another one loads, for at most this long.
    Busy(Duration),
    /// What was to be replaced is no longer there.
    Changed,
    /// There is an entry of a newer release, which is not to be replaced.
    Newer,
}

/// A lease whose load runs. It is no longer renewed after this is dropped.
pub(crate) struct Holding {
    leases: Arc<Leases>,
    pub(crate) token: u64,
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.leases.lock().by_token.remove(&self.token);
    }
}

impl Leases {
    /// Notes a lease. Returns whether the caller must start the task.
    fn note(&self, entry: &[u8], (token, asked): (u64, Moment), lease_ttl: Duration) -> bool {
        let mut held = self.lock();
        let due = asked + lease_ttl / TURNS;
        held.by_token.insert(token, Lease { entry: entry.into(), due });
        if held.planned.is_some_and(|planned| due < planned) {
            self.sooner.notify_one();
        }
        !std::mem::replace(&mut held.renewing, true)
    }

    /// Returns the leases that are due, and when to look again; `None` if none is held and the task
    /// must end.
    fn due(&self, lease_ttl: Duration, now: Moment) -> Option<(Vec<LeaseId>, Moment)> {
        let mut held = self.lock();
        held.planned = None;
        if held.by_token.is_empty() {
            held.renewing = false;
            return None;
        }
        let mut due = Vec::new();
        let mut next = now + lease_ttl / TURNS;
        for (token, lease) in &mut held.by_token {
            if lease.due <= now {
                lease.due = now + lease_ttl / TURNS;
                due.push((lease.entry.clone(), *token));
            }
            next = next.min(lease.due);
        }
        held.planned = Some(next);
        Some((due, next))
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Renews what is due until nothing is held, by the network's clock: it is the server's time that counts.
async fn renew(leases: Arc<Leases>, remote: Arc<RemoteTier>, mut stop: watch::Receiver<bool>) {
    let clock = remote.client.network_clock();
    while let Some((due, next)) = leases.due(remote.lease_ttl, clock.now()) {
        if !due.is_empty() {
            // A server that hangs must not keep the leases on others from being renewed.
            let turn = remote.renew(&due);
            let lost = clock.timeout(remote.lease_ttl / TURNS, turn).await;
            let mut held = leases.lock();
            for token in lost.unwrap_or_default() {
                held.by_token.remove(&token);
            }
        }
        tokio::select! {
            biased;
            // Loads end now and give their leases back.
            _ = stop.wait_for(|stop| *stop) => return,
            () = leases.sooner.notified() => {}
            () = clock.sleep_until(next) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    /// The server's time runs while the reply is on its way, or waits for a busy process.
    #[test]
    fn a_lease_whose_reply_was_late_is_due_at_once() {
        let leases = Leases::default();
        let now = Moment::from_nanos(1 << 40);
        let long_ago = now - LEASE / 2;
        assert!(leases.note(b"late", (1, long_ago), LEASE), "the task is to be started");
        assert!(!leases.note(b"quick", (2, now), LEASE));
        let (due, next) = leases.due(LEASE, now).expect("two are held");
        assert_eq!(due, [(b"late".as_slice().into(), 1)]);
        assert_eq!(next, now + LEASE / TURNS);
    }

    #[tokio::test]
    async fn the_task_is_told_of_a_lease_that_is_due_before_it_looks_again() {
        let leases = Leases::default();
        let now = Moment::from_nanos(1 << 40);
        assert!(leases.note(b"quick", (1, now), LEASE));
        assert!(leases.due(LEASE, now).is_some_and(|(due, _)| due.is_empty()));
        let long_ago = now - LEASE / 2;
        assert!(!leases.note(b"late", (2, long_ago), LEASE), "the task runs");
        leases.sooner.notified().await;
        assert!(leases.due(LEASE, now).is_some_and(|(due, _)| due.len() == 1));
    }
}
