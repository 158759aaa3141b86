//! What a cache counts. Handles are looked up once, when the cache is built.

use metrics::{Counter, Histogram};
use seawall_client::striped_counter::StripedCounter;

/// Counters of one cache, with its name as the label `cache`.
pub(crate) struct Metrics {
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

    /// Hands over what was counted on hot paths.
    pub(crate) fn flush(&self) {
        self.local_hits.flush();
        self.remote_hits.flush();
    }
}
