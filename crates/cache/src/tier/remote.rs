//! The remote tier: entries in Redis as bytes, and the scripts that change them.
//!
//! Commands go through the breaker of their node; `breakers.rs` lists those that do not, and why.
//! Leases are in `remote_lease.rs`, invalidations in `remote_invalidate.rs`.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use bytes::Bytes;
use redis::{Value, cmd};
use seawall_client::{
    MAX_COMMAND_BYTES, MAX_COMMAND_MEMBERS,
    client::{Client, Reply, Script, ScriptInvocation, Topology},
    error::{Error, Result},
    retry::{Doubt, midway},
};
use seawall_resilience::clock::{Moment, millis};

use crate::{
    hotkey::copies::Copies,
    recovery::backlog::Bump,
    store::chunks::{Manifest, Parts},
};
use crate::{
    store::entry::Tags,
    store::envelope::{HEADER_BYTES, Kind},
    store::keys::{EntryKey, Names},
    store::value_tags::SEAL_BYTES,
    tier::breakers::Breakers,
    tier::remote_replies::{bytes, parse_stored},
    tier::remote_tags::{Stamp, TagClears},
};

static FILL: Script = Script::with_time(include_str!("script/fill.lua"));
static GENERATION: Script = Script::with_time(include_str!("script/generation.lua"));
static SLIDE: Script = Script::with_time(include_str!("script/slide.lua"));
static PUT_IF_NEWER: Script = Script::with_time(include_str!("script/put_if_newer.lua"));

/// What fills of one batch may have on their way at a time.
const FILLED_AT_ONCE_BYTES: usize = 4 << 20;

/// How often a command whose reply was lost is sent again.
pub(crate) const MAX_RESENDS: u32 = 3;

/// The entries of one cache.
pub(crate) struct RemoteTier {
    pub(crate) client: Client,
    pub(crate) names: Names,
    pub(crate) parts: Parts,
    /// How large the largest entry is, as far as batches saw.
    largest_bytes: AtomicUsize,
    pub(crate) shape: u32,
    pub(crate) lease_ttl: Duration,
    pub(crate) breakers: Breakers,
    /// Where copies of very hot entries lie, on a Cluster.
    pub(crate) copies: Option<Copies>,
    /// Where values carry tags.
    pub(crate) tag_clears: Option<TagClears>,
}

/// Reply of `lease.lua`.
#[derive(Debug)]
pub(crate) enum Lease {
    /// There is a fresh value after all.
    Value(Vec<u8>),
    /// The caller loads.
    Granted,
    /// Another one loads, for at most this long.
    Busy(Duration),
    /// What was to be replaced is no longer there.
    Changed,
    /// There is an entry of a newer release, which is not to be replaced.
    Newer,
}

/// What is stored: kind, codec and bytes, and how long it lives.
#[derive(Debug, Clone)]
pub(crate) struct Fill {
    pub(crate) kind: Kind,
    pub(crate) codec: u8,
    pub(crate) bytes: Vec<u8>,
    pub(crate) ttl: Duration,
    pub(crate) max_stale: Duration,
    pub(crate) cost: Duration,
    pub(crate) stamp: Stamp,
    /// Where the value lies when `bytes` are only its manifest.
    pub(crate) parts: Option<Manifest>,
    /// Hashes of the entry's tags, for copies in memory.
    pub(crate) tags: Tags,
}

impl Fill {
    /// Returns the value's size, wherever it lies.
    pub(crate) fn size_bytes(&self) -> usize {
        match &self.parts {
            None => self.bytes.len(),
            Some(manifest) => usize::try_from(manifest.total_bytes).unwrap_or(usize::MAX),
        }
    }
}

/// Version and times of an entry that was stored, by the server's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored {
    pub(crate) version: u64,
    pub(crate) fresh_until: u64,
    pub(crate) stale_until: u64,
}

/// Outcome of a versioned write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Versioned {
    Stored(u64),
    Older,
    Equal(u64),
    Same,
}

impl RemoteTier {
    pub(crate) fn new(
        client: Client,
        names: Names,
        parts: Parts,
        shape: u32,
        lease_ttl: Duration,
    ) -> Self {
        let breakers = Breakers::new(&names, client.network_clock());
        // Nothing is known of their sizes yet: the first batch is read one by one.
        let largest_bytes = AtomicUsize::new(MAX_COMMAND_BYTES);
        RemoteTier {
            client,
            names,
            parts,
            largest_bytes,
            shape,
            lease_ttl,
            breakers,
            copies: None,
            tag_clears: None,
        }
    }

    /// Draws a unique token; never 0, which means "no lease".
    pub(crate) fn new_token(&self) -> u64 {
        self.client.randomness().u64() | 1
    }

    /// Returns whether a reply that did not come was waited for until its time-out: the server hangs.
    /// A cut connection is noticed at once. The time is that of the network's clock.
    pub(crate) fn hangs(&self, sent: Moment) -> bool {
        self.client.network_clock().now().since(sent) >= self.client.response_timeout() / 2
    }

    /// Reads an entry, with what decides whether it counts.
    pub(crate) async fn get(
        &self,
        key: &[u8],
        generations: &[Vec<u8>],
    ) -> Result<(Option<Bytes>, Stamp)> {
        if generations.is_empty() && self.tag_clears.is_none() {
            let mut get = cmd("GET");
            get.arg(key);
            let entry = bytes(self.guarded(key, || self.client.fetch(key, &get)).await?)?;
            return Ok((entry, Stamp::default()));
        }
        // Boxed, so that reads without tags do not carry what only these need.
        Box::pin(self.get_stamped(key, generations)).await
    }

    async fn get_stamped(
        &self,
        key: &[u8],
        generations: &[Vec<u8>],
    ) -> Result<(Option<Bytes>, Stamp)> {
        let mut replies = self.guarded(key, || self.get_all(key, generations)).await?;
        let clears = match self.tag_clears {
            Some(_) => self.last_clear(replies.pop().unwrap_or(Value::Nil)).await?,
            None => 0,
        };
        let mut replies = replies.into_iter();
        let entry = bytes(replies.next().unwrap_or(Value::Nil).into())?;
        let generations = self.stamp(generations, replies.collect()).await?;
        Ok((entry, Stamp { generations, clears }))
    }

    /// Reads several entries at once, with what decides whether they count.
    pub(crate) async fn get_many(
        &self,
        entry_keys: &[&EntryKey],
    ) -> Vec<Result<(Option<Bytes>, Stamp)>> {
        if entry_keys.is_empty() {
            return Vec::new();
        }
        if !entry_keys.iter().all(|entry_key| entry_key.generations.is_empty()) {
            let each = entry_keys
                .iter()
                .map(|entry_key| self.get(entry_key.entry(), &entry_key.generations));
            return futures_util::future::join_all(each).await;
        }
        let (found, clears) = tokio::join!(self.get_plain(entry_keys), self.read_last_clear());
        let stamp = clears.map(|clears| Stamp { generations: 0, clears });
        found.into_iter().map(|entry| Ok((entry?, stamp.clone()?))).collect()
    }

    /// Reads several entries that need nothing else.
    async fn get_plain(&self, entry_keys: &[&EntryKey]) -> Vec<Result<Option<Bytes>>> {
        if self.client.topology() == Topology::Cluster {
            let commands = entry_keys.iter().map(|entry_key| {
                let mut get = cmd("GET");
                get.arg(entry_key.entry());
                (entry_key.entry().to_vec(), get)
            });
            let commands: Vec<_> = commands.collect();
            let keys: Vec<&[u8]> = entry_keys.iter().map(|entry_key| entry_key.entry()).collect();
            let replies = self
                .guarded_all(&keys, async |at| {
                    let admitted = at.iter().map(|&at| commands[at].clone());
                    self.client.send_all(admitted.collect()).await
                })
                .await;
            return replies.into_iter().map(|reply| bytes(reply?.into())).collect();
        }
        self.get_in_slices(entry_keys).await
    }

    /// Reads entries of one server, by MGETs of bounded size. How large entries are is known from those
    /// that were read before.
    async fn get_in_slices(&self, entry_keys: &[&EntryKey]) -> Vec<Result<Option<Bytes>>> {
        let believed = self.largest_bytes.load(Ordering::Relaxed);
        let count = (MAX_COMMAND_BYTES / believed.max(1)).clamp(1, MAX_COMMAND_MEMBERS);
        let slices = entry_keys.chunks(count).map(async |slice| {
            let mut get = cmd("MGET");
            for entry_key in slice {
                get.arg(entry_key.entry());
            }
            let key = slice[0].entry();
            self.guarded(key, || self.client.fetch(key, &get)).await
        });
        // Sent together, and on one connection: as good as one command.
        let replies = futures_util::future::join_all(slices).await;
        let (mut found, mut largest) = (Vec::with_capacity(entry_keys.len()), 0);
        for (slice, reply) in entry_keys.chunks(count).zip(replies) {
            match reply {
                Ok(Reply::Array(entries)) if entries.len() == slice.len() => {
                    for entry in entries {
                        let entry = bytes(entry);
                        if let Ok(Some(entry)) = &entry {
                            largest = entry.len().max(largest);
                        }
                        found.push(entry);
                    }
                }
                Ok(_) => {
                    let error = Error::unexpected("MGET without its entries");
                    found.extend(slice.iter().map(|_| Err(error.clone())));
                }
                Err(error) => found.extend(slice.iter().map(|_| Err(error.clone()))),
            }
        }
        if largest > 0 {
            // What is believed grows at once and shrinks slowly, except for the first guess.
            let shrunk = if believed >= MAX_COMMAND_BYTES { 0 } else { believed - believed / 64 };
            self.largest_bytes.store(largest.max(shrunk), Ordering::Relaxed);
        }
        found
    }

    /// Reads an entry, generations, and the number of the last clear where values carry tags.
    async fn get_all(&self, key: &[u8], generations: &[Vec<u8>]) -> Result<Vec<Value>> {
        let clears = self.tag_clears.is_some().then(|| self.names.clears());
        if self.client.topology() != Topology::Cluster {
            let mut get = cmd("MGET");
            get.arg(key).arg(generations).arg(clears);
            return match self.client.send(key, &get).await? {
                Value::Array(values) => Ok(values),
                _ => Err(Error::unexpected("MGET without an array")),
            };
        }
        let all = std::iter::once(key).chain(generations.iter().map(Vec::as_slice)).chain(clears);
        let commands = all.map(|key| {
            let mut get = cmd("GET");
            get.arg(key);
            (key.to_vec(), get)
        });
        self.client.send_all(commands.collect()).await.into_iter().collect()
    }

    /// Returns one number for all generations. One that is not there is begun: whatever was stored
    /// under it before it was lost must not count again.
    async fn stamp(&self, names: &[Vec<u8>], values: Vec<Value>) -> Result<u64> {
        let mut all = Vec::with_capacity(names.len());
        for (name, value) in names.iter().zip(values) {
            let generation: Option<u64> = redis::from_redis_value(value)?;
            all.push(match generation {
                Some(generation) => generation,
                None => self.guarded(name, || self.begin(name)).await?,
            });
        }
        Ok(stamp_of(&all))
    }

    /// Begins a generation or a counter that is not there, at the server's time. Returns what it is now.
    pub(crate) async fn begin(&self, name: &[u8]) -> Result<u64> {
        self.client.eval(&GENERATION.on(&[name]).arg("begin")).await
    }

    /// Ends what a bump names and announces it.
    pub(crate) async fn bump(&self, bump: &Bump) -> Result<()> {
        self.end(bump).await?;
        self.announce(&bump.message).await
    }

    /// Ends what a bump names: all entries from before are misses.
    ///
    /// # Errors
    /// One that leaves the outcome open, unless nothing was done.
    pub(crate) async fn end(&self, bump: &Bump) -> Result<()> {
        if let Some(tag) = bump.value_tag {
            self.clear_value_tag(tag).await?;
        }
        let Some(generation) = &bump.generation else { return Ok(()) };
        let ended = self.client.run(&GENERATION.on(&[generation]).arg("bump")).await.map(drop);
        if bump.value_tag.is_some() { ended.map_err(midway) } else { ended }
    }

    pub(crate) async fn run_guarded(&self, calls: &[ScriptInvocation]) -> Vec<Result<Value>> {
        let keys: Vec<&[u8]> = calls.iter().map(ScriptInvocation::key).collect();
        self.guarded_all(&keys, async |at| {
            let admitted: Vec<ScriptInvocation> = at.iter().map(|&at| calls[at].clone()).collect();
            self.client.run_all(&admitted).await
        })
        .await
    }

    /// Stores in the first of the keys.
    pub(crate) fn fill_call(&self, keys: &[&[u8]], token: u64, fill: &Fill) -> ScriptInvocation {
        FILL.on(keys)
            .arg(&token.to_be_bytes()[..])
            .arg(&[kind_byte(fill.kind), fill.codec][..])
            .arg(millis(fill.ttl))
            .arg(millis(fill.max_stale))
            .arg(cost_and_shape(fill.cost, self.shape))
            .arg(&fill.stamp.generations.to_be_bytes()[..])
            .arg(&fill.bytes)
            .arg(self.names.wake(keys[0]))
    }

    /// Stores under a lease. Returns `None` if the lease is gone.
    ///
    /// Repeats a fill whose reply was lost: if the first one was carried out, the lease is gone and the
    /// second is refused, which is right for readers that began before.
    pub(crate) async fn fill(&self, key: &[u8], token: u64, fill: &Fill) -> Result<Option<Stored>> {
        let call = self.fill_call(&[key], token, fill);
        let (mut resends, mut doubt) = (0, Doubt::default());
        loop {
            let sent = self.client.network_clock().now();
            match self.guarded(key, || self.client.run(&call)).await {
                Ok(reply) => return self.stored(reply).await,
                Err(error)
                    if error.is_indeterminate() && resends < MAX_RESENDS && !self.hangs(sent) =>
                {
                    doubt.note(&error);
                    resends += 1;
                }
                Err(error) => return Err(doubt.report(error)),
            }
        }
    }

    /// Stores several, each under its lease.
    pub(crate) async fn fill_many(
        &self,
        fills: &[(Vec<u8>, u64, Fill)],
    ) -> Vec<Result<Option<Stored>>> {
        for (_, _, fill) in fills {
            self.largest_bytes.fetch_max(fill.bytes.len() + HEADER_BYTES, Ordering::Relaxed);
        }
        let mut stored = Vec::with_capacity(fills.len());
        let mut rest = fills;
        while !rest.is_empty() {
            // So many at once that a slow connection still answers in time.
            let mut bytes = 0;
            let fits = rest.iter().take_while(|(_, _, fill)| {
                bytes += fill.bytes.len();
                bytes <= FILLED_AT_ONCE_BYTES
            });
            let (now, later) = rest.split_at(fits.count().max(1));
            rest = later;
            let calls: Vec<ScriptInvocation> =
                now.iter().map(|(key, token, fill)| self.fill_call(&[key], *token, fill)).collect();
            for reply in self.run_guarded(&calls).await {
                stored.push(match reply {
                    Ok(reply) => self.stored(reply).await,
                    Err(error) => Err(error),
                });
            }
        }
        stored
    }

    async fn stored(&self, reply: Value) -> Result<Option<Stored>> {
        let (stored, replaced) = parse_stored(reply)?;
        self.retire(replaced).await;
        Ok(stored)
    }

    /// Lets replaced parts end; most values have none.
    pub(crate) async fn retire(&self, manifest: Option<Value>) {
        if let Some(Value::BulkString(manifest)) = manifest
            && let Some(manifest) = Manifest::read(&manifest)
        {
            self.parts.retire(&manifest).await;
        }
    }

    /// Keeps an entry fresh for longer.
    pub(crate) async fn slide(&self, key: &[u8], version: u64, ttl: Duration) -> Result<()> {
        let call = SLIDE.on(&[key]).arg(&version.to_be_bytes()[..]).arg(millis(ttl));
        self.guarded(key, || self.client.run(&call)).await.map(drop)
    }

    /// Stores what a versioned source says.
    pub(crate) async fn put_if_newer(
        &self,
        key: &[u8],
        version: u64,
        fill: &Fill,
        message: &[u8],
    ) -> Result<Versioned> {
        let call = PUT_IF_NEWER
            .on(&self.written_keys(key))
            .arg(&version.to_be_bytes()[..])
            .arg(&[kind_byte(fill.kind), fill.codec][..])
            .arg(millis(fill.ttl))
            .arg(millis(fill.max_stale))
            .arg(cost_and_shape(Duration::ZERO, self.shape))
            .arg(&fill.stamp.generations.to_be_bytes()[..])
            .arg(&fill.bytes)
            .arg(self.names.wake(key))
            .arg(self.names.channel())
            .arg(message)
            .arg(if self.tag_clears.is_some() { SEAL_BYTES } else { 0 });
        let mut reply = self.guarded(key, || self.client.eval::<Vec<Value>>(&call)).await?;
        if reply.len() == 3 {
            self.retire(reply.pop()).await;
        }
        match reply.as_slice() {
            [Value::BulkString(word), Value::Int(version)] if word == b"stored" => {
                Ok(Versioned::Stored(version.unsigned_abs()))
            }
            [Value::BulkString(word), Value::Int(version)] if word == b"equal" => {
                Ok(Versioned::Equal(version.unsigned_abs()))
            }
            [Value::BulkString(word)] if word == b"older" => Ok(Versioned::Older),
            [Value::BulkString(word)] if word == b"same" => Ok(Versioned::Same),
            other => Err(Error::unexpected(format!("a versioned write that says {other:?}"))),
        }
    }
}

/// Returns one number for generations, in their order; 0 for an entry that has none.
pub(crate) fn stamp_of(generations: &[u64]) -> u64 {
    if generations.is_empty() {
        return 0;
    }
    let text: Vec<u8> = generations.iter().flat_map(|number| number.to_be_bytes()).collect();
    xxhash_rust::xxh3::xxh3_64(&text)
}

fn kind_byte(kind: Kind) -> u8 {
    match kind {
        Kind::Vacant => 0,
        Kind::Value => 1,
        Kind::Absent => 2,
    }
}

fn cost_and_shape(cost: Duration, shape: u32) -> Vec<u8> {
    let cost = u32::try_from(cost.as_micros()).unwrap_or(u32::MAX);
    [cost.to_be_bytes(), shape.to_be_bytes()].concat()
}
