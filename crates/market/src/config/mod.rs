//! Settings of the service.
//!
//! [`Sources`] puts them together from the command line, the environment and a file.

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

/// How login codes reach people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sms {
    /// Written to the log.
    Log,
    /// Written to the log, returned to whoever asked, shown on the page.
    Echo,
}

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Everything the service has to know.
#[derive(Clone)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// URL of Redis.
    pub redis: String,
    /// Its password, when it is not in the environment.
    pub redis_password: Option<String>,
    /// The database.
    pub database: Database,
    /// Folder of everything that is kept.
    pub data: PathBuf,
    /// How login codes reach people.
    pub sms: Sms,
    /// Whether an empty database is filled with the demo town.
    pub demo: bool,
    /// The business zone: offsets of times, borders of days.
    pub zone: TimeZone,
    /// Login codes that one address may ask for in an hour.
    pub code_ip_hourly: u32,
    /// The phone whose owner is an admin, besides those that the database calls so.
    pub admin_phone: Option<Phone>,
    /// When an order that nobody paid for gives its stock back.
    pub unpaid_after: Duration,
    /// Orders of flash sales that this process writes into the database in a second at most.
    pub orders_per_second: u32,
    /// How shops are cached.
    pub shop_cache: Mode,
    /// From so many fans on, notes are pulled by readers instead of pushed to them.
    pub feed_pull_fans: u64,
    /// Over how many shards the stock of a SKU is spread.
    pub stock_shards: u16,
    /// Proxies whose word about a client's address is believed.
    pub trusted_proxies: Vec<IpAddr>,
    /// The nightly survey of big keys.
    pub big_keys: big_keys::Settings,
    /// How the log is written.
    pub log_format: LogFormat,
    /// Least important lines of the log.
    pub log: tracing::Level,
}

impl Config {
    /// Until when an order of that time waits for its payment; milliseconds since the epoch.
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
