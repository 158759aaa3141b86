//! Settings of the service.
//!
//! [`Sources`] reads them from the command line, the environment and a file.

mod sources;
mod stores;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use jiff::tz::TimeZone;
use seawall::cache::Mode;

pub use self::{
    sources::Sources,
    stores::{Database, Secret},
};
use crate::{accounts::Phone, big_keys};

/// Delivery of login codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sms {
    /// Written to the log.
    Log,
    /// Written to the log, and returned in the response so that the page can show them.
    Echo,
}

/// Log format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Human-readable text.
    Text,
    /// One JSON object per line.
    Json,
}

/// All settings of the service.
#[derive(Clone)]
pub struct Config {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// URL of Redis.
    pub redis: String,
    /// Redis password, if it is not in the environment.
    pub redis_password: Option<String>,
    /// The database.
    pub database: Database,
    /// Data folder.
    pub data: PathBuf,
    /// Delivery of login codes.
    pub sms: Sms,
    /// Whether an empty database is filled with demo data.
    pub demo: bool,
    /// Business time zone: offsets of times, boundaries of days.
    pub zone: TimeZone,
    /// Maximum login codes per client address in an hour.
    pub code_ip_hourly: u32,
    /// Phone whose owner is an admin, in addition to admins in the database.
    pub admin_phone: Option<Phone>,
    /// Time after which an unpaid order is cancelled and its stock returned.
    pub unpaid_after: Duration,
    /// Maximum flash-sale orders a second that this process writes to the database.
    pub orders_per_second: u32,
    /// Cache mode of shops.
    pub shop_cache: Mode,
    /// Number of followers from which readers pull an author's notes instead of having them pushed.
    pub feed_pull_fans: u64,
    /// Number of shards for the stock of a SKU.
    pub stock_shards: u16,
    /// Proxies whose client-address headers are trusted.
    pub trusted_proxies: Vec<IpAddr>,
    /// Nightly survey of big keys.
    pub big_keys: big_keys::Settings,
    /// Log format.
    pub log_format: LogFormat,
    /// Minimum log level.
    pub log: tracing::Level,
}

impl Config {
    /// Returns the payment deadline of an order created at this time, in milliseconds since the
    /// epoch.
    pub(crate) fn paid_before(&self, create_time: i64) -> i64 {
        let waits = i64::try_from(self.unpaid_after.as_millis()).unwrap_or(i64::MAX);
        create_time.saturating_add(waits)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("listen", &self.listen)
            .field("data", &self.data)
            .finish_non_exhaustive()
    }
}
