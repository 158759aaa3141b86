//! High concurrency on Redis, in one piece: *keeps the flood off your database*.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
//! use seawall::Seawall;
//!
//! let seawall = Seawall::connect("embedded:").await?;
//! # seawall.shutdown().await; Ok(()) }
//! ```
//!
//! | | |
//! | --- | --- |
//! | [`Seawall`] | the handle that everything starts from: `embedded:`, `redis://`, Sentinel, Cluster |
//! | [`link`] | direct access: commands, scripts, subscriptions |
//! | [`cache`] | two levels, one load however many ask, never what was invalidated |
//! | [`hotkey`] | keys that everybody reads at once: found, told to all, held in memory, copied |
//! | [`bigkey`] | values in parts, collections in buckets, deletion in slices |
//! | [`lock`] | locks that know when they are lost: mutex, fair, read-write, semaphore, quorum |
//! | [`limit`] | limits by subject, in Redis and without it; a layer for tower and axum |
//! | [`id`] | global ids that cost no round trip, and snowflakes |
//! | [`bloom`] | a filter in Redis that says what cannot exist, rebuilt without a gap |
//! | [`session`] | sessions by random token that slide, and end all at once |
//! | [`social`] | likes, leaderboards, follows, inboxes, places, sign-ins, visits, order lists |
//! | [`stream`] | streams with workers: at least once, parked rather than lost |
//! | [`queue`] | delayed items with leases, a simple list, a broadcast |
//! | [`survey`] | what is in a Redis: big keys, hot keys, skew; live and from an RDB file |
//! | [`stock`] | flash sales and sharded inventories that are sold exactly |
//! | [`key`], [`member`] | keys made of typed parts; what stands inside collections |
//! | [`guard`] | breaker, rate, concurrency and deadline around calls; works without Redis |
//! | [`clock`], [`testing`] | time, which tests can hold in their hands; an engine on it, with faults |

pub mod bigkey;
pub mod bloom;
pub mod cache;
pub mod error;
mod handle;
pub mod hotkey;
pub mod id;
pub mod key;
mod lifetime;
pub mod limit;
pub mod link;
pub mod lock;
pub mod member;
pub mod queue;
mod retry;
pub mod session;
pub mod social;
pub mod stock;
pub mod stream;
pub mod survey;
mod tally;
pub mod testing;

pub use error::{Error, Result};
pub use handle::{Builder, Seawall};
pub use key::KeyPart;
pub use link::{Link, Script, Topology};
pub use redis::{Cmd, FromRedisValue, ToRedisArgs, Value, cmd};
#[doc(inline)]
pub use seawall_resilience::{self as guard, clock};

/// The README's examples are tests.
#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
