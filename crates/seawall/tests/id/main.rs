//! Ids, on every backend and under faults.

mod handles;
mod record;
mod rollback;
mod supply;
mod unique;
