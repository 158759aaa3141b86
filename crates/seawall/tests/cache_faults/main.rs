//! The cache's promises under faults: lost and late replies, cuts, pauses, kills, fail-overs.
//!
//! `SEAWALL_SOAK=1` runs the large counts, `SEAWALL_SOAK_SECONDS` ends each campaign of it after that
//! time; `SEAWALL_ORACLE_SEED` repeats the chances of a run.

mod between;
mod breaker;
mod campaign;
mod cancelled;
#[path = "../support/chance.rs"]
mod chance;
mod clocks;
mod database;
mod deeds;
mod draw;
#[path = "../support/eventually.rs"]
mod eventually;
mod failover;
mod faults;
mod flood;
mod generations;
mod ghosts;
mod holders;
mod ledger;
mod listening;
mod oracle;
mod outage;
mod overflow;
#[path = "../support/process.rs"]
mod process;
mod puts;
mod races;
mod random;
mod rested;
mod shakes;
mod slow_disk;
mod stampede;
mod value_tags;
mod worker;
