//! Delayed queue, list, broadcast: on every backend and under faults.

mod broadcast;
mod campaign;
#[path = "../support/campaign.rs"]
mod campaign_support;
#[path = "../support/chance.rs"]
mod chance;
mod clock;
mod delayed;
mod delayed_faults;
#[path = "../support/eventually.rs"]
mod eventually;
mod input;
mod listed;
mod poison;
#[path = "../support/process.rs"]
#[expect(dead_code, reason = "processes of these tests end themselves")]
mod process;
#[path = "../support/setup.rs"]
mod setup;
mod shards;
mod work;

pub(crate) use eventually::{PATIENCE, eventually};

/// Whether a process has ended, and then whether by a signal.
pub(crate) fn ended(process: &mut process::Worker) -> Option<bool> {
    process.child.try_wait().expect("our child").map(|status| status.code().is_none())
}
