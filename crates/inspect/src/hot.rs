//! Finds hot keys of any client: by the server's counters, by `MONITOR`, or by the server's
//! tracker.
//!
//! | Method | Cost | Result |
//! | --- | --- | --- |
//! | [`HotSurvey::by_frequency`] | a scan at a rate | a logarithmic counter of uses; needs an LFU policy |
//! | [`HotSurvey::by_monitor`] | high: the server sends every command to the survey | current reads and writes, counted separately |
//! | [`HotSurvey::by_tracker`] | low | CPU time and bytes; Redis 8.6 and later |
//! | [`HotSurvey::by_fleet`] | none | keys that the toolkit's caches found hot |
//!
//! Primaries are asked, because uses are counted there.

use std::{sync::Arc, time::Duration};

use redis::{Pipeline, Value, cmd};
use seawall_cache::hotkey::HotKeys;
use seawall_client::{Handle, error::Result};
use seawall_resilience::clock::{Clock, Moment};

use super::{
    Progress, Source,
    end::{End, ending},
    listen::{Listen, listen},
    place::{COMMAND_LIMIT, Place},
    scan::{Route, Walk},
    top::Top,
};

/// A key that is used often.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HotKey {
    /// The key, byte for byte.
    pub key: Arc<[u8]>,
    /// The primary that has it; for the fleet, how many processes read it.
    pub node: Arc<str>,
    /// The number by which keys are ranked: the counter of uses, uses that `MONITOR` showed,
    /// microseconds of CPU time, or for the fleet the reads in the window.
    pub score: u64,
    /// Reads that were counted.
    pub reads: u64,
    /// Writes that were counted.
    pub writes: u64,
    /// Bytes over the network, where the server tracks them.
    pub net_bytes: u64,
}

/// Report of a hot-key survey.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HotReport {
    /// The hottest keys, hottest first.
    pub keys: Vec<HotKey>,
    /// Keys that were examined, or uses that were counted.
    pub examined: u64,
    /// How long it took.
    pub took: Duration,
    /// Notes that help to interpret the figures.
    pub notes: Vec<String>,
}

/// Outcome of a hot-key survey.
#[derive(Debug)]
#[must_use]
pub enum HotFound {
    /// The survey ran.
    Found {
        /// The report.
        report: HotReport,
        /// Whether the report is complete.
        end: End,
    },
    /// The server does not support this method; the text says what would help.
    Unsupported(String),
}

/// A survey of hot keys.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::{Seawall, survey::HotFound};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// // The default policy does not count uses; the answer says what to set.
/// let found = seawall.hot_survey().by_frequency(|_| {}, std::future::pending()).await?;
/// assert!(matches!(found, HotFound::Unsupported(advice) if advice.contains("allkeys-lfu")));
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct HotSurvey {
    pub(super) handle: Handle,
    route: Route,
    pub(super) top: usize,
}

impl HotSurvey {
    /// Creates a survey of hot keys, no matter which program uses them.
    pub fn new(handle: &Handle) -> HotSurvey {
        let route = Route { source: Source::Primary, ..Route::default() };
        HotSurvey { handle: handle.clone(), route, top: 20 }
    }
}

impl HotSurvey {
    /// Restricts the survey to keys that match this `SCAN` pattern.
    pub fn matching(mut self, pattern: impl Into<String>) -> Self {
        self.route.pattern = Some(pattern.into());
        self
    }

    /// Sets the rate in keys per second; 0 for as fast as the servers answer. Default: 10,000.
    pub fn rate(mut self, keys_per_second: u64) -> Self {
        self.route.rate = keys_per_second;
        self
    }

    /// Sets the latency limit. Default: 50 ms.
    ///
    /// The survey pauses while a `PING` takes this much longer than the quickest one did. It
    /// applies to [`by_frequency`](Self::by_frequency), the only method that examines every key.
    pub fn max_latency(mut self, limit: Duration) -> Self {
        self.route.max_latency = limit;
        self
    }

    /// Returns `true` if there is no pattern or the pattern matches this key.
    pub(super) fn wants(&self, key: &[u8]) -> bool {
        self.route.pattern.as_ref().is_none_or(|glob| super::glob::matches(glob.as_bytes(), key))
    }

    /// Returns the clock that measures a survey, and its time now.
    pub(super) fn start(&self) -> (&Clock, Moment) {
        let clock = self.handle.client().network_clock();
        (clock, clock.now())
    }

    /// Sets how many keys the report names. Default: 20.
    pub fn top(mut self, keys: usize) -> Self {
        self.top = keys.min(super::MAX_TOP);
        self
    }

    /// Finds hot keys by `OBJECT FREQ` of every key.
    ///
    /// That is a counter from 0 to 255 that grows more slowly the higher it is.
    ///
    /// # Errors
    /// The error that keeps the survey from starting.
    pub async fn by_frequency(
        &self,
        mut watch: impl FnMut(&Progress),
        stop: impl Future<Output = ()>,
    ) -> Result<HotFound> {
        let (clock, started) = self.start();
        let mut walk = Walk::begin(self.handle.client(), &self.route).await?;
        for place in walk.places_mut() {
            let policy = policy(place).await?;
            if !policy.ends_with("-lfu") {
                return Ok(HotFound::Unsupported(format!(
                    "{} does not count uses: its maxmemory-policy is {policy}. `CONFIG SET \
                     maxmemory-policy allkeys-lfu` (or volatile-lfu) makes it count from then on; \
                     without a maxmemory nothing is evicted by that",
                    place.name
                )));
            }
        }
        let mut top = Top::new(self.top);
        let end = {
            let look = async {
                while let Some(page) = walk.next(&mut watch).await? {
                    let mut pipeline = Pipeline::with_capacity(page.keys.len());
                    for key in &page.keys {
                        pipeline.add_command(cmd("OBJECT").arg("FREQ").arg(key).take());
                    }
                    let replies = match page.keys.is_empty() {
                        true => Vec::new(),
                        false => walk.ask(&pipeline).await?,
                    };
                    for (key, reply) in page.keys.into_iter().zip(replies) {
                        // Error or nil: the key was deleted or moved.
                        let Ok(Value::Int(score)) = reply else { continue };
                        let (key, score) = (Arc::<[u8]>::from(key), score.unsigned_abs());
                        let node = Arc::clone(&page.node);
                        let hot = HotKey { key, node, score, reads: 0, writes: 0, net_bytes: 0 };
                        top.offer(score, (0, Arc::clone(&hot.key)), hot);
                    }
                    watch(&walk.progress);
                }
                Ok(())
            };
            ending(look, stop).await
        };
        let examined = walk.progress.seen;
        let mut notes = std::mem::take(&mut walk.notes);
        notes.push("score: the logarithmic counter of OBJECT FREQ, 0 to 255".into());
        let report = HotReport {
            keys: top.into_sorted(),
            examined,
            took: clock.now().since(started),
            notes,
        };
        Ok(HotFound::Found { report, end })
    }

    /// Finds hot keys by reading all commands with `MONITOR` for a limited time.
    ///
    /// It slows the servers down considerably meanwhile, so the bounds are hard.
    ///
    /// # Errors
    /// [`Error::Invalid`](seawall_client::Error::Invalid) if the bounds exceed
    /// [`MAX_LISTEN`](super::MAX_LISTEN) or [`MAX_LINES`](super::MAX_LINES).
    pub async fn by_monitor(
        &self,
        bounds: Listen,
        stop: impl Future<Output = ()>,
    ) -> Result<HotFound> {
        let (clock, started) = self.start();
        let (heard, end) = listen(&self.handle, bounds, stop).await?;
        let mut top = Top::new(self.top);
        for (node, counts) in &heard.counts {
            for (key, count) in counts.iter() {
                if !self.wants(key) {
                    continue;
                }
                let (reads, writes) = (count.reads, count.writes);
                let (key, score) = (Arc::<[u8]>::from(key), reads + writes);
                let node = Arc::clone(node);
                let hot = HotKey { key, node, score, reads, writes, net_bytes: 0 };
                top.offer(score, (0, Arc::clone(&hot.key)), hot);
            }
        }
        let took = clock.now().since(started);
        let mut notes = vec!["score: uses that were heard by MONITOR".to_owned()];
        if heard.lines >= bounds.lines {
            let seconds = took.as_secs_f64();
            notes.push(format!("ended after {} lines, {seconds:.1} s", heard.lines));
        }
        let report = HotReport { keys: top.into_sorted(), examined: heard.uses, took, notes };
        Ok(HotFound::Found { report, end })
    }

    /// Finds hot keys by the counts of the caches of the whole fleet
    /// ([`hotkey`](seawall_cache::hotkey)).
    ///
    /// It only finds keys that are read through the cache, under the prefix of this handle. It
    /// reads only a few keys.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub async fn by_fleet(&self) -> Result<HotFound> {
        let (clock, started) = self.start();
        let fleet = HotKeys::of(&self.handle).fleet().await?;
        let wanted = fleet.iter().filter(|hot| self.wants(&hot.bytes));
        let keys: Vec<_> = wanted
            .take(self.top)
            .map(|hot| HotKey {
                key: hot.bytes.as_slice().into(),
                node: format!("{} processes", hot.sources).into(),
                score: hot.reads,
                reads: hot.reads,
                writes: hot.writes,
                net_bytes: 0,
            })
            .collect();
        let notes = vec!["score: reads of the whole fleet in the rule's window".to_owned()];
        let (examined, took) = (fleet.len() as u64, clock.now().since(started));
        let report = HotReport { keys, examined, took, notes };
        Ok(HotFound::Found { report, end: End::Complete })
    }
}

async fn policy(place: &mut Place) -> Result<String> {
    let info: String = place.connection.send(cmd("INFO").arg("memory"), COMMAND_LIMIT).await?;
    let policy = info.lines().find_map(|line| line.strip_prefix("maxmemory_policy:"));
    Ok(policy.unwrap_or("unknown").trim().to_owned())
}
