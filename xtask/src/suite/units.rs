//! The units of Redis 7.0's suite that make sense for one server.
//!
//! Left out: replication, Cluster and Sentinel, persistence with RDB files, and modules. They are
//! not features of the engine, or need servers that the suite starts itself.

use crate::outcome::{Failure, Outcome};

/// A file of the suite.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unit {
    /// Its short name.
    pub(super) name: &'static str,
    /// Its path below `tests/`, without the ending.
    pub(super) path: &'static str,
}

const UNITS: [Unit; 33] = [
    unit("string", "unit/type/string"),
    unit("incr", "unit/type/incr"),
    unit("list", "unit/type/list"),
    unit("list-3", "unit/type/list-3"),
    unit("set", "unit/type/set"),
    unit("zset", "unit/type/zset"),
    unit("hash", "unit/type/hash"),
    unit("keyspace", "unit/keyspace"),
    unit("scan", "unit/scan"),
    unit("expire", "unit/expire"),
    unit("protocol", "unit/protocol"),
    unit("quit", "unit/quit"),
    unit("multi", "unit/multi"),
    unit("pubsub", "unit/pubsub"),
    unit("scripting", "unit/scripting"),
    unit("stream", "unit/type/stream"),
    unit("stream-cgroups", "unit/type/stream-cgroups"),
    unit("sort", "unit/sort"),
    unit("bitops", "unit/bitops"),
    unit("bitfield", "unit/bitfield"),
    unit("geo", "unit/geo"),
    unit("hyperloglog", "unit/hyperloglog"),
    unit("tracking", "unit/tracking"),
    unit("introspection", "unit/introspection"),
    unit("introspection-2", "unit/introspection-2"),
    unit("slowlog", "unit/slowlog"),
    unit("info-command", "unit/info-command"),
    unit("other", "unit/other"),
    unit("lazyfree", "unit/lazyfree"),
    unit("pause", "unit/pause"),
    unit("functions", "unit/functions"),
    unit("maxmemory", "unit/maxmemory"),
    unit("redis-cli", "integration/redis-cli"),
];

const fn unit(name: &'static str, path: &'static str) -> Unit {
    Unit { name, path }
}

/// Returns the units with these names, or all units if none is given.
pub(super) fn select(names: &[String]) -> Outcome<Vec<Unit>> {
    if names.is_empty() {
        return Ok(UNITS.to_vec());
    }
    let find = |name: &String| {
        UNITS.iter().copied().find(|unit| unit.name == name || unit.path == name).ok_or_else(|| {
            let known: Vec<&str> = UNITS.iter().map(|unit| unit.name).collect();
            Failure::new(format!("no unit `{name}`; the units are {}", known.join(", ")))
        })
    };
    names.iter().map(find).collect()
}
