//! Plays episodes on both servers and compares them.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::accepted::Accepted;
use super::compare::Policy;
use super::generate::{CONNECTIONS, Episode, Generator, ORDINARY, Step};
use super::judge::{Judge, Mismatch, bare, command_name, event_mismatches, kind_of, shown};
use super::report::{Found, Report};
use super::shrink::shrink;
use super::side::{Events, PATIENCE, Side};
use super::slots;
use crate::builder::ServerBuilder;

/// Commands sent before their replies are read; few enough never to fill a socket.
const BATCH: usize = 16;
/// Maximum time for a reply while shrinking, where a removed command may leave another one blocked.
const SHRINK_PATIENCE: Duration = Duration::from_millis(500);
/// Fraction of the patience to wait for a message that only one server has sent.
const LATE_SHARE: u32 = 20;
/// Interval of checks for it.
const LATE_STEP: Duration = Duration::from_millis(1);

/// Seed and limits of a run.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The same seed gives the same commands.
    pub seed: u64,
    /// Stop after this many commands.
    pub commands: u64,
    /// Stop after this many kinds of difference.
    pub differences: usize,
}

/// Two servers that should behave the same.
pub struct Differential {
    redis: Side,
    ours: Side,
    accepted: Accepted,
    used: BTreeMap<usize, u64>,
    patience: Duration,
    /// Whether an accepted difference affects all that follows in this episode.
    tainted: bool,
}

/// The first difference of an episode.
struct Difference {
    /// The step that differed; the number of steps if only the data differed.
    at: usize,
    command: String,
    redis: String,
    ours: String,
}

/// Returns how often each command is drawn among `commands`, without any server.
#[must_use]
pub fn draws(seed: u64, commands: u64) -> BTreeMap<String, u64> {
    let mut generator = Generator::new(seed);
    let mut counts: BTreeMap<String, u64> =
        generator.names().iter().map(|name| (name.clone(), 0)).collect();
    let mut left = commands;
    while left > 0 {
        for step in generator.episode().steps {
            left = left.saturating_sub(1);
            if let Some(count) = counts.get_mut(&command_name(&step)) {
                *count += 1;
            }
        }
    }
    counts
}

impl Differential {
    /// Starts both servers.
    ///
    /// # Errors
    ///
    /// If one does not start.
    pub fn new(redis: ServerBuilder, ours: ServerBuilder) -> io::Result<Self> {
        Ok(Self {
            redis: Side::new(redis)?,
            ours: Side::new(ours)?,
            accepted: Accepted::load(),
            used: BTreeMap::new(),
            patience: PATIENCE,
            tainted: false,
        })
    }

    /// Accepts more differences in this run, as lines of `accepted.txt`.
    pub fn accept(&mut self, rules: &str) {
        self.accepted.add(rules);
    }

    /// Plays episodes until a limit is reached; `progress` gets the number of commands so far.
    ///
    /// # Errors
    ///
    /// If redis-server itself fails, or a server cannot be restarted.
    pub fn run(&mut self, limits: Limits, mut progress: impl FnMut(u64)) -> io::Result<Report> {
        let mut generator = Generator::new(limits.seed);
        let mut report = Report { seed: limits.seed, ..Report::default() };
        let mut kinds: HashMap<(String, String), ()> = HashMap::new();
        while report.commands < limits.commands && report.found.len() < limits.differences {
            let episode = generator.episode();
            for step in &episode.steps {
                *report.draws.entry(command_name(step)).or_default() += 1;
            }
            report.commands += episode.steps.len() as u64;
            if let Some(difference) = self.play(&episode)? {
                let kind = (kind_of(&difference.command), kind_of(&difference.ours));
                if kinds.insert(kind, ()).is_some() {
                    report.repeated += 1;
                } else {
                    let found = self.shrunk(&episode, difference, report.episodes)?;
                    report.found.push(found);
                }
            }
            report.episodes += 1;
            progress(report.commands);
        }
        for (&rule, &count) in &self.used {
            *report.accepted.entry(self.accepted.rules[rule].reason.clone()).or_default() += count;
        }
        Ok(report)
    }

    fn shrunk(&mut self, episode: &Episode, first: Difference, number: u64) -> io::Result<Found> {
        let end = (first.at + 1).min(episode.steps.len());
        // If only the data differs, there is no differing step to keep.
        let kept = usize::from(first.at < episode.steps.len());
        let command = first.command.clone();
        let mut last = first;
        let start = Episode { steps: episode.steps[..end].to_vec(), multi: episode.multi };
        self.patience = SHRINK_PATIENCE;
        let small = shrink(start, kept, |candidate| match self.play(candidate) {
            Ok(Some(difference)) if difference.command == command => {
                last = difference;
                true
            }
            _ => false,
        });
        self.patience = PATIENCE;
        let mut commands: Vec<String> = small.steps.iter().map(shown).collect();
        if last.at == small.steps.len() {
            commands.push(last.command.clone());
        }
        Ok(Found { episode: number, commands, redis: last.redis, ours: last.ours })
    }

    /// Plays one episode from an empty server. Returns the first difference that is not accepted.
    fn play(&mut self, episode: &Episode) -> io::Result<Option<Difference>> {
        self.tainted = false;
        self.redis.reset().map_err(|e| oracle(&e, "reset"))?;
        if let Err(error) = self.ours.reset() {
            return self.broken(episode, 0, &error).map(Some);
        }
        let outcome =
            if episode.multi { self.play_multi(episode)? } else { self.play_single(episode)? };
        match outcome {
            Some(difference) => Ok(Some(difference)),
            None if self.tainted => Ok(None),
            None => self.compare_data(episode),
        }
    }

    fn play_single(&mut self, episode: &Episode) -> io::Result<Option<Difference>> {
        let mut judge = Judge::default();
        for (batch, steps) in episode.steps.chunks(BATCH).enumerate() {
            for side in [&mut self.redis, &mut self.ours] {
                let mut wire = Vec::new();
                for step in steps {
                    crate::client::encode(&mut wire, &step.args);
                }
                // A server that is gone is noticed when its replies are read.
                let client = side.connection(0)?;
                client.set_timeout(self.patience)?;
                let _ = client.send_raw(&wire);
            }
            for (at, step) in steps.iter().enumerate() {
                let at = batch * BATCH + at;
                let redis =
                    self.redis.connection(0)?.read().map_err(|e| oracle(&e, &shown(step)))?;
                let ours = match self.ours.connection(0)?.read() {
                    Ok(reply) => reply,
                    Err(error) => return self.broken(episode, at, &error).map(Some),
                };
                let mismatches = judge.mismatches(step, &redis, &ours);
                let difference = self.not_accepted(at, mismatches);
                if difference.is_some() || self.tainted {
                    return Ok(difference);
                }
            }
        }
        Ok(None)
    }

    fn play_multi(&mut self, episode: &Episode) -> io::Result<Option<Difference>> {
        let mut judge = Judge::default();
        for (at, step) in episode.steps.iter().enumerate() {
            for side in [&mut self.redis, &mut self.ours] {
                let client = side.connection(step.connection)?;
                client.set_timeout(self.patience)?;
                let _ = client.send(&step.args);
            }
            if step.connection < ORDINARY {
                let redis = self
                    .redis
                    .connection(step.connection)?
                    .read()
                    .map_err(|e| oracle(&e, &shown(step)))?;
                let ours = match self.ours.connection(step.connection)?.read() {
                    Ok(reply) => reply,
                    Err(error) => return self.broken(episode, at, &error).map(Some),
                };
                let mismatches = judge.mismatches(step, &redis, &ours);
                let difference = self.not_accepted(at, mismatches);
                if difference.is_some() || self.tainted {
                    return Ok(difference);
                }
            }
            self.redis.settle().map_err(|e| oracle(&e, &shown(step)))?;
            if let Err(error) = self.ours.settle() {
                return self.broken(episode, at, &error).map(Some);
            }
            for number in ORDINARY..CONNECTIONS {
                let (mut redis, mut ours) = self.drain(number, step)?;
                if command_name(step) == "QUIT" && step.connection == number && !redis.is_empty() {
                    // Both close the connection after the reply, but not at the same moment: close
                    // it here.
                    redis.retain(Option::is_some);
                    ours.retain(Option::is_some);
                    self.redis.hang_up(number);
                    self.ours.hang_up(number);
                }
                let mismatches = event_mismatches(step, &redis, &ours);
                let difference = self.not_accepted(at, mismatches);
                if difference.is_some() || self.tainted {
                    return Ok(difference);
                }
            }
        }
        Ok(None)
    }

    /// Returns what arrived on a connection from both servers.
    ///
    /// A message that only one of them has sent may still be in flight from the other, so this
    /// waits for it.
    fn drain(&mut self, number: usize, step: &Step) -> io::Result<(Events, Events)> {
        let failed = |error: io::Error| oracle(&error, &shown(step));
        let mut redis = self.redis.drain(number).map_err(failed)?;
        let mut ours = self.ours.drain(number)?;
        let started = Instant::now();
        while redis.len() != ours.len() && started.elapsed() < self.patience / LATE_SHARE {
            thread::sleep(LATE_STEP);
            redis.extend(self.redis.drain(number).map_err(failed)?);
            ours.extend(self.ours.drain(number)?);
        }
        Ok((redis, ours))
    }

    /// Compares the data of the two servers.
    fn compare_data(&mut self, episode: &Episode) -> io::Result<Option<Difference>> {
        let end = episode.steps.len();
        for key in slots::all_keys() {
            let kind =
                self.redis.control().call(&["TYPE", key]).map_err(|e| oracle(&e, key))?.text();
            let encoding = self
                .redis
                .control()
                .call(&["OBJECT", "ENCODING", key])
                .map_err(|e| oracle(&e, key))?
                .text();
            let hashed = encoding == "hashtable";
            let (read, policy): (&[&str], Policy) = match kind.as_str() {
                "string" => (&["GET", key], Policy::Exact),
                "list" => (&["LRANGE", key, "0", "-1"], Policy::Exact),
                "set" => (&["SMEMBERS", key], Policy::Unordered),
                "hash" if hashed => (&["HGETALL", key], Policy::Pairs),
                "hash" => (&["HGETALL", key], Policy::Exact),
                "zset" => (&["ZRANGE", key, "0", "-1", "WITHSCORES"], Policy::Exact),
                "stream" => (&["XINFO", "STREAM", key, "FULL"], Policy::Near),
                _ => continue,
            };
            let checks: [(&[&str], Policy); 4] = [
                (&["TYPE", key], Policy::Exact),
                (&["OBJECT", "ENCODING", key], Policy::Exact),
                (&["PEXPIRETIME", key], Policy::Near),
                (read, policy),
            ];
            for (command, policy) in checks {
                let redis = self.redis.control().call(command).map_err(|e| oracle(&e, key))?;
                let ours = match self.ours.control().call(command) {
                    Ok(reply) => reply,
                    Err(error) => return self.broken(episode, end, &error).map(Some),
                };
                if !policy.same(&redis, &ours) {
                    let mismatch = Mismatch { command: command.join(" "), redis, ours };
                    if let Some(difference) = self.not_accepted(end, vec![mismatch]) {
                        return Ok(Some(difference));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Returns the first mismatch that is not accepted.
    fn not_accepted(&mut self, at: usize, mismatches: Vec<Mismatch>) -> Option<Difference> {
        mismatches.into_iter().find_map(|mismatch| {
            let Mismatch { command, redis, ours } = mismatch;
            let (redis, ours) = (redis.to_string(), ours.to_string());
            if let Some(rule) = self.accepted.find(bare(&command), &redis, &ours) {
                *self.used.entry(rule).or_default() += 1;
                // If only one of them queued a command, the whole transaction differs.
                self.tainted |= redis == "+QUEUED";
                return None;
            }
            Some(Difference { at, command, redis, ours })
        })
    }

    /// Reports that our server gave no reply: it crashed, hangs, or sent malformed bytes.
    fn broken(
        &mut self,
        episode: &Episode,
        at: usize,
        error: &io::Error,
    ) -> io::Result<Difference> {
        let log = self.ours.log();
        let tail: Vec<&str> = log.lines().rev().take(5).collect();
        let ours = format!("no reply ({error}); last words: {}", tail.join(" / "));
        self.ours.restart()?;
        let command = episode.steps.get(at).map(shown).unwrap_or_default();
        Ok(Difference { at, command, redis: "a reply".into(), ours })
    }
}

/// Redis is right by definition, so if it fails the run is over.
fn oracle(error: &io::Error, while_playing: &str) -> io::Error {
    let message = format!("redis-server itself failed at `{while_playing}`: {error}");
    io::Error::new(error.kind(), message)
}
