//! Renews leases while their loads run.
//!
//! A lease is short, so that other processes soon notice a dead holder. The holder extends it when a
//! third of its time has passed since it was asked for: the server's time began to run before the reply
//! came, which on a busy machine may be much later. Most loads end before that and cost nothing. One task per cache
//! renews all leases that are due, in few commands, and ends when none is left.
//!
//! Renewal does not run in the loader's task, so a loader that blocks its thread keeps its lease. A
//! failed renewal is tried again at the next turn. A lease that is gone is dropped, never revived (see
//! `renew.lua`), and the server refuses the fill of its load.
//!
//! Renewals do not go through the breaker: one that fails affects no caller, and the commands that
//! callers wait for report the outage themselves.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::Value;
use seawall_client::{
    Handle,
    client::{Script, ScriptInvocation, Topology},
};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

use crate::tier::remote::{RemoteTier, millis};

static RENEW: Script = Script::new(include_str!("../tier/script/renew.lua"));

/// Leases that one script extends at most.
const BATCH: usize = 64;
/// A lease is renewed this often in its time.
const TURNS: u32 = 3;

/// The leases of one cache that this process holds.
#[derive(Default)]
pub(crate) struct Leases {
    held: Mutex<Held>,
    /// Told when a lease is due before the task means to look again.
    sooner: Notify,
}

#[derive(Default)]
struct Held {
    by_token: HashMap<u64, Lease>,
    /// Whether the task runs.
    renewing: bool,
    /// When it means to look again.
    planned: Option<Instant>,
}

/// The entry and token of a lease that is due.
type Due = (Box<[u8]>, u64);

struct Lease {
    entry: Box<[u8]>,
    due: Instant,
}

/// A lease whose load runs; dropped, it is no longer renewed.
pub(crate) struct Holding {
    leases: Arc<Leases>,
    token: u64,
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.leases.lock().by_token.remove(&self.token);
    }
}

impl Leases {
    /// Keeps a lease that was just granted, and asked for at that time, alive until the holding is
    /// dropped.
    pub(crate) fn hold(
        self: &Arc<Self>,
        handle: &Handle,
        remote: &Arc<RemoteTier>,
        entry: &[u8],
        (token, asked): (u64, Instant),
    ) -> Holding {
        if self.note(entry, (token, asked), remote.lease_ttl) {
            let stop = handle.stopping();
            handle.spawn_at_home(renew(Arc::clone(self), Arc::clone(remote), stop));
        }
        Holding { leases: Arc::clone(self), token }
    }

    /// Notes a lease; true when the task is to be started.
    fn note(&self, entry: &[u8], (token, asked): (u64, Instant), lease_ttl: Duration) -> bool {
        let mut held = self.lock();
        let due = asked + lease_ttl / TURNS;
        held.by_token.insert(token, Lease { entry: entry.into(), due });
        if held.planned.is_some_and(|planned| due < planned) {
            self.sooner.notify_one();
        }
        !std::mem::replace(&mut held.renewing, true)
    }

    /// The leases that are due, and when to look again; `None` when there are none at all and the
    /// task is to end.
    fn due(&self, lease_ttl: Duration) -> Option<(Vec<Due>, Instant)> {
        let mut held = self.lock();
        held.planned = None;
        if held.by_token.is_empty() {
            held.renewing = false;
            return None;
        }
        let now = Instant::now();
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

/// Renews what is due until nothing is held. Time is real: it is the server's that counts.
async fn renew(leases: Arc<Leases>, remote: Arc<RemoteTier>, mut stop: watch::Receiver<bool>) {
    while let Some((due, next)) = leases.due(remote.lease_ttl) {
        if !due.is_empty() {
            // A server that hangs must not keep the leases on others from being renewed.
            let turn = remote.renew(&due);
            let lost = tokio::time::timeout(remote.lease_ttl / TURNS, turn).await;
            let mut held = leases.lock();
            for token in lost.unwrap_or_default() {
                held.by_token.remove(&token);
            }
        }
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            () = leases.sooner.notified() => {}
            // Loads end now and give their leases back.
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

impl RemoteTier {
    /// Extends leases. Returns the tokens of those that are gone.
    async fn renew(&self, held: &[Due]) -> Vec<u64> {
        // On a Cluster each entry has a slot of its own.
        let batch = if self.client.topology() == Topology::Cluster { 1 } else { BATCH };
        let calls: Vec<ScriptInvocation> = held
            .chunks(batch)
            .map(|chunk| {
                let keys: Vec<&[u8]> = chunk.iter().map(|(entry, _)| &**entry).collect();
                let call = RENEW.on(&keys).arg(millis(self.lease_ttl));
                chunk.iter().fold(call, |call, (_, token)| call.arg(&token.to_be_bytes()[..]))
            })
            .collect();
        let mut lost = Vec::new();
        for (chunk, reply) in held.chunks(batch).zip(self.client.run_all(&calls).await) {
            match reply {
                Ok(Value::Array(alive)) => {
                    let gone = chunk.iter().zip(alive).filter(|(_, alive)| *alive == Value::Int(0));
                    lost.extend(gone.map(|((_, token), _)| *token));
                }
                Ok(other) => tracing::debug!(?other, "a renewal that is no list"),
                Err(error) => tracing::debug!(%error, "leases could not be renewed"),
            }
        }
        lost
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
        let now = Instant::now();
        let long_ago = now.checked_sub(LEASE / 2).expect("the machine runs for longer");
        assert!(leases.note(b"late", (1, long_ago), LEASE), "the task is to be started");
        assert!(!leases.note(b"quick", (2, now), LEASE));
        let (due, next) = leases.due(LEASE).expect("two are held");
        assert_eq!(due, [(b"late".as_slice().into(), 1)]);
        assert!(next >= now + LEASE / TURNS && next <= Instant::now() + LEASE / TURNS);
    }

    #[tokio::test]
    async fn the_task_is_told_of_a_lease_that_is_due_before_it_looks_again() {
        let leases = Leases::default();
        let now = Instant::now();
        assert!(leases.note(b"quick", (1, now), LEASE));
        assert!(leases.due(LEASE).is_some_and(|(due, _)| due.is_empty()));
        let long_ago = now.checked_sub(LEASE / 2).expect("the machine runs for longer");
        assert!(!leases.note(b"late", (2, long_ago), LEASE), "the task runs");
        leases.sooner.notified().await;
        assert!(leases.due(LEASE).is_some_and(|(due, _)| due.len() == 1));
    }
}
