//! Values that writers bring, instead of leaving it to the next reader to load them.
//!
//! A plain write has nothing that says how new it is. If its request hangs in the network while its
//! caller gives up and invalidates, it must not be carried out after that: the invalidation promised
//! that no reader sees anything older. So [`Cache::put`](crate::Cache::put) takes two steps, like a load:
//! the first one takes the entry's lease from its holder, the second one stores under that lease, which
//! an invalidation kills. A first step that arrives late has no second one. A write of a versioned
//! source ([`Cache::put_if_newer`](crate::Cache::put_if_newer)) needs no lease: its version decides.

use seawall_client::{
    error::{Error, Result},
    retry::midway,
};

use super::{keys::EntryKey, pending::Pending, publisher::Publisher};
use crate::{
    CacheValue, Invalidation, PutOutcome, Version,
    backplane::message::about_keys,
    tier::{remote::Versioned, remote_put::Put},
};

impl<V: CacheValue> Publisher<V> {
    /// Stores a value that the caller knows to be the newest.
    pub(crate) async fn put(&self, entry_key: &EntryKey, value: &V) -> Result<Version> {
        let encoded = self.encoder.encode(value)?;
        let entry = entry_key.entry();
        let token = self.remote.new_token();
        // The first request takes the lease. Whatever becomes of this caller, readers must not be left
        // waiting for it, and from the second request on others may have to be told.
        let mut pending = Pending::entries(self, vec![entry.to_vec()]);
        let (reserved, stamp) = tokio::join!(
            self.remote.reserve(entry, token, encoded.bytes.len()),
            self.remote.stamp_for(entry_key),
        );
        let reserved = match reserved {
            Err(error) if !error.is_indeterminate() => {
                pending.disarm();
                return Err(error);
            }
            reserved => reserved?,
        };
        let stamp = stamp.map_err(midway)?;
        let fill = self.encoder.written(encoded, stamp);
        let fill = self.cut(entry, fill).await.map_err(midway)?;
        self.heat.keys.wrote(entry);
        self.drop_copies(&[entry]);
        let told = about_keys(&[entry]);
        let put = self.remote.fill_reserved(entry, token, reserved, &fill, &told).await;
        if !matches!(put, Ok(Put::Stored(_))) {
            self.discard(entry, &fill).await;
        }
        match put {
            Ok(Put::Stored(version)) => {
                self.remote.tell_written(entry, &told).await.map_err(midway)?;
                pending.disarm();
                // What was read between the first drop and Redis' answer may be older.
                self.drop_copies(&[entry]);
                Ok(Version(version))
            }
            // The write that came between is later than this one, and was announced.
            Ok(Put::Overtaken) => {
                pending.disarm();
                self.drop_copies(&[entry]);
                Ok(Version(reserved.at_micros))
            }
            Ok(Put::TookTooLong) => match pending.invalidate().await? {
                Invalidation::Applied(version) => Ok(version),
                Invalidation::Queued => {
                    Err(Error::Unavailable("the write took too long and was taken back".into()))
                }
            },
            // The lease was taken, whatever became of the value: readers wait until it is ended.
            Err(error) => Err(midway(error)),
        }
    }

    /// Stores what a source with versions of its own says, unless something newer is there.
    pub(crate) async fn put_if_newer(
        &self,
        entry_key: &EntryKey,
        version: u64,
        value: Option<&V>,
    ) -> Result<PutOutcome> {
        let entry = entry_key.entry();
        let (_, stamp) = self.remote.get(entry, &entry_key.generations).await?;
        let fill = match value {
            Some(value) => self.encoder.written(self.encoder.encode(value)?, stamp),
            None => self.encoder.vacant(stamp),
        };
        let fill = self.cut(entry, fill).await?;
        self.heat.keys.wrote(entry);
        self.drop_copies(&[entry]);
        let told = about_keys(&[entry]);
        // From here on others may have to be told, whatever becomes of this caller.
        let pending = Pending::entries(self, vec![entry.to_vec()]);
        let result = self.remote.put_if_newer(entry, version, &fill, &told).await;
        if !matches!(result, Ok(Versioned::Stored(_))) {
            self.discard(entry, &fill).await;
        }
        let outcome = match result {
            Ok(Versioned::Stored(version)) => PutOutcome::Stored(Version(version)),
            Ok(Versioned::Equal(version)) => PutOutcome::Undecided(Version(version)),
            Ok(Versioned::Older) => {
                pending.disarm();
                return Ok(PutOutcome::Older);
            }
            Ok(Versioned::Same) => {
                pending.disarm();
                return Ok(PutOutcome::Unchanged);
            }
            Err(error) => {
                if !error.is_indeterminate() {
                    pending.disarm();
                }
                return Err(error);
            }
        };
        self.remote.tell_written(entry, &told).await.map_err(midway)?;
        pending.disarm();
        // What was read between the first drop and Redis' answer may be older.
        self.drop_copies(&[entry]);
        Ok(outcome)
    }
}
