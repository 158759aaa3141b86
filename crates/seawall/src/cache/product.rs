//! From what a loader found to an entry: what is stored, for how long, and what first levels keep.

use std::{sync::Arc, time::Duration};

use serde::{Serialize, de::DeserializeOwned};

use super::{
    Inner, Loaded, Subject,
    envelope::Kind,
    level2::{Fill, Stored},
    loader::Product,
    read_types::{Entry, Tags},
};
use crate::{clock::Moment, key::KeyPart};

/// What is to be done with a product.
pub(super) enum Prepared<V> {
    Store(Fill, Option<Arc<V>>),
    Pass(Option<Arc<V>>),
    NotModified,
}

impl<K, V> Inner<K, V>
where
    K: KeyPart + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// What is to be done with what a loader found.
    pub(super) fn prepare(&self, product: Product<V>, stamp: u64) -> Prepared<V> {
        let (value, fresh_for) = match product.loaded {
            Loaded::Found(value) => (value, self.settings.fresh_for),
            Loaded::FoundFor(value, fresh_for) => (value, fresh_for),
            Loaded::DontCache(value) => return Prepared::Pass(Some(Arc::new(value))),
            Loaded::Missing if self.settings.missing_for.is_zero() => return Prepared::Pass(None),
            Loaded::Missing => return Prepared::Store(self.absent(product.cost, stamp), None),
            Loaded::NotModified => return Prepared::NotModified,
        };
        match self.fill(&value, fresh_for, product.cost, stamp) {
            Some(fill) => Prepared::Store(fill, Some(Arc::new(value))),
            None => Prepared::Pass(Some(Arc::new(value))),
        }
    }

    /// A value as it is stored; `None` when it cannot be.
    pub(super) fn fill(
        &self,
        value: &V,
        fresh_for: Duration,
        cost: Duration,
        stamp: u64,
    ) -> Option<Fill> {
        match self.format.encode(value) {
            Ok(encoded) => Some(Fill {
                kind: Kind::Value,
                codec: encoded.codec,
                bytes: encoded.bytes,
                fresh_for: self.vary(fresh_for),
                stale_for: self.settings.stale_for,
                cost,
                stamp,
                parts: None,
            }),
            Err(error) => {
                self.metrics.oversized.increment(1);
                tracing::warn!(cache = self.level2.names.name(), %error, "a value is not cached");
                None
            }
        }
    }

    /// "There is none" as it is stored.
    pub(super) fn absent(&self, cost: Duration, stamp: u64) -> Fill {
        Fill {
            kind: Kind::Absent,
            codec: 0,
            bytes: Vec::new(),
            fresh_for: self.vary(self.settings.missing_for),
            stale_for: Duration::ZERO,
            cost,
            stamp,
            parts: None,
        }
    }

    /// Varies a lifetime, so that what was stored together does not end together.
    pub(super) fn vary(&self, time: Duration) -> Duration {
        let part = self.settings.jitter;
        if part == 0.0 {
            return time;
        }
        let factor = 1.0 - part + 2.0 * part * rand::random::<f64>();
        time.mul_f64(factor).max(Duration::from_millis(1))
    }

    /// An entry that was just stored.
    pub(super) fn entry(
        &self,
        value: Option<Arc<V>>,
        stored: &Stored,
        fill: &Fill,
        subject: &Subject,
    ) -> Entry<V> {
        self.known(subject.entry(), value.is_some());
        let now = self.clock.now();
        let server = self.level2.link.server_millis_at(now);
        Entry {
            value,
            version: stored.version,
            fresh_until: moment(stored.fresh_until, now, server),
            stale_until: moment(stored.stale_until, now, server),
            written: now,
            cost: fill.cost,
            bytes: u32::try_from(fill.size_bytes()).unwrap_or(u32::MAX),
            invalidated: false,
            tags: subject.tags.clone(),
        }
    }

    /// A copy for the first level, which keeps it for a shorter time.
    pub(super) fn for_level1(&self, entry: &Entry<V>) -> Entry<V> {
        let limit = self.clock.now() + self.settings.level1_for;
        Entry { fresh_until: entry.fresh_until.min(limit), ..entry.clone() }
    }
}

impl<V> Entry<V> {
    /// A value that is not in Redis.
    pub(super) fn uncached(value: Option<Arc<V>>, now: Moment, tags: &Tags) -> Self {
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
pub(super) fn moment(server_millis: u64, now: Moment, server_now: i64) -> Moment {
    let ahead = i64::try_from(server_millis).unwrap_or(i64::MAX).saturating_sub(server_now);
    let nanos = ahead.unsigned_abs().saturating_mul(1_000_000);
    Moment::from_nanos(if ahead >= 0 {
        now.as_nanos().saturating_add(nanos)
    } else {
        now.as_nanos().saturating_sub(nanos)
    })
}
