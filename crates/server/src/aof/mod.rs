//! The append-only log: stores the engine's operations on a disk.
//!
//! ```text
//! stage (memory) ─▶ commit (write) ─▶ sync thread (fdatasync) ─▶ released
//!        └────────▶ live queue of a rewrite ─▶ ….rewrite ─▶ renamed over the log
//! ```
//!
//! - [`disk`], [`sim`]: the disk as a trait, the real one and one that can lose power;
//! - [`frame`], [`reader`], [`check`]: the file format, reading it, checking and repairing it;
//! - [`writer`], [`shared`], [`sync`]: appending, and what "durable" means under each [`Policy`];
//! - [`rewrite`], [`job`]: a compact copy of the state while the server runs, without fork;
//! - [`open`], [`journal`]: loading at start, and the log as seen by the event loop;
//! - [`transfer`]: export to and import from a plain Redis command stream.
//!
//! Invariants: a record is recovered completely or not at all; an operation acknowledged under
//! `always` is in a file that a restart reads; damage in front of valid records is never skipped.

mod appender;
mod check;
mod disk;
mod error;
mod frame;
mod job;
mod journal;
mod lock;
mod open;
mod reader;
mod rewrite;
mod shared;
pub mod sim;
mod sync;
mod transfer;
mod writer;

pub use check::{Report, Verdict, check, repair};
pub use disk::{DirectoryDisk, Disk, DiskFile};
pub use error::LogError;
pub use journal::{Place, open_journal, open_journal_on};
pub use lock::DirectoryLock;
pub use open::Progress;
pub use reader::{Loaded, Torn, load};
pub use rewrite::{DumpSource, Rewrite, SharedSource, Step, Target, save_now};
pub use sync::Policy;
pub use transfer::{Commands, Exported, ImportError, export};
pub use writer::{Clock, Log, Options};

/// The log's file name inside its directory.
pub const LOG_FILE: &str = "appendonly.seawall";
/// The snapshot's file name inside its directory.
pub const SNAPSHOT_FILE: &str = "dump.seawall";
