//! Durable background work on Redis: [`stream`]s with consumer groups, and [`queue`]s.

pub mod queue;
mod renewal;
pub mod stream;
