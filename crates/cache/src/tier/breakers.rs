//! A breaker for each server that a cache's entries lie on.
//!
//! When a server hangs or is gone, readers are told at once instead of one time-out after the other,
//! and on a Cluster only the keys of that server are affected.
//!
//! Everything that reads, leases or stores goes through it. What does not, on purpose:
//!
//! - invalidations, ends of generations, their messages and the search for entries (`remote_invalidate.rs`,
//!   `sweep`): each is owed, and is tried whatever a breaker guesses; the recovery queue has its own pauses;
//! - the look at the message counters (`counters`): it has its own patience, and is how a server that is
//!   back is noticed;
//! - parts of large values: the entry that names them went through it a moment ago, or will when it is
//!   stored;
//! - `explain`, which is asked when something is wrong.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::{PoisonError, RwLock},
};

use seawall_client::error::{Error, Result};
use seawall_resilience::{Breaker, BreakerState, Open, Outcome, clock::Clock};

use crate::{store::keys::Names, tier::remote::RemoteTier};

impl RemoteTier {
    /// Returns the state of the breaker of this key's node.
    pub(crate) fn breaker_state(&self, key: &[u8]) -> BreakerState {
        self.breakers.of(self.client.node_number(key)).state()
    }

    /// Runs a command about `key` through its node's breaker. The future is made here: handed over, it
    /// would be copied twice and take its place twice.
    pub(crate) async fn guarded<T, F: Future<Output = Result<T>>>(
        &self,
        key: &[u8],
        work: impl FnOnce() -> F,
    ) -> Result<T> {
        let breaker = self.breakers.of(self.client.node_number(key));
        let permit = breaker.enter().map_err(|open| refused(&open))?;
        let result = work().await;
        permit.record(match &result {
            Err(error) if error.is_outage() => Outcome::Failed,
            _ => Outcome::Ok,
        });
        result
    }

    /// Like [`guarded`](RemoteTier::guarded) for several keys at once: `work` is given the places of
    /// those whose node's breaker lets them pass, and answers for each of them.
    pub(crate) async fn guarded_all<T>(
        &self,
        keys: &[&[u8]],
        work: impl AsyncFnOnce(&[usize]) -> Vec<Result<T>>,
    ) -> Vec<Result<T>> {
        let nodes: Vec<u64> = keys.iter().map(|key| self.client.node_number(key)).collect();
        let mut permits = BTreeMap::new();
        for node in &nodes {
            permits.entry(*node).or_insert_with(|| self.breakers.of(*node).enter());
        }
        let passes = |at: &usize| permits.get(&nodes[*at]).is_some_and(Result::is_ok);
        let admitted: Vec<usize> = (0..keys.len()).filter(passes).collect();
        let mut replies = if admitted.is_empty() { Vec::new() } else { work(&admitted).await };
        replies.reverse();
        let mut failed = BTreeMap::new();
        let mut results = Vec::with_capacity(keys.len());
        for node in &nodes {
            results.push(match permits.get(node) {
                Some(Err(open)) => Err(refused(open)),
                _ => replies.pop().unwrap_or_else(|| Err(Error::unexpected("a reply is missing"))),
            });
            let is_outage = results
                .last()
                .is_some_and(|reply| reply.as_ref().is_err_and(|error: &Error| error.is_outage()));
            *failed.entry(*node).or_insert(false) |= is_outage;
        }
        for (node, permit) in permits {
            if let Ok(permit) = permit {
                let failed = failed.get(&node).copied().unwrap_or_default();
                permit.record(if failed { Outcome::Failed } else { Outcome::Ok });
            }
        }
        results
    }
}

fn refused(open: &Open) -> Error {
    Error::Unavailable(format!("the breaker is open for another {:?}", open.retry_after).into())
}

/// A breaker for each node.
pub(crate) struct Breakers {
    name: String,
    first: Breaker,
    others: RwLock<HashMap<u64, Breaker>>,
    clock: Clock,
}

impl Breakers {
    pub(crate) fn new(names: &Names, clock: &Clock) -> Self {
        let name = format!("cache {} redis", names.name());
        let first = breaker(&name, clock);
        Breakers { first, name, others: RwLock::default(), clock: clock.clone() }
    }

    /// Node 0 is the only one of a single server.
    fn of(&self, node: u64) -> Cow<'_, Breaker> {
        if node == 0 {
            return Cow::Borrowed(&self.first);
        }
        if let Some(breaker) = self.others.read().unwrap_or_else(PoisonError::into_inner).get(&node)
        {
            return Cow::Owned(breaker.clone());
        }
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        let breaker = others.entry(node).or_insert_with(|| breaker(&self.name, &self.clock));
        Cow::Owned(breaker.clone())
    }
}

fn breaker(name: &str, clock: &Clock) -> Breaker {
    let builder = Breaker::builder(name).clock(clock.clone());
    // The name is never empty, and all other settings are the defaults.
    builder.build().unwrap_or_else(|_| Breaker::new(name))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn breakers_follow_the_clock_that_they_are_given() {
        let (clock, time) = Clock::manual();
        for node in [0, 1] {
            let breakers = Breakers::new(&Names::new("", "shop"), &clock);
            for _ in 0..3 {
                breakers.of(node).enter().expect("closed").record(Outcome::Failed);
            }
            assert!(breakers.of(node).enter().is_err(), "three failures open it");
            time.advance(Duration::from_secs(2));
            breakers.of(node).enter().expect("a probe").record(Outcome::Ok);
            assert_eq!(breakers.of(node).state(), BreakerState::Closed);
        }
    }
}
