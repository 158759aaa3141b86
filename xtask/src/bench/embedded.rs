//! One GET at a time through redis-rs on the in-process connection, without a socket.

use crate::outcome::{Failure, Outcome};
use crate::shell::{cargo, step};

/// Nanoseconds for one GET, as the example `embedded_get` of the testkit measures it.
pub(super) fn measure() -> Outcome<f64> {
    let args = [
        "run",
        "--release",
        "--quiet",
        "--package",
        "seawall-testkit",
        "--example",
        "embedded_get",
    ];
    let lines = step("embedded GET (release)", &mut cargo(&args))?;
    let figure = lines.iter().find_map(|line| line.strip_prefix("ns per GET: "));
    figure
        .and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| Failure::new("the example embedded_get printed no figure"))
}
