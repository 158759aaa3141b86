//! Streams with workers: every entry is handled at least once or kept as a dead letter, never lost.
//!
//! Producers append to a [`Stream`]. A [`Worker`] of a consumer group hands the entries to a
//! handler, and acknowledges each entry after the handler has returned [`Outcome::Done`]. Entries
//! of a dead worker are taken over after a while. Entries that fail are retried. Entries that fail
//! too often become dead letters, with the reason. An entry is settled once it is
//! acknowledged or a dead letter. Guarantees and their limits: `docs/streams.md`.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
//! use seawall::{Seawall, stream::{Delivery, Outcome}};
//!
//! let seawall = Seawall::connect("embedded:").await?;
//! let orders = seawall.stream::<u64>("orders")?;
//! orders.append(&42).await?;
//!
//! let (seen, mut handled) = tokio::sync::mpsc::unbounded_channel();
//! let worker = orders.worker("billing").consumer("host-1").spawn(move |order: Delivery<u64>| {
//!     let seen = seen.clone();
//!     async move {
//!         // Commit here, together with `order.reference()`; only then is it acknowledged.
//!         seen.send(*order.payload()).ok();
//!         Outcome::Done
//!     }
//! })?;
//! assert_eq!(handled.recv().await, Some(42));
//! worker.shutdown().await;
//! # seawall.shutdown().await; Ok(()) }
//! ```
//!
//! The parts of a worker, for each group of streams that one connection can read:
//!
//! ```text
//!  reader ──entries──▶ dispatcher ──spawns──▶ handlers ──completions──▶ settler ──XACK, park──▶ Redis
//!    ▲  reads, drains its own                                          │ retakes, renews
//!    └─ pending, claims the dead's                     dispatcher ◀────┘ what is due again
//! ```
//!
//! Invariants: an entry is in the group's pending list from its delivery until its handler has
//! committed; an acknowledgement is only ever sent for a completion; parking and acknowledging are
//! one step; an entry that may have ended its process is begun alone (`attempts.rs`,
//! `worker/handler_pool/alone.rs`).
//!
//! Deliberately absent: exactly-once delivery, which does not exist. For exactly-once *effects* the
//! handler stores [`Delivery::reference`] in its own transaction.

mod attempts;
mod builder;
mod dead_letter;
mod delivery;
mod dispatch;
mod entry;
mod group;
mod handler;
mod in_flight;
mod intake;
mod observe;
mod producer;
mod reader;
mod retries;
mod settle;
mod status;
mod worker;

pub use builder::{Retention, Start, WorkerBuilder};
pub use dead_letter::{DeadLetter, Redriven};
pub use delivery::Delivery;
pub use entry::{EntryId, Fields};
pub use producer::{Appended, MAX_PAYLOAD_BYTES, Stream};
pub use status::{Counts, Status, StreamStatus};
pub use worker::{Drained, Worker};

pub use crate::worker::Outcome;
