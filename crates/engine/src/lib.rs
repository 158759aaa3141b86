//! The Redis-compatible engine of Seawall.

pub mod crc;
pub mod effects;
mod geo;
mod rng;
mod value;
pub mod glob;
pub mod number;
