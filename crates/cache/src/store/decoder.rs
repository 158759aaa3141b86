//! Turns the bytes of an entry in Redis into an [`Entry`]; gathers the parts of a large value.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use seawall_client::error::Result;
use seawall_resilience::clock::Moment;

use super::{
    codec::Format,
    entry::{Entry, Times},
    envelope::{Header, Kind},
    keys::EntryKey,
    parted::{Whole, gather},
    shape,
    value_tags::unseal,
};
use crate::{
    CacheValue,
    metrics::Metrics,
    tier::{remote::RemoteTier, remote_tags::Stamp},
};

/// Decodes the entries of one cache; a cheap clone.
pub(crate) struct Decoder<V> {
    pub(crate) format: Format<V>,
    pub(crate) remote: Arc<RemoteTier>,
    pub(crate) metrics: Arc<Metrics>,
}

impl<V> Clone for Decoder<V> {
    fn clone(&self) -> Self {
        Decoder {
            format: self.format.clone(),
            remote: Arc::clone(&self.remote),
            metrics: Arc::clone(&self.metrics),
        }
    }
}

impl<V: CacheValue> Decoder<V> {
    /// Returns whether a newer release wrote this entry. Such an entry is neither read nor replaced.
    pub(crate) fn is_newer(&self, raw: &[u8]) -> bool {
        Header::read(raw).is_some_and(|(header, _)| {
            header.kind == Kind::Value && shape::is_newer(header.shape, self.format.shape)
        })
    }

    /// Decodes an entry. Returns `None` if it holds nothing that this cache can read, or counts no
    /// longer because its generation ended. If it has other `clears` than the stamp, it counts only if
    /// [`RemoteTier::spares`] says so.
    pub(crate) fn decode(
        &self,
        raw: &[u8],
        stamp: Stamp,
        entry_key: &EntryKey,
        now: Moment,
    ) -> Option<Entry<V>> {
        let Some((header, bytes)) = Header::read(raw) else {
            self.metrics.unreadable.increment(1);
            return None;
        };
        if header.kind == Kind::Vacant || header.stamp != stamp.generations {
            return None;
        }
        let (value, clears) = if header.kind == Kind::Value {
            let readable = header.shape == self.format.shape;
            let value = readable.then(|| self.value(&header, bytes, stamp)).flatten();
            let Some((value, clears)) = value else {
                self.metrics.unreadable.increment(1);
                return None;
            };
            (Some(Arc::new(value)), clears)
        } else {
            // There is no value that could carry a tag.
            (None, stamp.clears)
        };
        let tags = self.format.tags(&entry_key.tags, value.as_deref())?;
        let times = self.remote.times(entry_key.entry(), now);
        Some(Entry {
            value,
            version: header.version,
            fresh_until: times.moment(header.fresh_until),
            stale_until: times.moment(header.stale_until),
            written: times.moment(header.version / 1000),
            cost: Duration::from_micros(u64::from(header.cost_micros)),
            bytes: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            invalidated: header.invalidated,
            tags,
            clears,
        })
    }

    /// Decodes a value. Returns it with the last clear before its load began.
    #[inline]
    fn value(&self, header: &Header, bytes: &[u8], stamp: Stamp) -> Option<(V, u64)> {
        let (bytes, clears) = match self.format.value_tags {
            None => (bytes, stamp.clears),
            Some(_) => unseal(bytes)?,
        };
        Some((self.format.decode(header.codec, bytes)?, clears))
    }

    /// Returns the version of an entry that [`decode`](Self::decode) refused although its header is
    /// that of a good one.
    pub(crate) fn damaged(&self, raw: &[u8], stamp: Stamp) -> Option<u64> {
        let (header, _) = Header::read(raw)?;
        let looks_good = header.kind == Kind::Value
            && header.stamp == stamp.generations
            && header.shape == self.format.shape
            && !header.invalidated;
        looks_good.then_some(header.version)
    }

    /// Puts an entry together whose value is stored in parts.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub(crate) async fn gather(&self, entry_key: &EntryKey, raw: Bytes) -> Result<Whole> {
        gather(&self.remote, &self.metrics, entry_key, raw).await
    }
}

impl RemoteTier {
    /// Returns the current time by both clocks, as far as this entry's server is concerned.
    pub(crate) fn times(&self, entry: &[u8], now: Moment) -> Times {
        Times { now, server_millis: self.client.server_millis_of(entry, now) }
    }
}
