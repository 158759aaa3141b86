//! Queues beside the [stream](crate::stream): for later, for one consumer at a time, for everybody.
//!
//! | | |
//! | --- | --- |
//! | [`Delayed`] | items that become due at a time; leases, attempts, dead letters, cancel and reschedule |
//! | [`ListQueue`] | the simple list: first in, first out, with a list for what each consumer has in hand |
//! | [`Broadcast`] | every listener hears every message, unless it missed it, and then it is told so |
//!
//! Which to use when, and what each of them may lose: `docs/queues.md`.
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
//! let worker = timeouts.worker().run(move |job: Job<u64>| {
//!     let seen = seen.clone();
//!     async move {
//!         seen.send(*job.payload()).ok();
//!         Outcome::Done
//!     }
//! })?;
//! assert_eq!(handled.recv().await, Some(7));
//! worker.stop().await;
//! # seawall.shutdown().await; Ok(()) }
//! ```
//!
//! Deliberately absent: priorities (use several queues), and moving an item from one queue to another
//! in one step (they may lie on different nodes).

mod broadcast;
mod decode;
mod delayed;
mod job;
mod list_queue;
mod shard;
mod shard_worker;
mod worker;

pub use broadcast::{Broadcast, Heard, Listener};
pub use delayed::{Delayed, DelayedBuilder, MAX_SHARDS};
pub use job::{
    Acked, Added, Changed, Claim, Dead, DeadItems, DelayedStatus, FailedShard, Given, Job, JobState,
};
pub use list_queue::{Finished, ListConsumer, ListQueue, Taken};
pub use worker::{DelayedWorker, DelayedWorkerBuilder};
