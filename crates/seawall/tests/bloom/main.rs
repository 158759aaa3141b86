//! Bloom filters, on every backend and under faults.

mod behaviour;
mod faults;
mod rebuild;
#[path = "../support/setup.rs"]
mod setup;
