//! The report of a skew survey: shares of nodes and slots, how uneven they are, and advice.
//!
//! A slot is the smallest unit that a Cluster can move. If one slot is the problem, rebalancing
//! does not help, and the key in it has to be split or copied. The advice says which of the two
//! applies.

use std::{sync::Arc, time::Duration};

use seawall_client::client::Topology;

use super::key_text;

/// More than this times the mean is skew.
const SKEWED: f64 = 1.5;
/// A slot with more than this share of its node's data or accesses is a problem by itself.
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
    /// Commands per second during the survey.
    pub commands_per_second: f64,
    /// Key lookups per second, hits and misses.
    pub lookups_per_second: f64,
    /// Uses that `MONITOR` showed.
    pub heard: u64,
}

/// One slot's share.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SlotShare {
    /// Number of the slot.
    pub slot: u16,
    /// The primary that has it.
    pub node: Arc<str>,
    /// Its keys, from the sample.
    pub keys: u64,
    /// Their memory, from the sample.
    pub bytes: u64,
    /// Its largest key in the sample, and the memory of that key.
    pub largest: Option<(Arc<[u8]>, u64)>,
    /// Uses: counted by `MONITOR`, or microseconds of CPU time by `CLUSTER SLOT-STATS`.
    pub uses: u64,
    /// The key that was used most, and how often; from `MONITOR`.
    pub hottest: Option<(Arc<[u8]>, u64)>,
}

/// How uneven something is: the largest share divided by the mean; 1 is even.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Ratio(pub f64);

impl Ratio {
    pub(super) fn of(shares: impl Iterator<Item = f64>, count: usize) -> Self {
        let (sum, most) =
            shares.fold((0.0, 0.0f64), |(sum, most), share| (sum + share, most.max(share)));
        if sum > 0.0 { Ratio(most * count as f64 / sum) } else { Ratio(1.0) }
    }
}

/// The report of a skew survey.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SkewReport {
    /// Nodes, as the Cluster lists them.
    pub nodes: Vec<NodeShare>,
    /// The slots with the most memory.
    pub heavy_slots: Vec<SlotShare>,
    /// The slots with the most uses; empty if uses per slot are not known.
    pub hot_slots: Vec<SlotShare>,
    /// Slots that have a key in the sample.
    pub used_slots: usize,
    /// Unevenness of the nodes' memory.
    pub node_bytes: Ratio,
    /// Unevenness of the nodes' commands.
    pub node_commands: Ratio,
    /// Unevenness of memory over the slots that have any.
    pub slot_bytes: Ratio,
    /// Unevenness of uses over the slots that have any.
    pub slot_uses: Ratio,
    /// Keys that were examined.
    pub sampled: u64,
    /// How long it took.
    pub took: Duration,
    /// Advice on what to do.
    pub advice: Vec<String>,
    /// Notes that help to interpret the figures.
    pub notes: Vec<String>,
}

/// Adds advice to the report.
pub(super) fn advise(report: &mut SkewReport, topology: Topology) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_the_largest_against_the_mean() {
        assert_eq!(Ratio::of([1.0, 1.0, 4.0].into_iter(), 3), Ratio(2.0));
        assert_eq!(Ratio::of([0.0].into_iter(), 1), Ratio(1.0));
    }
}
