//! The survey of big keys: `SCAN`, then for each key its type, lifetime, idle time, memory and
//! length.
//!
//! There are two pipelines per page. The first asks what every type has (idle time before any
//! command that would count as a use), the second asks the length, whose command depends on the
//! type. Memory is bounded by what the report keeps and by eight bytes per key to detect
//! duplicates.
//!
//! Deliberately absent: reading values. Nothing here moves more than a page of names.

use std::{sync::Arc, time::Duration};

use redis::{FromRedisValue, Pipeline, Value, cmd};
use seawall_client::{
    Handle,
    error::{Error, Result},
};

use super::{
    Kind, MAX_TOP, Progress, Report, Source, Thresholds,
    end::{End, ending},
    report::{Asked, Collector, Measured},
    report_settings::{ReportSettings, report_setters},
    scan::{Page, Route, Walk},
};

/// Elements of a collection that `MEMORY USAGE` samples; the servers' own default.
const DEFAULT_SAMPLES: u32 = 5;

/// Outcome of [`Survey::run`].
#[derive(Debug)]
#[must_use]
pub struct Surveyed {
    /// The report.
    pub report: Report,
    /// Whether the report is complete.
    pub end: End,
}

/// A survey of all keys for big ones, with limited load on the server.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::{Seawall, cmd, survey::{End, Severity}};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let client = seawall.client();
/// client.send(b"page:1", cmd("SET").arg("page:1").arg("x".repeat(20_000))).await?;
/// client.send(b"page:2", cmd("SET").arg("page:2").arg("small")).await?;
///
/// let survey = seawall.survey().rate(5_000).matching("page:*");
/// let surveyed = survey.run(|_progress| {}, std::future::pending()).await?;
/// assert!(matches!(surveyed.end, End::Complete));
/// assert_eq!(surveyed.report.totals.keys, 2);
/// let worst = &surveyed.report.flagged[0];
/// assert_eq!((worst.key_text().as_str(), worst.severity), ("page:1", Severity::Warn));
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Survey {
    handle: Handle,
    route: Route,
    report: ReportSettings,
    samples: u32,
}

impl Survey {
    /// Creates a survey of the keys: 10,000 keys a second, on replicas where there are any.
    pub fn new(handle: &Handle) -> Survey {
        Survey {
            handle: handle.clone(),
            route: Route::default(),
            report: ReportSettings::default(),
            samples: DEFAULT_SAMPLES,
        }
    }
}

impl Survey {
    /// Restricts the survey to keys that match this `SCAN` pattern.
    pub fn matching(mut self, pattern: impl Into<String>) -> Self {
        self.route.pattern = Some(pattern.into());
        self
    }

    /// Restricts the survey to keys of this type.
    pub fn kind(mut self, kind: Kind) -> Self {
        self.route.kind = Some(kind);
        self
    }

    /// Sets the rate in keys per second; 0 for as fast as the servers answer. Default: 10,000.
    pub fn rate(mut self, keys_per_second: u64) -> Self {
        self.route.rate = keys_per_second;
        self
    }

    /// Sets which servers to ask. Default: replicas where there are any.
    pub fn source(mut self, source: Source) -> Self {
        self.route.source = source;
        self
    }

    /// Sets the latency limit. Default: 50 ms.
    ///
    /// The survey pauses while a `PING` takes this much longer than the quickest one did.
    pub fn max_latency(mut self, limit: Duration) -> Self {
        self.route.max_latency = limit;
        self
    }

    /// Sets how many elements of a collection `MEMORY USAGE` measures to estimate the rest.
    /// Default: 5.
    ///
    /// 0 measures all of them, which is exact and slow.
    pub fn samples(mut self, elements: u32) -> Self {
        self.samples = elements;
        self
    }

    report_setters!();

    /// Examines every key, and calls `watch` with the progress after each page.
    ///
    /// If `stop` becomes ready first, it ends with what it has found so far.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a setting is out of range, or the error that keeps the survey from
    /// starting. Later failures are reported as an [`End`].
    pub async fn run(
        &self,
        mut watch: impl FnMut(&Progress),
        stop: impl Future<Output = ()>,
    ) -> Result<Surveyed> {
        let top = self.report.top;
        if top > MAX_TOP {
            return Err(Error::Invalid(format!("a top of {top} is more than {MAX_TOP}")));
        }
        if self.route.kind == Some(Kind::Other) {
            return Err(Error::Invalid("types of modules cannot be asked for by `other`".into()));
        }
        let client = self.handle.client();
        let mut collector = self.report.begin(client.network_clock());
        let mut walk = Walk::begin(client, &self.route).await?;
        let asked =
            |(name, role): (&Arc<str>, _)| Asked { name: name.clone(), role: Some(role), keys: 0 };
        collector.report.asked = walk.nodes().map(asked).collect();
        let end = ending(self.look(&mut walk, &mut collector, &mut watch), stop).await;
        collector.report.duplicates = walk.duplicates;
        collector.report.paused = walk.paused();
        collector.report.notes.append(&mut walk.notes);
        collector.report.notes.push(self.sampling());
        Ok(Surveyed { report: collector.finish(), end })
    }

    /// Returns a note on how exact the bytes are.
    fn sampling(&self) -> String {
        match self.samples {
            0 => "bytes: MEMORY USAGE SAMPLES 0, every element measured".into(),
            samples => format!(
                "bytes: MEMORY USAGE SAMPLES {samples}, collections estimated from {samples} of \
                 their elements"
            ),
        }
    }

    async fn look(
        &self,
        walk: &mut Walk,
        collector: &mut Collector,
        watch: &mut impl FnMut(&Progress),
    ) -> Result<()> {
        while let Some(page) = walk.next(&mut *watch).await? {
            if !page.keys.is_empty() {
                self.measure(walk, &page, collector).await?;
            }
            watch(&walk.progress);
        }
        Ok(())
    }

    async fn measure(&self, walk: &mut Walk, page: &Page, collector: &mut Collector) -> Result<()> {
        const QUESTIONS: usize = 4;
        let mut pipeline = Pipeline::with_capacity(page.keys.len() * QUESTIONS);
        for key in &page.keys {
            pipeline.add_command(cmd("TYPE").arg(key).take());
            pipeline.add_command(cmd("OBJECT").arg("IDLETIME").arg(key).take());
            pipeline.add_command(cmd("PTTL").arg(key).take());
            let mut memory = cmd("MEMORY");
            memory.arg("USAGE").arg(key).arg("SAMPLES").arg(self.samples);
            pipeline.add_command(memory);
        }
        let answers = walk.ask(&pipeline).await?;
        let mut known = Vec::with_capacity(page.keys.len());
        let mut lengths = Pipeline::new();
        for (key, answer) in page.keys.iter().zip(answers.chunks_exact(QUESTIONS)) {
            match Known::read(answer)? {
                Some(found) => {
                    if let Some(command) = found.kind.length_command() {
                        lengths.add_command(cmd(command).arg(key).take());
                    }
                    known.push((key, found));
                }
                None => collector.report.vanished += 1,
            }
        }
        let mut lengths = match lengths.is_empty() {
            true => Vec::new(),
            false => walk.ask(&lengths).await?,
        }
        .into_iter();
        for (key, found) in known {
            let counted = found.kind.length_command().and_then(|_| lengths.next());
            // The key may have another type by now: then its old size is as good as any.
            let members = counted.and_then(|count| number(&count).ok().flatten()).unwrap_or(0);
            collector.add(&Measured {
                key,
                kind: found.kind,
                bytes: found.bytes,
                members,
                node: &page.node,
                database: self.handle.client().database(),
                lifetime: found.lifetime,
                idle: found.idle,
            });
            if let Some(asked) = collector.report.asked.iter_mut().find(|one| one.name == page.node)
            {
                asked.keys += 1;
            }
        }
        Ok(())
    }
}

/// Result of the first pipeline for a key.
struct Known {
    kind: Kind,
    bytes: u64,
    lifetime: Option<Duration>,
    idle: Option<Duration>,
}

impl Known {
    /// Returns `None` if the key no longer exists.
    fn read(answers: &[Result<Value>]) -> Result<Option<Known>> {
        let [kind, idle, lifetime, bytes] = answers else { return Ok(None) };
        let kind = match kind {
            Ok(name) => Kind::of_reply(&String::from_redis_value_ref(name)?),
            // The key moved to another node between two commands.
            Err(error @ Error::Refused { .. }) if !error.is_code("NOPERM") => None,
            Err(error) => return Err(error.clone()),
        };
        let (Some(kind), Some(bytes)) = (kind, number(bytes)?) else { return Ok(None) };
        let lifetime = match lifetime {
            Ok(Value::Int(millis)) if *millis >= 0 => {
                Some(Duration::from_millis(millis.unsigned_abs()))
            }
            _ => None,
        };
        // Redis: under an LFU policy the server refuses the command, and the idle time is unknown.
        let idle = number(idle).ok().flatten().map(Duration::from_secs);
        Ok(Some(Known { kind, bytes, lifetime, idle }))
    }
}

/// Parses a count. Returns `None` for nil and for errors that concern only this key.
fn number(reply: &Result<Value>) -> Result<Option<u64>> {
    match reply {
        Ok(Value::Int(number)) => Ok(u64::try_from(*number).ok()),
        Ok(_) => Ok(None),
        Err(error) if error.is_code("NOPERM") => Err(error.clone()),
        Err(Error::Refused { .. }) => Ok(None),
        Err(error) => Err(error.clone()),
    }
}
