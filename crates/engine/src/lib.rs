//! The Redis-compatible engine of Seawall.

pub mod effects;
mod rng;
mod value;
