//! Streams and their workers, on every backend and under faults.

#![expect(clippy::incompatible_msrv, reason = "tests need not build on the oldest Rust")]

mod behaviour;
mod campaign;
#[path = "../support/campaign.rs"]
mod campaign_support;
#[path = "../support/chance.rs"]
mod chance;
mod draining;
#[path = "../support/eventually.rs"]
mod eventually;
mod faults;
mod gauges;
mod input;
mod kills;
mod ledger;
mod lost_replies;
mod parking;
mod poison;
#[path = "../support/process.rs"]
#[expect(dead_code, reason = "processes of these tests end themselves")]
mod process;
#[path = "../support/setup.rs"]
mod setup;
mod takeover;
mod trimming;
mod worker;

pub(crate) use eventually::{PATIENCE, eventually};

/// Whether a process has ended, and then whether by a signal.
pub(crate) fn ended(process: &mut process::Worker) -> Option<bool> {
    process.child.try_wait().expect("our child").map(|status| status.code().is_none())
}
