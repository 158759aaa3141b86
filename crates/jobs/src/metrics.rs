//! The metrics of streams and queues.

use seawall_resilience::metric::{CALL_BUCKETS, Metric, WAIT_BUCKETS};

/// The metrics of this crate.
pub const METRICS: &[Metric] = &[
    Metric::counter(
        "seawall_stream_entries_total",
        &["group", "outcome"],
        "Entries of streams, by outcome: handled, retried, parked (dead letters), taken_over.",
    ),
    Metric::gauge(
        "seawall_stream_lag",
        &["group", "stream"],
        "Entries that were not delivered to the group yet.",
    ),
    Metric::gauge(
        "seawall_stream_pending",
        &["group", "stream"],
        "Entries that were delivered and are not settled.",
    ),
    Metric::gauge("seawall_stream_parked", &["group", "stream"], "Dead letters of the stream."),
    Metric::gauge(
        "seawall_stream_length",
        &["group", "stream"],
        "Entries in the stream, including settled ones.",
    ),
    Metric::seconds(
        "seawall_stream_handler_seconds",
        &["group"],
        CALL_BUCKETS,
        "Time of a handler's call, for one entry or one batch.",
    ),
    Metric::seconds(
        "seawall_stream_delay_seconds",
        &["group"],
        WAIT_BUCKETS,
        "Time from appending an entry to the beginning of its handler, by the server's clock.",
    ),
    Metric::counter(
        "seawall_queue_items_total",
        &["queue", "outcome"],
        "Items of delayed queues, by outcome: handled, retried, dead, lost (the lease had ended).",
    ),
    Metric::seconds(
        "seawall_queue_handler_seconds",
        &["queue"],
        CALL_BUCKETS,
        "Time of a handler's call for one item.",
    ),
    Metric::seconds(
        "seawall_queue_delay_seconds",
        &["queue"],
        WAIT_BUCKETS,
        "Time from the moment at which an item was due to the beginning of its handler.",
    ),
];
