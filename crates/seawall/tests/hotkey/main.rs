//! Hot keys: found by the fleet, held in every process, let go; on every backend and under faults.

mod copies;
mod finding;
mod outage;
#[path = "../support/process.rs"]
#[expect(dead_code, reason = "processes of these tests get no signals")]
mod process;
mod races;
mod rationing;
#[path = "../support/setup.rs"]
mod setup;
mod speed;
