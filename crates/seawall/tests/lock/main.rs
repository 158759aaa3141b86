//! Locks: what they promise, on every backend, under faults, over a recorded history.

mod behaviour;
mod cancel;
#[path = "../support/eventually.rs"]
mod eventually;
mod ground;
mod history;
mod kinds;
mod lost_replies;
#[path = "../support/process.rs"]
mod process;
mod quorum;
mod renewal;
mod replicas;
mod site;
mod trials;
mod waiting;
mod worker;
