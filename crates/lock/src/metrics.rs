//! The metrics of locks.

use seawall_resilience::metric::{Metric, WAIT_BUCKETS};

/// The metrics of this crate.
pub const METRICS: &[Metric] = &[
    Metric::counter("seawall_lock_acquired_total", &[], "Locks that were acquired."),
    Metric::counter(
        "seawall_lock_busy_total",
        &[],
        "Attempts that ended because another owner holds the lock.",
    ),
    Metric::counter(
        "seawall_lock_released_total",
        &[],
        "Locks that a caller released while they were held; guards that were only dropped are not counted.",
    ),
    Metric::counter(
        "seawall_lock_lost_total",
        &[],
        "Locks that were lost before they were released.",
    ),
    Metric::seconds(
        "seawall_lock_wait_seconds",
        &[],
        WAIT_BUCKETS,
        "Time from the call of `acquire` until the lock was held.",
    ),
    Metric::seconds(
        "seawall_lock_hold_seconds",
        &[],
        WAIT_BUCKETS,
        "Time for which a lock was held, until it was given back or lost.",
    ),
    Metric::counter("seawall_lock_renewals_total", &[], "Renewals of leases that Redis confirmed."),
    Metric::counter("seawall_lock_renewal_failures_total", &[], "Renewals of leases that failed."),
    Metric::gauge("seawall_lock_renewed", &[], "Locks whose lease this process renews."),
];
