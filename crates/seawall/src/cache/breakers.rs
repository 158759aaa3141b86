//! A breaker for each server that a cache's entries lie on.
//!
//! When a server hangs or is gone, readers are told at once instead of one time-out after the other, and
//! on a Cluster only the keys of that server are affected.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{PoisonError, RwLock},
};

use super::{level2::Level2, names::Names};
use crate::{
    error::{Error, Result},
    guard::{Breaker, BreakerState, Outcome},
};

impl Level2 {
    /// How the breaker of this key's node stands.
    pub(super) fn breaker_state(&self, key: &[u8]) -> BreakerState {
        self.breakers.of(self.link.node_number(key)).state()
    }

    /// Runs a conversation about `key` through its node's breaker.
    pub(super) async fn guarded<T>(
        &self,
        key: &[u8],
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let breaker = self.breakers.of(self.link.node_number(key));
        let permit = breaker.enter().map_err(|open| {
            Error::Unavailable(
                format!("the breaker is open for another {:?}", open.retry_after).into(),
            )
        })?;
        let result = work.await;
        permit.record(match &result {
            Err(error) if error.is_outage() => Outcome::Failed,
            _ => Outcome::Ok,
        });
        result
    }
}

/// A breaker for each node.
pub(super) struct Breakers {
    name: String,
    first: Breaker,
    others: RwLock<HashMap<u64, Breaker>>,
}

impl Breakers {
    pub(super) fn new(names: &Names) -> Self {
        let name = format!("cache {} redis", names.name());
        Breakers { first: Breaker::new(name.as_str()), name, others: RwLock::default() }
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
        let breaker = others.entry(node).or_insert_with(|| Breaker::new(self.name.as_str()));
        Cow::Owned(breaker.clone())
    }
}
