//! Locks: what they promise, on every backend, under faults, over a recorded history.

#![expect(clippy::incompatible_msrv, reason = "tests need not build on the oldest Rust")]

mod behaviour;
mod campaign;
mod cancel;
#[path = "../support/chance.rs"]
mod chance;
#[path = "../support/eventually.rs"]
mod eventually;
mod extension;
mod field;
mod foreign;
mod ground;
mod history;
mod holder;
mod kinds;
mod lost_replies;
mod places;
#[path = "../support/process.rs"]
mod process;
mod quorum;
mod renewal;
mod repeated;
mod replicas;
mod site;
mod subject;
mod suspend;
mod ticking;
mod trials;
mod unknown;
mod waiting;
mod weather;
mod worker;
