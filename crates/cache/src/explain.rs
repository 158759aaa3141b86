//! Explains where one key stands, on every tier: answers "why do I see this value?".
//!
//! Looks and changes nothing: no lease is asked for, no generation begun, no copy made or counted as
//! used, no breaker told. So it also asks a Redis whose breaker is open.
//!
//! The tiers are looked at one after the other, so an answer that was given in the middle of a write
//! may show one level before it and the other after it. Deliberately absent: what the value is, which
//! may not belong into logs, and what other processes' local tiers hold, which only they know.

use std::{fmt, time::Duration};

use bytes::Bytes;
use redis::{Value, cmd};
use seawall_client::error::{Error, Result};
use seawall_resilience::{
    BreakerState,
    clock::{Moment, millis},
};
use serde::Serialize;

use crate::{
    CacheValue, FilterStatus,
    hotkey::{HotKey, HotReason},
    read::reader::Reader,
    store::{
        envelope::{Header, Kind},
        keys::EntryKey,
        parted::{Whole, is_in_parts, manifest},
    },
    tier::{remote::stamp_of, remote_tags::Stamp},
};

/// Where one key stands: see [`Cache::explain`](crate::Cache::explain). Times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The entry's key in Redis; bytes that are no text are replaced.
    pub entry: String,
    /// The copy in this process.
    pub local: Option<LocalCopy>,
    /// The entry in Redis.
    pub remote: RemoteState,
    /// Whether its invalidation waits in this process' recovery queue.
    pub waits_for_recovery: bool,
    /// How many invalidations wait there.
    pub recovery_queue: usize,
    /// The breaker before this key's server: `closed`, `probing` or `open`.
    pub breaker: &'static str,
    /// What the filter thinks; `None` without one.
    pub filter: Option<FilterOpinion>,
    /// Whether this process is loading it for readers.
    pub loading: bool,
    /// Whether this process is refreshing it in the background.
    pub refreshing: bool,
    /// What the fleet says about it, if it is hot.
    pub hot: Option<HotKey>,
}

/// A copy in this process' memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LocalCopy {
    /// Its version; 0 when it was loaded without Redis.
    pub version: u64,
    /// Whether it says that there is no value.
    pub negative: bool,
    /// How long ago it was loaded.
    pub age_millis: u64,
    /// For how long it is fresh; 0 when it is not.
    pub fresh_millis: u64,
    /// For how long it may stand in.
    pub stale_millis: u64,
}

/// What Redis says about the entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum RemoteState {
    /// There is none.
    None,
    /// Something that no cache wrote.
    NotOurs,
    /// An entry.
    Entry(Box<RemoteEntry>),
    /// Redis could not be asked; its error.
    Unknown(String),
}

/// An entry in Redis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RemoteEntry {
    /// `value`, `absent` (known to have none) or `vacant` (nothing; a load is under way, or a version
    /// is remembered).
    pub kind: &'static str,
    /// Its version: microseconds of the server's clock when it was written.
    pub version: u64,
    /// The source's own version; 0 without one.
    pub source_version: u64,
    /// How long ago it was written or invalidated.
    pub age_millis: u64,
    /// For how long it is fresh; 0 when it is not.
    pub fresh_millis: u64,
    /// For how long it may stand in.
    pub stale_millis: u64,
    /// For how long a process holds the lease to load it; `None` if none does.
    pub lease_millis: Option<u64>,
    /// Whether others wait for that load.
    pub awaited: bool,
    /// Whether it was invalidated and kept for readers who ask for stale values.
    pub invalidated: bool,
    /// How the value is written, such as `json` or `messagepack+lz4`.
    pub codec: String,
    /// The value's size in Redis.
    pub size_bytes: usize,
    /// In how many parts it lies; 0 when it is in one piece.
    pub parts: u32,
    /// How long the last load took, in microseconds.
    pub load_micros: u32,
    /// Whether this cache's type can read it.
    pub readable: bool,
    /// Whether tags and namespace are still those that it was written under.
    pub generations_match: bool,
}

/// What the filter thinks of the key.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FilterOpinion {
    /// Whether it stops readers of this key.
    pub excludes: bool,
    /// How it stands.
    pub status: FilterStatus,
}

impl<V: CacheValue> Reader<V> {
    /// Tells where an entry stands. Changes nothing.
    pub(crate) async fn explain(&self, entry_key: &EntryKey) -> Result<Explanation> {
        if self.recovery.has_ended() {
            return Err(Error::Closed);
        }
        let entry = entry_key.entry();
        let (remote, stamp) = self.explain_remote(entry_key).await;
        let now = self.clock.now();
        let left = |until: Moment| millis(until.since(now));
        let local = self.local.as_ref().and_then(|local| local.peek(entry));
        Ok(Explanation {
            entry: String::from_utf8_lossy(entry).into_owned(),
            local: local.map(|copy| LocalCopy {
                version: copy.version,
                negative: copy.value.is_none(),
                age_millis: millis(now.since(copy.written)),
                fresh_millis: left(copy.fresh_until),
                stale_millis: left(copy.stale_until),
            }),
            remote,
            waits_for_recovery: self.recovery.concerns(entry),
            recovery_queue: self.recovery.len(),
            breaker: match self.remote.breaker_state(entry) {
                BreakerState::Closed => "closed",
                BreakerState::Open => "open",
                BreakerState::Probing => "probing",
            },
            filter: self.filter.as_ref().map(|filter| FilterOpinion {
                excludes: filter.excludes(entry, now),
                status: filter.status(now),
            }),
            loading: self.coordinator.is_loading(entry_key, stamp),
            refreshing: self.coordinator.is_refreshing(entry),
            hot: self.heat.keys.find(entry),
        })
    }

    /// Returns what Redis has, and the stamp that an entry needs to count; `None` when that is not
    /// known.
    async fn explain_remote(&self, entry_key: &EntryKey) -> (RemoteState, Option<Stamp>) {
        let clears = self.remote.tag_clears.is_some().then(|| self.remote.names.clears());
        let names = std::iter::once(entry_key.entry())
            .chain(entry_key.generations.iter().map(Vec::as_slice))
            .chain(clears);
        let commands = names.map(|name| {
            let mut get = cmd("GET");
            get.arg(name);
            (name.to_vec(), get)
        });
        let mut replies = self.remote.client.send_all(commands.collect()).await.into_iter();
        let raw = replies.next();
        let mut generations = Vec::new();
        for reply in replies {
            match reply.and_then(|value| Ok(redis::from_redis_value::<Option<u64>>(value)?)) {
                Ok(generation) => generations.push(generation),
                Err(error) => return (RemoteState::Unknown(error.to_string()), None),
            }
        }
        // One that was lost or never begun matches nothing: a reader would begin a new one.
        let clears = if clears.is_some() { generations.pop().flatten() } else { Some(0) };
        let generations: Option<Vec<u64>> = generations.into_iter().collect();
        let stamp = generations
            .zip(clears)
            .map(|(generations, clears)| Stamp { generations: stamp_of(&generations), clears });
        let state = match raw {
            Some(Ok(Value::BulkString(raw))) => {
                match self.is_spared(entry_key, &raw, stamp).await {
                    Ok(spared) => self.describe_entry(entry_key, &raw, stamp.filter(|_| spared)),
                    Err(error) => RemoteState::Unknown(error.to_string()),
                }
            }
            Some(Ok(Value::Nil)) | None => RemoteState::None,
            Some(Ok(_)) => RemoteState::NotOurs,
            Some(Err(error)) if error.is_code("WRONGTYPE") => RemoteState::NotOurs,
            Some(Err(error)) => RemoteState::Unknown(error.to_string()),
        };
        (state, stamp)
    }

    /// Returns whether no tag that the value carries was cleared since it was loaded.
    async fn is_spared(
        &self,
        entry_key: &EntryKey,
        raw: &[u8],
        stamp: Option<Stamp>,
    ) -> Result<bool> {
        let Some(stamp) = stamp.filter(|_| self.remote.tag_clears.is_some()) else {
            return Ok(true);
        };
        let raw = match is_in_parts(raw) {
            true => self.decoder.gather(entry_key, Bytes::copy_from_slice(raw)).await?,
            false => Whole::Entry(Some(Bytes::copy_from_slice(raw))),
        };
        let Whole::Entry(Some(raw)) = raw else { return Ok(true) };
        match self.decoder.decode(&raw, stamp, entry_key, self.clock.now()) {
            Some(entry) => self.remote.would_spare(&entry, stamp).await,
            // Something else is wrong with it.
            None => Ok(true),
        }
    }

    fn describe_entry(
        &self,
        entry_key: &EntryKey,
        raw: &[u8],
        stamp: Option<Stamp>,
    ) -> RemoteState {
        let Some((header, value)) = Header::read(raw) else { return RemoteState::NotOurs };
        let server = self.remote.client.server_millis_of(entry_key.entry(), self.clock.now());
        let server = u64::try_from(server).unwrap_or(0);
        let left = |until: u64| until.saturating_sub(server);
        let parts = manifest(raw).map(|(manifest, _)| manifest);
        let leased = header.lease != 0 && header.lease_until > server;
        RemoteState::Entry(Box::new(RemoteEntry {
            kind: match header.kind {
                Kind::Vacant => "vacant",
                Kind::Value => "value",
                Kind::Absent => "absent",
            },
            version: header.version,
            source_version: header.source_version,
            age_millis: if header.version == 0 {
                0
            } else {
                server.saturating_sub(header.version / 1000)
            },
            // A kept value keeps its times, but is fresh to no reader.
            fresh_millis: if header.invalidated { 0 } else { left(header.fresh_until) },
            stale_millis: left(header.stale_until),
            lease_millis: leased.then(|| left(header.lease_until)),
            awaited: header.awaited,
            invalidated: header.invalidated,
            codec: self.decoder.format.describe(header.codec),
            size_bytes: parts.map_or(value.len(), |manifest| {
                usize::try_from(manifest.total_bytes).unwrap_or(usize::MAX)
            }),
            parts: parts.map_or(0, |manifest| manifest.count),
            load_micros: header.cost_micros,
            readable: header.kind != Kind::Value || header.shape == self.decoder.format.shape,
            generations_match: header.kind == Kind::Vacant
                || stamp.is_some_and(|stamp| stamp.generations == header.stamp),
        }))
    }
}

/// Milliseconds as people read them, such as `4.5s`.
const fn time(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.entry)?;
        if let Some(FilterOpinion { excludes, status }) = &self.filter {
            let opinion = match (excludes, status.certain) {
                (true, _) => "this key cannot exist",
                (false, true) => "this key may exist",
                (false, false) => "lets everything pass for now",
            };
            writeln!(f, "  filter  {opinion} (version {}, {} keys)", status.version, status.keys)?;
        }
        match &self.local {
            None => writeln!(f, "  local   no copy in this process")?,
            Some(copy) => writeln!(
                f,
                "  local   {}, version {}, {:?} old, fresh for {:?}, stale for {:?}",
                if copy.negative { "\"there is none\"" } else { "a copy" },
                copy.version,
                time(copy.age_millis),
                time(copy.fresh_millis),
                time(copy.stale_millis)
            )?,
        }
        match &self.remote {
            RemoteState::None => writeln!(f, "  remote  no entry")?,
            RemoteState::NotOurs => writeln!(f, "  remote  something that is not a cache's")?,
            RemoteState::Unknown(error) => writeln!(f, "  remote  could not be asked: {error}")?,
            RemoteState::Entry(entry) => write!(f, "{entry}")?,
        }
        let recovery =
            if self.waits_for_recovery { "this key waits" } else { "this key does not wait" };
        writeln!(f, "  waiting {recovery}, {} in the queue", self.recovery_queue)?;
        writeln!(f, "  breaker {}", self.breaker)?;
        if let Some(hot) = &self.hot {
            let why = if hot.reason == HotReason::Declared { "declared, " } else { "" };
            writeln!(
                f,
                "  hot     {why}{} reads in {:?} by {} processes, {} writes",
                hot.reads, hot.window, hot.sources, hot.writes
            )?;
        }
        write!(
            f,
            "  here    {}",
            match (self.loading, self.refreshing) {
                (true, _) => "being loaded",
                (false, true) => "being refreshed",
                (false, false) => "not being loaded",
            }
        )
    }
}

impl fmt::Display for RemoteEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  remote  {}, version {}, {:?} old, fresh for {:?}, stale for {:?}, {} bytes {}, loaded in {:?}",
            self.kind,
            self.version,
            time(self.age_millis),
            time(self.fresh_millis),
            time(self.stale_millis),
            self.size_bytes,
            self.codec,
            Duration::from_micros(u64::from(self.load_micros))
        )?;
        if let Some(left) = self.lease_millis {
            let awaited = if self.awaited { ", others wait" } else { "" };
            writeln!(f, "          being loaded, lease for {:?}{awaited}", time(left))?;
        }
        if self.parts > 0 {
            writeln!(f, "          in {} parts", self.parts)?;
        }
        for (holds, sentence) in [
            (self.invalidated, "invalidated, kept for those who ask for stale values"),
            (!self.readable, "of another shape: a miss for this cache"),
            (!self.generations_match, "its tag or namespace was cleared: a miss"),
            (self.source_version != 0, "from a source with versions of its own"),
        ] {
            if holds {
                writeln!(f, "          {sentence}")?;
            }
        }
        Ok(())
    }
}
