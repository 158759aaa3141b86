//! Turns what a loader or a writer gives into what is stored: bytes, kind and lifetimes.
//!
//! Everything here is a function of its arguments and the settings. Nothing becomes visible.

use std::{any::Any, sync::Arc, time::Duration};

use seawall_client::error::Result;
use seawall_resilience::random::Randomness;

use super::{
    codec::{Encoded, Format},
    entry::{Entry, Stale},
    envelope::Kind,
};
use crate::{
    CacheValue, Loaded,
    metrics::Metrics,
    settings::{LONGEST, Settings},
    tier::{remote::Fill, remote_tags::Stamp},
};

/// What a loader returned, and how long it took.
pub(crate) struct LoadResult<V> {
    pub(crate) loaded: Loaded<V>,
    pub(crate) cost: Duration,
}

/// What to do with the result of a load.
pub(crate) enum Prepared<V> {
    /// Store the value, or "there is none".
    Store(Fill, Option<Arc<V>>),
    /// Hand it to those who wait; store nothing.
    Pass(Option<Arc<V>>),
    /// Make the entry in Redis fresh again.
    Prolong(Entry<V>),
    /// The loader said `NotModified` although there is nothing to leave as it is.
    NotModified,
}

/// Encodes the values of one cache.
pub(crate) struct Encoder<V> {
    pub(crate) cache: String,
    pub(crate) format: Format<V>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) randomness: Randomness,
}

impl<V: CacheValue> Encoder<V> {
    /// Decides what to do with the result of a load.
    pub(crate) fn prepare(
        &self,
        load_result: LoadResult<V>,
        stale: Option<Stale<V>>,
        stamp: Stamp,
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
        match self.fill(&*value, ttl, load_result.cost, stamp) {
            Some(fill) => Prepared::Store(fill, Some(value)),
            None => Prepared::Pass(Some(value)),
        }
    }

    /// Encodes one value of a batch, or "there is none". Returns `None` if it is not to be stored.
    pub(crate) fn batch_fill(
        &self,
        value: Option<&V>,
        cost: Duration,
        stamp: Stamp,
    ) -> Option<Fill> {
        match value {
            Some(value) => self.fill(value, self.settings.ttl, cost, stamp),
            None if self.settings.negative_ttl.is_zero() => None,
            None => Some(self.absent(cost, stamp)),
        }
    }

    /// Encodes a value that was loaded. Returns `None` if it cannot be stored.
    fn fill(&self, value: &V, ttl: Duration, cost: Duration, stamp: Stamp) -> Option<Fill> {
        match self.format.encode(value) {
            Ok(encoded) => Some(self.value(encoded, ttl, cost, stamp)),
            Err(error) => {
                self.metrics.oversized.increment(1);
                tracing::warn!(cache = self.cache, %error, "a value is not cached");
                None
            }
        }
    }

    /// Describes "there is none".
    fn absent(&self, cost: Duration, stamp: Stamp) -> Fill {
        Fill {
            kind: Kind::Absent,
            codec: 0,
            bytes: Vec::new(),
            ttl: self.vary(self.settings.negative_ttl),
            max_stale: Duration::ZERO,
            cost,
            stamp,
            parts: None,
            tags: None,
        }
    }

    /// Encodes a value that a writer brings.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it cannot be encoded or is too large.
    pub(crate) fn encode(&self, value: &V) -> Result<Encoded> {
        self.format.encode(value)
    }

    /// Describes a value that a writer brings.
    pub(crate) fn written(&self, encoded: Encoded, stamp: Stamp) -> Fill {
        self.value(encoded, self.settings.ttl, Duration::ZERO, stamp)
    }

    fn value(&self, encoded: Encoded, ttl: Duration, cost: Duration, stamp: Stamp) -> Fill {
        Fill {
            kind: Kind::Value,
            codec: encoded.codec,
            bytes: encoded.bytes,
            ttl: self.vary(ttl),
            max_stale: self.settings.max_stale,
            cost,
            stamp,
            parts: None,
            tags: None,
        }
    }

    /// Describes the removal of a value by a versioned source.
    pub(crate) fn vacant(&self, stamp: Stamp) -> Fill {
        let nothing = Encoded { codec: 0, bytes: Vec::new() };
        Fill { kind: Kind::Vacant, ..self.written(nothing, stamp) }
    }
}

impl<V> Encoder<V> {
    /// Varies a lifetime, so that values stored together do not expire together.
    pub(crate) fn vary(&self, time: Duration) -> Duration {
        let part = self.settings.jitter;
        if part == 0.0 {
            return time;
        }
        let factor = 1.0 - part + 2.0 * part * self.randomness.unit();
        time.mul_f64(factor).max(Duration::from_millis(1))
    }
}

/// Returns the message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("(no text)").to_owned()
}
