//! Locks: what they promise, on every backend, under faults, over a recorded history.

mod behaviour;

mod ground;

mod lost_replies;
