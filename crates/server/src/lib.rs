//! Hosts the engine: sockets, event loop, clock, append-only log, in-process connections.

mod journal;
pub mod log;

pub use journal::{Journal, JournalError, Listener};
