//! Values that writers bring themselves, instead of leaving it to the next reader to load them.
//!
//! A plain write has nothing that says how new it is. If its request hangs in the network while its
//! caller gives up and invalidates, it must not be carried out after that: the invalidation promised
//! that nobody sees anything older. So [`Cache::put`] goes in two steps, like a load: the first one
//! takes the entry's lease from whoever has it, the second one stores under that lease, which an
//! invalidation kills. A first step that comes late has no second one. A write of a versioned source
//! ([`Cache::put_if_newer`]) needs no lease: its version decides.

use std::{borrow::Borrow, time::Duration};

use redis::Value;
use seawall_client::{
    client::Script,
    error::{Error, Result},
    retry::midway,
};

use crate::{
    Cache, CacheKey, CacheValue, EntryKey, Inner, Invalidation, KeyRef, Version,
    backplane::message::about_keys,
    load::coordinator::new_token,
    store::envelope::Kind,
    store::pending::Pending,
    tier::remote::{Fill, RemoteTier, Versioned, millis},
};

/// How long the write of a value in parts may take. Its lease is not renewed.
const PARTED_LEASE: Duration = Duration::from_secs(10);

static RESERVE: Script = Script::new(include_str!("../tier/script/reserve.lua"));

/// What became of a versioned write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an older write was not stored"]
pub enum PutOutcome {
    /// It is stored.
    Stored(Version),
    /// Something newer is there.
    Older,
    /// The same version was there with another value, or was invalidated since; nobody can tell which is
    /// later, so the next reader asks the source.
    Undecided(Version),
    /// Exactly this is there already.
    Unchanged,
}

/// What a write found when it took the lease.
#[derive(Debug, Clone, Copy)]
struct Reserved {
    /// Of what was there; 0 for nothing.
    version: u64,
    /// When that was, by the server's clock.
    at_micros: u64,
}

/// What became of a plain write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Put {
    /// It is stored, under this version.
    Stored(u64),
    /// An invalidation or another write came between.
    Overtaken,
    /// The lease had ended and a loader took it, but what was there is there still.
    TookTooLong,
}

impl<K: CacheKey, V: CacheValue> Cache<K, V> {
    /// Stores a value that the caller knows to be the newest. Where several may write at once, prefer
    /// [`Cache::write`] or [`Cache::put_if_newer`].
    ///
    /// An invalidation or another write that comes while this is under way wins, and so does one that
    /// comes after an error: a request that hung in the network and arrives late stores nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a value that is too large; else as
    /// [`Client::send`](seawall_client::Client::send). After an error the entry's state is unknown: invalidate it.
    ///
    /// # Cancel safety
    /// Dropping the future may leave the old value, the new one, or none, in all processes the same:
    /// what it leaves open, a value that others were not told of or the lease that readers wait for,
    /// the recovery queue ends by an invalidation; so it does after an error that leaves this open. A
    /// request that arrives after that may keep readers waiting for up to two time-outs of a reply.
    pub async fn put<Q>(&self, key: &Q, value: &V) -> Result<Version>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
    {
        let inner = &self.inner;
        let entry_key = inner.entry_key(key)?;
        let encoded = inner.format.encode(value)?;
        let token = new_token();
        // The first request takes the lease. Whatever becomes of this caller, readers must not be left
        // waiting for it, and from the second request on others may have to be told.
        let mut pending = Pending::entries(inner, vec![entry_key.entry().to_vec()]);
        let (reserved, stamp) = futures_util::join!(
            inner.remote.reserve(entry_key.entry(), token, encoded.bytes.len()),
            inner.remote.stamp_for(&entry_key),
        );
        let reserved = match reserved {
            Err(error) if !error.is_indeterminate() => {
                pending.disarm();
                return Err(error);
            }
            reserved => reserved?,
        };
        let stamp = stamp.map_err(midway)?;
        let fill = inner.written(encoded.codec, encoded.bytes, stamp);
        let fill = inner.cut(entry_key.entry(), fill).await.map_err(midway)?;
        inner.heat.keys.wrote(entry_key.entry());
        inner.drop_copies(&[entry_key.entry()]);
        let told = about_keys(&[entry_key.entry()]);
        let put =
            inner.remote.fill_reserved(entry_key.entry(), token, reserved, &fill, &told).await;
        if !matches!(put, Ok(Put::Stored(_))) {
            inner.discard(entry_key.entry(), &fill).await;
        }
        match put {
            Ok(Put::Stored(version)) => {
                inner.remote.tell_written(entry_key.entry(), &told).await.map_err(midway)?;
                pending.disarm();
                // What was read between the first drop and Redis' answer may be older.
                inner.drop_copies(&[entry_key.entry()]);
                Ok(Version(version))
            }
            // Whoever came between is later than this write, and has told everybody.
            Ok(Put::Overtaken) => {
                pending.disarm();
                inner.drop_copies(&[entry_key.entry()]);
                Ok(Version(reserved.at_micros))
            }
            Ok(Put::TookTooLong) => match pending.invalidate().await? {
                Invalidation::Applied(version) => Ok(version),
                Invalidation::Queued => {
                    Err(Error::Unavailable("the write took too long and was taken back".into()))
                }
            },
            // Whatever became of the value, the lease was taken: readers wait for it until it is ended.
            Err(error) => Err(midway(error)),
        }
    }

    /// Stores what a source with versions of its own says (an update time, a position in its log):
    /// late events lose, and whatever is being loaded is refused. `None` says that the source deleted
    /// it. Versions start at 1.
    ///
    /// # Errors
    /// As [`Cache::put`].
    pub async fn put_if_newer<Q>(
        &self,
        key: &Q,
        version: u64,
        value: Option<&V>,
    ) -> Result<PutOutcome>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
    {
        if version == 0 {
            return Err(Error::Invalid(
                "versions of a source start at 1; 0 means that there is none".into(),
            ));
        }
        let inner = &self.inner;
        let entry_key = inner.entry_key(key)?;
        let (_, stamp) = inner.remote.get(entry_key.entry(), &entry_key.generations).await?;
        let fill = match value {
            Some(value) => {
                let encoded = inner.format.encode(value)?;
                inner.written(encoded.codec, encoded.bytes, stamp)
            }
            None => Fill { kind: Kind::Vacant, ..inner.written(0, Vec::new(), stamp) },
        };
        let fill = inner.cut(entry_key.entry(), fill).await?;
        inner.heat.keys.wrote(entry_key.entry());
        inner.drop_copies(&[entry_key.entry()]);
        let told = about_keys(&[entry_key.entry()]);
        // From here on others may have to be told, whatever becomes of this caller.
        let pending = Pending::entries(inner, vec![entry_key.entry().to_vec()]);
        let result = inner.remote.put_if_newer(entry_key.entry(), version, &fill, &told).await;
        if !matches!(result, Ok(Versioned::Stored(_))) {
            inner.discard(entry_key.entry(), &fill).await;
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
        inner.remote.tell_written(entry_key.entry(), &told).await.map_err(midway)?;
        pending.disarm();
        // What was read between the first drop and Redis' answer may be older.
        inner.drop_copies(&[entry_key.entry()]);
        Ok(outcome)
    }
}

impl<K: CacheKey, V: CacheValue> Inner<K, V> {
    fn written(&self, codec: u8, bytes: Vec<u8>, stamp: u64) -> Fill {
        Fill {
            kind: Kind::Value,
            codec,
            bytes,
            ttl: self.vary(self.settings.ttl),
            max_stale: self.settings.max_stale,
            cost: Duration::ZERO,
            stamp,
            parts: None,
        }
    }
}

impl RemoteTier {
    /// Takes the lease for a write, from whoever has it.
    async fn reserve(&self, key: &[u8], token: u64, size_bytes: usize) -> Result<Reserved> {
        // Both requests are over by then, one way or the other; readers should not wait for longer.
        let mut lives = self.client.response_timeout() * 2;
        if size_bytes > self.parts.part_bytes() {
            // Its parts are written in between.
            lives = lives.max(PARTED_LEASE);
        }
        let call = RESERVE.on(&[key]).arg(&token.to_be_bytes()[..]).arg(millis(lives));
        let (version, at_micros) = self.guarded(key, self.client.eval(&call)).await?;
        Ok(Reserved { version, at_micros })
    }

    /// The stamp under which an entry counts now.
    async fn stamp_for(&self, entry_key: &EntryKey) -> Result<u64> {
        if entry_key.generations.is_empty() {
            return Ok(0);
        }
        let (_, stamp) = self.get(entry_key.entry(), &entry_key.generations).await?;
        Ok(stamp)
    }

    /// Stores under a write's lease, and tells everybody where that can be one step.
    async fn fill_reserved(
        &self,
        key: &[u8],
        token: u64,
        reserved: Reserved,
        fill: &Fill,
        message: &[u8],
    ) -> Result<Put> {
        let call = self.fill_call(&self.written_keys(key), token, fill);
        let call = call.arg(self.names.channel()).arg(message);
        let mut reply: Vec<Value> = self.guarded(key, self.client.eval(&call)).await?;
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
