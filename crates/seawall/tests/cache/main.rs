//! The cache's behaviour, on the embedded engine, redis-server, a Sentinel set and a Cluster.

mod alone;
mod audit;
mod batch;
mod bound;
mod codecs;
#[path = "../support/eventually.rs"]
mod eventually;
mod explain;
mod filter;
mod leaving;
mod lifetimes;
mod lives;
mod loaders;
mod outbox;
mod reading;
mod second;
#[path = "../support/setup.rs"]
mod setup;
mod shapes;
mod shared_memory;
mod value_tags;
mod writing;
