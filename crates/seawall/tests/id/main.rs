//! Ids, on every backend and under faults.

#[path = "../support/handles.rs"]
mod handles;
mod record;
mod rollback;
mod supply;
mod unique;
