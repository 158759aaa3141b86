//! The metrics of connections and commands.

use seawall_resilience::metric::{CALL_BUCKETS, Metric};

/// The metrics of this crate.
pub const METRICS: &[Metric] = &[
    Metric::counter(
        "seawall_commands_total",
        &[],
        "Commands that were sent, also those in pipelines.",
    ),
    Metric::counter(
        "seawall_command_failures_total",
        &[],
        "Commands without a usable reply: not sent, reply lost, or refused for an unexpected reason.",
    ),
    Metric::seconds(
        "seawall_command_seconds",
        &["family"],
        CALL_BUCKETS,
        "Time from sending a command to its reply, by family of commands; a sample of the commands.",
    ),
    Metric::counter("seawall_connects_total", &[], "Connections that were opened."),
    Metric::counter("seawall_connect_failures_total", &[], "Attempts to connect that failed."),
    Metric::counter(
        "seawall_failovers_followed_total",
        &[],
        "Times that the client moved to another primary because a sentinel announced it.",
    ),
    Metric::counter(
        "seawall_hub_interruptions_total",
        &[],
        "Times that the pub/sub connection ended and had to be opened again.",
    ),
];
