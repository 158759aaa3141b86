//! The only place that makes a value visible, and the place that makes it invisible again.
//!
//! | | needs | ends with |
//! | --- | --- | --- |
//! | [`Publisher::publish`], [`Publisher::store_many`] | a live lease | the entry in Redis, a copy in memory |
//! | [`Publisher::keep`] | a live ticket | a copy in memory of what Redis has |
//! | [`Publisher::keep_past`] | a live ticket | a copy in memory of what Redis could not be given |
//! | `put`, `put_if_newer` (`put.rs`) | the writer's word, or the source's version | the entry in Redis |
//! | `copy` (`spread.rs`) | a live lease on the copy's name | a copy on another node of a Cluster |
//! | `invalidate`, `clear` (`pending.rs`) | nothing | no entry, no lease, no ticket |
//!
//! Invariant: a fill needs a live lease and an insert into memory a live ticket. An invalidation ends
//! both together with the value.
//!
//! A publisher knows nothing of readers and of who loads. It takes a lease that it is handed, returns
//! the outcome as data ([`Published`]), and leaves telling those who wait to its caller.

use std::{sync::Arc, time::Duration};

use seawall_resilience::clock::Clock;

use super::{
    big_values::Report,
    encoder::{Encoder, Prepared},
    entry::{Entry, Tags},
    keys::EntryKey,
};
use crate::{
    CacheValue,
    filter::Filter,
    hot::heat::Heat,
    metrics::Metrics,
    recovery::{queue::RecoveryQueue, recent::Recent},
    settings::Settings,
    tier::{
        local::{LocalTier, Ticket},
        remote::{Fill, RemoteTier, Stored},
        remote_tags::Stamp,
    },
};

/// Publishes the values of one cache.
pub(crate) struct Publisher<V> {
    pub(crate) clock: Clock,
    pub(crate) settings: Arc<Settings>,
    pub(crate) encoder: Arc<Encoder<V>>,
    pub(crate) local: Option<Arc<LocalTier<V>>>,
    pub(crate) remote: Arc<RemoteTier>,
    pub(crate) filter: Option<Arc<Filter>>,
    pub(crate) recovery: Arc<RecoveryQueue>,
    pub(crate) recent: Arc<Recent>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) heat: Heat,
    pub(crate) big: Report,
}

/// The right to publish the result of one load: a lease in Redis, and a ticket of the local tier that
/// was taken before the source was read.
#[derive(Clone)]
pub(crate) struct Grant {
    pub(crate) entry_key: EntryKey,
    pub(crate) token: u64,
    pub(crate) ticket: Option<Ticket>,
}

/// Outcome of publishing the result of a load.
pub(crate) enum Published<V> {
    /// Redis took it under the lease.
    Stored(Entry<V>),
    /// Redis did not take it, or did not say so. Only readers that began before the load may have it.
    Unstored(Entry<V>, Option<Box<Leftover>>),
    /// The loader said `NotModified` although there is nothing to leave as it is.
    Nothing,
}

/// What a fill that was not stored leaves behind. No caller needs to wait for its removal.
pub(crate) struct Leftover {
    grant: Grant,
    fill: Fill,
    /// Whether the lease may still be held.
    is_leased: bool,
}

impl<V> Publisher<V> {
    /// Takes a ticket of the local tier.
    ///
    /// To be taken before the source is read, not just before the fill: clearing the namespace ends
    /// tickets, and leaves leases alone.
    pub(crate) fn ticket(&self, entry_key: &EntryKey) -> Option<Ticket> {
        self.local.as_ref().map(|local| local.ticket(entry_key.entry()))
    }

    /// Keeps a copy of an entry that is in Redis, for `local_ttl` at most.
    pub(crate) fn keep(&self, entry_key: &EntryKey, entry: &Entry<V>, ticket: Option<Ticket>) {
        if let (Some(local), Some(ticket)) = (&self.local, ticket)
            && self.heat.admits(entry_key.entry())
        {
            let limit = self.clock.now() + self.settings.local_ttl;
            let copy = Entry { fresh_until: entry.fresh_until.min(limit), ..entry.clone() };
            local.insert(entry_key.entry(), copy, ticket);
        }
    }

    /// Keeps a copy of a value that Redis could not be given, for `outage_ttl`.
    pub(crate) fn keep_past(&self, entry_key: &EntryKey, entry: &Entry<V>, ticket: Option<Ticket>) {
        if let (Some(local), Some(ticket)) = (&self.local, ticket) {
            let until = self.clock.now() + self.settings.outage_ttl;
            let copy = Entry { fresh_until: until, stale_until: until, ..entry.clone() };
            local.insert(entry_key.entry(), copy, ticket);
        }
    }

    /// Gives a lease back. A lease that cannot be given back expires.
    pub(crate) async fn release(&self, entry_key: &EntryKey, token: u64) {
        if let Err(error) = self.remote.release(entry_key.entry(), token).await {
            tracing::debug!(%error, "a lease could not be given back");
        }
    }

    /// Removes what a fill left behind.
    pub(crate) async fn clean_up(&self, leftover: Box<Leftover>) {
        let Leftover { grant: Grant { entry_key, token, .. }, fill, is_leased } = *leftover;
        if is_leased {
            self.release(&entry_key, token).await;
        }
        self.discard(entry_key.entry(), &fill).await;
    }

    /// Lets an entry live longer where it is, with its parts.
    pub(crate) async fn slide(&self, entry: &[u8], version: u64, bytes: u32) {
        let ttl = self.encoder.vary(self.settings.ttl);
        if self.may_be_in_parts(bytes) {
            self.prolong_parts(entry, ttl).await;
        }
        if let Err(error) = self.remote.slide(entry, version, ttl).await {
            tracing::debug!(%error, "an entry could not slide");
        }
    }

    /// Tells the filter what the source said about a key.
    pub(crate) fn known(&self, entry: &[u8], exists: bool) {
        match &self.filter {
            Some(filter) if exists => filter.insert(entry),
            Some(filter) => filter.misjudged(),
            None => {}
        }
    }

    /// Makes the entry in Redis fresh again, because the source says that it is still right.
    async fn prolong(&self, grant: &Grant, entry: Entry<V>) -> Published<V> {
        let Grant { entry_key, token, ticket } = grant;
        let ttl = self.encoder.vary(self.settings.ttl);
        let prolonged = if self.recovery.concerns(entry_key.entry()) {
            self.release(entry_key, *token).await;
            None
        } else {
            if self.may_be_in_parts(entry.bytes) {
                self.prolong_parts(entry_key.entry(), ttl).await;
            }
            let reply = self.remote.prolong(entry_key.entry(), *token, entry.version, ttl);
            reply.await.unwrap_or_else(|error| {
                tracing::debug!(%error, "an entry could not be prolonged");
                None
            })
        };
        match prolonged {
            Some(stored) => {
                let now = self.clock.now();
                let entry = entry.prolonged(&stored, self.remote.times(entry_key.entry(), now));
                self.keep(entry_key, &entry, *ticket);
                Published::Stored(entry)
            }
            // The entry is gone, or the reply is: right for readers that began before the load.
            None => Published::Unstored(self.uncached(entry.tags, entry.value), None),
        }
    }

    fn uncached(&self, tags: Tags, value: Option<Arc<V>>) -> Entry<V> {
        Entry::uncached(value, self.clock.now(), tags)
    }

    /// Keeps a copy of a value that Redis just stored, and tells the filter.
    fn stored(
        &self,
        grant: &Grant,
        value: Option<Arc<V>>,
        stored: &Stored,
        fill: &Fill,
    ) -> Entry<V> {
        let Grant { entry_key, ticket, .. } = grant;
        self.known(entry_key.entry(), value.is_some());
        let times = self.remote.times(entry_key.entry(), self.clock.now());
        let entry = Entry::stored(value, stored, fill, times);
        self.keep(entry_key, &entry, *ticket);
        entry
    }

    async fn store(&self, grant: &Grant, mut fill: Fill, value: Option<Arc<V>>) -> Published<V> {
        let Grant { entry_key, token, ticket } = grant;
        // Redis does not know of an invalidation that is queued here, and would take an older value. A
        // reader that began after that invalidation has a larger number, unless it waits by now.
        let tags = self.encoder.format.tags(&entry_key.tags, value.as_deref());
        let Some(tags) = tags.filter(|_| !self.recovery.concerns(entry_key.entry())) else {
            self.release(entry_key, *token).await;
            return Published::Unstored(self.uncached(None, value), None);
        };
        let uncached = self.uncached(tags.clone(), value.clone());
        fill.tags = tags;
        let fill = match self.cut(entry_key.entry(), fill).await {
            Ok(fill) => fill,
            Err(error) => {
                tracing::debug!(%error, "a load could not be stored in parts");
                self.keep_past(entry_key, &uncached, *ticket);
                self.release(entry_key, *token).await;
                return Published::Unstored(uncached, None);
            }
        };
        let leftover = match self.remote.fill(entry_key.entry(), *token, &fill).await {
            Ok(Some(stored)) => {
                self.metrics.stored_bytes.increment(fill.size_bytes() as u64);
                return Published::Stored(self.stored(grant, value, &stored, &fill));
            }
            Ok(None) => {
                self.metrics.refused_fills.increment(1);
                Leftover { grant: grant.clone(), fill, is_leased: false }
            }
            // Stored or not: unknown. Right for readers that began before the load, and for a moment
            // for those that accept a copy.
            Err(error) => {
                tracing::debug!(%error, "a load could not be stored");
                self.keep_past(entry_key, &uncached, *ticket);
                Leftover { grant: grant.clone(), fill, is_leased: true }
            }
        };
        Published::Unstored(uncached, Some(Box::new(leftover)))
    }
}

impl<V: CacheValue> Publisher<V> {
    /// Publishes the result of a load under its lease, which has ended when this returns, unless the
    /// [`Leftover`] says otherwise.
    pub(crate) async fn publish(&self, grant: &Grant, prepared: Prepared<V>) -> Published<V> {
        match prepared {
            Prepared::Store(fill, value) => self.store(grant, fill, value).await,
            Prepared::Prolong(entry) => self.prolong(grant, entry).await,
            Prepared::Pass(value) => {
                self.release(&grant.entry_key, grant.token).await;
                Published::Unstored(self.uncached(None, value), None)
            }
            Prepared::NotModified => {
                self.release(&grant.entry_key, grant.token).await;
                Published::Nothing
            }
        }
    }

    /// Encodes one value of a batch and writes its parts. Gives the lease back and returns the value if
    /// it is not to be stored.
    pub(crate) async fn prepare_one(
        &self,
        grant: &Grant,
        value: Option<Arc<V>>,
        (cost, stamp): (Duration, Stamp),
    ) -> Result<(Fill, Option<Arc<V>>), Entry<V>> {
        let entry = grant.entry_key.entry();
        // Redis does not know of an invalidation that is queued here, and would take an older value.
        let tags = match self.recovery.concerns(entry) {
            true => None,
            false => self.encoder.format.tags(&grant.entry_key.tags, value.as_deref()),
        };
        let fill = tags.and_then(|tags| {
            let fill = self.encoder.batch_fill(value.as_deref(), cost, stamp)?;
            Some(Fill { tags, ..fill })
        });
        let fill = match fill {
            Some(fill) => self
                .cut(entry, fill)
                .await
                .inspect_err(|error| tracing::debug!(%error, "a load could not be stored in parts"))
                .ok(),
            None => None,
        };
        match fill {
            Some(fill) => Ok((fill, value)),
            None => {
                let _ = self.remote.release(entry, grant.token).await;
                Err(self.uncached(None, value))
            }
        }
    }

    /// Stores the values of a batch, each under its lease. The outcomes are in the order of the
    /// arguments.
    pub(crate) async fn store_many(
        &self,
        batch: Vec<(Grant, Fill, Option<Arc<V>>)>,
    ) -> Vec<Published<V>> {
        let (fills, rest): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .map(|(grant, fill, value)| {
                ((grant.entry_key.entry().to_vec(), grant.token, fill), (grant, value))
            })
            .unzip();
        let results = self.remote.fill_many(&fills).await;
        let mut outcomes = Vec::with_capacity(fills.len());
        for (((grant, value), (_, _, fill)), result) in rest.into_iter().zip(fills).zip(results) {
            let uncached = self.uncached(fill.tags.clone(), value.clone());
            outcomes.push(match result {
                Ok(Some(stored)) => Published::Stored(self.stored(&grant, value, &stored, &fill)),
                // Overtaken by an invalidation: right for this read, which began before it.
                Ok(None) => {
                    self.metrics.refused_fills.increment(1);
                    self.discard(grant.entry_key.entry(), &fill).await;
                    Published::Unstored(uncached, None)
                }
                Err(_) => {
                    self.keep_past(&grant.entry_key, &uncached, grant.ticket);
                    let leftover = Leftover { grant, fill, is_leased: true };
                    Published::Unstored(uncached, Some(Box::new(leftover)))
                }
            });
        }
        outcomes
    }
}
