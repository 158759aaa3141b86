//! Invalidations that must happen even if their caller goes away.
//!
//! A future can be dropped wherever it waits: before anything was sent, while a reply is under way, on
//! a Cluster between the end of an entry and the message about it. Whatever is not known to be done at
//! that moment is handed to the recovery queue, which needs no one to wait for it.

use std::time::Duration;

use seawall_client::{
    MAX_COMMAND_MEMBERS,
    error::{Error, Result},
    retry::midway,
};
use seawall_resilience::Backoff;

use super::publisher::Publisher;
use crate::{
    Invalidation, OnInvalidate, Version, backplane::message::tag_hash, recovery::backlog::Bump,
};

/// How often an invalidation is tried before it is queued.
const MAX_TRIES: u32 = 5;
const PAUSES: Backoff = Backoff::doubling(Duration::from_millis(10), Duration::from_millis(80));

/// An invalidation or clear that must happen. Drop hands what is left of it to the recovery queue.
pub(crate) struct Pending<'a, V> {
    publisher: &'a Publisher<V>,
    entries: Vec<Vec<u8>>,
    bump: Option<Bump>,
}

impl<'a, V> Pending<'a, V> {
    /// Notes that these entries must be invalidated.
    pub(crate) fn entries(publisher: &'a Publisher<V>, entries: Vec<Vec<u8>>) -> Self {
        Pending { publisher, entries, bump: None }
    }

    /// Notes that this generation must end.
    pub(crate) fn bump(publisher: &'a Publisher<V>, bump: Bump) -> Self {
        Pending { publisher, entries: Vec::new(), bump: Some(bump) }
    }

    /// Forgets it: it is done, or need not be.
    pub(crate) fn disarm(mut self) {
        self.entries.clear();
        self.bump = None;
    }

    /// Invalidates: here at once, in Redis with a few tries, else by the recovery queue.
    pub(crate) async fn invalidate(&mut self) -> Result<Invalidation> {
        let publisher = self.publisher;
        self.entries.iter().for_each(|entry| publisher.heat.keys.wrote(entry));
        publisher.drop_copies(&self.entries);
        let keep = publisher.settings.on_invalidate == OnInvalidate::KeepForStale;
        let (mut version, mut pauses) = (0, PAUSES);
        for attempt in 1..=MAX_TRIES {
            // Whatever is not known to be done stays in `entries` until it is.
            let mut at = 0;
            let mut failure = None;
            while at < self.entries.len() {
                let next = self.entries.len().min(at + MAX_COMMAND_MEMBERS);
                let outcome =
                    publisher.remote.invalidate(self.entries[at..next].to_vec(), keep).await;
                version = version.max(outcome.version);
                failure = outcome.error.or(failure);
                self.entries.splice(at..next, outcome.left.iter().cloned());
                at += outcome.left.len();
                publisher.was_applied(outcome.done);
            }
            let Some(error) = failure else { return Ok(Invalidation::Applied(Version(version))) };
            tracing::debug!(%error, attempt, "an invalidation did not reach Redis");
            if matches!(error, Error::Closed) {
                break;
            }
            if attempt < MAX_TRIES {
                publisher.clock.sleep(pauses.pause()).await;
            }
        }
        let left = std::mem::take(&mut self.entries);
        publisher.metrics.queued_invalidations.increment(left.len() as u64);
        let queued = publisher.recovery.add(left.clone());
        // What was being read while we tried may have got in again.
        publisher.drop_copies(&left);
        queued.await.map(|()| Invalidation::Queued)
    }

    /// Ends a generation and tells every local tier.
    pub(crate) async fn end(mut self) -> Result<()> {
        let Some(bump) = self.bump.clone() else { return Ok(()) };
        let publisher = self.publisher;
        if let Err(error) = publisher.remote.end(&bump).await {
            if !error.is_indeterminate() {
                // Nothing was done, and the caller knows it.
                self.bump = None;
            }
            return Err(error);
        }
        publisher.remote.announce(&bump.message).await.map_err(midway)?;
        self.bump = None;
        publisher.recent.remember_bump(bump, publisher.clock.now());
        Ok(())
    }
}

impl<V> Drop for Pending<'_, V> {
    fn drop(&mut self) {
        if !self.entries.is_empty() {
            let entries = std::mem::take(&mut self.entries);
            self.publisher.drop_copies(&entries);
            self.publisher.recovery.add_now(entries);
        }
        if let Some(bump) = self.bump.take() {
            self.publisher.recovery.bump_now(bump);
        }
    }
}

impl<V> Publisher<V> {
    /// Invalidates entries: here at once, in Redis with a few tries, else by the recovery queue.
    pub(crate) async fn invalidate(&self, entries: Vec<Vec<u8>>) -> Result<Invalidation> {
        Pending::entries(self, entries).invalidate().await
    }

    /// Ends all entries with a tag.
    pub(crate) async fn clear_tag(&self, tag: &str, of_keys: bool) -> Result<()> {
        let drop_here = || {
            if let Some(local) = &self.local {
                local.clear_tag(tag_hash(tag));
            }
        };
        drop_here();
        let of_values = self.remote.tag_clears.is_some();
        let bump = Bump::tag(&self.remote.names, tag, of_keys, of_values);
        let done = Pending::bump(self, bump).end().await;
        // What was read between the first drop and Redis' answer may be older.
        drop_here();
        done
    }

    /// Ends the generation of the namespace.
    pub(crate) async fn clear(&self) -> Result<()> {
        let drop_here = || {
            if let Some(local) = &self.local {
                local.clear();
            }
        };
        drop_here();
        if let Some(filter) = &self.filter {
            filter.lost_track();
        }
        let done = Pending::bump(self, Bump::everything(&self.remote.names)).end().await;
        drop_here();
        done
    }

    /// Drops the copies in this process.
    pub(crate) fn drop_copies<E: AsRef<[u8]>>(&self, entries: &[E]) {
        for entry in entries {
            if let Some(local) = &self.local {
                local.invalidate(entry.as_ref());
            }
            self.known(entry.as_ref(), true);
        }
    }

    fn was_applied(&self, entries: Vec<Vec<u8>>) {
        // What was read between the first drop and Redis' answer may be older.
        self.drop_copies(&entries);
        self.metrics.invalidations.increment(entries.len() as u64);
        self.recent.remember(&entries, self.clock.now());
        if let Some(delay) = self.settings.second_invalidation_after {
            self.recovery.add_later(self.clock.now() + delay, entries);
        }
    }
}
