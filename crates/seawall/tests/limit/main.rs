//! Limits, on every backend and under faults.

mod flood;
#[path = "../support/handles.rs"]
mod handles;
mod input;
#[cfg(feature = "tower")]
mod layer;
mod load;
mod model;
mod outage;
