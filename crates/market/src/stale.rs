//! Copies in Redis that missed a change because Redis was away: deleted as soon as it answers.
//!
//! A process that changes the database and cannot tell Redis records the copy here. Until the copy
//! is deleted this process does not trust it and reads the database; other processes may trust it
//! until then. Copies recorded here are also [debts](crate::debts), so that they are deleted even
//! if this process dies.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Maximum recorded copies. At this number no copy is trusted; copies beyond it are still recorded
/// as debts.
const MOST: usize = 100_000;

/// Subjects whose copy is stale.
#[derive(Debug, Default)]
pub(crate) struct Stale {
    /// Subject and number of its record, so that deleting an older record does not clear a newer
    /// one.
    noted: Mutex<HashMap<u64, u64>>,
    next: AtomicU64,
}

impl Stale {
    pub(crate) fn add(&self, subject: u64) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut noted = self.lock();
        if noted.len() < MOST || noted.contains_key(&subject) {
            noted.insert(subject, number);
        } else {
            tracing::warn!(subject, "too many stale copies: none is believed");
        }
    }

    /// Returns `true` if a copy cannot be trusted.
    pub(crate) fn contains(&self, subject: u64) -> bool {
        let noted = self.lock();
        noted.len() >= MOST || noted.contains_key(&subject)
    }

    /// Deletes all recorded copies. Stops at the first failure; the rest stays recorded for the
    /// next call.
    pub(crate) async fn forget_all<F>(&self, forget: impl Fn(u64) -> F)
    where
        F: Future<Output = Result<(), seawall::Error>>,
    {
        let noted: Vec<_> =
            self.lock().iter().map(|(&subject, &number)| (subject, number)).collect();
        for (subject, number) in noted {
            if let Err(error) = forget(subject).await {
                tracing::debug!(%error, "stale copies wait for Redis");
                return;
            }
            let mut noted = self.lock();
            if noted.get(&subject) == Some(&number) {
                noted.remove(&subject);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, u64>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
