//! The Redis-compatible engine of Seawall.
