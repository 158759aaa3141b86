//! Hot keys of any client: by the server's own counters, by listening to it, or by its tracker.
//!
//! | Way | Cost | Tells |
//! | --- | --- | --- |
//! | [`HotSurvey::by_frequency`] | a scan at a rate | a logarithmic counter of uses; needs an LFU policy |
//! | [`HotSurvey::by_monitor`] | high: the server writes every command to us | reads and writes apart, now |
//! | [`HotSurvey::by_tracker`] | low | CPU time and bytes; Redis 8.6 and later |
//! | [`HotSurvey::by_fleet`] | nothing | what this crate's caches found hot themselves |
//!
//! Primaries are asked, because that is where uses are counted.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{
    StreamExt as _,
    stream::{select_all, unfold},
};
use redis::{FromRedisValue, Pipeline, Value, cmd};

use super::{
    End, Progress, Source,
    monitor::{Commands, Counts, parse},
    place::{COMMAND_LIMIT, Place, places},
    scan::{Route, Walk},
    top::Top,
};
use crate::{
    Seawall,
    error::{Error, Result},
    link::Monitored,
};

/// The longest that a server may be listened to.
pub const MAX_LISTEN: Duration = Duration::from_secs(60);
/// The most lines that are read in one go.
pub const MAX_LINES: u64 = 2_000_000;

/// A key that is used often.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HotKey {
    /// The key, byte for byte.
    pub key: Arc<[u8]>,
    /// The primary that has it; for the fleet, how many processes read it.
    pub node: Arc<str>,
    /// What it is ranked by: the counter of uses, uses that were heard, or microseconds of CPU time.
    pub score: u64,
    /// Reads that were heard.
    pub reads: u64,
    /// Writes that were heard.
    pub writes: u64,
    /// Bytes over the network, where the server tracks them.
    pub net_bytes: u64,
}

/// What was found.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HotReport {
    /// The hottest keys, the hottest first.
    pub keys: Vec<HotKey>,
    /// Keys that were looked at, or uses that were heard.
    pub examined: u64,
    /// How long it took.
    pub took: Duration,
    /// What a reader of the figures should know.
    pub notes: Vec<String>,
}

/// What came of looking for hot keys.
#[derive(Debug)]
#[must_use]
pub enum HotFound {
    /// It was looked for.
    Found {
        /// What was found.
        report: HotReport,
        /// Whether that is everything.
        end: End,
    },
    /// The server cannot do it this way; the sentence says what would help.
    Unsupported(String),
}

/// How long a server is listened to, and how many lines are taken; whatever ends first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    /// At most [`MAX_LISTEN`].
    pub time: Duration,
    /// At most [`MAX_LINES`].
    pub lines: u64,
}

/// A look for hot keys.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::{Seawall, survey::HotFound};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// // Nobody counts uses under the default policy; the answer says what to set.
/// let found = seawall.hot_survey().by_frequency(|_| {}, std::future::pending()).await?;
/// assert!(matches!(found, HotFound::Unsupported(advice) if advice.contains("allkeys-lfu")));
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct HotSurvey {
    seawall: Seawall,
    route: Route,
    top: usize,
}

impl Seawall {
    /// Begins a look for hot keys, whoever uses them.
    pub fn hot_survey(&self) -> HotSurvey {
        let route = Route { source: Source::Primary, ..Route::default() };
        HotSurvey { seawall: self.clone(), route, top: 20 }
    }
}

impl HotSurvey {
    /// Only keys that match this pattern, as `SCAN` understands it.
    pub fn matching(mut self, pattern: impl Into<String>) -> Self {
        self.route.pattern = Some(pattern.into());
        self
    }

    /// At most this many keys a second; 0 for as fast as the servers answer. 10,000 without it.
    pub fn rate(mut self, keys_per_second: u64) -> Self {
        self.route.rate = keys_per_second;
        self
    }

    /// How many keys are named; 20 without it.
    pub fn top(mut self, keys: usize) -> Self {
        self.top = keys.min(super::MAX_TOP);
        self
    }

    /// By `OBJECT FREQ` of every key: a counter from 0 to 255 that grows more slowly the higher it is.
    ///
    /// # Errors
    /// What keeps it from beginning.
    pub async fn by_frequency(
        &self,
        mut watch: impl FnMut(&Progress),
        stop: impl Future<Output = ()>,
    ) -> Result<HotFound> {
        let started = Instant::now();
        let mut walk = Walk::begin(self.seawall.link(), &self.route).await?;
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
                        // Refused or nil: the key went away or moved.
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
        let report =
            HotReport { keys: top.into_sorted(), examined, took: started.elapsed(), notes };
        Ok(HotFound::Found { report, end })
    }

    /// By listening to all commands for a while: costs the servers a good part of their speed
    /// meanwhile, so the bounds are hard.
    ///
    /// # Errors
    /// [`Error::Invalid`] for bounds beyond [`MAX_LISTEN`] and [`MAX_LINES`].
    pub async fn by_monitor(
        &self,
        bounds: Listen,
        stop: impl Future<Output = ()>,
    ) -> Result<HotFound> {
        let started = Instant::now();
        let (heard, end) = listen(&self.seawall, bounds, stop).await?;
        let mut top = Top::new(self.top);
        let pattern = self.route.pattern.as_ref().map(String::as_bytes);
        for (node, counts) in &heard.counts {
            for (key, count) in counts.iter() {
                if pattern.is_some_and(|pattern| !super::glob::matches(pattern, key)) {
                    continue;
                }
                let (reads, writes) = (count.reads, count.writes);
                let (key, score) = (Arc::<[u8]>::from(key), reads + writes);
                let node = Arc::clone(node);
                let hot = HotKey { key, node, score, reads, writes, net_bytes: 0 };
                top.offer(score, (0, Arc::clone(&hot.key)), hot);
            }
        }
        let took = started.elapsed();
        let mut notes = vec!["score: uses that were heard by MONITOR".to_owned()];
        if heard.lines >= bounds.lines {
            let seconds = took.as_secs_f64();
            notes.push(format!("ended after {} lines, {seconds:.1} s", heard.lines));
        }
        let report = HotReport { keys: top.into_sorted(), examined: heard.uses, took, notes };
        Ok(HotFound::Found { report, end })
    }

    /// By what the caches of the whole fleet count themselves ([`hotkey`](crate::hotkey)): only keys
    /// that are read through the cache, under the prefix of this handle. Costs a look at a few keys.
    ///
    /// # Errors
    /// As [`Link::send`](crate::Link::send).
    pub async fn by_fleet(&self) -> Result<HotFound> {
        let started = Instant::now();
        let fleet = self.seawall.hot_keys().fleet().await?;
        let pattern = self.route.pattern.as_ref().map(String::as_bytes);
        let wanted = fleet
            .iter()
            .filter(|hot| pattern.is_none_or(|pattern| super::glob::matches(pattern, &hot.bytes)));
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
        let (examined, took) = (fleet.len() as u64, started.elapsed());
        let report = HotReport { keys, examined, took, notes };
        Ok(HotFound::Found { report, end: End::Complete })
    }

    /// By the server's own tracker, `HOTKEYS`, which Redis has from 8.6 on.
    ///
    /// # Errors
    /// What the servers answer; a tracker that somebody else has started is left alone.
    pub async fn by_tracker(
        &self,
        time: Duration,
        stop: impl Future<Output = ()>,
    ) -> Result<HotFound> {
        let started = Instant::now();
        let seconds = time.as_secs().clamp(1, MAX_LISTEN.as_secs());
        let mut places = places(self.seawall.link(), Source::Primary).await?;
        for place in &mut places {
            let mut start = cmd("HOTKEYS");
            start.arg("START").arg("METRICS").arg(2).arg("CPU").arg("NET");
            // It ends by itself, also when we do not come back.
            start.arg("COUNT").arg(self.top.clamp(1, 64)).arg("DURATION").arg(seconds);
            match place.lane.send::<Value>(&start, COMMAND_LIMIT).await {
                Err(Error::Refused { message, .. }) if message.contains("unknown command") => {
                    return Ok(HotFound::Unsupported(format!(
                        "{} has no HOTKEYS; Redis has it from 8.6 on",
                        place.name
                    )));
                }
                started => started?,
            };
        }
        let wait = async {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok(())
        };
        let end = ending(wait, stop).await;
        let mut top = Top::new(self.top);
        for place in &mut places {
            let get: Value = place.lane.send(cmd("HOTKEYS").arg("GET"), COMMAND_LIMIT).await?;
            for hot in read_tracker(&get, &place.name) {
                top.offer(hot.score, (0, Arc::clone(&hot.key)), hot);
            }
            // What is left over is the server's memory; that it cannot be freed concerns nobody.
            let _: Result<Value> = place.lane.send(cmd("HOTKEYS").arg("STOP"), COMMAND_LIMIT).await;
            let _: Result<Value> =
                place.lane.send(cmd("HOTKEYS").arg("RESET"), COMMAND_LIMIT).await;
        }
        let keys = top.into_sorted();
        let notes = vec!["score: microseconds of CPU time, by the server's HOTKEYS".to_owned()];
        let report =
            HotReport { examined: keys.len() as u64, keys, took: started.elapsed(), notes };
        Ok(HotFound::Found { report, end })
    }
}

/// Works until it is done, has failed or is told to stop.
pub(super) async fn ending(
    work: impl Future<Output = Result<()>>,
    stop: impl Future<Output = ()>,
) -> End {
    tokio::select! {
        biased;
        () = stop => End::Interrupted,
        done = work => done.map_or_else(End::Failed, |()| End::Complete),
    }
}

async fn policy(place: &mut Place) -> Result<String> {
    let info: String = place.lane.send(cmd("INFO").arg("memory"), COMMAND_LIMIT).await?;
    let policy = info.lines().find_map(|line| line.strip_prefix("maxmemory_policy:"));
    Ok(policy.unwrap_or("unknown").trim().to_owned())
}

/// What was heard.
pub(super) struct Heard {
    /// By primary.
    pub(super) counts: Vec<(Arc<str>, Counts)>,
    pub(super) lines: u64,
    /// Keys in those lines.
    pub(super) uses: u64,
}

/// Listens to all primaries.
pub(super) async fn listen(
    seawall: &Seawall,
    bounds: Listen,
    stop: impl Future<Output = ()>,
) -> Result<(Heard, End)> {
    if bounds.time > MAX_LISTEN || bounds.lines > MAX_LINES || bounds.lines == 0 {
        return Err(Error::Invalid(format!(
            "MONITOR is heard for at most {MAX_LISTEN:?} and {MAX_LINES} lines"
        )));
    }
    let link = seawall.link();
    let primaries = link.primaries().await?;
    let mut heard = Heard { counts: Vec::new(), lines: 0, uses: 0 };
    let mut streams = Vec::new();
    let mut commands = Commands::default();
    for (index, address) in primaries.iter().enumerate() {
        if index == 0 {
            commands = Commands::ask(&mut link.lane_at(address.clone()).await?).await?;
        }
        let lines = link.monitor_at(address).await?;
        let next = move |mut lines: Monitored| async move {
            let line = lines.next().await?;
            Some(((index, line), lines))
        };
        streams.push(unfold(lines, next).boxed());
        heard.counts.push((address.to_string().into(), Counts::default()));
    }
    let mut lines = select_all(streams);
    let work = async {
        let until = tokio::time::sleep(bounds.time);
        tokio::pin!(until);
        while heard.lines < bounds.lines {
            let (index, line) = tokio::select! {
                biased;
                () = &mut until => break,
                line = lines.next() => match line {
                    Some(line) => line,
                    None => return Err(Error::Unavailable("MONITOR ended".into())),
                },
            };
            heard.lines += 1;
            let Some(arguments) = parse(&line) else { continue };
            let (access, keys) = commands.keys(&arguments);
            for key in keys {
                heard.uses += 1;
                heard.counts[index].1.add(key, access);
            }
        }
        Ok(())
    };
    let end = ending(work, stop).await;
    Ok((heard, end))
}

/// `HOTKEYS GET`: pairs of names and values, on a Cluster inside another array.
fn read_tracker(reply: &Value, node: &Arc<str>) -> Vec<HotKey> {
    let mut fields = pairs(reply);
    if let (true, Value::Array(parts)) = (fields.iter().all(|(name, _)| name.is_empty()), reply)
        && let Some(inner) = parts.first()
    {
        fields = pairs(inner);
    }
    let list = |wanted: &str| -> Vec<(Vec<u8>, u64)> {
        let found = fields.iter().find(|(name, _)| name == wanted);
        let list = found.map(|(_, list)| raw_pairs(list)).unwrap_or_default();
        list.into_iter()
            .filter_map(|(key, value)| {
                Some((Vec::from_redis_value_ref(key).ok()?, u64::from_redis_value_ref(value).ok()?))
            })
            .collect()
    };
    let mut keys: Vec<HotKey> = Vec::new();
    for (key, score) in list("by-cpu-time-us") {
        let node = Arc::clone(node);
        keys.push(HotKey { key: key.into(), node, score, reads: 0, writes: 0, net_bytes: 0 });
    }
    for (key, net_bytes) in list("by-net-bytes") {
        match keys.iter_mut().find(|hot| *hot.key == *key) {
            Some(hot) => hot.net_bytes = net_bytes,
            None => {
                let (key, node) = (key.into(), Arc::clone(node));
                keys.push(HotKey { key, node, score: 0, reads: 0, writes: 0, net_bytes });
            }
        }
    }
    keys
}

fn raw_pairs(value: &Value) -> Vec<(&Value, &Value)> {
    match value {
        Value::Map(pairs) => pairs.iter().map(|(name, value)| (name, value)).collect(),
        Value::Array(flat) => flat.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect(),
        _ => Vec::new(),
    }
}

fn pairs(value: &Value) -> Vec<(String, &Value)> {
    let named = |(name, value)| (String::from_redis_value_ref(name).unwrap_or_default(), value);
    raw_pairs(value).into_iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trackers_reply_is_read_flat_and_nested() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let flat = Value::Array(vec![
            text("tracking-active"),
            Value::Int(0),
            text("by-cpu-time-us"),
            Value::Array(vec![text("x"), Value::Int(104), text("y"), Value::Int(98)]),
            text("by-net-bytes"),
            Value::Array(vec![text("y"), Value::Int(7), text("z"), Value::Int(3)]),
        ]);
        let node: Arc<str> = "n".into();
        for reply in [Value::Array(vec![flat.clone()]), flat] {
            let keys = read_tracker(&reply, &node);
            let seen: Vec<_> =
                keys.iter().map(|hot| (&*hot.key, hot.score, hot.net_bytes)).collect();
            assert_eq!(seen, [(&b"x"[..], 104, 0), (b"y", 98, 7), (b"z", 0, 3)]);
        }
        assert!(read_tracker(&Value::Nil, &node).is_empty());
    }
}
