//! What Redis has for one reader, as data.
//!
//! [`Reader::look`] asks, [`judge`] (`freshness.rs`) decides what the answer means. Neither answers the
//! reader, loads or makes anything visible.

use seawall_client::error::Error;
use seawall_resilience::clock::Moment;

use super::{freshness::judge, reader::Reader};
use crate::{
    CacheError, CacheValue, Freshness,
    load::coordinator::Sought,
    store::{
        entry::Entry,
        keys::EntryKey,
        parted::{Whole, is_in_parts},
    },
    tier::{local::Ticket, remote_tags::Stamp},
};

/// Outcome of a look into Redis.
pub(crate) struct Look<V> {
    /// The reader's number: loads with a larger one are new enough for it.
    pub(crate) began: u64,
    pub(crate) ticket: Option<Ticket>,
    /// When the answer came.
    pub(crate) at: Moment,
    /// What an entry needs to count.
    pub(crate) stamp: Stamp,
    pub(crate) lookup: Lookup<V>,
}

/// What Redis has for a reader.
pub(crate) enum Lookup<V> {
    /// A fresh entry that is new enough.
    Hit(Entry<V>),
    /// An entry past its lifetime that may be given while it is refreshed.
    Stale(Entry<V>),
    /// Nothing that may be given as it is; with an entry that may stand in if loading fails.
    Miss(Sought<V>, Option<Entry<V>>),
    /// Redis is away.
    Away(Error),
    /// What Redis has under this key is not to be used, nor is any older copy: an invalidation is
    /// queued, a newer release wrote the entry, or the key holds something else.
    Bypass(Option<Error>),
    Failed(CacheError),
}

impl<V: CacheValue> Reader<V> {
    /// Looks into Redis. `older` is what the local tier has past its lifetime.
    pub(crate) async fn look(
        &self,
        entry_key: &EntryKey,
        freshness: Freshness,
        older: Option<&Entry<V>>,
    ) -> Look<V> {
        // Both before the command is sent: what comes after it must not be taken for older.
        let began = self.coordinator.number();
        let ticket = self.publisher.ticket(entry_key);
        let answer = |at, stamp, lookup| Look { began, ticket, at, stamp, lookup };
        // What Redis has under a key whose invalidation it did not take is not to be trusted. This is
        // asked before the command is sent: after it the invalidation may be through.
        if self.recovery.concerns(entry_key.entry()) {
            return answer(self.clock.now(), Stamp::default(), Lookup::Bypass(None));
        }
        let mode = self.settings.mode;
        // Boxed, so that other caches' reads do not carry what only these need.
        if self.remote.copies.is_some()
            && let Some((entry, stamp)) = Box::pin(self.look_copy(entry_key, freshness)).await
        {
            let now = self.clock.now();
            let sought = Sought { stamp, replaces: None, stale: None };
            return answer(now, stamp, judge(Some(entry), sought, older, (freshness, now), mode));
        }
        let (mut raw, stamp) =
            match self.remote.get(entry_key.entry(), &entry_key.generations).await {
                Ok(found) => found,
                Err(error) => return answer(self.clock.now(), Stamp::default(), failed(error)),
            };
        if raw.as_deref().is_some_and(|raw| self.decoder.is_newer(raw)) {
            self.metrics.unreadable.increment(1);
            return answer(self.clock.now(), Stamp::default(), Lookup::Bypass(None));
        }
        let mut sought = Sought { stamp, replaces: None, stale: None };
        if let Some(manifest) = raw.take_if(|raw| is_in_parts(raw)) {
            // Boxed, so that other reads do not carry what only these need.
            match Box::pin(self.decoder.gather(entry_key, manifest)).await {
                Ok(Whole::Entry(whole)) => raw = whole,
                Ok(Whole::Lost(version)) => sought.replaces = Some(version),
                Err(error) => return answer(self.clock.now(), Stamp::default(), failed(error)),
            }
        }
        let now = self.clock.now();
        let mut found =
            raw.as_ref().and_then(|raw| self.decoder.decode(raw, stamp, entry_key, now));
        if let (None, Some(raw)) = (&found, &raw) {
            // Redis takes it for a good entry: only a load that replaces this version gets the lease.
            sought.replaces = sought.replaces.or(self.decoder.damaged(raw, stamp));
        }
        if let Some(entry) = found.take_if(|entry| entry.clears != stamp.clears) {
            // A tag was cleared since. Boxed, so that other reads do not carry what only these need.
            match Box::pin(self.remote.spares(&entry, stamp)).await {
                Ok(true) => found = Some(entry),
                Ok(false) => sought.replaces = Some(entry.version),
                Err(error) => return answer(self.clock.now(), Stamp::default(), failed(error)),
            }
        }
        answer(now, stamp, judge(found, sought, older, (freshness, now), mode))
    }

    /// Reads a very hot entry from one of its copies. Returns `None` if the entry itself is to be read.
    async fn look_copy(
        &self,
        entry_key: &EntryKey,
        freshness: Freshness,
    ) -> Option<(Entry<V>, Stamp)> {
        let copies = self.remote.copies.as_ref()?;
        let from_copies =
            matches!(freshness, Freshness::Cached | Freshness::StaleOk | Freshness::Within(_));
        if !from_copies || !self.heat.keys.get(entry_key.entry())?.is_spread() {
            return None;
        }
        // The entry itself is one of those that take turns.
        let turn = self.remote.client.randomness().index(copies.count() + 1);
        let number = turn.checked_sub(1)?;
        let name = copies.name(entry_key.entry(), number);
        let (raw, stamp) = self.remote.get(&name, &entry_key.generations).await.ok()?;
        let now = self.clock.now();
        let entry: Option<Entry<V>> =
            raw.and_then(|raw| self.decoder.decode(&raw, stamp, entry_key, now));
        if let Some(entry) = entry
            && now < entry.fresh_until
            && entry.suits(freshness, now)
            && self.remote.spares(&entry, stamp).await.ok()?
        {
            return Some((entry, stamp));
        }
        self.coordinator.spread(entry_key, &name, stamp);
        None
    }
}

/// Decides what an error of Redis means for a reader.
fn failed<V>(error: Error) -> Lookup<V> {
    match error {
        error if error.is_away() => Lookup::Away(error),
        // Not a string, or not for us: another program uses the key.
        error @ (Error::Refused { .. } | Error::Unexpected(_)) => Lookup::Bypass(Some(error)),
        error => Lookup::Failed(error.into()),
    }
}
