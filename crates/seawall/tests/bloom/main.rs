//! Bloom filters, on every backend and under faults.

mod behaviour;
mod faults;
mod rebuild;
#[path = "../cache/setup.rs"]
mod setup;
