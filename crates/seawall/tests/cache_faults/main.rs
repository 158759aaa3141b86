//! The cache's promises under faults: lost and late replies, cuts, pauses, kills, fail-overs.
//!
//! `SEAWALL_SOAK=1` runs the large counts, `SEAWALL_SOAK_SECONDS` ends each campaign of it after that
//! time; `SEAWALL_ORACLE_SEED` repeats the chances of a run.

mod campaign;
#[path = "../support/chance.rs"]
mod chance;
mod database;
#[path = "../support/eventually.rs"]
mod eventually;
mod failover;
mod faults;
mod ghosts;
mod listening;
mod oracle;
mod outage;
mod overflow;
#[path = "../support/process.rs"]
mod process;
mod puts;
mod races;
mod stampede;
mod worker;
