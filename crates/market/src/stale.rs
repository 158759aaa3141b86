//! Copies in Redis that could not follow the database, because Redis was away: to be forgotten as
//! soon as it answers.
//!
//! Whoever writes the database and cannot tell Redis notes the copy here. Until it is forgotten this
//! process does not believe it and asks the database; other processes may believe it until then. What
//! is left here is also [owed](crate::debts), so that it is forgotten though this process dies.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// How many are noted at most. With so many no copy is believed; what did not fit is owed all the same.
const MOST: usize = 100_000;

/// Subjects whose copy is stale.
#[derive(Debug, Default)]
pub(crate) struct Stale {
    /// With the number of the note, so that a newer one is not taken for done.
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

    /// Whether a copy is not to be believed.
    pub(crate) fn contains(&self, subject: u64) -> bool {
        let noted = self.lock();
        noted.len() >= MOST || noted.contains_key(&subject)
    }

    /// Forgets all that are noted; what fails stays for the next time.
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
