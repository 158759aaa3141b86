//! INFO: what the server knows about itself, in sections of `name:value` lines.

use std::fmt::Write;

use crate::ctx::Ctx;
use crate::engine::Engine;
use crate::error::Done;
use crate::keyspace::Db;
use crate::resp::Reply;

type Section = (&'static str, fn(&Engine, &mut Text));

/// Lines of one section.
struct Text(String);

impl Text {
    fn row(&mut self, name: &str, value: impl std::fmt::Display) {
        // Writing to a string cannot fail.
        let _ = write!(self.0, "{name}:{value}\r\n");
    }

    fn flag(&mut self, name: &str, value: bool) {
        self.row(name, u8::from(value));
    }

    fn status(&mut self, name: &str, ok: bool) {
        self.row(name, if ok { "ok" } else { "err" });
    }

    fn zeros(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.row(name, 0));
    }
}

/// Sections in their order; those behind `EXTRA` are shown only when asked for.
const SECTIONS: [Section; 12] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("CPU", cpu),
    ("Modules", |_, _| {}),
    ("Commandstats", command_stats),
    ("Errorstats", error_stats),
    ("Cluster", |_, text| text.row("cluster_enabled", 0)),
    ("Keyspace", keyspace),
];
const EXTRA: [&str; 1] = ["Commandstats"];

pub(super) fn info(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let asked: Vec<String> =
        a[1..].iter().map(|s| String::from_utf8_lossy(s).to_ascii_lowercase()).collect();
    let everything = asked.iter().any(|s| s == "all" || s == "everything");
    let default = asked.is_empty() || asked.iter().any(|s| s == "default");
    let mut text = Text(String::new());
    for (name, write) in SECTIONS {
        let named = asked.iter().any(|s| s.eq_ignore_ascii_case(name));
        if !(everything || named || (default && !EXTRA.contains(&name))) {
            continue;
        }
        if !text.0.is_empty() {
            text.0.push_str("\r\n");
        }
        let _ = write!(text.0, "# {name}\r\n");
        write(cx.engine, &mut text);
    }
    out.verbatim("txt", text.0.as_bytes());
    Ok(())
}

fn server(engine: &Engine, text: &mut Text) {
    let up = (engine.now_ms() - engine.started_ms).max(0) / 1000;
    text.row("redis_version", super::connection::REDIS_VERSION);
    text.row("redis_git_sha1", "00000000");
    text.row("redis_git_dirty", 0);
    text.row("redis_build_id", "0");
    text.row("redis_mode", "standalone");
    text.row("seawall_version", env!("CARGO_PKG_VERSION"));
    text.row("os", std::env::consts::OS);
    text.row("arch_bits", usize::BITS);
    text.row("process_id", engine.host.process_id);
    text.row("run_id", &engine.host.run_id);
    text.row("tcp_port", engine.host.tcp_port);
    text.row("server_time_usec", engine.now_us);
    text.row("uptime_in_seconds", up);
    text.row("uptime_in_days", up / 86_400);
    text.row("hz", engine.settings.hz);
    text.row("configured_hz", engine.settings.hz);
    text.row("lru_clock", crate::evict::lru_clock(engine.now_ms()));
    text.row("executable", &engine.host.executable);
    text.row("config_file", &engine.host.config_file);
    text.row("io_threads_active", 0);
}

fn clients(engine: &Engine, text: &mut Text) {
    text.row("connected_clients", engine.sessions.len());
    text.row("cluster_connections", 0);
    text.row("maxclients", engine.settings.maxclients);
    let input = engine.sessions.iter().map(|(_, s)| s.unread_input()).max().unwrap_or(0);
    let output = engine.sessions.iter().map(|(_, s)| s.output.len() + s.unsent).max().unwrap_or(0);
    text.row("client_recent_max_input_buffer", input);
    text.row("client_recent_max_output_buffer", output);
    text.row("blocked_clients", engine.waiting.count);
    text.row("tracking_clients", engine.tracking.sessions);
    text.row("clients_in_timeout_table", engine.waiting.timed());
}

fn memory(engine: &Engine, text: &mut Text) {
    let used = engine.used_memory();
    let data: usize = engine.dbs.iter().map(Db::heap_bytes).sum();
    let peak = engine.stats.peak_memory.max(used);
    let rss = engine.host.used_memory_rss;
    text.row("used_memory", used);
    text.row("used_memory_human", human(used as u64));
    text.row("used_memory_rss", rss);
    text.row("used_memory_rss_human", human(rss));
    text.row("used_memory_peak", peak);
    text.row("used_memory_peak_human", human(peak as u64));
    text.row("used_memory_peak_perc", format!("{:.2}%", used as f64 * 100.0 / peak as f64));
    text.row("used_memory_overhead", used - data);
    text.row("used_memory_startup", used - data - engine.client_bytes);
    text.row("used_memory_dataset", data);
    text.row("used_memory_dataset_perc", format!("{:.2}%", data as f64 * 100.0 / used as f64));
    text.row("number_of_cached_scripts", engine.scripts.by_sha.len());
    text.row("number_of_functions", engine.scripts.function_count());
    text.row("number_of_libraries", engine.scripts.libraries.len());
    text.row("maxmemory", engine.settings.maxmemory);
    text.row("maxmemory_human", human(engine.settings.maxmemory));
    text.row("maxmemory_policy", engine.settings.maxmemory_policy.name());
    text.row("mem_fragmentation_ratio", format!("{:.2}", rss as f64 / used as f64));
    text.row("mem_allocator", "rust");
    text.zeros(&["mem_not_counted_for_evict", "mem_clients_slaves", "active_defrag_running"]);
    text.row("mem_clients_normal", engine.client_bytes);
    text.row("lazyfree_pending_objects", 0);
    text.row("lazyfreed_objects", engine.stats.lazy_freed);
}

fn persistence(engine: &Engine, text: &mut Text) {
    let host = &engine.host;
    text.flag("loading", host.loading);
    text.row("async_loading", 0);
    text.row("rdb_changes_since_last_save", engine.dirty.saturating_sub(engine.dirty_at_save));
    text.flag("rdb_bgsave_in_progress", host.rdb_bgsave_in_progress);
    text.row("rdb_last_save_time", host.rdb_last_save_unix);
    text.status("rdb_last_bgsave_status", host.rdb_last_bgsave_ok);
    text.flag("aof_enabled", host.aof_enabled);
    text.flag("aof_rewrite_in_progress", host.aof_rewrite_in_progress);
    text.flag("aof_rewrite_scheduled", host.aof_rewrite_scheduled);
    text.status("aof_last_bgrewrite_status", host.aof_last_bgrewrite_ok);
    text.status("aof_last_write_status", host.aof_last_write_ok);
    if host.aof_enabled {
        text.row("aof_current_size", host.aof_current_size);
        text.row("aof_base_size", host.aof_base_size);
    }
}

fn stats(engine: &Engine, text: &mut Text) {
    let stats = &engine.stats;
    text.row("total_connections_received", stats.total_connections);
    text.row("total_commands_processed", stats.total_commands);
    text.row("instantaneous_ops_per_sec", stats.ops_per_second());
    text.row("total_net_input_bytes", stats.input_bytes);
    text.row("total_net_output_bytes", stats.output_bytes);
    text.row("rejected_connections", stats.rejected_connections);
    text.zeros(&["sync_full", "sync_partial_ok", "sync_partial_err"]);
    text.row("expired_keys", stats.expired_keys);
    text.row("expired_stale_perc", "0.00");
    text.row("expired_time_cap_reached_count", 0);
    text.row("evicted_keys", stats.evicted_keys);
    text.row("evicted_clients", stats.evicted_clients);
    text.row("keyspace_hits", stats.keyspace_hits);
    text.row("keyspace_misses", stats.keyspace_misses);
    text.row("pubsub_channels", engine.pubsub.channels.len());
    text.row("pubsub_patterns", engine.pubsub.patterns.len());
    text.row("pubsubshard_channels", engine.pubsub.shard.len());
    text.zeros(&["latest_fork_usec", "total_forks"]);
    engine.tracking.info(|name, value| text.row(name, value));
    text.row("unexpected_error_replies", stats.unexpected_errors);
    text.row("total_error_replies", stats.error_replies);
    text.row("longest_turn_usec", engine.host.longest_turn_usec);
    text.row("longest_turn_duty", engine.host.longest_turn_duty);
    text.row("longest_turn_time", engine.host.longest_turn_unix);
}

fn replication(engine: &Engine, text: &mut Text) {
    text.row("role", "master");
    text.row("connected_slaves", 0);
    text.row("master_failover_state", "no-failover");
    text.row("master_replid", &engine.host.run_id);
    text.row("master_replid2", "0".repeat(40));
    text.row("master_repl_offset", 0);
    text.row("second_repl_offset", -1);
    text.zeros(&["repl_backlog_active", "repl_backlog_size"]);
}

fn cpu(engine: &Engine, text: &mut Text) {
    let seconds = |micros: u64| format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.row("used_cpu_sys", seconds(engine.host.used_cpu_sys_micros));
    text.row("used_cpu_user", seconds(engine.host.used_cpu_user_micros));
    text.row("used_cpu_sys_children", "0.000000");
    text.row("used_cpu_user_children", "0.000000");
}

fn command_stats(engine: &Engine, text: &mut Text) {
    for (listed, stats) in engine.index.list().iter().zip(&engine.stats.commands) {
        if stats.calls == 0 && stats.rejected == 0 && stats.failed == 0 {
            continue;
        }
        let micros = stats.nanos / 1000;
        let per_call = micros as f64 / stats.calls.max(1) as f64;
        text.row(
            &format!("cmdstat_{}", listed.full_name),
            format_args!(
                "calls={},usec={micros},usec_per_call={per_call:.2},rejected_calls={},\
                 failed_calls={}",
                stats.calls, stats.rejected, stats.failed
            ),
        );
    }
}

fn error_stats(engine: &Engine, text: &mut Text) {
    for (code, count) in &engine.stats.errors {
        text.row(&format!("errorstat_{code}"), format_args!("count={count}"));
    }
}

fn keyspace(engine: &Engine, text: &mut Text) {
    for (i, db) in engine.dbs.iter().enumerate() {
        if db.len() > 0 {
            text.row(
                &format!("db{i}"),
                format_args!("keys={},expires={},avg_ttl=0", db.len(), db.expiring()),
            );
        }
    }
}

/// Bytes as people read them.
fn human(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    match UNITS.iter().find(|(size, _)| bytes >= *size) {
        Some((size, unit)) => format!("{:.2}{unit}", bytes as f64 / *size as f64),
        None => format!("{bytes}B"),
    }
}
