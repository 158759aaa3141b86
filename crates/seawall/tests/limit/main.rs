//! Limits, on every backend and under faults.

mod handles;
mod input;
#[cfg(feature = "tower")]
mod layer;
mod load;
mod model;
mod outage;
