//! Settings: typed fields for the engine, one list of names for CONFIG and for configuration files.
//!
//! [`params`] is the only place that knows a setting's name, bounds and whether it may change while
//! running; the fields here are what the code reads. Adding a setting is a field, its default and
//! one line in the list.

mod params;

pub(crate) use params::{Change, PARAMS, Param, find};

use crate::evict::Policy;
use crate::notify::Classes;

/// Limits of a client class' output buffer: bytes at once, or bytes for a number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimit {
    /// Closes the client at once; 0 for no limit.
    pub hard_bytes: u64,
    /// Closes the client if exceeded for `soft_seconds`; 0 for no limit.
    pub soft_bytes: u64,
    /// How long the soft limit may be exceeded.
    pub soft_seconds: u64,
}

/// All settings of an engine and its host.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each field is the setting of the same name in the list")]
pub struct Settings {
    pub databases: i64,
    pub port: i64,
    pub bind: String,
    pub unixsocket: String,
    pub dir: String,
    pub appendonly: bool,
    pub appendfsync: i64,
    pub requirepass: String,
    pub maxmemory: u64,
    /// Bytes, or a share of `maxmemory` as a negative number of percent.
    pub maxmemory_clients: i64,
    pub(crate) maxmemory_policy: Policy,
    pub maxmemory_samples: i64,
    pub lfu_log_factor: i64,
    pub lfu_decay_time: i64,
    pub maxclients: i64,
    pub timeout: i64,
    pub tcp_keepalive: i64,
    pub tcp_backlog: i64,
    pub hz: i64,
    pub proto_max_bulk_len: u64,
    pub client_query_buffer_limit: u64,
    pub output_limits: [OutputLimit; 3],
    pub hash_max_listpack_entries: u64,
    pub hash_max_listpack_value: u64,
    pub zset_max_listpack_entries: u64,
    pub zset_max_listpack_value: u64,
    pub set_max_intset_entries: u64,
    pub list_max_listpack_size: i64,
    pub list_compress_depth: i64,
    pub stream_node_max_bytes: u64,
    pub stream_node_max_entries: u64,
    pub hll_sparse_max_bytes: u64,
    pub slowlog_log_slower_than: i64,
    pub slowlog_max_len: u64,
    pub lua_time_limit: i64,
    pub tracking_table_max_keys: u64,
    pub(crate) notify_keyspace_events: Classes,
    pub save: String,
    pub auto_aof_rewrite_percentage: i64,
    pub auto_aof_rewrite_min_size: u64,
    pub active_expire: bool,
    /// 0 for no, 1 for yes, 2 for clients on this machine.
    pub enable_debug_command: i64,
    /// Settings that Redis has, that clients may read and set, and that mean nothing here.
    pub(crate) inert: Vec<String>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            databases: 16,
            port: 6379,
            bind: "127.0.0.1".into(),
            unixsocket: String::new(),
            dir: ".".into(),
            appendonly: false,
            appendfsync: 1,
            requirepass: String::new(),
            maxmemory: 0,
            maxmemory_clients: 0,
            maxmemory_policy: Policy::NoEviction,
            maxmemory_samples: 5,
            lfu_log_factor: 10,
            lfu_decay_time: 1,
            maxclients: 10_000,
            timeout: 0,
            tcp_keepalive: 300,
            tcp_backlog: 511,
            hz: 10,
            proto_max_bulk_len: 512 << 20,
            client_query_buffer_limit: 1 << 30,
            output_limits: [
                OutputLimit { hard_bytes: 0, soft_bytes: 0, soft_seconds: 0 },
                OutputLimit { hard_bytes: 256 << 20, soft_bytes: 64 << 20, soft_seconds: 60 },
                OutputLimit { hard_bytes: 32 << 20, soft_bytes: 8 << 20, soft_seconds: 60 },
            ],
            hash_max_listpack_entries: 512,
            hash_max_listpack_value: 64,
            zset_max_listpack_entries: 128,
            zset_max_listpack_value: 64,
            set_max_intset_entries: 512,
            list_max_listpack_size: -2,
            list_compress_depth: 0,
            stream_node_max_bytes: 4096,
            stream_node_max_entries: 100,
            hll_sparse_max_bytes: 3000,
            slowlog_log_slower_than: 10_000,
            slowlog_max_len: 128,
            lua_time_limit: 5000,
            tracking_table_max_keys: 1_000_000,
            notify_keyspace_events: Classes::default(),
            save: String::new(),
            auto_aof_rewrite_percentage: 100,
            auto_aof_rewrite_min_size: 64 << 20,
            active_expire: true,
            enable_debug_command: 0,
            inert: params::inert_defaults(),
        }
    }
}

impl Settings {
    /// Sets one setting by its name, as a configuration file or CONFIG SET does.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong with the name or the value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let param = find(name).ok_or_else(|| format!("unknown setting '{name}'"))?;
        param.set(self, value)
    }

    /// The value of a setting as text.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        find(name).map(|param| param.get(self))
    }
}
