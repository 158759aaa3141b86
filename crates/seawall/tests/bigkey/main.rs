//! Big keys: values in parts and collections in buckets, on the backends and under faults.

mod content;
#[path = "../support/eventually.rs"]
mod eventually;
mod growing;
mod keyspace;
mod limits;
mod model;
mod relay;
#[path = "../support/setup.rs"]
mod setup;
mod torn;
mod values;
