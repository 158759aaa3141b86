//! The counts of a skew survey: keys and uses per slot, and the servers' own counters.

use std::{collections::BTreeMap, sync::Arc};

use redis::{FromRedisValue, Value, cmd};
use seawall_client::{
    client::{DedicatedConnection, SLOTS, Topology, slot},
    error::Result,
};

use super::{SlotShare, place::COMMAND_LIMIT};

/// Sums per slot.
pub(super) struct Slots {
    pub(super) all: Vec<SlotShare>,
}

/// Counters of a primary.
pub(super) struct Stats {
    pub(super) commands: u64,
    pub(super) lookups: u64,
    /// CPU time per slot.
    pub(super) slots: BTreeMap<u16, u64>,
}

impl Slots {
    pub(super) fn new() -> Self {
        let share = |slot| SlotShare { slot, ..SlotShare::default() };
        Slots { all: (0..SLOTS as u16).map(share).collect() }
    }

    fn of(&mut self, key: &[u8], node: &Arc<str>) -> &mut SlotShare {
        let share = &mut self.all[usize::from(slot(key))];
        share.node = Arc::clone(node);
        share
    }

    pub(super) fn holds(&mut self, key: &[u8], node: &Arc<str>, bytes: u64) {
        let share = self.of(key, node);
        share.keys += 1;
        share.bytes += bytes;
        if share.largest.as_ref().is_none_or(|(_, most)| bytes > *most) {
            share.largest = Some((key.into(), bytes));
        }
    }

    pub(super) fn used(&mut self, key: &[u8], node: &Arc<str>, uses: u64) {
        let share = self.of(key, node);
        share.uses += uses;
        if share.hottest.as_ref().is_none_or(|(_, most)| uses > *most) {
            share.hottest = Some((key.into(), uses));
        }
    }

    pub(super) fn spent(&mut self, slot: u16, node: &Arc<str>, micros: u64) {
        if let Some(share) = self.all.get_mut(usize::from(slot)) {
            share.node = Arc::clone(node);
            share.uses += micros;
        }
    }
}

pub(super) async fn stats(
    connections: &mut [DedicatedConnection],
    topology: Topology,
) -> Result<Vec<Stats>> {
    let mut all = Vec::new();
    for connection in connections {
        let info: String = connection.send(cmd("INFO").arg("stats"), COMMAND_LIMIT).await?;
        let field = |name: &str| -> u64 {
            let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
        };
        let mut slots = BTreeMap::new();
        if topology == Topology::Cluster {
            let mut command = cmd("CLUSTER");
            command.arg("SLOT-STATS").arg("SLOTSRANGE").arg(0).arg(SLOTS - 1);
            // A server that does not support the command refuses it.
            if let Ok(reply) = connection.send::<Value>(&command, COMMAND_LIMIT).await {
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

/// Parses `[[slot, [name, value, …]], …]`: CPU time per slot.
fn slot_stats(reply: &Value) -> BTreeMap<u16, u64> {
    let Value::Array(entries) = reply else { return BTreeMap::new() };
    let read = |entry: &Value| -> Option<(u16, u64)> {
        let Value::Array(entry) = entry else { return None };
        let [slot, fields] = entry.as_slice() else { return None };
        let fields: BTreeMap<String, u64> = BTreeMap::from_redis_value_ref(fields).ok()?;
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
        assert_eq!(slot_stats(&reply), BTreeMap::from([(5, 77)]));
    }
}
