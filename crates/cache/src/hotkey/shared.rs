//! The state that the tasks of hot keys and the caches share, and what follows when a key becomes hot
//! or cool.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak, atomic::AtomicBool},
    time::Duration,
};

use metrics::{Counter, Gauge};
use redis::Value;
use seawall_client::{
    Handle,
    client::{Client, Script, ScriptInvocation},
    error::{Error, Result},
};
use seawall_resilience::clock::{Clock, Moment, millis};

use super::{
    board::{Board, Change},
    keys::HotEvent,
    rule::{HotRule, HotRules},
    sketch::Sketch,
    wire::{HotKey, SHARDS, shard},
};

static LIST: Script = Script::with_time(include_str!("script/list.lua"));
static DECLARE: Script = Script::with_time(include_str!("script/declare.lua"));

/// Keys of one shard that may be hot at once.
pub(super) const MAX_HOT_IN_SHARD: usize = super::board::MAX_HOT / SHARDS as usize;
/// How much longer than Redis says a key stays hot here: the list that comes every second decides.
const GRACE: Duration = Duration::from_millis(2500);
/// Keys that are remembered to have cooled.
const MAX_COOLED: usize = 128;

/// A cache, as hot keys know it.
pub(crate) trait HotKeySink: Send + Sync {
    /// Returns the version of a fresh copy in memory; 0 without one.
    fn version(&self, entry: &[u8]) -> u64;
    /// Fetches entries into memory, in the background.
    fn warm(self: Arc<Self>, entries: Vec<HotKey>);
    /// Lets go of an entry that is no longer hot.
    fn cool(&self, entry: &[u8]);
    /// Returns whether anything was read past its memory since this was last asked.
    fn was_read(&self) -> bool;
}

/// A cache and its rules.
pub(crate) struct Member {
    pub(crate) entry_prefix: Vec<u8>,
    pub(crate) rules: HotRules,
    pub(crate) sink: Weak<dyn HotKeySink>,
}

impl Member {
    pub(super) fn rule(&self, key: &[u8]) -> Option<&HotRule> {
        self.rules.of(key.strip_prefix(self.entry_prefix.as_slice())?)
    }
}

type Listener = Arc<dyn Fn(&HotEvent) + Send + Sync>;

/// What the tasks and the caches share.
pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) clock: Clock,
    prefix: String,
    pub(super) channel: Vec<u8>,
    /// Who reports: a number of this process.
    pub(super) source: [u8; 4],
    pub(super) sketch: Sketch,
    pub(super) board: Board,
    pub(super) members: RwLock<Vec<Member>>,
    pub(super) listeners: RwLock<Vec<Listener>>,
    pub(super) metrics: Metrics,
    pub(super) reachable: AtomicBool,
    /// What cooled lately: an answer that was asked for before that does not know it.
    cooled: Mutex<VecDeque<(Moment, Vec<u8>)>>,
    pub(super) started: OnceLock<()>,
}

pub(super) struct Metrics {
    promotions: Counter,
    demotions: Counter,
    pub(super) reports: Counter,
    pub(super) report_failures: Counter,
    hot: Gauge,
}

impl Shared {
    pub(super) fn new(handle: &Handle) -> Self {
        let prefix = handle.prefix().to_owned();
        Shared {
            client: handle.client().clone(),
            clock: handle.clock().clone(),
            channel: format!("{prefix}hot-keys").into_bytes(),
            prefix,
            source: (handle.randomness().u64() as u32).to_be_bytes(),
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
        }
    }

    /// `PREFIXkind:{SHARD}`.
    pub(super) fn key(&self, kind: &str, shard: u64) -> Vec<u8> {
        format!("{}{kind}:{{{shard}}}", self.prefix).into_bytes()
    }

    pub(super) async fn declare(&self, entry: &[u8], lasting: Duration) -> Result<bool> {
        let call = DECLARE
            .on(&[self.key("hot-keys", shard(entry))])
            .arg(&self.channel)
            .arg(entry)
            .arg(millis(lasting))
            .arg(MAX_HOT_IN_SHARD);
        self.client.eval(&call).await
    }

    /// Returns the hot keys of these shards, as Redis has them.
    pub(super) async fn list(&self, shards: &[u64]) -> Vec<Result<Vec<HotKey>>> {
        let calls: Vec<ScriptInvocation> = shards
            .iter()
            .map(|shard| LIST.on(&[self.key("hot-keys", *shard)]).arg(&self.channel))
            .collect();
        let replies = self.client.run_all(&calls).await;
        replies.into_iter().map(|reply| parse_list(reply?)).collect()
    }

    /// Returns whether a cache of this process has keys like this one.
    fn concerns(&self, key: &[u8]) -> bool {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        members.iter().any(|member| key.starts_with(&member.entry_prefix))
    }

    /// Returns whether a cache of this process was read past its memory since this was last asked.
    pub(super) fn was_read(&self) -> bool {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        let shelves = members.iter().filter_map(|member| member.sink.upgrade());
        shelves.filter(|sink| sink.was_read()).count() > 0
    }

    /// Returns the caches that have this key.
    fn shelves(&self, key: &[u8]) -> Vec<Arc<dyn HotKeySink>> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        let with_key = members.iter().filter(|member| key.starts_with(&member.entry_prefix));
        with_key.filter_map(|member| member.sink.upgrade()).collect()
    }

    /// Returns the newest version that a cache of this process has in memory.
    pub(super) fn version(&self, key: &[u8]) -> u64 {
        self.shelves(key).iter().map(|sink| sink.version(key)).max().unwrap_or(0)
    }

    /// An answer that was asked for at this moment says that these keys are hot.
    pub(super) fn learn_since(&self, asked: Moment, mut known: Vec<HotKey>) {
        let cooled = self.cooled.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|hot| !cooled.iter().any(|(at, key)| *at >= asked && *key == hot.bytes));
        drop(cooled);
        self.learn(known);
    }

    /// Takes in keys that are reported to be hot.
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
                for sink in self.shelves(&hot.bytes) {
                    sink.warm(vec![hot.clone()]);
                }
                self.tell(&HotEvent::Hot(hot));
            }
        }
    }

    /// Fetches what is hot and not in memory: it was invalidated or has ended, and it was not read here
    /// since.
    pub(super) fn warm(&self, known: &[HotKey]) {
        for hot in known {
            for sink in self.shelves(&hot.bytes) {
                if sink.version(&hot.bytes) == 0 {
                    sink.warm(vec![hot.clone()]);
                }
            }
        }
    }

    /// Lets go of a key that is reported to be no longer hot.
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
        self.shelves(key).iter().for_each(|sink| sink.cool(key));
        self.tell(&HotEvent::Cool(key.to_vec()));
    }

    /// Tells those who listen. They are code of others inside our tasks: one that panics is logged, and
    /// neither the other listeners nor the following of hot keys end with it. They are called without
    /// the lock, so one may add another.
    fn tell(&self, event: &HotEvent) {
        let listeners = self.listeners.read().unwrap_or_else(PoisonError::into_inner).clone();
        for listener in listeners {
            // What it left half done is its own: nothing of ours is borrowed to it.
            if catch_unwind(AssertUnwindSafe(|| listener(event))).is_err() {
                tracing::error!(
                    ?event,
                    "a listener for hot keys panicked; it is told the next event"
                );
            }
        }
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
