//! How evenly data and accesses are spread over slots and nodes.
//!
//! Data: keys by `SCAN`, up to a limit per node, each with its `MEMORY USAGE`; sums are scaled to
//! the node's `DBSIZE`. Accesses: the counters of each primary, read twice (`INFO stats`), per slot
//! from `CLUSTER SLOT-STATS` where the server has it (Redis 8.2, Valkey 8), and per key and slot
//! from `MONITOR` if that is requested. On a single server the slots are those that its keys would
//! have in a Cluster, to see the spread before a migration.

use std::time::Duration;

use redis::{Pipeline, Value, cmd};
use seawall_client::{
    Handle,
    client::{Address, SLOTS, Topology},
    error::Result,
};

use super::{
    NodeShare, Progress, Ratio, SkewReport, Source,
    end::{End, ending},
    listen::{Listen, listen},
    scan::{Route, Walk},
    skew_counts::{Slots, Stats, stats},
    skew_report::advise,
};

/// A survey of how evenly data and accesses are spread.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::{Seawall, cmd};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// seawall.client().send(b"k", cmd("SET").arg("k").arg("v")).await?;
/// let (report, _end) = seawall.skew_survey().run(|_| {}, std::future::pending()).await?;
/// assert_eq!((report.nodes.len(), report.used_slots), (1, 1));
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct SkewSurvey {
    handle: Handle,
    route: Route,
    sample: u64,
    top: usize,
    listen: Option<Listen>,
}

impl SkewSurvey {
    /// Creates a survey of how evenly data and accesses are spread over slots and nodes.
    pub fn new(handle: &Handle) -> SkewSurvey {
        let route = Route::default();
        SkewSurvey { handle: handle.clone(), route, sample: 100_000, top: 10, listen: None }
    }
}

impl SkewSurvey {
    /// Sets the rate in keys per second; 0 for as fast as the servers answer. Default: 10,000.
    pub fn rate(mut self, keys_per_second: u64) -> Self {
        self.route.rate = keys_per_second;
        self
    }

    /// Sets which servers to ask for data. Default: replicas where there are any.
    pub fn source(mut self, source: Source) -> Self {
        self.route.source = source;
        self
    }

    /// Sets how many keys of each node are examined. Default: 100,000.
    pub fn sample(mut self, keys: u64) -> Self {
        self.sample = keys.max(1);
        self
    }

    /// Sets how many slots the report names. Default: 10.
    pub fn top(mut self, slots: usize) -> Self {
        self.top = slots.min(SLOTS);
        self
    }

    /// Also reads the commands of the primaries with `MONITOR`: counts uses per slot and key, at a
    /// cost.
    pub fn listen(mut self, bounds: Listen) -> Self {
        self.listen = Some(bounds);
        self
    }

    /// Runs the survey, and calls `watch` with the progress.
    ///
    /// If `stop` becomes ready first, it ends with what it has found so far.
    ///
    /// # Errors
    /// The error that keeps the survey from starting.
    pub async fn run(
        &self,
        mut watch: impl FnMut(&Progress),
        stop: impl Future<Output = ()>,
    ) -> Result<(SkewReport, End)> {
        let client = self.handle.client();
        let clock = client.network_clock();
        let started = clock.now();
        let mut walk = Walk::begin(client, &self.route).await?;
        let primaries: Vec<Address> =
            walk.places().iter().map(|place| place.primary.clone()).collect();
        let mut report = SkewReport::default();
        for place in walk.places() {
            let name = place.primary.to_string().into();
            report.nodes.push(NodeShare { name, keys: place.keys, ..NodeShare::default() });
        }
        let mut connections = Vec::new();
        for primary in &primaries {
            connections.push(client.dedicated_at(primary.clone()).await?);
        }
        let before = stats(&mut connections, client.topology()).await?;
        let looked_at = clock.now();
        let mut slots = Slots::new();
        let mut sampled = vec![0u64; primaries.len()];
        tokio::pin!(stop);
        let look = self.data(&mut walk, &mut slots, &mut report, &mut sampled, &mut watch);
        let mut end = ending(look, &mut stop).await;
        if let (Some(bounds), End::Complete) = (self.listen, &end) {
            let (heard, ended) = listen(&self.handle, bounds, &mut stop).await?;
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
            let after = stats(&mut connections, client.topology()).await?;
            let between = clock.now().since(looked_at);
            self.accesses(&mut report, &mut slots, (&before, &after), between);
        }
        report.notes.push("commands of nodes: by INFO, those of this survey among them".into());
        report.sampled = sampled.iter().sum();
        report.notes.append(&mut walk.notes);
        report.took = clock.now().since(started);
        self.conclude(&mut report, slots, client.topology());
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
                // Error or nil: the key was deleted or moved.
                let Ok(Value::Int(bytes)) = reply else { continue };
                let bytes = bytes.unsigned_abs();
                share.bytes += bytes;
                sampled[page.at] += 1;
                slots.holds(key, &share.name, bytes);
            }
            watch(&walk.progress);
            if sampled[page.at] >= self.sample {
                // The rest of this node is assumed to be like the sample.
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
