//! Descriptions of metrics: what a metric is called, counts and is labelled with.
//!
//! Each crate of the toolkit lists its metrics once, as a `METRICS` table of [`Metric`]s. The table
//! feeds the recorder ([`describe`]), the documentation and the tests.
//!
//! Descriptions go to the recorder that is installed when [`describe`] is called, like every handle of
//! the `metrics` crate. Install the recorder first.

pub use metrics::Unit;

/// Bucket bounds for durations of calls, in seconds: from a round trip to a slow source.
pub const CALL_BUCKETS: &[f64] =
    &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0];

/// Bucket bounds for durations of work that waits, in seconds: from a millisecond to an hour.
pub const WAIT_BUCKETS: &[f64] =
    &[0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0];

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name, as recorders see it.
    pub name: &'static str,
    /// What kind of metric it is.
    pub kind: MetricKind,
    /// The unit of its values. Ratios, states and numbers of things have [`Unit::Count`].
    pub unit: Unit,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it says, in one sentence.
    pub help: &'static str,
}

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution, with the upper bounds of the buckets that suit it.
    Histogram(&'static [f64]),
}

impl MetricKind {
    /// Returns the name of the kind, as Prometheus spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram(_) => "histogram",
        }
    }
}

impl Metric {
    /// Describes a counter of events.
    #[must_use]
    pub const fn counter(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Metric { name, kind: MetricKind::Counter, unit: Unit::Count, labels, help }
    }

    /// Describes a gauge without a physical unit.
    #[must_use]
    pub const fn gauge(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Metric { name, kind: MetricKind::Gauge, unit: Unit::Count, labels, help }
    }

    /// Describes a histogram of durations in seconds.
    #[must_use]
    pub const fn seconds(
        name: &'static str,
        labels: &'static [&'static str],
        buckets: &'static [f64],
        help: &'static str,
    ) -> Self {
        Metric { name, kind: MetricKind::Histogram(buckets), unit: Unit::Seconds, labels, help }
    }

    /// Replaces the unit.
    #[must_use]
    pub const fn in_unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// Hands the description to the installed recorder.
    pub fn describe(&self) {
        let Metric { name, kind, unit, help, .. } = *self;
        match kind {
            MetricKind::Counter => metrics::describe_counter!(name, unit, help),
            MetricKind::Gauge => metrics::describe_gauge!(name, unit, help),
            MetricKind::Histogram(_) => metrics::describe_histogram!(name, unit, help),
        }
    }
}

/// Hands descriptions to the installed recorder. Does nothing without a recorder; may be repeated.
pub fn describe<'a>(metrics: impl IntoIterator<Item = &'a Metric>) {
    metrics.into_iter().for_each(Metric::describe);
}

/// The metrics of this crate.
pub const METRICS: &[Metric] = &[
    Metric::gauge(
        "seawall_breaker_state",
        &["name"],
        "State of a breaker: 0 closed, 1 probing, 2 open.",
    ),
    Metric::counter(
        "seawall_breaker_opened_total",
        &["name"],
        "Times that a breaker left the closed state.",
    ),
    Metric::counter(
        "seawall_breaker_refused_total",
        &["name"],
        "Calls that an open breaker refused.",
    ),
    Metric::counter(
        "seawall_bucket_refused_total",
        &["name"],
        "Calls that a token bucket refused.",
    ),
    Metric::counter(
        "seawall_bulkhead_refused_total",
        &["name"],
        "Calls that a full bulkhead refused.",
    ),
    Metric::counter(
        "seawall_governor_shed_total",
        &["name", "reason"],
        "Calls that a resilience pipeline shed, by the part that refused.",
    ),
    Metric::counter(
        "seawall_ladder_answers_total",
        &["name", "rung"],
        "Answers of a fallback chain, by the level that gave them; `shed` if none did.",
    ),
];
