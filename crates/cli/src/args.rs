//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::keys::args::KeysArgs;

/// A market service, and the cache, lock and queue toolkit under it, with a Redis-compatible engine
/// inside.
///
/// Without a command it serves the market on 127.0.0.1:8080 with its data under ./seawall-data.
#[derive(Debug, Parser)]
#[command(name = "seawall", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Seawall {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the market: its page and its API.
    Serve(Box<ServeArgs>),
    /// Serve the Redis-compatible engine to any Redis client.
    Engine(Box<EngineArgs>),
    /// Find big keys, hot keys and skew, and delete keys gently.
    Keys(Box<KeysArgs>),
}

impl Default for Command {
    fn default() -> Self {
        Self::Serve(Box::default())
    }
}

/// Settings of `seawall serve`. What is given here wins over the environment (`SEAWALL_LISTEN` for
/// --listen, and so on), that over the configuration file.
#[derive(Debug, Default, Args)]
pub(crate) struct ServeArgs {
    /// Where to listen [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// Redis: embedded:, embedded:DIR, redis://…, rediss://…, unix:PATH, redis-sentinel://… or
    /// redis-cluster://… [default: embedded:DATA]
    #[arg(long, value_name = "URL")]
    pub(crate) redis: Option<String>,
    /// A file whose first line is Redis' password; SEAWALL_REDIS_PASSWORD does it as well
    #[arg(long, value_name = "FILE")]
    pub(crate) redis_password_file: Option<String>,
    /// Not taken: a password on the command line is visible to everybody on this machine
    #[arg(long, value_name = "PASSWORD", hide = true)]
    pub(crate) redis_password: Option<String>,
    /// The database: sqlite:PATH, or mysql://USER@HOST:PORT/NAME for MySQL and MariaDB
    /// [default: sqlite:DATA/market.db]
    #[arg(long, value_name = "URL")]
    pub(crate) database: Option<String>,
    /// A file whose first line is the database's password; SEAWALL_DATABASE_PASSWORD does it as well
    #[arg(long, value_name = "FILE")]
    pub(crate) database_password_file: Option<String>,
    /// Not taken: a password on the command line is visible to everybody on this machine
    #[arg(long, value_name = "PASSWORD", hide = true)]
    pub(crate) database_password: Option<String>,
    /// Where everything is kept [default: ./seawall-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<String>,
    /// How login codes are delivered: log, or echo (also shown on the page) [default: echo when
    /// both stores are the embedded ones, else log]
    #[arg(long, value_name = "MODE")]
    pub(crate) sms: Option<String>,
    /// Leave an empty database empty
    #[arg(long)]
    pub(crate) no_demo: bool,
    /// The phone whose owner is an admin
    #[arg(long, value_name = "PHONE")]
    pub(crate) admin_phone: Option<String>,
    /// Seconds after which an unpaid order times out and gives its stock back [default: 900]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) unpaid_after: Option<String>,
    /// Orders of flash sales that go into the database in a second at most; what comes faster waits in
    /// Redis [default: 2000]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) orders_per_second: Option<String>,
    /// How shops are cached: lease, mutex or logical [default: lease]
    #[arg(long, value_name = "STRATEGY")]
    pub(crate) shop_cache: Option<String>,
    /// Number of fans from which an author's notes are pulled instead of pushed [default: 1000]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) feed_pull_fans: Option<String>,
    /// Over how many shards the stock of one SKU is spread [default: 3]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) stock_shards: Option<String>,
    /// Proxies whose X-Forwarded-For is believed, separated by commas [default: none]
    #[arg(long, value_name = "ADDRESSES")]
    pub(crate) trusted_proxies: Option<String>,
    /// The business zone [default: Asia/Shanghai]
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,
    /// Login codes that one address may ask for in an hour; not with --sms echo [default: 20]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) code_ip_hourly: Option<String>,
    /// When big keys are looked for every day, in the business zone: HH:MM, or off [default: 03:30]
    #[arg(long, value_name = "TIME")]
    pub(crate) big_keys_at: Option<String>,
    /// How many keys a second that looks at [default: 2000]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) big_keys_rate: Option<String>,
    /// Where an alarm about big keys is posted as JSON: http://HOST:PORT/PATH
    #[arg(long, value_name = "URL")]
    pub(crate) big_keys_hook: Option<String>,
    /// A TOML file of these settings, one `name = value` a line; SEAWALL_CONFIG does it as well
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Least important lines to print: error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log: Option<String>,
    /// How lines are printed: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
}

impl ServeArgs {
    /// The settings among the arguments, by their names.
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

/// Settings of `seawall engine`. What is given here wins over the configuration file.
#[derive(Debug, Default, Args)]
pub(crate) struct EngineArgs {
    /// TCP port [default: 6379]; 0 for none
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<String>,
    /// Addresses to listen on, separated by spaces or commas [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) bind: Option<String>,
    /// Path of a unix socket to listen on as well
    #[arg(long, value_name = "PATH")]
    pub(crate) unixsocket: Option<String>,
    /// Where the data is kept [default: ./seawall-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<String>,
    /// Whether every change is logged to disk: yes or no [default: yes]
    #[arg(long, value_name = "YES|NO")]
    pub(crate) appendonly: Option<String>,
    /// When the log is synced: always, everysec or no [default: everysec]
    #[arg(long, value_name = "POLICY")]
    pub(crate) appendfsync: Option<String>,
    /// How much memory the data may take, such as 100mb; 0 for no bound
    #[arg(long, value_name = "SIZE")]
    pub(crate) maxmemory: Option<String>,
    /// What to evict at that bound, such as allkeys-lru [default: noeviction]
    #[arg(long, value_name = "POLICY")]
    pub(crate) maxmemory_policy: Option<String>,
    /// Number of databases [default: 16]
    #[arg(long, value_name = "N")]
    pub(crate) databases: Option<String>,
    /// Who may use DEBUG: no, yes, or local for clients on this machine [default: no]
    #[arg(long, value_name = "WHO")]
    pub(crate) enable_debug_command: Option<String>,
    /// A file whose first line is the password that clients must give
    #[arg(long, value_name = "FILE")]
    pub(crate) requirepass_file: Option<PathBuf>,
    /// Not taken: a password on the command line is visible to everybody on this machine
    #[arg(long, value_name = "PASSWORD", hide = true)]
    pub(crate) requirepass: Option<String>,
    /// A file of settings, one `name value` a line, as Redis has them
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Least important lines to print: debug, verbose, notice or warning [default: notice]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) loglevel: Option<String>,
    /// Check the log in DIR and end
    #[arg(long, value_name = "DIR", conflicts_with_all = ["export", "import"])]
    pub(crate) check: Option<PathBuf>,
    /// With --check: cut the log before its first damage
    #[arg(long, requires = "check")]
    pub(crate) repair: bool,
    /// Print the data in DIR as commands for `redis-cli --pipe` and end
    #[arg(long, value_name = "DIR", conflicts_with = "import")]
    pub(crate) export: Option<PathBuf>,
    /// Make a log in DIR from the commands in FILE and end
    #[arg(long, num_args = 2, value_names = ["DIR", "FILE"])]
    pub(crate) import: Option<Vec<PathBuf>>,
}

impl EngineArgs {
    /// The settings among the arguments, by the names that CONFIG knows.
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
