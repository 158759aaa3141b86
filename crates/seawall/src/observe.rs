//! The toolkit's metrics: what they are called and mean, and how a recorder learns of that.
//!
//! Metrics go to the recorder of the [`metrics`](https://docs.rs/metrics) crate, spans and events to
//! the subscriber of the [`tracing`](https://docs.rs/tracing) crate. `docs/observability.md` lists both.
//!
//! **Install the recorder before you connect.** Handles of metrics are looked up when a
//! [`Seawall`](crate::Seawall), a cache or a worker is built, and stay with the recorder of that moment.
//! Connecting describes all metrics to it. An application that uses only [`guard`](crate::guard)
//! calls [`describe_metrics`] itself.
//!
//! ```
//! use seawall::observe::{MetricKind, metrics};
//!
//! // A recorder needs buckets for histograms; those of the toolkit suit what is measured.
//! for metric in metrics() {
//!     if let MetricKind::Histogram(buckets) = metric.kind {
//!         // builder = builder.set_buckets_for_metric(Matcher::Full(metric.name.into()), buckets)?;
//!         assert!(metric.name.ends_with("_seconds") && buckets.is_sorted());
//!     }
//! }
//! seawall::describe_metrics();
//! ```

pub use seawall_resilience::metric::{
    CALL_BUCKETS, Metric, MetricKind, Unit, WAIT_BUCKETS, describe,
};

/// The metrics of this crate's own capabilities.
const METRICS: &[Metric] = &[
    #[cfg(feature = "bloom")]
    Metric::counter(
        "seawall_bloom_over_full_total",
        &["filter"],
        "Generations of a Bloom filter that hold more keys than they were made for.",
    ),
    #[cfg(feature = "bloom")]
    Metric::gauge(
        "seawall_bloom_false_positive_ratio",
        &["filter"],
        "Expected share of absent keys that the Bloom filter lets pass, from 0 to 1.",
    ),
    #[cfg(feature = "id")]
    Metric::counter("seawall_ids_total", &["name"], "Ids that were handed out."),
    #[cfg(feature = "id")]
    Metric::counter("seawall_id_segments_total", &["name"], "Segments of ids that were fetched."),
    #[cfg(feature = "id")]
    Metric::counter(
        "seawall_id_segment_failures_total",
        &["name"],
        "Segments of ids that could not be fetched.",
    ),
    #[cfg(feature = "limit")]
    Metric::counter(
        "seawall_limit_decisions_total",
        &["limiter", "outcome"],
        "Decisions of a rate limiter, by outcome: allowed, limited.",
    ),
    #[cfg(feature = "limit")]
    Metric::counter(
        "seawall_limit_remembered_total",
        &["limiter"],
        "Refusals that were remembered, without asking Redis.",
    ),
    #[cfg(feature = "limit")]
    Metric::counter(
        "seawall_limit_without_redis_total",
        &["limiter"],
        "Decisions that were made without Redis because it was away.",
    ),
];

/// Returns the metrics of all capabilities that are compiled in.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    let tables: &[&[Metric]] = &[
        seawall_client::METRICS,
        seawall_resilience::metric::METRICS,
        #[cfg(feature = "cache")]
        seawall_cache::METRICS,
        #[cfg(feature = "lock")]
        seawall_lock::METRICS,
        #[cfg(feature = "jobs")]
        seawall_jobs::METRICS,
        #[cfg(feature = "stock")]
        seawall_stock::METRICS,
        METRICS,
    ];
    tables.iter().copied().flatten().collect::<Vec<_>>().into_iter()
}

/// Describes all metrics of the toolkit to the installed recorder: their help texts and units.
///
/// Connecting does this. Call it again if a recorder is installed later; repeating it is harmless.
pub fn describe_metrics() {
    describe(metrics());
}
