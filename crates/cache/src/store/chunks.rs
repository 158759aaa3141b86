//! Stores a value that is too large for one command in parts, under a manifest.
//!
//! Correctness comes from the manifest alone, because parts lie in slots of their own (so that they
//! are fetched from all nodes at once) and nothing changes two slots together:
//!
//! - Parts are immutable. Each writing has a new id, and the id is in the name.
//! - Parts are written before the manifest is stored, and a manifest is stored in one step.
//! - A reader puts together exactly what the manifest says, or nothing: number, sizes and a checksum
//!   of the whole must agree.
//!
//! So a reader gets all of one version, or finds that a part is gone and looks for the manifest again.
//! Parts that no manifest points to are given a short lifetime, for readers that still hold the old
//! manifest; and every part has a lifetime from its first moment, so that a writer that dies leaves
//! nothing for ever.
//!
//! ```text
//! manifest:  0  u8    format, 1          part:  PREFIXcache-part:NAME:ID:INDEX
//!            1  u8×3  spare
//!            4  u32   number of parts
//!            8  u64   bytes of the whole
//!           16  u128  checksum of the whole, xxh3
//!           32  u32   bytes of a part; the last one may be shorter
//!           36  u128  id
//! ```
//!
//! Deliberately absent: parts that two versions share. They would have to be counted.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use redis::{Cmd, cmd};
use seawall_client::{
    client::{Client, Reply},
    error::{Error, Result},
    retry::again,
};
use seawall_resilience::clock::millis;
use tokio::sync::Semaphore;
use xxhash_rust::xxh3::xxh3_128;

use super::value_tags::SEAL_BYTES;

/// How many parts one cache reads and writes at a time: with parts of 512 KiB, 8 MiB on the way.
const PARTS_IN_FLIGHT: usize = 16;
/// How many of those are for one value.
const PARTS_AT_ONCE: usize = 8;
/// How long replaced parts stay for readers that hold the old manifest.
pub(crate) const GRACE: Duration = Duration::from_secs(10);
/// How often a command is repeated whose reply was lost; all of them are harmless to repeat.
const MAX_RESENDS: usize = 3;
/// Parts that a manifest may name; more is damage.
const MAX_PARTS: u32 = 1 << 16;
/// Length of a manifest.
pub(crate) const MANIFEST_BYTES: usize = 52;
const FORMAT: u8 = 1;

/// What says which parts make a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) count: u32,
    pub(crate) total_bytes: u64,
    checksum: u128,
    part_bytes: u32,
    id: u128,
}

impl Manifest {
    fn of(bytes: &[u8], part_bytes: usize, id: u128) -> Result<Self> {
        let too_large = || Error::Invalid(format!("a value of {} bytes is too large", bytes.len()));
        let count = bytes.len().div_ceil(part_bytes);
        let count = u32::try_from(count).ok().filter(|count| *count <= MAX_PARTS);
        Ok(Manifest {
            count: count.ok_or_else(too_large)?,
            total_bytes: bytes.len() as u64,
            checksum: xxh3_128(bytes),
            part_bytes: u32::try_from(part_bytes).map_err(|_| too_large())?,
            id,
        })
    }

    /// Parses a manifest, with a seal behind it or without. Returns `None` if it is none.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (bytes, rest) = bytes.split_first_chunk::<MANIFEST_BYTES>()?;
        if !rest.is_empty() && rest.len() != SEAL_BYTES {
            return None;
        }
        let long = |at: usize| bytes[at..at + 16].try_into().map(u128::from_be_bytes).ok();
        let short = |at: usize| bytes[at..at + 4].try_into().map(u32::from_be_bytes).ok();
        let manifest = Manifest {
            count: short(4)?,
            total_bytes: (u64::from(short(8)?) << 32) | u64::from(short(12)?),
            checksum: long(16)?,
            part_bytes: short(32)?,
            id: long(36)?,
        };
        let fits = manifest.total_bytes.div_ceil(u64::from(manifest.part_bytes.max(1)))
            == u64::from(manifest.count);
        (bytes[0] == FORMAT && manifest.count <= MAX_PARTS && fits).then_some(manifest)
    }

    /// Returns the manifest as it is stored. What tells contents apart stands before the id: a script
    /// compares it.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MANIFEST_BYTES);
        bytes.extend_from_slice(&[FORMAT, 0, 0, 0]);
        bytes.extend_from_slice(&self.count.to_be_bytes());
        bytes.extend_from_slice(&self.total_bytes.to_be_bytes());
        bytes.extend_from_slice(&self.checksum.to_be_bytes());
        bytes.extend_from_slice(&self.part_bytes.to_be_bytes());
        bytes.extend_from_slice(&self.id.to_be_bytes());
        bytes
    }
}

/// Reads and writes the parts of one cache.
pub(crate) struct Parts {
    client: Client,
    prefix: String,
    part_bytes: usize,
    in_flight: Semaphore,
}

impl Parts {
    /// Creates the parts of one cache; their names begin with `prefix`.
    pub(crate) fn new(client: Client, prefix: String, part_bytes: usize) -> Self {
        Parts { client, prefix, part_bytes, in_flight: Semaphore::new(PARTS_IN_FLIGHT) }
    }

    /// Returns the size above which a value is cut.
    pub(crate) fn part_bytes(&self) -> usize {
        self.part_bytes
    }

    /// Writes a value's parts, which no reader sees until their manifest is stored.
    ///
    /// # Errors
    /// As [`Client::send`]; what was written by then is removed, or ends by itself.
    pub(crate) async fn write(&self, bytes: &[u8], lifetime: Duration) -> Result<Manifest> {
        let manifest = Manifest::of(bytes, self.part_bytes, self.client.randomness().u128())?;
        let written = stream::iter(bytes.chunks(self.part_bytes).enumerate())
            .map(Ok)
            .try_for_each_concurrent(PARTS_AT_ONCE, async |(index, part)| {
                let key = self.name(&manifest, index);
                let mut set = cmd("SET");
                set.arg(&key).arg(part).arg("PX").arg(millis(lifetime).max(1));
                self.send(&key, &set).await.map(drop)
            })
            .await;
        if let Err(error) = written {
            self.remove(&manifest).await;
            return Err(error);
        }
        Ok(manifest)
    }

    /// Puts a value together behind what `into` holds already. Returns `None` if a part is gone or is
    /// not what the manifest says.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub(crate) async fn gather(
        &self,
        manifest: &Manifest,
        mut into: Vec<u8>,
    ) -> Result<Option<Vec<u8>>> {
        let start = into.len();
        let parts = stream::iter(0..manifest.count as usize)
            .map(|index| async move {
                let key = self.name(manifest, index);
                let mut get = cmd("GET");
                get.arg(&key);
                self.send(&key, &get).await
            })
            .buffered(PARTS_AT_ONCE);
        let mut parts = std::pin::pin!(parts);
        while let Some(part) = parts.try_next().await? {
            match part {
                // Nothing is reserved for what a manifest merely claims: parts make the room.
                Reply::String(part) => into.extend_from_slice(&part),
                _ => return Ok(None),
            }
        }
        let whole = &into[start..];
        let right =
            whole.len() as u64 == manifest.total_bytes && xxh3_128(whole) == manifest.checksum;
        Ok(right.then_some(into))
    }

    /// Removes parts that no reader has heard of. What cannot be removed ends by itself.
    pub(crate) async fn remove(&self, manifest: &Manifest) {
        self.each(manifest, |key| {
            let mut unlink = cmd("UNLINK");
            unlink.arg(key);
            unlink
        })
        .await;
    }

    /// Lets parts end after a grace time: readers may still hold their manifest.
    pub(crate) async fn retire(&self, manifest: &Manifest) {
        self.each(manifest, |key| expire(key, GRACE, "LT")).await;
    }

    /// Lets parts live as long as an entry whose lifetime begins again.
    pub(crate) async fn prolong(&self, manifest: &Manifest, lifetime: Duration) {
        self.each(manifest, |key| expire(key, lifetime, "GT")).await;
    }

    async fn each(&self, manifest: &Manifest, command: impl Fn(&[u8]) -> Cmd) {
        let commands = (0..manifest.count as usize).map(|index| {
            let key = self.name(manifest, index);
            let command = command(&key);
            (key, command)
        });
        for reply in self.client.send_all(commands.collect()).await {
            if let Err(error) = reply {
                tracing::debug!(%error, "a part is left to its lifetime");
            }
        }
    }

    async fn send(&self, key: &[u8], command: &Cmd) -> Result<Reply> {
        // Invariant: the semaphore is never closed.
        let _permit = self.in_flight.acquire().await.map_err(|_| Error::Closed)?;
        again(1 + MAX_RESENDS, || self.client.fetch(key, command)).await
    }

    fn name(&self, manifest: &Manifest, index: usize) -> Vec<u8> {
        format!("{}{:032x}:{index}", self.prefix, manifest.id).into_bytes()
    }
}

fn expire(key: &[u8], time: Duration, when: &str) -> Cmd {
    let mut expire = cmd("PEXPIRE");
    expire.arg(key).arg(millis(time).max(1)).arg(when);
    expire
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn manifests_come_back_and_nothing_else_is_one(
            bytes in proptest::collection::vec(any::<u8>(), 0..200), size in 1_usize..50, id: u128,
        ) {
            let manifest = Manifest::of(&bytes, size, id)?;
            prop_assert_eq!(Manifest::read(&manifest.to_bytes()), Some(manifest));
            prop_assert!(Manifest::read(&bytes).is_none() || bytes.len() == MANIFEST_BYTES);
            let mut claimed = manifest.to_bytes();
            claimed[7] ^= 1;
            prop_assert_eq!(Manifest::read(&claimed), None, "a number that does not fit");
        }
    }
}
