//! The command line of `seawall keys`.
//!
//! An option that is valid only with another one declares it twice: it `requires` that one, and it
//! `conflicts_with` all options that exclude it. clap drops a requirement that conflicts with a
//! given option, and the option would be ignored silently.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Subcommand, ValueEnum};

/// Arguments of `seawall keys`.
#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    pub(crate) command: KeysCommand,
}

/// Subcommands of `seawall keys`.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Find big keys on a running server or in an RDB file
    #[command(before_help = "Examples:
  seawall keys big                                      the engine of `seawall serve`
  seawall keys big --redis redis://10.0.0.5:6379        on its replica, if it has one
  seawall keys big --redis redis-cluster://10.0.0.5:7000 --rate 2000 --output csv --out big.csv
  seawall keys big --match 'cart:*' --threshold hash.members=500,5000
  seawall keys big --rdb dump.rdb --top 100 --output json")]
    Big(Box<BigArgs>),
    /// Find hot keys on a running server
    #[command(before_help = "Examples:
  seawall keys hot --redis redis://10.0.0.5:6379             by the server's counters (LFU policy)
  seawall keys hot --redis redis://10.0.0.5:6379 --monitor 5 by listening for five seconds
  seawall keys hot --redis redis://10.0.0.5:6379 --tracker 10 by HOTKEYS of Redis 8.6
  seawall keys hot --fleet                                   by our own caches, for nothing")]
    Hot(Box<HotArgs>),
    /// Show how evenly data and accesses are spread over slots and nodes
    #[command(before_help = "Examples:
  seawall keys skew --redis redis-cluster://10.0.0.5:7000
  seawall keys skew --redis redis-cluster://10.0.0.5:7000 --monitor 5 --output json
  seawall keys skew --redis redis://10.0.0.5:6379            as it would be on a Cluster")]
    Skew(Box<SkewArgs>),
    /// Delete keys without blocking the server
    #[command(before_help = "Examples:
  seawall keys delete --redis redis://10.0.0.5:6379 cart:1 cart:2
  seawall keys delete 'blob:\\xff\\x00'                       as `keys big` prints it
  seawall keys delete --match 'session:old:*' --dry-run
  seawall keys delete --match 'session:old:*' --rate 500 --yes")]
    Delete(Box<DeleteArgs>),
}

/// The Redis to connect to.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// Redis to use: redis://…, rediss://…, unix:PATH, redis-sentinel://… or redis-cluster://…; or
    /// set SEAWALL_REDIS [default: unix:DATA/engine.sock, the engine of `seawall serve`]
    #[arg(long, value_name = "URL")]
    pub(crate) redis: Option<String>,
    /// File whose first line is the Redis password; or set SEAWALL_REDIS_PASSWORD
    #[arg(long, value_name = "FILE")]
    pub(crate) redis_password_file: Option<PathBuf>,
    /// Data directory of `seawall serve` [default: ./seawall-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Human-readable tables
    Table,
    /// One line per key, with a header
    Csv,
    /// All findings as JSON
    Json,
}

/// Output options.
#[derive(Debug, Args)]
pub(crate) struct Delivery {
    /// Output format
    #[arg(long, value_enum, default_value = "table", value_name = "FORM")]
    pub(crate) output: Output,
    /// Write to this file instead of stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Which keys to scan, and how fast.
#[derive(Debug, Args)]
pub(crate) struct Walk {
    /// Scan only keys that match this SCAN pattern
    #[arg(long = "match", value_name = "PATTERN")]
    pub(crate) pattern: Option<String>,
    /// Maximum keys per second; 0 for no limit
    #[arg(long, value_name = "KEYS", default_value_t = 10_000)]
    pub(crate) rate: u64,
    /// Pause while the server's PING latency is this many milliseconds above its best
    #[arg(long, value_name = "MS", default_value_t = 50)]
    pub(crate) max_latency: u64,
}

/// Arguments of `seawall keys big`.
#[derive(Debug, Args)]
pub(crate) struct BigArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Read this RDB file instead of a server
    #[arg(long, value_name = "FILE", conflicts_with_all = ["redis", "redis_password_file", "data"])]
    pub(crate) rdb: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) walk: Walk,
    /// Scan only keys of this type: string, list, set, zset, hash or stream
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: Option<String>,
    /// Elements of a collection that MEMORY USAGE samples; 0 for all, which is slow
    #[arg(long, value_name = "N", default_value_t = 5, conflicts_with = "rdb")]
    pub(crate) samples: u32,
    /// Number of largest keys to list
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) top: usize,
    /// When a key counts as big: TYPE.bytes=WARN,CRITICAL or TYPE.members=WARN,CRITICAL; TYPE may
    /// be `all`; repeatable [defaults: string.bytes=10kb,10mb all.members=2000,10000 other bytes
    /// 1mb,10mb]
    #[arg(long, value_name = "RULE")]
    pub(crate) threshold: Vec<String>,
    /// Separator that ends a key's prefix; one ASCII character
    #[arg(long, value_name = "CHAR", default_value = ":")]
    pub(crate) separator: String,
    /// Scan primaries even if there are replicas
    #[arg(long, conflicts_with = "rdb")]
    pub(crate) primary: bool,
    /// Fail instead of scanning a primary
    #[arg(long, conflicts_with_all = ["primary", "rdb"])]
    pub(crate) replica: bool,
    #[command(flatten)]
    pub(crate) delivery: Delivery,
    /// Insert keys above a threshold into the table big_key_log of this database: sqlite:PATH or
    /// mysql://USER@HOST:PORT/NAME, with the password in SEAWALL_DATABASE_PASSWORD
    #[arg(long, value_name = "URL")]
    pub(crate) log: Option<String>,
}

/// Arguments of `seawall keys hot`.
#[derive(Debug, Args)]
pub(crate) struct HotArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) walk: Walk,
    /// Run MONITOR for this many seconds, at most 60; slows the server down considerably
    #[arg(long, value_name = "SECONDS", conflicts_with = "tracker")]
    pub(crate) monitor: Option<u64>,
    /// With --monitor: stop after this many commands, at most 2,000,000
    #[arg(
        long,
        value_name = "N",
        default_value_t = 200_000,
        requires = "monitor",
        conflicts_with_all = ["tracker", "fleet"]
    )]
    pub(crate) lines: u64,
    /// Let the server track hot keys for this many seconds (HOTKEYS, Redis 8.6 or later)
    #[arg(long, value_name = "SECONDS")]
    pub(crate) tracker: Option<u64>,
    /// Show the hot keys that the caches of the whole fleet have detected
    #[arg(long, conflicts_with_all = ["monitor", "tracker"])]
    pub(crate) fleet: bool,
    /// With --fleet: key prefix of those services
    #[arg(
        long,
        value_name = "PREFIX",
        default_value = "",
        requires = "fleet",
        conflicts_with_all = ["monitor", "tracker"]
    )]
    pub(crate) prefix: String,
    /// Number of keys to list
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) top: usize,
    #[command(flatten)]
    pub(crate) delivery: Delivery,
}

/// Arguments of `seawall keys skew`.
#[derive(Debug, Args)]
pub(crate) struct SkewArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Maximum keys per second; 0 for no limit
    #[arg(long, value_name = "KEYS", default_value_t = 10_000)]
    pub(crate) rate: u64,
    /// Number of keys to sample on each node
    #[arg(long, value_name = "KEYS", default_value_t = 100_000)]
    pub(crate) sample: u64,
    /// Also run MONITOR for this many seconds, at most 60; slows the server down considerably
    #[arg(long, value_name = "SECONDS")]
    pub(crate) monitor: Option<u64>,
    /// With --monitor: stop after this many commands, at most 2,000,000
    #[arg(long, value_name = "N", default_value_t = 200_000, requires = "monitor")]
    pub(crate) lines: u64,
    /// Number of slots to list
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
    /// Scan primaries even if there are replicas
    #[arg(long)]
    pub(crate) primary: bool,
    #[command(flatten)]
    pub(crate) delivery: Delivery,
}

/// Arguments of `seawall keys delete`.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Keys to delete, as the other commands print them: `\xNN` is a byte, `\\` a backslash
    #[arg(value_name = "KEY", required_unless_present = "pattern", conflicts_with = "pattern")]
    pub(crate) keys: Vec<OsString>,
    /// Delete all keys that match this SCAN pattern
    #[arg(long = "match", value_name = "PATTERN")]
    pub(crate) pattern: Option<String>,
    /// With --match: only keys of this type
    #[arg(long = "type", value_name = "TYPE", requires = "pattern", conflicts_with = "keys")]
    pub(crate) kind: Option<String>,
    /// Maximum keys per second
    #[arg(long, value_name = "KEYS", default_value_t = 1_000)]
    pub(crate) rate: u64,
    /// Show what would be deleted, and delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(crate) yes: bool,
}
