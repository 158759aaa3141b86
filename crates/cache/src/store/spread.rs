//! Copies of very hot entries on other nodes of a Cluster: see [`crate::hotkey::copies`].

use std::time::Duration;

use seawall_client::error::Result;
use seawall_resilience::clock::millis;

use super::{
    envelope::{Header, Kind},
    keys::EntryKey,
    parted::is_in_parts,
    publisher::Publisher,
};
use crate::{
    hotkey::copies::{COPY, COPY_FOR},
    tier::{remote::Lease, remote_tags::Stamp},
};

impl<V> Publisher<V> {
    /// Copies an entry to another node. The lease comes before the entry is read: see
    /// [`crate::hotkey::copies`].
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub(crate) async fn copy(&self, entry_key: &EntryKey, name: &[u8], stamp: Stamp) -> Result<()> {
        let token = self.remote.new_token();
        let Lease::Granted = self.remote.lease(name, token, &[], stamp, None).await? else {
            return Ok(());
        };
        let Some((entry, left)) = self.copyable(entry_key).await? else {
            // Others must not wait for a copy that does not come.
            return self.remote.release(name, token).await;
        };
        let call = COPY.on(&[name]).arg(&token.to_be_bytes()[..]).arg(entry);
        let call = call.arg(millis(left));
        self.remote.guarded(name, || self.remote.client.run(&call)).await.map(drop)
    }

    /// Returns the entry as its copies have it, and their lifetime; `None` if it is not fresh.
    async fn copyable(&self, entry_key: &EntryKey) -> Result<Option<(Vec<u8>, Duration)>> {
        let (raw, _) = self.remote.get(entry_key.entry(), &entry_key.generations).await?;
        // A value in parts is spread over nodes as it is.
        let Some(raw) = raw.filter(|raw| !is_in_parts(raw)) else { return Ok(None) };
        let fresh_until = match Header::read(&raw) {
            Some((header, _)) if header.kind != Kind::Vacant && !header.invalidated => {
                header.fresh_until
            }
            _ => return Ok(None),
        };
        // Flags, lease and the source's version belong to the entry alone.
        let mut raw = raw.to_vec();
        for range in [4..8, 16..32, 64..72] {
            raw[range].fill(0);
        }
        let times = self.remote.times(entry_key.entry(), self.clock.now());
        let now = u64::try_from(times.server_millis).unwrap_or(0);
        let left = Duration::from_millis(fresh_until.saturating_sub(now)).min(COPY_FOR);
        Ok((!left.is_zero()).then_some((raw, left)))
    }
}
