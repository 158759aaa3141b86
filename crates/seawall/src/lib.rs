//! High concurrency on Redis, in one piece.

pub mod error;
