//! A collection that is rebuilt from its source if Redis does not have it.
//!
//! An absent key has no meaning by itself: the set may be empty, expired, evicted or lost. So a
//! marker in a separate key says how many members the complete collection has, and every script
//! that reads or changes the collection compares the two. There is no placeholder *in* the
//! collection, which every count and page would have to skip.
//!
//! ```text
//! KIND:{NAME:SUBJECT}          the collection
//! KIND:{NAME:SUBJECT}:ok       "count flag": how many members it has when it is complete
//! KIND:{NAME:SUBJECT}:lease    token of the process that rebuilds it
//! KIND:{NAME:SUBJECT}:new:T    what is being built
//! ```
//!
//! One process rebuilds, holding a lease; the others poll. One script publishes what was read, and
//! only while the process still holds the lease: a concurrent change takes the lease away, since
//! the source may have been read before that change.
//!
//! Invariant: marker and collection agree, or no script uses the collection.

use std::time::Duration;

use redis::{FromRedisValue, cmd};
use seawall_client::{
    client::{Client, Script, ScriptInvocation},
    error::{Error, Result},
};
use seawall_resilience::clock::millis;

use super::{Point, SLICE, template::beside};

/// How long a rebuild may take before another process may begin one.
const LEASE: Duration = Duration::from_secs(5);
/// How long a caller waits for a complete collection.
const PATIENCE: Duration = Duration::from_secs(15);
/// Delays between polls while another process rebuilds.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 10..=49;
/// Commands in one pipeline.
const SLICES_AT_ONCE: usize = 16;

static TAKE: Script = Script::new(include_str!("script/take.lua"));
static PUBLISH: Script = Script::new(include_str!("script/publish.lua"));
static UNLEASE: Script = Script::new(include_str!("script/unlease.lua"));

/// What precedes a member in the command that adds it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rank {
    /// Nothing, in a set.
    None,
    /// Its score, in a sorted set.
    Score(i64),
    /// Its position, in a geo set.
    At(Point),
}

/// The contents of the source: every member once, or the collection would never match its count.
pub(super) struct Snapshot {
    members: Vec<(Rank, Vec<u8>)>,
    /// One digit that the structure keeps beside the count.
    flag: u8,
}

impl Snapshot {
    /// Creates a snapshot. If a member occurs twice, the first one counts.
    pub(super) fn new(mut members: Vec<(Rank, Vec<u8>)>, flag: u8) -> Self {
        members.sort_by(|(_, one), (_, other)| one.cmp(other));
        members.dedup_by(|(_, later), (_, first)| later == first);
        Snapshot { members, flag }
    }
}

/// The type of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Set,
    SortedSet,
    /// A sorted set by the positions of its members.
    GeoSet,
}

impl Kind {
    fn count(self) -> &'static str {
        match self {
            Kind::Set => "SCARD",
            Kind::SortedSet | Kind::GeoSet => "ZCARD",
        }
    }

    fn add(self) -> &'static str {
        match self {
            Kind::Set => "SADD",
            Kind::SortedSet => "ZADD",
            Kind::GeoSet => "GEOADD",
        }
    }
}

/// Replies of `take.lua`.
struct Taken;

impl Taken {
    const OURS: u8 = 1;
    const COMPLETE: u8 = 2;
}

/// A collection that has a source: its keys, and how it becomes complete.
#[derive(Debug, Clone)]
pub(super) struct Rebuilt {
    pub(super) client: Client,
    pub(super) key: Vec<u8>,
    pub(super) marker: Vec<u8>,
    pub(super) lease: Vec<u8>,
    /// Longest time for which it is used.
    lifetime: Duration,
    kind: Kind,
}

impl Rebuilt {
    pub(super) fn new(client: &Client, kind: Kind, key: Vec<u8>, lifetime: Duration) -> Self {
        let (marker, lease) = (beside(&key, ":ok"), beside(&key, ":lease"));
        Rebuilt { client: client.clone(), key, marker, lease, lifetime, kind }
    }

    /// Runs a script that returns nil while the collection is not complete, and rebuilds the
    /// collection until it is.
    pub(super) async fn eval<T, Load>(
        &self,
        call: &ScriptInvocation,
        load: impl Fn() -> Load,
    ) -> Result<T>
    where
        T: FromRedisValue,
        Load: Future<Output = Result<Snapshot>>,
    {
        self.complete(|| self.client.eval::<Option<T>>(call), load).await
    }

    /// Runs an operation that returns `None` while the collection is not complete, and rebuilds the
    /// collection until it is.
    pub(super) async fn complete<T, Op, Load>(
        &self,
        operation: impl Fn() -> Op,
        load: impl Fn() -> Load,
    ) -> Result<T>
    where
        Op: Future<Output = Result<Option<T>>>,
        Load: Future<Output = Result<Snapshot>>,
    {
        let clock = self.client.clock();
        let began = clock.now();
        loop {
            if let Some(done) = operation().await? {
                return Ok(done);
            }
            if clock.now().since(began) >= PATIENCE {
                return Err(Error::Source(
                    format!("a collection was not rebuilt within {PATIENCE:?}").into(),
                ));
            }
            self.build(&load).await?;
        }
    }

    /// Rebuilds the collection, or waits a moment while another process does.
    async fn build<Load>(&self, load: &impl Fn() -> Load) -> Result<()>
    where
        Load: Future<Output = Result<Snapshot>>,
    {
        let client = &self.client;
        let token = format!("{:032x}", client.randomness().u128());
        let take = TAKE.on(&[&self.key, &self.marker, &self.lease]).arg(&token);
        match client.eval(&take.arg(millis(LEASE)).arg(self.kind.count())).await? {
            Taken::OURS => {}
            // Another process was quicker.
            Taken::COMPLETE => return Ok(()),
            _ => {
                let pause = Duration::from_millis(client.randomness().within(PAUSE_MS));
                client.clock().sleep(pause).await;
                return Ok(());
            }
        }
        let built = match load().await {
            Ok(snapshot) => self.publish(&token, &snapshot).await,
            Err(error) => Err(error),
        };
        if built.is_err() {
            // So that the next process need not wait for the lease to expire.
            let _ = client.run(&UNLEASE.on(&[&self.lease]).arg(&token)).await;
        }
        built
    }

    async fn publish(&self, token: &str, snapshot: &Snapshot) -> Result<()> {
        let new = beside(&self.key, &format!(":new:{token}"));
        let mut commands = Vec::new();
        for slice in snapshot.members.chunks(SLICE) {
            let mut add = cmd(self.kind.add());
            add.arg(&new);
            for (rank, member) in slice {
                match rank {
                    Rank::None => &mut add,
                    Rank::Score(score) => add.arg(score),
                    Rank::At(point) => add.arg(point.longitude).arg(point.latitude),
                }
                .arg(member);
            }
            commands.push((new.clone(), add));
            let mut expire = cmd("PEXPIRE");
            expire.arg(&new).arg(2 * millis(LEASE));
            commands.push((new.clone(), expire));
        }
        for pipeline in commands.chunks(2 * SLICES_AT_ONCE) {
            for reply in self.client.send_all(pipeline.to_vec()).await {
                reply?;
            }
        }
        let call = PUBLISH
            .on(&[&self.key, &self.marker, &self.lease, &new])
            .arg(token)
            .arg(snapshot.members.len())
            .arg(snapshot.flag)
            .arg(millis(self.lifetime))
            .arg(self.kind.count());
        // Refused after a concurrent change: the caller sees an incomplete collection and tries
        // again.
        self.client.run(&call).await.map(drop)
    }

    /// Deletes the collection, so that the next reader rebuilds it. Safe to retry.
    pub(super) async fn forget(&self) -> Result<()> {
        let mut command = cmd("UNLINK");
        command.arg(&self.marker).arg(&self.key).arg(&self.lease);
        self.client.send(&self.key, &command).await.map(drop)
    }
}
