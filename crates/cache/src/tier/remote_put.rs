//! The two steps of a plain write in Redis: take the lease, store under it.

use std::time::Duration;

use redis::Value;
use seawall_client::{client::Script, error::Result};
use seawall_resilience::clock::millis;

use super::{
    remote::{Fill, RemoteTier},
    remote_tags::Stamp,
};
use crate::store::keys::EntryKey;

/// How long the write of a value in parts may take. Its lease is not renewed.
const PARTED_LEASE: Duration = Duration::from_secs(10);

static RESERVE: Script = Script::with_time(include_str!("script/reserve.lua"));

/// What a write found when it took the lease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reserved {
    /// Of what was there; 0 for nothing.
    pub(crate) version: u64,
    /// When that was, by the server's clock.
    pub(crate) at_micros: u64,
}

/// Outcome of a plain write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    /// It is stored, under this version.
    Stored(u64),
    /// An invalidation or another write came between.
    Overtaken,
    /// The lease had ended and a loader took it, but what was there is there still.
    TookTooLong,
}

impl RemoteTier {
    /// Takes the lease for a write from its holder.
    pub(crate) async fn reserve(
        &self,
        key: &[u8],
        token: u64,
        size_bytes: usize,
    ) -> Result<Reserved> {
        // Both requests are over by then, one way or the other; readers should not wait for longer.
        let mut lives = self.client.response_timeout() * 2;
        if size_bytes > self.parts.part_bytes() {
            // Its parts are written in between.
            lives = lives.max(PARTED_LEASE);
        }
        let call = RESERVE.on(&[key]).arg(&token.to_be_bytes()[..]).arg(millis(lives));
        let (version, at_micros) = self.guarded(key, || self.client.eval(&call)).await?;
        Ok(Reserved { version, at_micros })
    }

    /// Returns the stamp under which an entry counts now.
    pub(crate) async fn stamp_for(&self, entry_key: &EntryKey) -> Result<Stamp> {
        if entry_key.generations.is_empty() {
            return Ok(Stamp { generations: 0, clears: self.read_last_clear().await? });
        }
        let (_, stamp) = self.get(entry_key.entry(), &entry_key.generations).await?;
        Ok(stamp)
    }

    /// Stores under a write's lease, and announces it where that can be one step.
    pub(crate) async fn fill_reserved(
        &self,
        key: &[u8],
        token: u64,
        reserved: Reserved,
        fill: &Fill,
        message: &[u8],
    ) -> Result<Put> {
        let call = self.fill_call(&self.written_keys(key), token, fill);
        let call = call.arg(self.names.channel()).arg(message);
        let mut reply: Vec<Value> = self.guarded(key, || self.client.eval(&call)).await?;
        if reply.len() == 4 {
            self.retire(reply.pop()).await;
        }
        Ok(match redis::from_redis_value::<Vec<u64>>(Value::Array(reply))?.as_slice() {
            [version, _, _] => Put::Stored(*version),
            [version] if *version == reserved.version => Put::TookTooLong,
            _ => Put::Overtaken,
        })
    }
}
