//! Queues besides the [stream](crate::stream): delayed items, simple lists, and broadcasts.
//!
//! | | |
//! | --- | --- |
//! | [`Delayed`] | items that become due at a set time, with leases, attempts, dead letters, cancel and reschedule |
//! | [`ListQueue`] | a simple FIFO list, with one list per consumer for the elements it has taken |
//! | [`Broadcast`] | every listener receives every message, or is told that it missed some |
//!
//! `docs/queues.md` explains which one to use when, and what each of them may lose.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
//! use std::time::Duration;
//! use seawall::{Seawall, queue::Job, stream::Outcome};
//!
//! let seawall = Seawall::connect("embedded:").await?;
//! let timeouts = seawall.delayed_queue::<u64>("unpaid").build()?;
//! let _ = timeouts.add("order-7", &7, Duration::from_millis(10)).await?;
//!
//! let (seen, mut handled) = tokio::sync::mpsc::unbounded_channel();
//! let worker = timeouts.worker().spawn(move |job: Job<u64>| {
//!     let seen = seen.clone();
//!     async move {
//!         seen.send(*job.payload()).ok();
//!         Outcome::Done
//!     }
//! })?;
//! assert_eq!(handled.recv().await, Some(7));
//! worker.shutdown().await;
//! # seawall.shutdown().await; Ok(()) }
//! ```
//!
//! Deliberately absent: priorities (use several queues), and moving an item from one queue to
//! another in one step (they may be on different nodes).

mod broadcast;
mod core;
mod decode;
mod delayed;
mod job;
mod lease;
mod list_queue;
mod shard;
mod worker;

pub use self::core::MAX_SHARDS;
pub use broadcast::{Broadcast, Heard, Listener};
pub use delayed::{Delayed, DelayedBuilder};
pub use job::{
    Acked, Added, Changed, Claim, Dead, DeadItems, DelayedStatus, FailedShard, Given, Job, JobState,
};
pub use list_queue::{Finished, ListConsumer, ListQueue, Taken};
pub use worker::{DelayedWorker, DelayedWorkerBuilder};
