//! Locks: what they promise, on every backend, under faults, over a recorded history.

mod behaviour;
mod cancel;
mod ground;
mod history;
mod kinds;
mod lost_replies;
mod quorum;
mod renewal;
mod replicas;
mod trials;
mod waiting;
mod worker;
