//! The cache's behaviour, on the embedded engine, redis-server, a Sentinel set and a Cluster.

mod audit;
mod batch;
mod explain;
mod filter;
mod lifetimes;
mod reading;
#[path = "../support/setup.rs"]
mod setup;
mod writing;
