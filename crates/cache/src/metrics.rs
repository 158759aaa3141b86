//! What a cache counts. Handles are looked up once, when the cache is built.

use std::{sync::OnceLock, time::Duration};

use metrics::{Counter, Histogram};
use seawall_client::striped_counter::StripedCounter;
use seawall_resilience::metric::{CALL_BUCKETS, Metric, Unit};

/// The metrics of this crate.
pub const METRICS: &[Metric] = &[
    Metric::counter(
        "seawall_cache_hits_total",
        CACHE_LEVEL,
        "Reads that a tier answered: level 1 is memory, level 2 Redis.",
    ),
    Metric::counter(
        "seawall_cache_stale_hits_total",
        CACHE,
        "Reads answered with a value past its lifetime.",
    ),
    Metric::counter(
        "seawall_cache_negative_hits_total",
        CACHE,
        "Hits whose answer was that the source has no value.",
    ),
    Metric::counter(
        "seawall_cache_misses_total",
        CACHE,
        "Looks into Redis that found no value fit for the read.",
    ),
    Metric::seconds(
        "seawall_cache_read_seconds",
        CACHE_SOURCE,
        CALL_BUCKETS,
        "Time of reads that memory could not answer, by where the answer came from.",
    ),
    Metric::counter("seawall_cache_loads_total", CACHE, "Calls of the loader."),
    Metric::counter(
        "seawall_cache_load_failures_total",
        CACHE,
        "Calls of the loader that failed, took too long or were shed.",
    ),
    Metric::seconds(
        "seawall_cache_load_seconds",
        CACHE,
        CALL_BUCKETS,
        "Time of calls of the loader, including waits in its resilience pipeline.",
    ),
    Metric::counter(
        "seawall_cache_refused_fills_total",
        CACHE,
        "Loaded values that Redis refused to store because the entry was invalidated or the lease had ended.",
    ),
    Metric::counter(
        "seawall_cache_waits_total",
        CACHE,
        "Waits of a load for the lease of another process.",
    ),
    Metric::counter(
        "seawall_cache_sheds_total",
        CACHE,
        "Reads and loads that were refused to protect Redis or the source.",
    ),
    Metric::counter(
        "seawall_cache_outages_total",
        CACHE,
        "Reads that could not use Redis and went past it.",
    ),
    Metric::counter(
        "seawall_cache_unreadable_total",
        CACHE,
        "Entries in Redis that this cache cannot decode.",
    ),
    Metric::counter(
        "seawall_cache_oversized_total",
        CACHE,
        "Values that were too large to be cached.",
    ),
    Metric::counter(
        "seawall_cache_invalidations_total",
        CACHE,
        "Entries whose invalidation Redis applied.",
    ),
    Metric::counter(
        "seawall_cache_queued_invalidations_total",
        CACHE,
        "Invalidations that Redis did not take at once and the recovery queue carries out.",
    ),
    Metric::counter(
        "seawall_cache_gaps_total",
        CACHE,
        "Times that messages were missed and the local tier was dropped.",
    ),
    Metric::counter(
        "seawall_cache_stored_bytes_total",
        CACHE,
        "Bytes of the values that were stored in Redis.",
    )
    .in_unit(Unit::Bytes),
    Metric::counter(
        "seawall_cache_lost_parts_total",
        CACHE,
        "Large values that could not be read because a part was missing.",
    ),
    Metric::counter(
        "seawall_cache_big_values_total",
        CACHE,
        "Stored values above `warn_above_bytes`.",
    ),
    Metric::counter(
        "seawall_cache_filtered_total",
        CACHE,
        "Reads that the filter of existing keys answered.",
    ),
    Metric::counter(
        "seawall_cache_filter_misjudged_total",
        CACHE,
        "Loads of keys that the filter let pass although the source has no value.",
    ),
    Metric::counter(
        "seawall_cache_filter_builds_total",
        CACHE,
        "Times that the filter of existing keys was built.",
    ),
    Metric::gauge(
        "seawall_cache_filter_false_positive_ratio",
        CACHE,
        "Expected share of absent keys that the filter lets pass, from 0 to 1.",
    ),
    Metric::counter(
        "seawall_cache_audited_total",
        CACHE_RESULT,
        "Audited hits, by the result of the comparison with the source.",
    ),
    Metric::counter(
        "seawall_cache_audit_dropped_total",
        CACHE,
        "Hits that were to be audited while too many others waited.",
    ),
    Metric::gauge("seawall_hot_keys", &[], "Hot keys that this process knows."),
    Metric::counter("seawall_hot_promotions_total", &[], "Keys that became hot."),
    Metric::counter("seawall_hot_demotions_total", &[], "Keys that are no longer hot."),
    Metric::counter(
        "seawall_hot_reports_total",
        &[],
        "Reports of read counts to the other processes.",
    ),
    Metric::counter(
        "seawall_hot_report_failures_total",
        &[],
        "Reports of read counts that Redis did not take.",
    ),
];

/// Number of sources that reads are measured by.
const SOURCES: usize = 6;

const CACHE: &[&str] = &["cache"];
const CACHE_LEVEL: &[&str] = &["cache", "level"];
const CACHE_SOURCE: &[&str] = &["cache", "source"];
const CACHE_RESULT: &[&str] = &["cache", "result"];

/// Counters of one cache, with its name as the label `cache`.
pub(crate) struct Metrics {
    pub(crate) name: String,
    /// By source; looked up when first needed, because most caches need few of them.
    read_seconds: [OnceLock<Histogram>; SOURCES],
    pub(crate) local_hits: StripedCounter,
    pub(crate) remote_hits: StripedCounter,
    pub(crate) stale_hits: Counter,
    pub(crate) negative_hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) loads: Counter,
    pub(crate) load_failures: Counter,
    pub(crate) load_seconds: Histogram,
    pub(crate) refused_fills: Counter,
    pub(crate) waits: Counter,
    pub(crate) sheds: Counter,
    pub(crate) outages: Counter,
    pub(crate) unreadable: Counter,
    pub(crate) oversized: Counter,
    pub(crate) invalidations: Counter,
    pub(crate) queued_invalidations: Counter,
    pub(crate) gaps: Counter,
    pub(crate) stored_bytes: Counter,
    pub(crate) lost_parts: Counter,
}

impl Metrics {
    pub(crate) fn new(name: &str) -> Self {
        let counter = |metric: &'static str| metrics::counter!(metric, "cache" => name.to_owned());
        let hits = |level: &'static str| metrics::counter!("seawall_cache_hits_total", "cache" => name.to_owned(), "level" => level);
        Metrics {
            name: name.to_owned(),
            read_seconds: Default::default(),
            local_hits: StripedCounter::new(hits("1")),
            remote_hits: StripedCounter::new(hits("2")),
            stale_hits: counter("seawall_cache_stale_hits_total"),
            negative_hits: counter("seawall_cache_negative_hits_total"),
            misses: counter("seawall_cache_misses_total"),
            loads: counter("seawall_cache_loads_total"),
            load_failures: counter("seawall_cache_load_failures_total"),
            load_seconds: metrics::histogram!("seawall_cache_load_seconds", "cache" => name.to_owned()),
            refused_fills: counter("seawall_cache_refused_fills_total"),
            waits: counter("seawall_cache_waits_total"),
            sheds: counter("seawall_cache_sheds_total"),
            outages: counter("seawall_cache_outages_total"),
            unreadable: counter("seawall_cache_unreadable_total"),
            oversized: counter("seawall_cache_oversized_total"),
            invalidations: counter("seawall_cache_invalidations_total"),
            queued_invalidations: counter("seawall_cache_queued_invalidations_total"),
            gaps: counter("seawall_cache_gaps_total"),
            stored_bytes: counter("seawall_cache_stored_bytes_total"),
            lost_parts: counter("seawall_cache_lost_parts_total"),
        }
    }

    /// Counts a hit of the local tier.
    #[inline]
    pub(crate) fn local_hit(&self, is_negative: bool) {
        self.local_hits.count();
        if is_negative {
            self.negative_hits.increment(1);
        }
    }

    /// Counts a hit of the remote tier.
    pub(crate) fn remote_hit(&self, is_negative: bool) {
        self.remote_hits.count();
        if is_negative {
            self.negative_hits.increment(1);
        }
    }

    /// Records the time of a read that memory could not answer.
    pub(crate) fn read_took(&self, number: usize, source: &'static str, time: Duration) {
        if let Some(seconds) = self.read_seconds.get(number) {
            let histogram = || metrics::histogram!("seawall_cache_read_seconds", "cache" => self.name.clone(), "source" => source);
            seconds.get_or_init(histogram).record(time);
        }
    }

    /// Hands over what was counted on hot paths.
    pub(crate) fn flush(&self) {
        self.local_hits.flush();
        self.remote_hits.flush();
    }
}
