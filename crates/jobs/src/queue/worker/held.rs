//! The items of a shard that a worker has leased, and the extension of their leases.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use seawall_client::error::Result;

use crate::{
    queue::shard::Shard,
    worker::{Idle, InProgress},
};

/// Most leases that one call extends.
const AT_ONCE: usize = 64;

/// Leased items, with their tokens.
#[derive(Debug, Default)]
pub(super) struct HeldItems {
    tokens: Mutex<BTreeMap<String, u64>>,
    idle: Idle,
}

impl InProgress for HeldItems {
    async fn idle(&self) {
        self.idle.wait(|| self.tokens().is_empty()).await;
    }
}

impl HeldItems {
    pub(super) fn insert(&self, id: &str, token: u64) {
        self.tokens().insert(id.to_owned(), token);
    }

    /// Forgets an item, unless this worker claimed it again after its lease had expired.
    pub(super) fn remove(&self, id: &str, token: u64) {
        let mut tokens = self.tokens();
        if tokens.get(id) == Some(&token) {
            tokens.remove(id);
        }
        if tokens.is_empty() {
            self.idle.reached();
        }
    }

    /// Extends all leases from now on.
    pub(super) async fn extend(&self, shard: &Shard, lease: Duration) -> Result<()> {
        let held: Vec<(String, u64)> =
            self.tokens().iter().map(|(id, token)| (id.clone(), *token)).collect();
        let held: Vec<(&str, u64)> = held.iter().map(|(id, token)| (&**id, *token)).collect();
        for some in held.chunks(AT_ONCE) {
            if shard.extend(some, lease).await?.contains(&false) {
                tracing::debug!("a lease was lost");
            }
        }
        Ok(())
    }

    fn tokens(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
