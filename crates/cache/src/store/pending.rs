//! What must happen even if its caller goes away.
//!
//! A future can be dropped wherever it waits: before anything was sent, while a reply is under way, on a
//! Cluster between the end of an entry and the message about it. Whatever is not known to be done at that
//! moment is handed to the recovery queue, which needs no one to wait for it.

use std::time::Duration;

use seawall_client::{
    MAX_COMMAND_MEMBERS,
    error::{Error, Result},
    retry::midway,
};

use crate::{
    CacheKey, CacheValue, Inner, Invalidation, OnInvalidate, Version, recovery::backlog::Bump,
};

/// How often an invalidation is tried before it is queued.
const MAX_TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// Something that must happen even if its caller goes away: what is left of it when this is dropped is
/// handed to the recovery queue.
pub(crate) struct Pending<'a, K: CacheKey, V: CacheValue> {
    inner: &'a Inner<K, V>,
    entries: Vec<Vec<u8>>,
    bump: Option<Bump>,
}

impl<'a, K: CacheKey, V: CacheValue> Pending<'a, K, V> {
    /// These entries must not be read any more as they are.
    pub(crate) fn entries(inner: &'a Inner<K, V>, entries: Vec<Vec<u8>>) -> Self {
        Pending { inner, entries, bump: None }
    }

    /// This generation must end.
    pub(crate) fn bump(inner: &'a Inner<K, V>, bump: Bump) -> Self {
        Pending { inner, entries: Vec::new(), bump: Some(bump) }
    }

    /// It is done, or need not be.
    pub(crate) fn disarm(mut self) {
        self.entries.clear();
        self.bump = None;
    }

    /// Invalidates: here at once, in Redis with a few tries, else by the recovery queue.
    pub(crate) async fn invalidate(&mut self) -> Result<Invalidation> {
        let inner = self.inner;
        self.entries.iter().for_each(|entry| inner.heat.keys.wrote(entry));
        inner.drop_copies(&self.entries);
        let keep = inner.settings.on_invalidate == OnInvalidate::KeepForStale;
        let (mut version, mut pause) = (0, FIRST_PAUSE);
        for attempt in 1..=MAX_TRIES {
            // Whatever is not known to be done stays in `entries` until it is.
            let mut at = 0;
            let mut failure = None;
            while at < self.entries.len() {
                let next = self.entries.len().min(at + MAX_COMMAND_MEMBERS);
                let outcome = inner.remote.invalidate(self.entries[at..next].to_vec(), keep).await;
                version = version.max(outcome.version);
                failure = outcome.error.or(failure);
                self.entries.splice(at..next, outcome.left.iter().cloned());
                at += outcome.left.len();
                inner.was_applied(outcome.done);
            }
            let Some(error) = failure else { return Ok(Invalidation::Applied(Version(version))) };
            tracing::debug!(%error, attempt, "an invalidation did not reach Redis");
            if matches!(error, Error::Closed) {
                break;
            }
            if attempt < MAX_TRIES {
                inner.clock.sleep(pause).await;
                pause *= 2;
            }
        }
        let left = std::mem::take(&mut self.entries);
        inner.metrics.queued_invalidations.increment(left.len() as u64);
        let queued = inner.recovery.add(left.clone());
        // What was being read while we tried may have got in again.
        inner.drop_copies(&left);
        queued.await.map(|()| Invalidation::Queued)
    }

    /// Ends a generation and tells every first level.
    pub(crate) async fn end(mut self) -> Result<()> {
        let Some(bump) = self.bump.clone() else { return Ok(()) };
        let inner = self.inner;
        if let Err(error) = inner.remote.end_generation(&bump.generation).await {
            if !error.is_indeterminate() {
                // Nothing was done, and the caller knows it.
                self.bump = None;
            }
            return Err(error);
        }
        inner.remote.announce(&bump.message).await.map_err(midway)?;
        self.bump = None;
        inner.recent.remember_bump(bump, inner.clock.now());
        Ok(())
    }
}

impl<K: CacheKey, V: CacheValue> Drop for Pending<'_, K, V> {
    fn drop(&mut self) {
        if !self.entries.is_empty() {
            let entries = std::mem::take(&mut self.entries);
            self.inner.drop_copies(&entries);
            self.inner.recovery.add_now(entries);
        }
        if let Some(bump) = self.bump.take() {
            self.inner.recovery.bump_now(bump);
        }
    }
}
