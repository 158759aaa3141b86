//! The Redis-compatible engine of Seawall.

pub mod crc;
pub mod effects;
mod geo;
pub mod glob;
pub mod number;
mod rng;
mod value;
