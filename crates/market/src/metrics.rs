//! The metrics of the market, beside those of the toolkit.

use seawall::observe::{CALL_BUCKETS, Metric};

/// The metrics of this crate.
pub const METRICS: &[Metric] = &[
    Metric::counter(
        "market_requests_total",
        &["status"],
        "Requests, by the class of their status.",
    ),
    Metric::seconds("market_request_seconds", &[], CALL_BUCKETS, "Time of requests."),
    Metric::counter("market_page_views_lost_total", &[], "Page views that could not be counted."),
    Metric::counter(
        "market_sale_comparisons_total",
        &[],
        "Comparisons of a flash sale with the database.",
    ),
    Metric::counter(
        "market_sale_differences_total",
        &["kind"],
        "Differences between a flash sale and the database that were repaired: brought (orders written late), adopted, returned, corrected.",
    ),
    Metric::gauge(
        "seawall_big_keys",
        &["severity"],
        "Big keys that the last survey found, by severity: warn, critical.",
    ),
    Metric::counter("seawall_big_key_alarms_total", &[], "Alarms about big keys."),
    Metric::counter(
        "seawall_big_key_hook_failures_total",
        &[],
        "Alarms about big keys that the hook did not take.",
    ),
    Metric::counter(
        "seawall_order_lists_repaired_total",
        &[],
        "Order lists of users that differed from the database and were repaired.",
    ),
    Metric::counter(
        "seawall_stock_rebuilds_total",
        &[],
        "Times that the stock of a SKU was rebuilt from the database.",
    ),
    Metric::gauge(
        "seawall_stock_apart_skus",
        &[],
        "SKUs whose stock differed from the database at the last comparison.",
    ),
    Metric::counter(
        "seawall_stock_apart_units_total",
        &[],
        "Units by which stock and database differed, over all comparisons.",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use seawall_testkit::{documented_metrics, metric_names};

    use super::*;

    #[test]
    fn every_metric_of_the_binary_is_described() {
        let others = ["engine", "server", "cli"].map(metric_names);
        assert_eq!(others, [const { BTreeSet::new() }; 3], "these emit no metrics");
        let described: BTreeSet<_> = METRICS.iter().map(|metric| metric.name.to_owned()).collect();
        assert_eq!(described, metric_names("market"));
    }

    #[test]
    fn the_page_lists_the_metrics_as_they_are_described() {
        let row = |metric: &Metric| {
            let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let (kind, unit) = (metric.kind.name().to_owned(), metric.unit.as_str().to_owned());
            vec![format!("`{}`", metric.name), kind, unit, labels.join(", "), metric.help.into()]
        };
        let expected: Vec<_> = METRICS.iter().map(row).collect();
        assert_eq!(documented_metrics("Metrics of the market"), expected);
    }
}
