//! The spans of reads and loads.
//!
//! A read that memory answers has no span at all. The others have one at level debug, with the
//! attributes of OpenTelemetry's conventions for databases. A span never contains a key or a value:
//! both may be personal data.

use std::cell::Cell;

use seawall_resilience::clock::{Clock, Moment};
use tracing::{Span, field::Empty};

use crate::{CacheError, Read, Source, metrics::Metrics};

/// One of this many hits in Redis of a thread is timed. There may be hundreds of thousands a second, and
/// recorders keep each sample until they sort it into a bucket. Prime, so that a caller that repeats the
/// same few reads is timed at each of them.
const SAMPLE: u32 = 31;

/// A read that memory could not answer.
pub(crate) struct ReadSpan<'a> {
    pub(crate) span: Span,
    metrics: &'a Metrics,
    began: Moment,
}

impl<'a> ReadSpan<'a> {
    /// Opens the span of one read.
    pub(crate) fn one(metrics: &'a Metrics, began: Moment) -> Self {
        let span = tracing::debug_span!(
            "cache_read",
            otel.kind = "client",
            db.system.name = "redis",
            db.operation.name = "GET",
            seawall.cache.name = metrics.name,
            seawall.cache.source = Empty,
            error.type = Empty,
        );
        ReadSpan { span, metrics, began }
    }

    /// Opens the span of a batch of reads.
    pub(crate) fn batch(metrics: &'a Metrics, began: Moment, keys: usize) -> Self {
        let span = tracing::debug_span!(
            "cache_read",
            otel.kind = "client",
            db.system.name = "redis",
            db.operation.name = "MGET",
            db.operation.batch.size = keys,
            seawall.cache.name = metrics.name,
            seawall.cache.source = Empty,
            error.type = Empty,
        );
        ReadSpan { span, metrics, began }
    }

    /// Notes where the answer came from, and how long it took.
    pub(crate) fn end<V>(self, read: &Result<Option<Read<V>>, CacheError>, clock: &Clock) {
        match read {
            Ok(Some(read)) => self.end_as(Answered::By(read.source), clock),
            Ok(None) => self.end_as(Answered::Nothing, clock),
            Err(error) => {
                self.span.record("error.type", error_type(error));
                self.end_as(Answered::Error, clock);
            }
        }
    }

    /// Like [`ReadSpan::end`], for a batch: what took longest counts.
    pub(crate) fn end_batch<V>(self, answers: &[Result<Read<V>, CacheError>], clock: &Clock) {
        let is_loaded = |answer: &Result<Read<V>, CacheError>| {
            answer.as_ref().is_ok_and(|read| read.source == Source::Loaded)
        };
        let failed = answers.iter().find_map(|answer| answer.as_ref().err());
        if let Some(error) = failed {
            self.span.record("error.type", error_type(error));
        }
        let answered = match failed {
            Some(_) => Answered::Error,
            None if answers.iter().any(is_loaded) => Answered::By(Source::Loaded),
            None => Answered::By(Source::Remote),
        };
        self.end_as(answered, clock);
    }

    fn end_as(self, answered: Answered, clock: &Clock) {
        let (number, name) = answered.label();
        self.span.record("seawall.cache.source", name);
        if !matches!(answered, Answered::By(Source::Remote)) || is_sample() {
            self.metrics.read_took(number, name, clock.now().since(self.began));
        }
    }
}

/// Returns whether this hit of the thread is to be timed.
fn is_sample() -> bool {
    thread_local! {
        static TURN: Cell<u32> = const { Cell::new(0) };
    }
    TURN.with(|turn| turn.replace((turn.get() + 1) % SAMPLE) == 0)
}

/// How a read ended.
#[derive(Debug, Clone, Copy)]
enum Answered {
    By(Source),
    /// No tier has the entry, and there was no loader.
    Nothing,
    Error,
}

impl Answered {
    /// Returns the number and the value of the label `source`.
    fn label(self) -> (usize, &'static str) {
        match self {
            Answered::By(Source::Remote) => (0, "remote"),
            Answered::By(Source::Loaded) => (1, "loaded"),
            Answered::By(Source::Stale) => (2, "stale"),
            Answered::By(Source::Local | Source::Filtered) => (3, "local"),
            Answered::Nothing => (4, "none"),
            Answered::Error => (5, "error"),
        }
    }
}

/// Opens the span of a call of the loader.
pub(crate) fn load_span(metrics: &Metrics) -> Span {
    tracing::debug_span!(
        "cache_load",
        otel.kind = "internal",
        seawall.cache.name = metrics.name,
        error.type = Empty,
    )
}

/// Returns a name for the kind of an error, without anything of keys or values.
pub(crate) fn error_type(error: &CacheError) -> &str {
    match error {
        CacheError::Load(_) => "load",
        CacheError::LoadTimeout { .. } => "load_timeout",
        CacheError::Shed { .. } => "shed",
        CacheError::ReadTimeout(_) => "read_timeout",
        CacheError::Busy => "busy",
        CacheError::Redis(error) => error.error_type(),
    }
}
