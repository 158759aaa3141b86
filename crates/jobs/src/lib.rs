//! Durable background work on Redis: [`stream`]s with consumer groups, and [`queue`]s.

mod metrics;
mod observed;
pub mod queue;
mod renewal;
pub mod stream;

pub use metrics::METRICS;
