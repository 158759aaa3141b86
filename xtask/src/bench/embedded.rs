//! One GET at a time through redis-rs on the in-process connection, without a socket.

use crate::outcome::{Failure, Outcome};
use crate::shell::{cargo, step};

/// Label in front of the figure in the example's output.
const LABEL: &str = "redis-rs, one GET at a time:";

/// Returns the nanoseconds for one GET, as the server's example measures it.
pub(super) fn measure() -> Outcome<f64> {
    let example = ["--package", "seawall-server", "--example", "in_process_latency"];
    let mut command = cargo(&["run", "--profile", "dist", "--quiet"]);
    let lines = step("embedded GET (dist)", command.args(example))?;
    let figure = lines.iter().find_map(|line| line.strip_prefix(LABEL));
    figure
        .and_then(|text| text.trim().trim_end_matches("ns").trim().parse().ok())
        .ok_or_else(|| Failure::new("the example in_process_latency printed no figure"))
}
