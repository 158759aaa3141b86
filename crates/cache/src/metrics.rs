//! What a cache counts. Handles are looked up once, when the cache is built.

use metrics::{Counter, Histogram};
use seawall_client::striped_counter::StripedCounter;

/// Counters of one cache, with its name as the label `cache`.
pub(super) struct Metrics {
    pub(super) local_hits: StripedCounter,
    pub(super) remote_hits: StripedCounter,
    pub(super) stale_hits: Counter,
    pub(super) negative_hits: Counter,
    pub(super) misses: Counter,
    pub(super) loads: Counter,
    pub(super) load_failures: Counter,
    pub(super) load_seconds: Histogram,
    pub(super) refused_fills: Counter,
    pub(super) waits: Counter,
    pub(super) sheds: Counter,
    pub(super) outages: Counter,
    pub(super) unreadable: Counter,
    pub(super) oversized: Counter,
    pub(super) invalidations: Counter,
    pub(super) queued_invalidations: Counter,
    pub(super) gaps: Counter,
    pub(super) stored_bytes: Counter,
    pub(super) lost_parts: Counter,
}

impl Metrics {
    pub(super) fn new(name: &str) -> Self {
        let counter = |metric: &'static str| metrics::counter!(metric, "cache" => name.to_owned());
        let hits = |level: &'static str| metrics::counter!("seawall_cache_hits_total", "cache" => name.to_owned(), "level" => level);
        Metrics {
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

    /// Hands over what was counted on hot paths.
    pub(super) fn flush(&self) {
        self.local_hits.flush();
        self.remote_hits.flush();
    }
}
