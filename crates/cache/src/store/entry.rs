//! From what a loader found to an entry: what is stored, for how long, and what first levels keep.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use seawall_client::error::Error;
use seawall_resilience::clock::Moment;

use crate::{
    CacheKey, CacheValue, EntryKey, Inner, Loaded,
    load::loader::{LoadResult, panic_text},
    settings::LONGEST,
    store::envelope::Kind,
    tier::remote::{Fill, Stored},
    types::{Entry, Tags},
};

/// What a load is to replace, as its reader saw it.
#[derive(Debug)]
pub(crate) struct Stale<V> {
    pub(crate) entry: Entry<V>,
    /// Whether it is in Redis and was not invalidated: then it can be made fresh where it is.
    pub(crate) stored: bool,
}

impl<V> Clone for Stale<V> {
    fn clone(&self) -> Self {
        Stale { entry: self.entry.clone(), stored: self.stored }
    }
}

/// What is to be done with the result of a load.
pub(crate) enum Prepared<V> {
    Store(Fill, Option<Arc<V>>),
    Pass(Option<Arc<V>>),
    /// The entry that is there is fresh again.
    Prolong(Entry<V>),
    /// The loader left as it is what is not there.
    NotModified,
}

impl<K: CacheKey, V: CacheValue> Inner<K, V> {
    /// What is to be done with what a loader found.
    pub(crate) fn prepare(
        &self,
        load_result: LoadResult<V>,
        stale: Option<Stale<V>>,
        stamp: u64,
    ) -> Prepared<V> {
        let (value, ttl) = match (load_result.loaded, stale) {
            (Loaded::Found(value), _) => (Arc::new(value), self.settings.ttl),
            (Loaded::FoundFor(value, ttl), _) => (Arc::new(value), ttl.min(LONGEST)),
            (Loaded::DontCache(value), _) => return Prepared::Pass(Some(Arc::new(value))),
            (Loaded::Missing, _) if self.settings.negative_ttl.is_zero() => {
                return Prepared::Pass(None);
            }
            (Loaded::Missing, _) => {
                return Prepared::Store(self.absent(load_result.cost, stamp), None);
            }
            (Loaded::NotModified, Some(Stale { entry, stored: true })) => {
                return Prepared::Prolong(entry);
            }
            (Loaded::NotModified, Some(Stale { entry: Entry { value: Some(value), .. }, .. })) => {
                (value, self.settings.ttl)
            }
            (Loaded::NotModified, _) => return Prepared::NotModified,
        };
        match self.fill(&value, ttl, load_result.cost, stamp) {
            Some(fill) => Prepared::Store(fill, Some(value)),
            None => Prepared::Pass(Some(value)),
        }
    }

    /// A value as it is stored; `None` when it cannot be.
    pub(crate) fn fill(
        &self,
        value: &V,
        ttl: Duration,
        cost: Duration,
        stamp: u64,
    ) -> Option<Fill> {
        let encoded = catch_unwind(AssertUnwindSafe(|| self.format.encode(value)));
        let encoded = encoded.unwrap_or_else(|panic| Err(Error::Invalid(panic_text(&*panic))));
        match encoded {
            Ok(encoded) => Some(Fill {
                kind: Kind::Value,
                codec: encoded.codec,
                bytes: encoded.bytes,
                ttl: self.vary(ttl),
                max_stale: self.settings.max_stale,
                cost,
                stamp,
                parts: None,
            }),
            Err(error) => {
                self.metrics.oversized.increment(1);
                tracing::warn!(cache = self.remote.names.name(), %error, "a value is not cached");
                None
            }
        }
    }

    /// "There is none" as it is stored.
    pub(crate) fn absent(&self, cost: Duration, stamp: u64) -> Fill {
        Fill {
            kind: Kind::Absent,
            codec: 0,
            bytes: Vec::new(),
            ttl: self.vary(self.settings.negative_ttl),
            max_stale: Duration::ZERO,
            cost,
            stamp,
            parts: None,
        }
    }

    /// Varies a lifetime, so that what was stored together does not end together.
    pub(crate) fn vary(&self, time: Duration) -> Duration {
        let part = self.settings.jitter;
        if part == 0.0 {
            return time;
        }
        let factor = 1.0 - part + 2.0 * part * rand::random::<f64>();
        time.mul_f64(factor).max(Duration::from_millis(1))
    }

    /// An entry that was just stored.
    pub(crate) fn entry(
        &self,
        value: Option<Arc<V>>,
        stored: &Stored,
        fill: &Fill,
        entry_key: &EntryKey,
    ) -> Entry<V> {
        self.known(entry_key.entry(), value.is_some());
        let now = self.clock.now();
        let server = self.remote.client.server_millis_of(entry_key.entry(), now);
        Entry {
            value,
            version: stored.version,
            fresh_until: moment(stored.fresh_until, now, server),
            stale_until: moment(stored.stale_until, now, server),
            written: now,
            cost: fill.cost,
            bytes: u32::try_from(fill.size_bytes()).unwrap_or(u32::MAX),
            invalidated: false,
            tags: entry_key.tags.clone(),
        }
    }

    /// An entry that was just found to be still right.
    pub(crate) fn prolonged(
        &self,
        entry: Entry<V>,
        stored: &Stored,
        entry_key: &EntryKey,
    ) -> Entry<V> {
        let now = self.clock.now();
        let server = self.remote.client.server_millis_of(entry_key.entry(), now);
        Entry {
            version: stored.version,
            fresh_until: moment(stored.fresh_until, now, server),
            stale_until: moment(stored.stale_until, now, server),
            written: now,
            invalidated: false,
            ..entry
        }
    }

    /// A copy for the first level, which keeps it for a shorter time.
    pub(crate) fn for_local(&self, entry: &Entry<V>) -> Entry<V> {
        let limit = self.clock.now() + self.settings.local_ttl;
        Entry { fresh_until: entry.fresh_until.min(limit), ..entry.clone() }
    }
}

impl<V> Entry<V> {
    /// A value that is not in Redis.
    pub(crate) fn uncached(value: Option<Arc<V>>, now: Moment, tags: &Tags) -> Self {
        Entry {
            value,
            version: 0,
            fresh_until: now,
            stale_until: now,
            written: now,
            cost: Duration::ZERO,
            bytes: 0,
            invalidated: false,
            tags: tags.clone(),
        }
    }
}

/// A time of the server's clock as a moment of ours.
pub(crate) fn moment(server_millis: u64, now: Moment, server_now: i64) -> Moment {
    let ahead = i64::try_from(server_millis).unwrap_or(i64::MAX).saturating_sub(server_now);
    let nanos = ahead.unsigned_abs().saturating_mul(1_000_000);
    Moment::from_nanos(if ahead >= 0 {
        now.as_nanos().saturating_add(nanos)
    } else {
        now.as_nanos().saturating_sub(nanos)
    })
}
