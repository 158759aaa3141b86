//! Result of a differential run.

use std::collections::BTreeMap;
use std::fmt;

/// One difference, shrunk.
#[derive(Debug, Clone)]
pub struct Found {
    /// The episode, counted from 0: it identifies the dialogue together with the seed.
    pub episode: u64,
    /// The commands that cause the difference, one per line, as `redis-cli` accepts them.
    pub commands: Vec<String>,
    /// Reply of redis-server to the last command.
    pub redis: String,
    /// Reply of the other server.
    pub ours: String,
}

/// The outcome of a run.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The seed that repeats the run.
    pub seed: u64,
    /// Commands whose replies were compared.
    pub commands: u64,
    /// Episodes played.
    pub episodes: u64,
    /// How often each command was sent.
    pub draws: BTreeMap<String, u64>,
    /// Differences that are not accepted, at most one per command and kind of reply.
    pub found: Vec<Found>,
    /// Further differences of the same commands and kinds.
    pub repeated: u64,
    /// How often each accepted difference was seen, by its reason.
    pub accepted: BTreeMap<String, u64>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "episode {}:", self.episode)?;
        for command in &self.commands {
            writeln!(f, "    {command}")?;
        }
        writeln!(f, "  redis {}", self.redis)?;
        write!(f, "  ours  {}", self.ours)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rarest = self.draws.iter().min_by_key(|(_, count)| **count);
        let (name, count) = rarest.map_or(("none", 0), |(name, count)| (name.as_str(), *count));
        writeln!(
            f,
            "seed {}: {} commands in {} episodes, {} different commands, the rarest ({name}) {count} \
             times; {} kinds of difference, {} repeats of them, {} accepted differences",
            self.seed,
            self.commands,
            self.episodes,
            self.draws.len(),
            self.found.len(),
            self.repeated,
            self.accepted.values().sum::<u64>()
        )?;
        for (reason, count) in &self.accepted {
            writeln!(f, "  accepted {count} times: {reason}")?;
        }
        for found in &self.found {
            writeln!(f, "{found}")?;
        }
        Ok(())
    }
}
