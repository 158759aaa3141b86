//! An entry as this process knows it: the value, its version, and its times by the local clock.

use std::{sync::Arc, time::Duration};

use seawall_resilience::clock::Moment;

use crate::{
    Read, Source, Version,
    tier::remote::{Fill, Stored},
};

/// Hashes of tags; none for most caches, which then share no counter of references either.
pub(crate) type Tags = Option<Arc<[u64]>>;

/// What the local tier keeps, and what entries in Redis are decoded to.
#[derive(Debug)]
pub(crate) struct Entry<V> {
    pub(crate) value: Option<Arc<V>>,
    pub(crate) version: u64,
    /// Until when it is fresh, by the local clock.
    pub(crate) fresh_until: Moment,
    /// Until when it may be given while it is refreshed, by the local clock.
    pub(crate) stale_until: Moment,
    /// When it was written, by the local clock.
    pub(crate) written: Moment,
    pub(crate) cost: Duration,
    pub(crate) bytes: u32,
    /// Kept for readers who ask for stale values only.
    pub(crate) invalidated: bool,
    /// Hashes of its tags.
    pub(crate) tags: Tags,
    /// The last clear before its load began; 0 where values carry no tags, and in copies.
    pub(crate) clears: u64,
}

impl<V> Clone for Entry<V> {
    fn clone(&self) -> Self {
        Entry { value: self.value.clone(), tags: self.tags.clone(), ..*self }
    }
}

impl<V> Entry<V> {
    pub(crate) fn read(&self, source: Source, now: Moment) -> Read<V> {
        Read {
            value: self.value.clone(),
            source,
            age: now.since(self.written),
            version: Version(self.version),
        }
    }

    /// Describes a value that Redis just stored.
    pub(crate) fn stored(
        value: Option<Arc<V>>,
        stored: &Stored,
        fill: &Fill,
        times: Times,
    ) -> Self {
        Entry {
            value,
            version: stored.version,
            fresh_until: times.moment(stored.fresh_until),
            stale_until: times.moment(stored.stale_until),
            written: times.now,
            cost: fill.cost,
            bytes: u32::try_from(fill.size_bytes()).unwrap_or(u32::MAX),
            invalidated: false,
            tags: fill.tags.clone(),
            clears: fill.stamp.clears,
        }
    }

    /// Describes this entry after Redis made it fresh again.
    pub(crate) fn prolonged(self, stored: &Stored, times: Times) -> Self {
        Entry {
            version: stored.version,
            fresh_until: times.moment(stored.fresh_until),
            stale_until: times.moment(stored.stale_until),
            written: times.now,
            invalidated: false,
            ..self
        }
    }

    /// Describes a value that is not in Redis.
    pub(crate) fn uncached(value: Option<Arc<V>>, now: Moment, tags: Tags) -> Self {
        Entry {
            value,
            version: 0,
            fresh_until: now,
            stale_until: now,
            written: now,
            cost: Duration::ZERO,
            bytes: 0,
            invalidated: false,
            tags,
            clears: 0,
        }
    }
}

/// What a load replaces, as its reader saw it.
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

/// One moment by two clocks: this process' and the server's that has the entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) now: Moment,
    pub(crate) server_millis: i64,
}

impl Times {
    /// Converts a time of the server's clock to the local clock.
    pub(crate) fn moment(self, server_millis: u64) -> Moment {
        let ahead =
            i64::try_from(server_millis).unwrap_or(i64::MAX).saturating_sub(self.server_millis);
        let nanos = ahead.unsigned_abs().saturating_mul(1_000_000);
        Moment::from_nanos(if ahead >= 0 {
            self.now.as_nanos().saturating_add(nanos)
        } else {
            self.now.as_nanos().saturating_sub(nanos)
        })
    }
}
