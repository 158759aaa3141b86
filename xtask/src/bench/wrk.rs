//! Runs one turn of `wrk` against a server and parses its counts.

use std::net::SocketAddr;
use std::process::Command;

use crate::outcome::{Context, Failure, Outcome};
use crate::setup;

/// Concurrent connections, from one thread: this machine has two cores for all processes.
const CONNECTIONS: &str = "64";

/// Result of a turn.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    pub(super) requests: u64,
    pub(super) per_second: f64,
    /// Responses that were not a success.
    pub(super) refused: u64,
}

/// Installs wrk if it is missing.
pub(super) fn ready() -> Outcome {
    setup::install(&[("wrk", "wrk")])
}

/// Sends requests for this many seconds; `script` is a file and its arguments.
pub(super) fn turn(
    address: SocketAddr,
    path: &str,
    seconds: u32,
    script: Option<(&str, &[String])>,
) -> Outcome<Turn> {
    let mut command = Command::new("wrk");
    command.args(["-t1", "-c", CONNECTIONS, "-d", &format!("{seconds}s")]);
    if let Some((file, _)) = script {
        command.args(["-s", file]);
    }
    command.arg(format!("http://{address}{path}"));
    if let Some((_, args)) = script {
        command.arg("--").args(args);
    }
    let output = command.output().context("wrk does not run")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = |before: &str, at: usize| {
        let line = text.lines().find(|line| line.contains(before))?;
        line.split_whitespace().nth(at)?.parse::<f64>().ok()
    };
    let requests = number("requests in", 0);
    let per_second = number("Requests/sec:", 1);
    let (Some(requests), Some(per_second)) = (requests, per_second) else {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Failure::new(format!("wrk printed something else: {text}{said}")));
    };
    let refused = number("Non-2xx or 3xx responses:", 4).unwrap_or(0.0) as u64;
    Ok(Turn { requests: requests as u64, per_second, refused })
}
