//! Cuts large values into parts before they are stored, and puts them together when they are read.
//!
//! Reading costs others one look at a flag of the header. An entry whose parts are gone (evicted,
//! deleted, or replaced faster than they are read) is looked up again a few times; when it stays
//! broken it counts as a miss whose *version is to be replaced*: the lease script would otherwise find
//! a fresh entry and hand out no lease.
//!
//! Parts live as long as their entry may, and a little longer. With values that never end
//! ([`Mode::LogicalExpiry`](crate::Mode)) that would be for ever, so entries in parts end a day after
//! they stopped being fresh: a writer that dies between parts and manifest leaves them no longer.

use std::time::Duration;

use bytes::Bytes;
use redis::cmd;
use seawall_client::error::Result;

use super::{
    chunks::{GRACE, MANIFEST_BYTES, Manifest},
    codec::IN_PARTS,
    envelope::{HEADER_BYTES, Header, Kind},
    keys::EntryKey,
    publisher::Publisher,
    value_tags::seal,
};
use crate::{
    metrics::Metrics,
    tier::remote::{Fill, RemoteTier},
};

/// Where the header says how the value is written.
const CODEC_AT: usize = 3;
/// How often an entry is looked up again because its parts were gone.
const MAX_LOOKS: u32 = 3;
/// The longest that an entry in parts may be used when it is stale.
const LONGEST_STALE: Duration = Duration::from_secs(24 * 3600);

/// An entry, with its parts if it has any.
pub(crate) enum Whole {
    /// As if it had never been cut; or there is none.
    Entry(Option<Bytes>),
    /// Its parts are gone; this is the version that is to be replaced.
    Lost(u64),
}

/// Returns whether an entry holds only the manifest of its value.
pub(crate) fn is_in_parts(raw: &[u8]) -> bool {
    raw.get(CODEC_AT).is_some_and(|codec| codec & IN_PARTS != 0)
}

/// Returns the manifest that an entry holds, with its version.
pub(crate) fn manifest(raw: &[u8]) -> Option<(Manifest, u64)> {
    let (header, bytes) = Header::read(raw)?;
    let in_parts = header.kind == Kind::Value && header.codec & IN_PARTS != 0;
    Some((in_parts.then(|| Manifest::read(bytes)).flatten()?, header.version))
}

impl<V> Publisher<V> {
    /// Cuts a value that is too large: writes its parts, and leaves the manifest to be stored. Seals what
    /// is stored where values carry tags.
    pub(crate) async fn cut(&self, entry: &[u8], mut fill: Fill) -> Result<Fill> {
        let parts = &self.remote.parts;
        let size = fill.bytes.len();
        if size > parts.part_bytes() {
            fill.max_stale = fill.max_stale.min(LONGEST_STALE);
            let lifetime = fill.ttl + fill.max_stale + GRACE;
            let manifest = parts.write(&fill.bytes, lifetime).await?;
            fill.bytes = manifest.to_bytes();
            fill.codec |= IN_PARTS;
            fill.parts = Some(manifest);
        }
        self.big.note(entry, size, fill.parts.map_or(0, |parts| parts.count), self.clock.now());
        if fill.kind == Kind::Value && self.encoder.format.value_tags.is_some() {
            seal(&mut fill.bytes, fill.stamp.clears);
        }
        Ok(fill)
    }

    /// Removes parts whose manifest was not stored. Asks the entry, because the reply may have been
    /// lost.
    pub(crate) async fn discard(&self, entry: &[u8], fill: &Fill) {
        let Some(ours) = &fill.parts else { return };
        let mut get = cmd("GET");
        get.arg(entry);
        let found = self.remote.client.query::<Option<Vec<u8>>>(entry, &get).await;
        let stored = match found {
            Ok(raw) => {
                raw.and_then(|raw| manifest(&raw)).is_some_and(|(stored, _)| stored == *ours)
            }
            // They end by themselves.
            Err(_) => true,
        };
        if !stored {
            self.remote.parts.remove(ours).await;
        }
    }

    /// Lets the parts of an entry live longer, before the entry itself does.
    pub(crate) async fn prolong_parts(&self, entry: &[u8], ttl: Duration) {
        let mut get = cmd("GETRANGE");
        get.arg(entry).arg(0).arg(HEADER_BYTES + 127);
        let Ok(raw) = self.remote.client.query::<Vec<u8>>(entry, &get).await else { return };
        if let Some((manifest, _)) = manifest(&raw) {
            let max_stale = self.settings.max_stale.min(LONGEST_STALE);
            self.remote.parts.prolong(&manifest, ttl + max_stale + GRACE).await;
        }
    }

    /// Returns whether a value of this size may lie in parts.
    pub(crate) fn may_be_in_parts(&self, size_bytes: u32) -> bool {
        size_bytes as usize > self.remote.parts.part_bytes()
    }
}

/// Puts an entry together whose value lies in parts.
pub(crate) async fn gather(
    remote: &RemoteTier,
    metrics: &Metrics,
    entry_key: &EntryKey,
    raw: Bytes,
) -> Result<Whole> {
    let mut raw = raw;
    let mut lost = None;
    for _ in 0..MAX_LOOKS {
        let Some((found, version)) = manifest(&raw) else {
            // Damaged beyond use, or no longer in parts.
            return Ok(match Header::read(&raw) {
                Some((header, _)) if is_in_parts(&raw) => Whole::Lost(header.version),
                _ => Whole::Entry(Some(raw)),
            });
        };
        let mut head = raw[..HEADER_BYTES].to_vec();
        head[CODEC_AT] &= !IN_PARTS;
        if let Some(mut whole) = remote.parts.gather(&found, head).await? {
            // The seal belongs to the entry, not to the value that was cut.
            whole.extend_from_slice(&raw[HEADER_BYTES + MANIFEST_BYTES..]);
            return Ok(Whole::Entry(Some(whole.into())));
        }
        metrics.lost_parts.increment(1);
        if lost == Some(version) {
            break;
        }
        lost = Some(version);
        match remote.get(entry_key.entry(), &[]).await?.0 {
            Some(again) if is_in_parts(&again) => raw = again,
            other => return Ok(Whole::Entry(other)),
        }
    }
    Ok(lost.map_or(Whole::Entry(None), Whole::Lost))
}
