//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// A cache, lock and queue toolkit with a Redis-compatible engine inside.
///
/// Without a command it starts the engine on 127.0.0.1:6379 with its data under ./seawall-data.
#[derive(Debug, Parser)]
#[command(name = "seawall", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Seawall {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the Redis-compatible engine to any Redis client.
    Engine(Box<EngineArgs>),
}

impl Default for Command {
    fn default() -> Self {
        Self::Engine(Box::default())
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
    fn nothing_at_all_starts_the_engine() {
        let seawall = Seawall::try_parse_from(["seawall"]).expect("no argument is needed");
        assert!(matches!(seawall.command.unwrap_or_default(), Command::Engine(_)));
    }

    #[test]
    fn repairing_needs_something_to_check() {
        assert!(Seawall::try_parse_from(["seawall", "engine", "--repair"]).is_err());
    }
}
