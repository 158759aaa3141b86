//! How evenly data and accesses lie on slots and nodes.
//!
//! Data: keys by `SCAN`, at most so many a node, each with its `MEMORY USAGE`; sums are scaled to the
//! node's `DBSIZE`. Accesses: what each primary counts between two looks (`INFO stats`), by slot from
//! `CLUSTER SLOT-STATS` where the server has it (Redis 8.2, Valkey 8), and by key and slot from
//! `MONITOR` when that is asked for. On a lone server the slots are those that its keys would have in
//! a Cluster: what it would look like, before one moves.
//!
//! A slot is the smallest thing a Cluster can move: when one slot is the trouble, no rebalancing
//! helps, and the key in it has to be split or copied. The advice says which of both it is.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use redis::{FromRedisValue, Pipeline, Value, cmd};

use super::{
    End, Progress, Source,
    hot::{Listen, ending, listen},
    key_text,
    place::COMMAND_LIMIT,
    scan::{Route, Walk},
};
use crate::{
    Seawall,
    error::Result,
    link::{Lane, SLOTS, Topology, dial::Address, slot},
};

/// More than this times the mean is skew.
const SKEWED: f64 = 1.5;
/// A slot that holds more than this part of its node's data or accesses is a trouble of its own.
const HEAVY: f64 = 0.25;

/// One node's share.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct NodeShare {
    /// The primary's address.
    pub name: Arc<str>,
    /// Its keys, by `DBSIZE`.
    pub keys: u64,
    /// Memory of its keys, from the sample.
    pub bytes: u64,
    /// Commands a second while it was looked at.
    pub commands_per_second: f64,
    /// Key lookups a second, hits and misses.
    pub lookups_per_second: f64,
    /// Uses that `MONITOR` heard.
    pub heard: u64,
}

/// One slot's share.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SlotShare {
    /// Its number.
    pub slot: u16,
    /// The primary that has it.
    pub node: Arc<str>,
    /// Its keys, from the sample.
    pub keys: u64,
    /// Their memory, from the sample.
    pub bytes: u64,
    /// Its largest key in the sample, and that one's memory.
    pub largest: Option<(Arc<[u8]>, u64)>,
    /// Uses: heard by `MONITOR`, or microseconds of CPU time by `CLUSTER SLOT-STATS`.
    pub uses: u64,
    /// The key that was used most, and how often; from `MONITOR`.
    pub hottest: Option<(Arc<[u8]>, u64)>,
}

/// How uneven something is: the largest share against the mean; 1 is even.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Ratio(pub f64);

impl Ratio {
    fn of(shares: impl Iterator<Item = f64>, count: usize) -> Self {
        let (sum, most) =
            shares.fold((0.0, 0.0f64), |(sum, most), share| (sum + share, most.max(share)));
        if sum > 0.0 { Ratio(most * count as f64 / sum) } else { Ratio(1.0) }
    }
}

/// What was found.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SkewReport {
    /// Nodes, as the Cluster lists them.
    pub nodes: Vec<NodeShare>,
    /// The slots with most memory.
    pub heavy_slots: Vec<SlotShare>,
    /// The slots with most uses; empty when uses are not known by slot.
    pub hot_slots: Vec<SlotShare>,
    /// Slots that have a key in the sample.
    pub used_slots: usize,
    /// Memory of nodes.
    pub node_bytes: Ratio,
    /// Commands of nodes.
    pub node_commands: Ratio,
    /// Memory of the slots that have any.
    pub slot_bytes: Ratio,
    /// Uses of the slots that have any.
    pub slot_uses: Ratio,
    /// Keys that were looked at.
    pub sampled: u64,
    /// How long it took.
    pub took: Duration,
    /// What could be done.
    pub advice: Vec<String>,
    /// What a reader of the figures should know.
    pub notes: Vec<String>,
}

/// A look at how evenly data and accesses lie.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::{Seawall, cmd};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// seawall.link().send(b"k", cmd("SET").arg("k").arg("v")).await?;
/// let (report, _end) = seawall.skew_survey().run(|_| {}, std::future::pending()).await?;
/// assert_eq!((report.nodes.len(), report.used_slots), (1, 1));
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct SkewSurvey {
    seawall: Seawall,
    route: Route,
    sample: u64,
    top: usize,
    listen: Option<Listen>,
}

impl Seawall {
    /// Begins a look at how evenly data and accesses lie on slots and nodes.
    pub fn skew_survey(&self) -> SkewSurvey {
        let route = Route::default();
        SkewSurvey { seawall: self.clone(), route, sample: 100_000, top: 10, listen: None }
    }
}

/// Sums by slot.
struct Slots {
    all: Vec<SlotShare>,
}

/// What a primary has counted so far.
struct Stats {
    commands: u64,
    lookups: u64,
    /// CPU time by slot.
    slots: HashMap<u16, u64>,
}

impl SkewSurvey {
    /// At most this many keys a second; 0 for as fast as the servers answer. 10,000 without it.
    pub fn rate(mut self, keys_per_second: u64) -> Self {
        self.route.rate = keys_per_second;
        self
    }

    /// Whom to ask for data; replicas where there are any without it.
    pub fn source(mut self, source: Source) -> Self {
        self.route.source = source;
        self
    }

    /// How many keys of each node are looked at; 100,000 without it.
    pub fn sample(mut self, keys: u64) -> Self {
        self.sample = keys.max(1);
        self
    }

    /// How many slots are named; 10 without it.
    pub fn top(mut self, slots: usize) -> Self {
        self.top = slots.min(SLOTS);
        self
    }

    /// Listens to the primaries as well: uses by slot and key, at a cost.
    pub fn listen(mut self, bounds: Listen) -> Self {
        self.listen = Some(bounds);
        self
    }

    /// Looks, and tells `watch` how far it is. When `stop` is ready first, it ends with what it has.
    ///
    /// # Errors
    /// What keeps it from beginning.
    pub async fn run(
        &self,
        mut watch: impl FnMut(&Progress),
        stop: impl Future<Output = ()>,
    ) -> Result<(SkewReport, End)> {
        let started = Instant::now();
        let link = self.seawall.link();
        let mut walk = Walk::begin(link, &self.route).await?;
        let primaries: Vec<Address> =
            walk.places().iter().map(|place| place.primary.clone()).collect();
        let mut report = SkewReport::default();
        for place in walk.places() {
            let name = place.primary.to_string().into();
            report.nodes.push(NodeShare { name, keys: place.keys, ..NodeShare::default() });
        }
        let mut lanes = Vec::new();
        for primary in &primaries {
            lanes.push(link.lane_at(primary.clone()).await?);
        }
        let before = stats(&mut lanes, link.topology()).await?;
        let looked_at = Instant::now();
        let mut slots = Slots::new();
        let mut sampled = vec![0u64; primaries.len()];
        tokio::pin!(stop);
        let look = self.data(&mut walk, &mut slots, &mut report, &mut sampled, &mut watch);
        let mut end = ending(look, &mut stop).await;
        if let (Some(bounds), End::Complete) = (self.listen, &end) {
            let (heard, ended) = listen(&self.seawall, bounds, &mut stop).await?;
            end = ended;
            for (node, counts) in &heard.counts {
                let share = report.nodes.iter_mut().find(|share| share.name == *node);
                let mut sum = 0;
                for (key, count) in counts.iter() {
                    sum += count.reads + count.writes;
                    slots.used(key, node, count.reads + count.writes);
                }
                if let Some(share) = share {
                    share.heard = sum;
                }
            }
            report.notes.push(format!("uses by slot: {} heard by MONITOR", heard.uses));
        }
        if !matches!(end, End::Failed(_)) {
            let after = stats(&mut lanes, link.topology()).await?;
            self.accesses(&mut report, &mut slots, (&before, &after), looked_at.elapsed());
        }
        report.notes.push("commands of nodes: by INFO, those of this survey among them".into());
        report.sampled = sampled.iter().sum();
        report.notes.append(&mut walk.notes);
        report.took = started.elapsed();
        self.conclude(&mut report, slots, link.topology());
        Ok((report, end))
    }

    async fn data(
        &self,
        walk: &mut Walk,
        slots: &mut Slots,
        report: &mut SkewReport,
        sampled: &mut [u64],
        watch: &mut impl FnMut(&Progress),
    ) -> Result<()> {
        while let Some(page) = walk.next(&mut *watch).await? {
            let mut pipeline = Pipeline::with_capacity(page.keys.len());
            for key in &page.keys {
                pipeline.add_command(cmd("MEMORY").arg("USAGE").arg(key).take());
            }
            let replies = match page.keys.is_empty() {
                true => Vec::new(),
                false => walk.ask(&pipeline).await?,
            };
            let share = &mut report.nodes[page.at];
            for (key, reply) in page.keys.iter().zip(replies) {
                // Refused or nil: it went away or moved.
                let Ok(Value::Int(bytes)) = reply else { continue };
                let bytes = bytes.unsigned_abs();
                share.bytes += bytes;
                sampled[page.at] += 1;
                slots.holds(key, &share.name, bytes);
            }
            watch(&walk.progress);
            if sampled[page.at] >= self.sample {
                // The rest of this node is taken to be like the sample.
                share.bytes = scaled(share.bytes, share.keys, sampled[page.at]);
                report.notes.push(format!(
                    "{}: {} of {} keys sampled, memory scaled up",
                    share.name, sampled[page.at], share.keys
                ));
                walk.leave();
            }
        }
        Ok(())
    }

    fn accesses(
        &self,
        report: &mut SkewReport,
        slots: &mut Slots,
        (before, after): (&[Stats], &[Stats]),
        between: Duration,
    ) {
        let seconds = between.as_secs_f64().max(0.001);
        for ((share, before), after) in report.nodes.iter_mut().zip(before).zip(after) {
            let grown = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
            share.commands_per_second = grown(before.commands, after.commands);
            share.lookups_per_second = grown(before.lookups, after.lookups);
            if self.listen.is_none() {
                for (slot, time) in &after.slots {
                    let grown = time.saturating_sub(before.slots.get(slot).copied().unwrap_or(0));
                    slots.spent(*slot, &share.name, grown);
                }
            }
        }
        if self.listen.is_none() && after.iter().any(|stats| !stats.slots.is_empty()) {
            report.notes.push("uses by slot: microseconds by CLUSTER SLOT-STATS".into());
        }
    }

    fn conclude(&self, report: &mut SkewReport, slots: Slots, topology: Topology) {
        let nodes = report.nodes.len();
        report.node_bytes = Ratio::of(report.nodes.iter().map(|node| node.bytes as f64), nodes);
        let commands = report.nodes.iter().map(|node| node.commands_per_second);
        report.node_commands = Ratio::of(commands, nodes);
        let mut all: Vec<_> =
            slots.all.into_iter().filter(|slot| slot.keys > 0 || slot.uses > 0).collect();
        report.used_slots = all.iter().filter(|slot| slot.keys > 0).count();
        let bytes = all.iter().map(|slot| slot.bytes as f64);
        report.slot_bytes = Ratio::of(bytes, report.used_slots.max(1));
        let used = all.iter().filter(|slot| slot.uses > 0).count();
        report.slot_uses = Ratio::of(all.iter().map(|slot| slot.uses as f64), used.max(1));
        all.sort_by_key(|slot| std::cmp::Reverse(slot.bytes));
        report.heavy_slots = all.iter().take(self.top).cloned().collect();
        all.sort_by_key(|slot| std::cmp::Reverse(slot.uses));
        let hot = all.into_iter().take_while(|slot| slot.uses > 0);
        report.hot_slots = hot.take(self.top).collect();
        advise(report, topology);
    }
}

fn scaled(bytes: u64, keys: u64, sampled: u64) -> u64 {
    let all = u128::from(bytes) * u128::from(keys.max(sampled)) / u128::from(sampled.max(1));
    u64::try_from(all).unwrap_or(u64::MAX)
}

/// What could be done.
fn advise(report: &mut SkewReport, topology: Topology) {
    let bytes: u64 = report.nodes.iter().map(|node| node.bytes).sum();
    let uses: u64 = report.hot_slots.iter().map(|slot| slot.uses).sum();
    let mut advice = Vec::new();
    if let Some(heavy) = report.heavy_slots.first()
        && let Some((key, size)) = &heavy.largest
        && report.used_slots > 1
    {
        let node = report.nodes.iter().find(|node| node.name == heavy.node);
        let part = heavy.bytes as f64 / node.map_or(bytes, |node| node.bytes).max(1) as f64;
        if part > HEAVY && *size * 2 > heavy.bytes {
            let key = key_text(key);
            advice.push(format!(
                "slot {} is {:.0} % of its node's memory, and {key} is most of it: no rebalancing \
                 moves less than a slot, so split that key (docs: big keys)",
                heavy.slot,
                part * 100.0
            ));
        } else if part > HEAVY {
            advice.push(format!(
                "slot {} is {:.0} % of its node's memory in {} keys: they share a hash tag; use a \
                 finer one",
                heavy.slot,
                part * 100.0,
                heavy.keys
            ));
        }
    }
    if let Some(hot) = report.hot_slots.first()
        && uses > 0
        && hot.uses as f64 > HEAVY * uses as f64
    {
        let part = 100.0 * hot.uses as f64 / uses as f64;
        advice.push(match &hot.hottest {
            Some((key, count)) if *count * 2 > hot.uses => format!(
                "slot {} takes {part:.0} % of the uses, {} most of them: keep that key in the first \
                 level of the cache, or spread copies of it (docs: hot keys)",
                hot.slot,
                key_text(key)
            ),
            _ => format!("slot {} takes {part:.0} % of the uses: spread its keys", hot.slot),
        });
    }
    if topology == Topology::Cluster && advice.is_empty() {
        for (ratio, what) in [(report.node_bytes, "memory"), (report.node_commands, "commands")] {
            if ratio.0 > SKEWED {
                advice.push(format!(
                    "one node has {:.1} times the mean of {what}, spread over many slots: move \
                     slots (redis-cli --cluster rebalance)",
                    ratio.0
                ));
            }
        }
    }
    if topology != Topology::Cluster {
        report.notes.push("no Cluster: slots are those that the keys would have in one".into());
    }
    report.advice = advice;
}

impl Slots {
    fn new() -> Self {
        let share = |slot| SlotShare { slot, ..SlotShare::default() };
        Slots { all: (0..SLOTS as u16).map(share).collect() }
    }

    fn of(&mut self, key: &[u8], node: &Arc<str>) -> &mut SlotShare {
        let share = &mut self.all[usize::from(slot(key))];
        share.node = Arc::clone(node);
        share
    }

    fn holds(&mut self, key: &[u8], node: &Arc<str>, bytes: u64) {
        let share = self.of(key, node);
        share.keys += 1;
        share.bytes += bytes;
        if share.largest.as_ref().is_none_or(|(_, most)| bytes > *most) {
            share.largest = Some((key.into(), bytes));
        }
    }

    fn used(&mut self, key: &[u8], node: &Arc<str>, uses: u64) {
        let share = self.of(key, node);
        share.uses += uses;
        if share.hottest.as_ref().is_none_or(|(_, most)| uses > *most) {
            share.hottest = Some((key.into(), uses));
        }
    }

    fn spent(&mut self, slot: u16, node: &Arc<str>, micros: u64) {
        if let Some(share) = self.all.get_mut(usize::from(slot)) {
            share.node = Arc::clone(node);
            share.uses += micros;
        }
    }
}

async fn stats(lanes: &mut [Lane], topology: Topology) -> Result<Vec<Stats>> {
    let mut all = Vec::new();
    for lane in lanes {
        let info: String = lane.send(cmd("INFO").arg("stats"), COMMAND_LIMIT).await?;
        let field = |name: &str| -> u64 {
            let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
        };
        let mut slots = HashMap::new();
        if topology == Topology::Cluster {
            let mut command = cmd("CLUSTER");
            command.arg("SLOT-STATS").arg("SLOTSRANGE").arg(0).arg(SLOTS - 1);
            // A server that does not know it refuses.
            if let Ok(reply) = lane.send::<Value>(&command, COMMAND_LIMIT).await {
                slots = slot_stats(&reply);
            }
        }
        all.push(Stats {
            commands: field("total_commands_processed"),
            lookups: field("keyspace_hits") + field("keyspace_misses"),
            slots,
        });
    }
    Ok(all)
}

/// `[[slot, [name, value, …]], …]`: CPU time by slot.
fn slot_stats(reply: &Value) -> HashMap<u16, u64> {
    let Value::Array(entries) = reply else { return HashMap::new() };
    let read = |entry: &Value| -> Option<(u16, u64)> {
        let Value::Array(entry) = entry else { return None };
        let [slot, fields] = entry.as_slice() else { return None };
        let fields: HashMap<String, u64> = HashMap::from_redis_value_ref(fields).ok()?;
        Some((u16::from_redis_value_ref(slot).ok()?, *fields.get("cpu-usec")?))
    };
    entries.iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_stats_are_read() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let fields =
            Value::Array(vec![text("key-count"), Value::Int(2), text("cpu-usec"), Value::Int(77)]);
        let reply = Value::Array(vec![Value::Array(vec![Value::Int(5), fields]), Value::Nil]);
        assert_eq!(slot_stats(&reply), HashMap::from([(5, 77)]));
    }

    #[test]
    fn ratios_are_the_largest_against_the_mean() {
        assert_eq!(Ratio::of([1.0, 1.0, 4.0].into_iter(), 3), Ratio(2.0));
        assert_eq!(Ratio::of([0.0].into_iter(), 1), Ratio(1.0));
    }
}
