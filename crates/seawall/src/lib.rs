//! High concurrency on Redis, in one piece.

pub mod clock;
pub mod error;
