//! Adding items.

use std::time::Duration;

use seawall_client::error::{Error, Result};
use serde::Serialize;

use super::{Delayed, MAX_AT_ONCE};
use crate::queue::{job::Added, shard::MAX_BYTES_AT_ONCE};

/// Longest accepted payload.
const MAX_PAYLOAD_BYTES: usize = 1 << 20;

impl<T: Serialize> Delayed<T> {
    /// Adds an item that becomes due after this delay, by the server's clock.
    ///
    /// An id that is in the queue, or was finished within
    /// [`dedup_ttl`](super::DelayedBuilder::dedup_ttl), is not added again.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the id or payload is too long; otherwise as
    /// [`Client::send`](seawall_client::Client::send). Safe to retry.
    pub async fn add(&self, id: impl AsRef<str>, payload: &T, after: Duration) -> Result<Added> {
        let id = id.as_ref();
        let shard = self.core.shard(id)?;
        let added = shard.add(&[(id, encode(payload)?, after)], self.core.policy).await?;
        added.first().copied().ok_or_else(|| Error::unexpected("no answer for an item"))
    }

    /// Adds several items and returns an outcome for each, in order.
    ///
    /// It takes one round trip per shard for each thousand items, or each megabyte.
    ///
    /// # Errors
    /// As [`Delayed::add`]; earlier items may have been added. Safe to retry.
    pub async fn add_all(&self, items: &[(String, T, Duration)]) -> Result<Vec<Added>> {
        let mut parts: Vec<Vec<usize>> = vec![Vec::new(); self.core.shards.len()];
        for (index, (id, _, _)) in items.iter().enumerate() {
            self.core.shard(id)?;
            parts[self.core.number(id)].push(index);
        }
        let mut outcomes = vec![Added::Now; items.len()];
        for (shard, indexes) in self.core.shards.iter().zip(parts) {
            let mut indexes = indexes.into_iter().peekable();
            // Each iteration takes at least one.
            while indexes.peek().is_some() {
                let (mut batch, mut places, mut bytes) = (Vec::new(), Vec::new(), 0);
                while batch.len() < MAX_AT_ONCE
                    && bytes < MAX_BYTES_AT_ONCE
                    && let Some(index) = indexes.next()
                {
                    let (id, payload, after) = &items[index];
                    let payload = encode(payload)?;
                    bytes += payload.len();
                    batch.push((id.as_str(), payload, *after));
                    places.push(index);
                }
                let added = shard.add(&batch, self.core.policy).await?;
                for (index, added) in places.into_iter().zip(added) {
                    outcomes[index] = added;
                }
            }
        }
        Ok(outcomes)
    }
}

fn encode(payload: &impl Serialize) -> Result<Vec<u8>> {
    let bytes = serde_json::to_vec(payload)
        .map_err(|error| Error::Invalid(format!("the payload cannot be written: {error}")))?;
    if bytes.len() > MAX_PAYLOAD_BYTES {
        let length = bytes.len();
        return Err(Error::Invalid(format!(
            "a payload of {length} bytes is longer than the {MAX_PAYLOAD_BYTES} that are allowed"
        )));
    }
    Ok(bytes)
}
