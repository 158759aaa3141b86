//! Streams and their workers, on every backend and under faults.

mod behaviour;
mod draining;
mod faults;
mod input;
mod kills;
mod ledger;
mod parking;
#[path = "../support/process.rs"]
#[expect(dead_code, reason = "processes of these tests end themselves")]
mod process;
#[path = "../cache/setup.rs"]
#[expect(dead_code, reason = "keys are asked of the streams")]
mod setup;
mod takeover;
mod trimming;
mod worker;

use std::time::{Duration, Instant};

/// Long enough for anything that should happen, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Whether a process has ended, and then whether by a signal.
pub(crate) fn ended(process: &mut process::Worker) -> Option<bool> {
    process.child.try_wait().expect("our child").map(|status| status.code().is_none())
}

/// Asks again and again until it is so.
pub(crate) async fn eventually(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !so().await {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
