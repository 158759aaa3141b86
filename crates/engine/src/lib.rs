//! The Redis-compatible engine of Seawall.

mod bits;
pub mod crc;
pub mod effects;
mod geo;
pub mod glob;
mod hll;
pub mod number;
mod rng;
mod value;
