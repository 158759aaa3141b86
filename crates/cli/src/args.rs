//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::keys::args::KeysArgs;

/// A market service, built on the Seawall toolkit (cache, locks, queues), with an embedded
/// Redis-compatible engine.
///
/// Without a command, serves the market on 127.0.0.1:8080 and keeps its data in ./seawall-data.
#[derive(Debug, Parser)]
#[command(name = "seawall", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Seawall {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the market: web page and API.
    Serve(Box<ServeArgs>),
    /// Run the Redis-compatible engine as a server for any Redis client.
    Engine(Box<EngineArgs>),
    /// Find big keys, hot keys and skew, and delete keys without blocking.
    Keys(Box<KeysArgs>),
}

impl Default for Command {
    fn default() -> Self {
        Self::Serve(Box::default())
    }
}

/// Settings of `seawall serve`. Options given here override environment variables (`SEAWALL_LISTEN`
/// for --listen, and so on), which override the configuration file.
#[derive(Debug, Default, Args)]
pub(crate) struct ServeArgs {
    /// Address and port to listen on [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// Redis to use: embedded:, embedded:DIR, redis://…, rediss://…, unix:PATH, redis-sentinel://…
    /// or redis-cluster://… [default: embedded:DATA]
    #[arg(long, value_name = "URL")]
    pub(crate) redis: Option<String>,
    /// File whose first line is the Redis password; or set SEAWALL_REDIS_PASSWORD
    #[arg(long, value_name = "FILE")]
    pub(crate) redis_password_file: Option<String>,
    /// Rejected: a password on the command line is visible to every user of this machine
    #[arg(long, value_name = "PASSWORD", hide = true)]
    pub(crate) redis_password: Option<String>,
    /// Database to use: sqlite:PATH, or mysql://USER@HOST:PORT/NAME for MySQL and MariaDB [default:
    /// sqlite:DATA/market.db]
    #[arg(long, value_name = "URL")]
    pub(crate) database: Option<String>,
    /// File whose first line is the database password; or set SEAWALL_DATABASE_PASSWORD
    #[arg(long, value_name = "FILE")]
    pub(crate) database_password_file: Option<String>,
    /// Rejected: a password on the command line is visible to every user of this machine
    #[arg(long, value_name = "PASSWORD", hide = true)]
    pub(crate) database_password: Option<String>,
    /// Data directory [default: ./seawall-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<String>,
    /// Delivery of login codes: log, or echo (also shown on the page) [default: echo if both stores
    /// are embedded, else log]
    #[arg(long, value_name = "MODE")]
    pub(crate) sms: Option<String>,
    /// Do not fill an empty database with demo data
    #[arg(long)]
    pub(crate) no_demo: bool,
    /// Phone number of the admin
    #[arg(long, value_name = "PHONE")]
    pub(crate) admin_phone: Option<String>,
    /// Seconds after which an unpaid order expires and its stock is released [default: 900]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) unpaid_after: Option<String>,
    /// Maximum flash-sale orders per second written to the database; further orders wait in Redis
    /// [default: 2000]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) orders_per_second: Option<String>,
    /// Cache strategy for shops: lease, mutex or logical [default: lease]
    #[arg(long, value_name = "STRATEGY")]
    pub(crate) shop_cache: Option<String>,
    /// Number of followers from which an author's notes are pulled instead of pushed [default:
    /// 1000]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) feed_pull_fans: Option<String>,
    /// Number of shards for the stock of one SKU [default: 3]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) stock_shards: Option<String>,
    /// Proxies whose X-Forwarded-For header is trusted, separated by commas [default: none]
    #[arg(long, value_name = "ADDRESSES")]
    pub(crate) trusted_proxies: Option<String>,
    /// Business time zone [default: Asia/Shanghai]
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,
    /// Maximum login codes per IP address and hour; ignored with --sms echo [default: 20]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) code_ip_hourly: Option<String>,
    /// Time of the daily big-key scan in the business time zone: HH:MM, or off [default: 03:30]
    #[arg(long, value_name = "TIME")]
    pub(crate) big_keys_at: Option<String>,
    /// Maximum keys per second of that scan [default: 2000]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) big_keys_rate: Option<String>,
    /// URL to which big-key alerts are posted as JSON: http://HOST:PORT/PATH
    #[arg(long, value_name = "URL")]
    pub(crate) big_keys_hook: Option<String>,
    /// TOML file with these settings, one `name = value` per line; or set SEAWALL_CONFIG
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Minimum log level: error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log: Option<String>,
    /// Log format: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
}

impl ServeArgs {
    /// Returns the settings given as arguments, by name.
    pub(crate) fn settings(&self) -> Vec<(&'static str, &str)> {
        let all = [
            ("listen", &self.listen),
            ("redis", &self.redis),
            ("redis-password-file", &self.redis_password_file),
            ("database", &self.database),
            ("database-password-file", &self.database_password_file),
            ("data", &self.data),
            ("sms", &self.sms),
            ("admin-phone", &self.admin_phone),
            ("unpaid-after", &self.unpaid_after),
            ("orders-per-second", &self.orders_per_second),
            ("shop-cache", &self.shop_cache),
            ("feed-pull-fans", &self.feed_pull_fans),
            ("stock-shards", &self.stock_shards),
            ("trusted-proxies", &self.trusted_proxies),
            ("zone", &self.zone),
            ("code-ip-hourly", &self.code_ip_hourly),
            ("big-keys-at", &self.big_keys_at),
            ("big-keys-rate", &self.big_keys_rate),
            ("big-keys-hook", &self.big_keys_hook),
            ("log", &self.log),
            ("log-format", &self.log_format),
        ];
        let given = all.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        given.chain(self.no_demo.then_some(("demo", "false"))).collect()
    }
}

/// Settings of `seawall engine`. Options given here override the configuration file.
#[derive(Debug, Default, Args)]
pub(crate) struct EngineArgs {
    /// TCP port [default: 6379]; 0 to disable TCP
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<String>,
    /// Addresses to listen on, separated by spaces or commas [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) bind: Option<String>,
    /// Path of an additional unix socket to listen on
    #[arg(long, value_name = "PATH")]
    pub(crate) unixsocket: Option<String>,
    /// Data directory [default: ./seawall-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<String>,
    /// Log every change to disk: yes or no [default: yes]
    #[arg(long, value_name = "YES|NO")]
    pub(crate) appendonly: Option<String>,
    /// When to sync the log to disk: always, everysec or no [default: everysec]
    #[arg(long, value_name = "POLICY")]
    pub(crate) appendfsync: Option<String>,
    /// Memory limit for the data, such as 100mb; 0 for no limit
    #[arg(long, value_name = "SIZE")]
    pub(crate) maxmemory: Option<String>,
    /// What to evict at the memory limit, such as allkeys-lru [default: noeviction]
    #[arg(long, value_name = "POLICY")]
    pub(crate) maxmemory_policy: Option<String>,
    /// Number of databases [default: 16]
    #[arg(long, value_name = "N")]
    pub(crate) databases: Option<String>,
    /// Allow the DEBUG command: no, yes, or local for clients on this machine [default: no]
    #[arg(long, value_name = "WHO")]
    pub(crate) enable_debug_command: Option<String>,
    /// File whose first line is the password that clients must give
    #[arg(long, value_name = "FILE")]
    pub(crate) requirepass_file: Option<PathBuf>,
    /// Rejected: a password on the command line is visible to every user of this machine
    #[arg(long, value_name = "PASSWORD", hide = true)]
    pub(crate) requirepass: Option<String>,
    /// Configuration file in redis.conf syntax, one `name value` per line
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Minimum log level: debug, verbose, notice or warning [default: notice]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) loglevel: Option<String>,
    /// Check the log in DIR and exit
    #[arg(long, value_name = "DIR", conflicts_with_all = ["export", "import"])]
    pub(crate) check: Option<PathBuf>,
    /// With --check: truncate the log at its first damage
    #[arg(long, requires = "check")]
    pub(crate) repair: bool,
    /// Print the data in DIR as commands for `redis-cli --pipe` and exit
    #[arg(long, value_name = "DIR", conflicts_with = "import")]
    pub(crate) export: Option<PathBuf>,
    /// Run the commands in FILE on the data in DIR and exit
    #[arg(long, num_args = 2, value_names = ["DIR", "FILE"])]
    pub(crate) import: Option<Vec<PathBuf>>,
}

impl EngineArgs {
    /// Returns the settings given as arguments, by their CONFIG names.
    pub(crate) fn settings(&self) -> Vec<(&'static str, &str)> {
        let all = [
            ("port", &self.port),
            ("bind", &self.bind),
            ("unixsocket", &self.unixsocket),
            ("dir", &self.dir),
            ("appendonly", &self.appendonly),
            ("appendfsync", &self.appendfsync),
            ("maxmemory", &self.maxmemory),
            ("maxmemory-policy", &self.maxmemory_policy),
            ("databases", &self.databases),
            ("enable-debug-command", &self.enable_debug_command),
            ("loglevel", &self.loglevel),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Seawall::command().debug_assert();
    }

    #[test]
    fn nothing_at_all_serves_the_market() {
        let seawall = Seawall::try_parse_from(["seawall"]).expect("no argument is needed");
        assert!(matches!(seawall.command.unwrap_or_default(), Command::Serve(_)));
    }

    #[test]
    fn repairing_needs_something_to_check() {
        assert!(Seawall::try_parse_from(["seawall", "engine", "--repair"]).is_err());
    }
}
