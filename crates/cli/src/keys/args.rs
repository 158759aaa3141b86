//! The command line of `seawall keys`.
//!
//! An option that only means something beside another one says so twice: `requires` that one, and
//! `conflicts_with` all that exclude it. clap forgets a requirement that conflicts with what is given,
//! and the option would be passed over in silence.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Subcommand, ValueEnum};

/// What `seawall keys` takes.
#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    pub(crate) command: KeysCommand,
}

/// What can be done with keys.
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
    /// Find hot keys, whoever uses them
    #[command(before_help = "Examples:
  seawall keys hot --redis redis://10.0.0.5:6379             by the server's counters (LFU policy)
  seawall keys hot --redis redis://10.0.0.5:6379 --monitor 5 by listening for five seconds
  seawall keys hot --redis redis://10.0.0.5:6379 --tracker 10 by HOTKEYS of Redis 8.6
  seawall keys hot --fleet                                   by our own caches, for nothing")]
    Hot(Box<HotArgs>),
    /// Show how evenly data and accesses lie on slots and nodes
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

/// Where Redis is.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// redis://…, rediss://…, unix:PATH, redis-sentinel://… or redis-cluster://…; SEAWALL_REDIS does it
    /// as well [default: unix:DATA/engine.sock, the engine of `seawall serve`]
    #[arg(long, value_name = "URL")]
    pub(crate) redis: Option<String>,
    /// A file whose first line is Redis' password; SEAWALL_REDIS_PASSWORD does it as well
    #[arg(long, value_name = "FILE")]
    pub(crate) redis_password_file: Option<PathBuf>,
    /// The data folder of `seawall serve` [default: ./seawall-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

/// How findings are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    Table,
    /// One line a key, with a heading
    Csv,
    /// Everything
    Json,
}

/// Where findings go.
#[derive(Debug, Args)]
pub(crate) struct Delivery {
    /// How findings are written
    #[arg(long, value_enum, default_value = "table", value_name = "FORM")]
    pub(crate) output: Output,
    /// Write them to this file instead of stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Which keys, and how fast.
#[derive(Debug, Args)]
pub(crate) struct Walk {
    /// Only keys that match this pattern, as SCAN understands it
    #[arg(long = "match", value_name = "PATTERN")]
    pub(crate) pattern: Option<String>,
    /// At most this many keys a second; 0 for as fast as the server answers
    #[arg(long, value_name = "KEYS", default_value_t = 10_000)]
    pub(crate) rate: u64,
    /// Pause while the server answers a PING this many milliseconds later than at its best
    #[arg(long, value_name = "MS", default_value_t = 50)]
    pub(crate) max_latency: u64,
}

/// What `seawall keys big` takes.
#[derive(Debug, Args)]
pub(crate) struct BigArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Read this RDB file instead of asking a server
    #[arg(long, value_name = "FILE", conflicts_with_all = ["redis", "redis_password_file", "data"])]
    pub(crate) rdb: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) walk: Walk,
    /// Only keys of this type: string, list, set, zset, hash or stream
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: Option<String>,
    /// Elements of a collection that MEMORY USAGE measures; 0 for all of them, which is slow
    #[arg(long, value_name = "N", default_value_t = 5, conflicts_with = "rdb")]
    pub(crate) samples: u32,
    /// How many of the largest keys are named
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) top: usize,
    /// When a key is big: TYPE.bytes=WARN,CRITICAL or TYPE.members=WARN,CRITICAL, TYPE may be `all`;
    /// repeat it [defaults: string.bytes=10kb,10mb all.members=2000,10000 other bytes 1mb,10mb]
    #[arg(long, value_name = "RULE")]
    pub(crate) threshold: Vec<String>,
    /// What ends a key's prefix; one ASCII character
    #[arg(long, value_name = "CHAR", default_value = ":")]
    pub(crate) separator: String,
    /// Ask primaries even where there are replicas
    #[arg(long, conflicts_with = "rdb")]
    pub(crate) primary: bool,
    /// Fail rather than ask a primary
    #[arg(long, conflicts_with_all = ["primary", "rdb"])]
    pub(crate) replica: bool,
    #[command(flatten)]
    pub(crate) delivery: Delivery,
    /// Insert what is above a threshold into the table big_key_log of this database: sqlite:PATH or
    /// mysql://USER@HOST:PORT/NAME, its password in SEAWALL_DATABASE_PASSWORD
    #[arg(long, value_name = "URL")]
    pub(crate) log: Option<String>,
}

/// What `seawall keys hot` takes.
#[derive(Debug, Args)]
pub(crate) struct HotArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) walk: Walk,
    /// Listen to all commands for this many seconds, at most 60; costs the server much of its speed
    #[arg(long, value_name = "SECONDS", conflicts_with = "tracker")]
    pub(crate) monitor: Option<u64>,
    /// With --monitor: end after this many commands, at most 2,000,000
    #[arg(
        long,
        value_name = "N",
        default_value_t = 200_000,
        requires = "monitor",
        conflicts_with_all = ["tracker", "fleet"]
    )]
    pub(crate) lines: u64,
    /// Let the server track for this many seconds (HOTKEYS, from Redis 8.6 on)
    #[arg(long, value_name = "SECONDS")]
    pub(crate) tracker: Option<u64>,
    /// Ask what the caches of the whole fleet have found hot themselves
    #[arg(long, conflicts_with_all = ["monitor", "tracker"])]
    pub(crate) fleet: bool,
    /// With --fleet: what stands before every key of those services
    #[arg(
        long,
        value_name = "PREFIX",
        default_value = "",
        requires = "fleet",
        conflicts_with_all = ["monitor", "tracker"]
    )]
    pub(crate) prefix: String,
    /// How many keys are named
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) top: usize,
    #[command(flatten)]
    pub(crate) delivery: Delivery,
}

/// What `seawall keys skew` takes.
#[derive(Debug, Args)]
pub(crate) struct SkewArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// At most this many keys a second; 0 for as fast as the server answers
    #[arg(long, value_name = "KEYS", default_value_t = 10_000)]
    pub(crate) rate: u64,
    /// How many keys of each node are looked at
    #[arg(long, value_name = "KEYS", default_value_t = 100_000)]
    pub(crate) sample: u64,
    /// Listen to all commands for this many seconds too, at most 60; costs the server much of its speed
    #[arg(long, value_name = "SECONDS")]
    pub(crate) monitor: Option<u64>,
    /// With --monitor: end after this many commands, at most 2,000,000
    #[arg(long, value_name = "N", default_value_t = 200_000, requires = "monitor")]
    pub(crate) lines: u64,
    /// How many slots are named
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
    /// Ask primaries for data even where there are replicas
    #[arg(long)]
    pub(crate) primary: bool,
    #[command(flatten)]
    pub(crate) delivery: Delivery,
}

/// What `seawall keys delete` takes.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The keys, as the other commands print them: `\xNN` is a byte, `\\` a backslash
    #[arg(value_name = "KEY", required_unless_present = "pattern", conflicts_with = "pattern")]
    pub(crate) keys: Vec<OsString>,
    /// All keys that match this pattern, as SCAN understands it
    #[arg(long = "match", value_name = "PATTERN")]
    pub(crate) pattern: Option<String>,
    /// With --match: only keys of this type
    #[arg(long = "type", value_name = "TYPE", requires = "pattern", conflicts_with = "keys")]
    pub(crate) kind: Option<String>,
    /// At most this many keys a second
    #[arg(long, value_name = "KEYS", default_value_t = 1_000)]
    pub(crate) rate: u64,
    /// Say what would be deleted, and delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}
