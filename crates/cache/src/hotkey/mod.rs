//! Hot keys: found while they are read, and held in every process before they hurt.
//!
//! Every read of a cache is counted in a sketch, in a few nanoseconds. Ten
//! times a second each process tells Redis the few keys that it read most; a script adds them up
//! over the whole fleet in exact sliding windows, and the one report that crosses the rule's
//! threshold makes the key hot: every process is told, and fetches the entry into its local tier
//! before it is asked for it. A key that cools is let go again. See docs/hot-keys.md for what is
//! promised and what it costs.
//!
//! | File | Idea |
//! | --- | --- |
//! | `sketch.rs` | counts reads in bounded memory, without a lock |
//! | `rule.rs`, `window.rs` | what makes a key hot; sliding windows of this process |
//! | `wire.rs`, `script/*.lua` | the keys in Redis and the messages, byte by byte |
//! | `board.rs` | the keys that are hot now, for readers |
//! | `fleet.rs` | the ticks: reports, decisions without Redis, lists |
//! | `keys.rs`, `shared.rs` | [`HotKeys`]: the handle; who is told, who is warmed |
//! | `copies.rs` | copies of very hot entries on several nodes of a Cluster |
//!
//! Invariants: nothing here makes a value visible that the cache's own tickets and leases would
//! refuse. Whatever is counted wrongly costs a fetch or a miss, never a wrong answer. Every list is
//! bounded: names in the sketch, candidates in a report, hot keys in a shard and in a process.
//!
//! Deliberately absent: keys that are not read through a cache, which only the server can tell.

mod board;
pub(crate) mod copies;
mod fleet;
mod keys;
mod rule;
mod shared;
mod sketch;
mod window;
mod wire;

pub use keys::{HotEvent, HotKeys, HotStatus};
pub use rule::{HotRule, HotRules};
pub(crate) use shared::{HotKeySink, Member};
pub use wire::{HotKey, HotReason};
