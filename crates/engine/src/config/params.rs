//! The list of settings.

use super::{OutputLimit, Settings};
use crate::evict::Policy;
use crate::notify::Classes;
use crate::number;

/// Reads and writes one field.
enum Field {
    Bool(fn(&mut Settings) -> &mut bool),
    Int(fn(&mut Settings) -> &mut i64, i64, i64),
    Size(fn(&mut Settings) -> &mut u64, u64, u64),
    Memory(fn(&mut Settings) -> &mut u64),
    /// The same, with a least value.
    MemoryFrom(fn(&mut Settings) -> &mut u64, u64),
    Choice(fn(&mut Settings) -> &mut i64, &'static [&'static str]),
    Text(fn(&mut Settings) -> &mut String),
    MemoryOrPercent(fn(&mut Settings) -> &mut i64),
    SavePoints,
    Policy,
    Events,
    OutputLimits,
    /// Accepted, remembered and without effect.
    Inert(Shape, &'static str),
}

/// What an inert setting accepts.
#[derive(Clone, Copy)]
enum Shape {
    Bool,
    Int(i64, i64),
    Memory,
    Choice(&'static [&'static str]),
    Text,
}

/// What CONFIG may do with a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Set it.
    Free,
    /// Set it to what it is: the host was started with it.
    OnlyToTheSame,
    /// Only show it.
    Never,
    /// Set it; not shown unless it is asked for by its full name.
    Hidden,
}

/// One setting.
pub(crate) struct Param {
    pub(crate) name: &'static str,
    /// An older name of the same setting.
    pub(crate) alias: Option<&'static str>,
    /// Whether CONFIG SET may change it.
    pub(crate) mutable: Change,
    field: Field,
}

const fn p(name: &'static str, field: Field) -> Param {
    Param { name, alias: None, mutable: Change::Free, field }
}

const fn fixed(name: &'static str, field: Field) -> Param {
    Param { name, alias: None, mutable: Change::Never, field }
}

const fn alias(name: &'static str, alias: &'static str, field: Field) -> Param {
    Param { name, alias: Some(alias), mutable: Change::Free, field }
}

const fn started(name: &'static str, field: Field) -> Param {
    Param { name, alias: None, mutable: Change::OnlyToTheSame, field }
}

const fn hidden(name: &'static str, field: Field) -> Param {
    Param { name, alias: None, mutable: Change::Hidden, field }
}

const INT_MAX: i64 = i32::MAX as i64;
const LONG_MAX: u64 = i64::MAX as u64;
const MIB: u64 = 1 << 20;

/// Every setting.
#[rustfmt::skip]
pub(crate) static PARAMS: &[Param] = &[
    fixed("databases", Field::Int(|s| &mut s.databases, 1, INT_MAX)),
    started("port", Field::Int(|s| &mut s.port, 0, 65_535)),
    started("bind", Field::Text(|s| &mut s.bind)),
    fixed("unixsocket", Field::Text(|s| &mut s.unixsocket)),
    started("dir", Field::Text(|s| &mut s.dir)),
    p("appendonly", Field::Bool(|s| &mut s.appendonly)),
    p("appendfsync", Field::Choice(|s| &mut s.appendfsync, &["always", "everysec", "no"])),
    p("requirepass", Field::Text(|s| &mut s.requirepass)),
    p("maxmemory", Field::Memory(|s| &mut s.maxmemory)),
    p("maxmemory-policy", Field::Policy),
    p("maxmemory-clients", Field::MemoryOrPercent(|s| &mut s.maxmemory_clients)),
    p("maxmemory-samples", Field::Int(|s| &mut s.maxmemory_samples, 1, 64)),
    p("lfu-log-factor", Field::Int(|s| &mut s.lfu_log_factor, 0, INT_MAX)),
    p("lfu-decay-time", Field::Int(|s| &mut s.lfu_decay_time, 0, INT_MAX)),
    p("maxclients", Field::Int(|s| &mut s.maxclients, 1, i32::MAX as i64)),
    p("timeout", Field::Int(|s| &mut s.timeout, 0, INT_MAX)),
    p("tcp-keepalive", Field::Int(|s| &mut s.tcp_keepalive, 0, INT_MAX)),
    fixed("tcp-backlog", Field::Int(|s| &mut s.tcp_backlog, 0, INT_MAX)),
    p("hz", Field::Int(|s| &mut s.hz, 0, INT_MAX)),
    p("proto-max-bulk-len", Field::MemoryFrom(|s| &mut s.proto_max_bulk_len, MIB)),
    p("client-query-buffer-limit", Field::MemoryFrom(|s| &mut s.client_query_buffer_limit, MIB)),
    p("client-output-buffer-limit", Field::OutputLimits),
    alias("hash-max-listpack-entries", "hash-max-ziplist-entries", Field::Size(|s| &mut s.hash_max_listpack_entries, 0, LONG_MAX)),
    alias("hash-max-listpack-value", "hash-max-ziplist-value", Field::Memory(|s| &mut s.hash_max_listpack_value)),
    alias("zset-max-listpack-entries", "zset-max-ziplist-entries", Field::Size(|s| &mut s.zset_max_listpack_entries, 0, LONG_MAX)),
    alias("zset-max-listpack-value", "zset-max-ziplist-value", Field::Memory(|s| &mut s.zset_max_listpack_value)),
    p("set-max-intset-entries", Field::Size(|s| &mut s.set_max_intset_entries, 0, LONG_MAX)),
    alias("list-max-listpack-size", "list-max-ziplist-size", Field::Int(|s| &mut s.list_max_listpack_size, i32::MIN as i64, INT_MAX)),
    p("list-compress-depth", Field::Int(|s| &mut s.list_compress_depth, 0, INT_MAX)),
    p("stream-node-max-bytes", Field::Memory(|s| &mut s.stream_node_max_bytes)),
    p("stream-node-max-entries", Field::Size(|s| &mut s.stream_node_max_entries, 0, LONG_MAX)),
    p("hll-sparse-max-bytes", Field::Memory(|s| &mut s.hll_sparse_max_bytes)),
    p("slowlog-log-slower-than", Field::Int(|s| &mut s.slowlog_log_slower_than, -1, i64::MAX)),
    p("slowlog-max-len", Field::Size(|s| &mut s.slowlog_max_len, 0, LONG_MAX)),
    alias("busy-reply-threshold", "lua-time-limit", Field::Int(|s| &mut s.lua_time_limit, 0, i64::MAX)),
    p("tracking-table-max-keys", Field::Size(|s| &mut s.tracking_table_max_keys, 0, LONG_MAX)),
    p("notify-keyspace-events", Field::Events),
    p("save", Field::SavePoints),
    p("auto-aof-rewrite-percentage", Field::Int(|s| &mut s.auto_aof_rewrite_percentage, 0, INT_MAX)),
    p("auto-aof-rewrite-min-size", Field::Memory(|s| &mut s.auto_aof_rewrite_min_size)),

    p("activedefrag", Field::Inert(Shape::Bool, "no")),
    p("activerehashing", Field::Inert(Shape::Bool, "yes")),
    p("lazyfree-lazy-eviction", Field::Inert(Shape::Bool, "no")),
    p("lazyfree-lazy-expire", Field::Inert(Shape::Bool, "no")),
    p("lazyfree-lazy-server-del", Field::Inert(Shape::Bool, "no")),
    p("lazyfree-lazy-user-del", Field::Inert(Shape::Bool, "no")),
    p("lazyfree-lazy-user-flush", Field::Inert(Shape::Bool, "no")),
    p("dynamic-hz", Field::Inert(Shape::Bool, "yes")),
    p("latency-monitor-threshold", Field::Inert(Shape::Int(0, i64::MAX), "0")),
    p("latency-tracking", Field::Inert(Shape::Bool, "yes")),
    p("loglevel", Field::Inert(Shape::Choice(&["debug", "verbose", "notice", "warning"]), "notice")),
    p("maxmemory-eviction-tenacity", Field::Inert(Shape::Int(0, 100), "10")),
    p("active-expire-effort", Field::Inert(Shape::Int(1, 10), "1")),
    p("min-replicas-to-write", Field::Inert(Shape::Int(0, INT_MAX), "0")),
    p("min-replicas-max-lag", Field::Inert(Shape::Int(0, INT_MAX), "10")),
    p("repl-backlog-size", Field::Inert(Shape::Memory, "1048576")),
    p("replica-read-only", Field::Inert(Shape::Bool, "yes")),
    p("no-appendfsync-on-rewrite", Field::Inert(Shape::Bool, "no")),
    p("aof-load-truncated", Field::Inert(Shape::Bool, "yes")),
    p("aof-use-rdb-preamble", Field::Inert(Shape::Bool, "yes")),
    p("rdbcompression", Field::Inert(Shape::Bool, "yes")),
    p("rdb-save-incremental-fsync", Field::Inert(Shape::Bool, "yes")),
    hidden("rdb-key-save-delay", Field::Inert(Shape::Int(i32::MIN as i64, INT_MAX), "0")),
    hidden("key-load-delay", Field::Inert(Shape::Int(i32::MIN as i64, INT_MAX), "0")),
    p("stop-writes-on-bgsave-error", Field::Inert(Shape::Bool, "yes")),
    p("crash-log-enabled", Field::Inert(Shape::Bool, "yes")),
    p("crash-memcheck-enabled", Field::Inert(Shape::Bool, "yes")),
    p("close-on-oom", Field::Inert(Shape::Bool, "no")),
    p("acllog-max-len", Field::Inert(Shape::Int(0, i64::MAX), "128")),
    p("repl-ping-replica-period", Field::Inert(Shape::Int(1, INT_MAX), "10")),
    p("repl-timeout", Field::Inert(Shape::Int(1, INT_MAX), "60")),
    p("repl-diskless-sync", Field::Inert(Shape::Bool, "yes")),
    p("repl-diskless-sync-delay", Field::Inert(Shape::Int(0, INT_MAX), "5")),
    p("masterauth", Field::Inert(Shape::Text, "")),
    p("masteruser", Field::Inert(Shape::Text, "")),
    p("shutdown-timeout", Field::Inert(Shape::Int(0, INT_MAX), "10")),
    p("proc-title-template", Field::Inert(Shape::Text, "{title} {listen-addr} {server-mode}")),
    fixed("always-show-logo", Field::Inert(Shape::Bool, "no")),
    fixed("appendfilename", Field::Inert(Shape::Text, "appendonly.seawall")),
    fixed("cluster-enabled", Field::Inert(Shape::Bool, "no")),
    fixed("daemonize", Field::Inert(Shape::Bool, "no")),
    fixed("enable-debug-command", Field::Choice(|s| &mut s.enable_debug_command, &["no", "yes", "local"])),
    fixed("io-threads", Field::Inert(Shape::Int(1, 128), "1")),
    fixed("logfile", Field::Inert(Shape::Text, "")),
    Param { name: "replicaof", alias: Some("slaveof"), mutable: Change::Never, field: Field::Inert(Shape::Text, "") },
    fixed("set-proc-title", Field::Inert(Shape::Bool, "yes")),
    fixed("supervised", Field::Inert(Shape::Choice(&["upstart", "systemd", "auto", "no"]), "no")),
];

/// The inert settings' first values, in the order of the list.
pub(super) fn inert_defaults() -> Vec<String> {
    PARAMS
        .iter()
        .filter_map(|param| match param.field {
            Field::Inert(_, default) => Some(default.to_owned()),
            _ => None,
        })
        .collect()
}

/// The setting of this name or older name, in any case.
pub(crate) fn find(name: &str) -> Option<&'static Param> {
    PARAMS.iter().find(|param| {
        param.name.eq_ignore_ascii_case(name)
            || param.alias.is_some_and(|alias| alias.eq_ignore_ascii_case(name))
    })
}

impl Param {
    /// The value as CONFIG GET shows it.
    pub(crate) fn get(&self, settings: &Settings) -> String {
        // Accessors are written once, for a mutable borrow; reading goes through a copy of the
        // settings, which is small and not on any hot path.
        let s = &mut settings.clone();
        match &self.field {
            Field::Bool(at) => if *at(s) { "yes" } else { "no" }.to_owned(),
            Field::Int(at, ..) => at(s).to_string(),
            Field::Size(at, ..) | Field::Memory(at) | Field::MemoryFrom(at, _) => at(s).to_string(),
            Field::Choice(at, names) => names[*at(s) as usize].to_owned(),
            Field::Text(at) => at(s).clone(),
            Field::MemoryOrPercent(at) => match *at(s) {
                percent if percent < 0 => format!("{}%", percent.unsigned_abs()),
                bytes => bytes.to_string(),
            },
            Field::SavePoints => s.save.clone(),
            Field::Policy => s.maxmemory_policy.name().to_owned(),
            Field::Events => s.notify_keyspace_events.to_string(),
            Field::OutputLimits => format_limits(&s.output_limits),
            Field::Inert(..) => s.inert[self.inert_index()].clone(),
        }
    }

    /// Sets the value from text; the error says what is allowed.
    pub(crate) fn set(&self, settings: &mut Settings, text: &str) -> Result<(), String> {
        match &self.field {
            Field::Bool(at) => *at(settings) = parse_bool(text)?,
            Field::Int(at, min, max) => *at(settings) = parse_int(text, *min, *max)?,
            Field::Size(at, min, max) => {
                *at(settings) = parse_int(text, *min as i64, *max as i64)? as u64;
            }
            Field::Memory(at) => *at(settings) = parse_memory(text)?,
            Field::MemoryFrom(at, min) => {
                let bytes = parse_memory(text)?;
                if bytes < *min {
                    return Err(format!("argument must be between {min} and {LONG_MAX} inclusive"));
                }
                *at(settings) = bytes;
            }
            Field::Choice(at, names) => *at(settings) = parse_choice(text, names)? as i64,
            Field::Text(at) => text.clone_into(at(settings)),
            Field::SavePoints => {
                check_save_points(text)?;
                text.clone_into(&mut settings.save);
            }
            Field::MemoryOrPercent(at) => *at(settings) = parse_memory_or_percent(text)?,
            Field::Policy => {
                settings.maxmemory_policy = Policy::parse(text)
                    .ok_or_else(|| must_be_one_of(&Policy::ALL.map(Policy::name)))?;
            }
            Field::Events => {
                settings.notify_keyspace_events = Classes::parse(text)
                    .ok_or("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")?;
            }
            Field::OutputLimits => parse_limits(&mut settings.output_limits, text)?,
            Field::Inert(shape, _) => {
                let kept = match *shape {
                    Shape::Bool => if parse_bool(text)? { "yes" } else { "no" }.to_owned(),
                    Shape::Int(min, max) => parse_int(text, min, max)?.to_string(),
                    Shape::Memory => parse_memory(text)?.to_string(),
                    Shape::Choice(names) => names[parse_choice(text, names)?].to_owned(),
                    Shape::Text => text.to_owned(),
                };
                settings.inert[self.inert_index()] = kept;
            }
        }
        Ok(())
    }

    fn inert_index(&self) -> usize {
        PARAMS
            .iter()
            .filter(|param| matches!(param.field, Field::Inert(..)))
            .position(|param| param.name == self.name)
            .expect("an inert setting is in the list it was found in")
    }
}

/// Pairs of seconds (from 1) and changes (from 0), or nothing.
fn check_save_points(text: &str) -> Result<(), String> {
    let bad = || "Invalid save parameters".to_owned();
    let words: Vec<&str> = if text.is_empty() { Vec::new() } else { text.split(' ').collect() };
    if !words.len().is_multiple_of(2) {
        return Err(bad());
    }
    for (at, word) in words.iter().enumerate() {
        let least = if at % 2 == 0 { 1 } else { 0 };
        let number = number::parse_i64(word.as_bytes()).ok_or_else(bad)?;
        if !(least..=INT_MAX).contains(&number) {
            return Err(bad());
        }
    }
    Ok(())
}

fn parse_bool(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("argument must be 'yes' or 'no'".into()),
    }
}

fn parse_int(text: &str, min: i64, max: i64) -> Result<i64, String> {
    let n =
        number::parse_i64(text.as_bytes()).ok_or("argument couldn't be parsed into an integer")?;
    if n < min || n > max {
        return Err(format!("argument must be between {min} and {max} inclusive"));
    }
    Ok(n)
}

fn parse_memory(text: &str) -> Result<u64, String> {
    number::parse_memory(text.as_bytes()).ok_or_else(|| "argument must be a memory value".into())
}

/// Bytes, or percent as a negative number.
fn parse_memory_or_percent(text: &str) -> Result<i64, String> {
    let Some(percent) = text.strip_suffix('%') else {
        let bytes = parse_memory(text).map_err(|_| "argument must be a memory or percent value")?;
        return Ok(i64::try_from(bytes).unwrap_or(i64::MAX));
    };
    match percent.parse::<i64>() {
        Ok(percent @ 0..=100) => Ok(-percent),
        Ok(_) => Err("percentage argument must be less or equal to 100".into()),
        Err(_) => Err("argument must be a memory or percent value".into()),
    }
}

fn parse_choice(text: &str, names: &[&str]) -> Result<usize, String> {
    names
        .iter()
        .position(|name| name.eq_ignore_ascii_case(text))
        .ok_or_else(|| must_be_one_of(names))
}

fn must_be_one_of(names: &[&str]) -> String {
    format!("argument(s) must be one of the following: {}", names.join(", "))
}

const CLIENT_CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

fn format_limits(limits: &[OutputLimit; 3]) -> String {
    let one = |(name, l): (&&str, &OutputLimit)| {
        format!("{name} {} {} {}", l.hard_bytes, l.soft_bytes, l.soft_seconds)
    };
    CLIENT_CLASSES.iter().zip(limits).map(one).collect::<Vec<_>>().join(" ")
}

fn parse_limits(limits: &mut [OutputLimit; 3], text: &str) -> Result<(), String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() || !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    let mut changed = *limits;
    for four in words.chunks(4) {
        let class = match four[0].to_ascii_lowercase().as_str() {
            "normal" => 0,
            "slave" | "replica" => 1,
            "pubsub" => 2,
            _ => return Err("Invalid client class specified in buffer limit configuration.".into()),
        };
        let bad = || "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
        changed[class] = OutputLimit {
            hard_bytes: number::parse_memory(four[1].as_bytes()).ok_or_else(bad)?,
            soft_bytes: number::parse_memory(four[2].as_bytes()).ok_or_else(bad)?,
            soft_seconds: four[3].parse().map_err(|_| bad())?,
        };
    }
    *limits = changed;
    Ok(())
}
