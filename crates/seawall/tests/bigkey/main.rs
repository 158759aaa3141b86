//! Big keys: values in parts and collections in buckets, on the backends and under faults.

mod content;
mod growing;
mod limits;
mod model;
mod relay;
mod setup;
mod torn;
mod values;
