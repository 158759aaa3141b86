//! The metrics of stock.

use seawall_resilience::metric::{CALL_BUCKETS, Metric};

/// The metrics of this crate.
pub const METRICS: &[Metric] = &[
    Metric::seconds(
        "seawall_stock_reserve_seconds",
        &["kind"],
        CALL_BUCKETS,
        "Time of a reservation, whatever its answer: of a flash sale (sale) or an inventory (inventory).",
    ),
    Metric::counter(
        "seawall_stock_lost_parts_total",
        &[],
        "Parts of sold units that are missing at their shard: reconcile or rebuild.",
    ),
    Metric::counter(
        "seawall_stock_astray_parts_total",
        &[],
        "Units that are held for a reference that its home does not know: rebuild.",
    ),
];
