//! The handle: who counts, who is told, who fetches.
//!
//! There is one for each [`Seawall`], made when it is first asked for. Its tasks start with the first
//! cache. It knows caches as weak [`Shelf`]s: a cache that is dropped is forgotten.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use metrics::{Counter, Gauge};
use redis::Value;
use serde::Serialize;

use super::{
    board::{Board, Change, Hot},
    fleet,
    rule::{HotRule, HotRules},
    sketch::Sketch,
    wire::{HotKey, SHARDS, shard},
};
use crate::{
    Seawall,
    clock::{Clock, Moment},
    error::{Error, Result},
    link::{Call, Link, Script},
};

static LIST: Script = Script::new(include_str!("script/list.lua"));
static DECLARE: Script = Script::new(include_str!("script/declare.lua"));

/// Keys of one shard that may be hot at once.
pub(super) const MAX_HOT_IN_SHARD: usize = super::board::MAX_HOT / SHARDS as usize;
/// How much longer than Redis says a key stays hot here: the list that comes every second decides.
const GRACE: Duration = Duration::from_millis(2500);
/// Keys that are remembered to have cooled.
const MAX_COOLED: usize = 128;
/// The longest time that a key can be declared hot for.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// A cache, as hot keys know it.
pub(crate) trait Shelf: Send + Sync {
    /// The version of a fresh copy in memory; 0 without one.
    fn version(&self, entry: &[u8]) -> u64;
    /// Fetches entries into memory, in the background.
    fn warm(self: Arc<Self>, entries: Vec<HotKey>);
    /// An entry is no longer hot.
    fn cool(&self, entry: &[u8]);
}

/// A cache and its rules.
pub(crate) struct Member {
    pub(crate) entry_prefix: Vec<u8>,
    pub(crate) rules: HotRules,
    pub(crate) shelf: Weak<dyn Shelf>,
}

impl Member {
    pub(super) fn rule(&self, key: &[u8]) -> Option<&HotRule> {
        self.rules.of(key.strip_prefix(self.entry_prefix.as_slice())?)
    }
}

/// What happened to a key, for [`HotKeys::on_hot`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HotEvent {
    /// It is hot from now on.
    Hot(HotKey),
    /// It is not any more: the entry's key.
    Cool(Vec<u8>),
}

/// How hot keys stand in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HotStatus {
    /// Keys that are hot now.
    pub hot: usize,
    /// What the sketch holds.
    pub sketch_bytes: usize,
    /// Whether the last report reached Redis; without that only what is read here counts.
    pub fleet: bool,
}

type Listener = Box<dyn Fn(&HotEvent) + Send + Sync>;

/// The hot keys of a handle; a cheap clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use seawall::{Seawall, cache::Cache};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let goods: Cache<u64, String> = seawall.cache("goods").build()?;
///
/// // Everybody will want it at noon: every process has it before.
/// goods.declare_hot(&42, Duration::from_secs(3600)).await?;
/// let hot = seawall.hot_keys().fleet().await?;
/// assert_eq!(hot[0].key, "goods:42");
///
/// goods.undeclare_hot(&42).await?;
/// assert!(seawall.hot_keys().fleet().await?.is_empty());
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Clone)]
pub struct HotKeys {
    pub(super) shared: Arc<Shared>,
}

/// What the tasks and the caches share.
pub(super) struct Shared {
    pub(super) link: Link,
    pub(super) clock: Clock,
    prefix: String,
    pub(super) channel: Vec<u8>,
    /// Who reports: a number of this process.
    pub(super) source: [u8; 4],
    pub(super) sketch: Sketch,
    pub(super) board: Board,
    pub(super) members: RwLock<Vec<Member>>,
    listeners: RwLock<Vec<Listener>>,
    pub(super) metrics: Metrics,
    pub(super) reachable: AtomicBool,
    /// What cooled lately: an answer that was asked for before that does not know it.
    cooled: Mutex<VecDeque<(Moment, Vec<u8>)>>,
    started: OnceLock<()>,
}

pub(super) struct Metrics {
    promotions: Counter,
    demotions: Counter,
    pub(super) reports: Counter,
    pub(super) report_failures: Counter,
    hot: Gauge,
}

impl HotKeys {
    pub(crate) fn new(seawall: &Seawall) -> Self {
        let prefix = seawall.prefix().to_owned();
        let shared = Shared {
            link: seawall.link().clone(),
            clock: seawall.clock().clone(),
            channel: format!("{prefix}hot-keys").into_bytes(),
            prefix,
            source: rand::random(),
            sketch: Sketch::new(),
            board: Board::default(),
            members: RwLock::default(),
            listeners: RwLock::default(),
            metrics: Metrics {
                promotions: metrics::counter!("seawall_hot_promotions_total"),
                demotions: metrics::counter!("seawall_hot_demotions_total"),
                reports: metrics::counter!("seawall_hot_reports_total"),
                report_failures: metrics::counter!("seawall_hot_report_failures_total"),
                hot: metrics::gauge!("seawall_hot_keys"),
            },
            reachable: AtomicBool::new(true),
            cooled: Mutex::default(),
            started: OnceLock::new(),
        };
        HotKeys { shared: Arc::new(shared) }
    }

    /// Takes a cache in; the first one starts the tasks.
    pub(crate) fn join(&self, seawall: &Seawall, member: Member) {
        let shared = &self.shared;
        let mut members = shared.members.write().unwrap_or_else(PoisonError::into_inner);
        members.retain(|member| member.shelf.strong_count() > 0);
        members.push(member);
        let rules = members.iter().flat_map(|member| member.rules.each());
        shared.sketch.want(rules.map(fleet::floor).min().unwrap_or(u64::MAX));
        drop(members);
        shared.started.get_or_init(|| {
            seawall.spawn(fleet::listen(Arc::clone(shared), seawall.stopping()));
            seawall.spawn(fleet::report(Arc::clone(shared), seawall.stopping()));
        });
    }

    /// Counts a read of an entry, given by its whole key in Redis. Caches do this by themselves; it is
    /// for reads of a cache's entries that go past it.
    #[inline]
    pub fn count(&self, entry: &[u8]) {
        if self.wants_sample() {
            self.sample(entry);
        }
    }

    /// Whether the read that is going on is to be counted.
    #[inline]
    pub(crate) fn wants_sample(&self) -> bool {
        self.shared.sketch.wants_sample()
    }

    /// Counts a read that was wanted.
    pub(crate) fn sample(&self, entry: &[u8]) {
        self.shared.sketch.sample(entry);
    }

    pub(crate) fn wrote(&self, entry: &[u8]) {
        self.shared.board.wrote(entry);
    }

    pub(crate) fn get(&self, entry: &[u8]) -> Option<Arc<Hot>> {
        self.shared.board.get(entry)
    }

    pub(crate) fn is_hot(&self, entry: &[u8]) -> bool {
        self.shared.board.has(entry)
    }

    /// The keys that this process knows to be hot now, the most read first.
    #[must_use]
    pub fn here(&self) -> Vec<HotKey> {
        sorted(self.shared.board.all().iter().map(|hot| hot.known.clone()).collect())
    }

    /// What this process knows about an entry, if it is hot.
    #[must_use]
    pub fn find(&self, entry: &[u8]) -> Option<HotKey> {
        self.shared.board.get(entry).map(|hot| hot.known.clone())
    }

    /// The keys that are hot in the whole fleet now, the most read first; asks Redis.
    ///
    /// # Errors
    /// As [`Link::send`](crate::Link::send).
    pub async fn fleet(&self) -> Result<Vec<HotKey>> {
        let shards: Vec<u64> = (0..SHARDS).collect();
        let lists: Result<Vec<Vec<HotKey>>> = self.shared.list(&shards).await.into_iter().collect();
        Ok(sorted(lists?.into_iter().flatten().collect()))
    }

    /// Declares an entry hot for this long from now, in every process:
    /// [`Cache::declare_hot`](crate::cache::Cache::declare_hot) for its whole key in Redis.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a time of zero or more than a year, or when too many keys are hot; else
    /// as [`Link::send`](crate::Link::send). Declaring twice is the same as once.
    pub async fn declare(&self, entry: &[u8], lasting: Duration) -> Result<()> {
        if lasting < Duration::from_millis(1) || lasting > LONGEST {
            return Err(Error::Invalid(format!(
                "a key cannot be declared hot for {lasting:?}: between 1 ms and a year"
            )));
        }
        if !self.shared.declare(entry, lasting).await? {
            return Err(Error::Invalid(format!(
                "more than {MAX_HOT_IN_SHARD} keys of one shard are hot already"
            )));
        }
        Ok(())
    }

    /// Takes a declaration back; whether there was one. A key that is read often enough becomes hot
    /// again by itself.
    ///
    /// # Errors
    /// As [`Link::send`](crate::Link::send).
    pub async fn undeclare(&self, entry: &[u8]) -> Result<bool> {
        self.shared.declare(entry, Duration::ZERO).await
    }

    /// Calls `listener` whenever a key becomes hot or cool in this process. It must not block.
    pub fn on_hot(&self, listener: impl Fn(&HotEvent) + Send + Sync + 'static) {
        let mut listeners = self.shared.listeners.write().unwrap_or_else(PoisonError::into_inner);
        listeners.push(Box::new(listener));
    }

    /// How hot keys stand in this process.
    #[must_use]
    pub fn status(&self) -> HotStatus {
        HotStatus {
            hot: self.shared.board.len(),
            sketch_bytes: self.shared.sketch.size_bytes(),
            fleet: self.shared.reachable.load(Ordering::Relaxed),
        }
    }
}

impl Shared {
    /// `PREFIXkind:{SHARD}`.
    pub(super) fn key(&self, kind: &str, shard: u64) -> Vec<u8> {
        format!("{}{kind}:{{{shard}}}", self.prefix).into_bytes()
    }

    async fn declare(&self, entry: &[u8], lasting: Duration) -> Result<bool> {
        let call = DECLARE
            .on(&[self.key("hot-keys", shard(entry))])
            .arg(&self.channel)
            .arg(entry)
            .arg(u64::try_from(lasting.as_millis()).unwrap_or(u64::MAX))
            .arg(MAX_HOT_IN_SHARD);
        self.link.eval(&call).await
    }

    /// The hot keys of these shards, as Redis has them.
    pub(super) async fn list(&self, shards: &[u64]) -> Vec<Result<Vec<HotKey>>> {
        let calls: Vec<Call> = shards
            .iter()
            .map(|shard| LIST.on(&[self.key("hot-keys", *shard)]).arg(&self.channel))
            .collect();
        let replies = self.link.run_all(&calls).await;
        replies.into_iter().map(|reply| parse_list(reply?)).collect()
    }

    /// Whether a cache of this process has keys like this one.
    fn concerns(&self, key: &[u8]) -> bool {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        members.iter().any(|member| key.starts_with(&member.entry_prefix))
    }

    /// The caches that have this key.
    fn shelves(&self, key: &[u8]) -> Vec<Arc<dyn Shelf>> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        let with_key = members.iter().filter(|member| key.starts_with(&member.entry_prefix));
        with_key.filter_map(|member| member.shelf.upgrade()).collect()
    }

    /// The newest version that a cache of this process has in memory.
    pub(super) fn version(&self, key: &[u8]) -> u64 {
        self.shelves(key).iter().map(|shelf| shelf.version(key)).max().unwrap_or(0)
    }

    /// An answer that was asked for at this moment says that these keys are hot.
    pub(super) fn learn_since(&self, asked: Moment, mut known: Vec<HotKey>) {
        let cooled = self.cooled.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|hot| !cooled.iter().any(|(at, key)| *at >= asked && *key == hot.bytes));
        drop(cooled);
        self.learn(known);
    }

    /// Somebody says that these keys are hot.
    pub(super) fn learn(&self, known: Vec<HotKey>) {
        for hot in known {
            if !self.concerns(&hot.bytes) {
                continue;
            }
            let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
            let rule = members.iter().find_map(|member| member.rule(&hot.bytes));
            let change = self.board.put(hot.clone(), GRACE, rule, &self.clock);
            drop(members);
            if change == Change::Promoted {
                tracing::info!(key = hot.key, reads = hot.reads, "a key is hot");
                self.metrics.promotions.increment(1);
                self.metrics.hot.set(self.board.len() as f64);
                for shelf in self.shelves(&hot.bytes) {
                    shelf.warm(vec![hot.clone()]);
                }
                self.tell(&HotEvent::Hot(hot));
            }
        }
    }

    /// Fetches what is hot and not in memory: it was invalidated or has ended, and nobody read it here
    /// since.
    pub(super) fn warm(&self, known: &[HotKey]) {
        for hot in known {
            for shelf in self.shelves(&hot.bytes) {
                if shelf.version(&hot.bytes) == 0 {
                    shelf.warm(vec![hot.clone()]);
                }
            }
        }
    }

    /// Somebody says that a key is no longer hot.
    pub(super) fn forget(&self, key: &[u8]) {
        let mut cooled = self.cooled.lock().unwrap_or_else(PoisonError::into_inner);
        cooled.push_back((self.clock.now(), key.to_vec()));
        let beyond = cooled.len().saturating_sub(MAX_COOLED);
        cooled.drain(..beyond);
        drop(cooled);
        if !self.board.remove(key) {
            return;
        }
        tracing::info!(key = %String::from_utf8_lossy(key), "a key has cooled");
        self.metrics.demotions.increment(1);
        self.metrics.hot.set(self.board.len() as f64);
        self.shelves(key).iter().for_each(|shelf| shelf.cool(key));
        self.tell(&HotEvent::Cool(key.to_vec()));
    }

    fn tell(&self, event: &HotEvent) {
        let listeners = self.listeners.read().unwrap_or_else(PoisonError::into_inner);
        listeners.iter().for_each(|listener| listener(event));
    }
}

fn parse_list(reply: Value) -> Result<Vec<HotKey>> {
    let Value::Array(items) = reply else {
        return Err(Error::unexpected("a list of hot keys that is none"));
    };
    let mut items = items.into_iter();
    let now = match items.next() {
        Some(Value::Int(now)) => now.unsigned_abs(),
        _ => return Err(Error::unexpected("a list of hot keys without a time")),
    };
    let mut keys = Vec::new();
    while let (Some(Value::BulkString(key)), Some(Value::BulkString(line))) =
        (items.next(), items.next())
    {
        keys.extend(HotKey::parse(&key, &line, now));
    }
    Ok(keys)
}

fn sorted(mut keys: Vec<HotKey>) -> Vec<HotKey> {
    keys.sort_by(|a, b| b.reads.cmp(&a.reads).then_with(|| a.bytes.cmp(&b.bytes)));
    keys
}

impl Seawall {
    /// The hot keys of this handle's caches.
    #[must_use]
    pub fn hot_keys(&self) -> HotKeys {
        self.hot().clone()
    }
}

impl fmt::Debug for HotKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HotKeys").field("status", &self.status()).finish_non_exhaustive()
    }
}
