//! Settings of the service.
//!
//! [`Sources`] puts them together from the command line, the environment and a file.

mod sources;
#[cfg(test)]
mod tests;

use std::{fmt, net::SocketAddr, path::PathBuf};

use jiff::tz::TimeZone;

pub use self::sources::Sources;
use crate::big_keys;

/// How login codes reach people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sms {
    /// Written to the log.
    Log,
    /// Written to the log, returned to whoever asked, shown on the page.
    Echo,
}

/// Where the database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Database {
    /// A file.
    Sqlite(PathBuf),
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
    /// The nightly survey of big keys.
    pub big_keys: big_keys::Settings,
    /// Least important lines of the log.
    pub log: tracing::Level,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("listen", &self.listen)
            .field("data", &self.data)
            .finish_non_exhaustive()
    }
}
