//! Hot keys: found by the fleet, held in every process, let go; on every backend and under faults.

mod copies;
mod finding;
mod outage;
mod races;
mod rationing;
#[path = "../support/setup.rs"]
mod setup;
mod speed;
