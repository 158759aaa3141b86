//! Durable background work on Redis: [`stream`]s with consumer groups, and [`queue`]s.

mod metrics;
pub mod queue;
pub mod stream;
mod worker;

pub use metrics::METRICS;
