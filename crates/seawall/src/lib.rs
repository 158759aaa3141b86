//! A toolkit for high concurrency on Redis: *keeps the flood off your database*.
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
//! | [`client`] | direct access: commands, scripts, subscriptions |
//! | [`cache`] | two levels, one load per key for all concurrent requests, no value that was invalidated |
//! | [`hotkey`] | hot keys: detected, announced to all processes, held in memory, copied |
//! | [`bigkey`] | values in parts, collections in buckets, deletion in slices |
//! | [`lock`] | locks that know when they are lost: mutex, fair, read-write, semaphore, quorum |
//! | [`limit`] | rate limits by subject, with or without Redis; a layer for tower and axum |
//! | [`id`] | global ids that cost no round trip, and snowflakes |
//! | [`bloom`] | a Bloom filter in Redis that says which keys cannot exist, rebuilt while it is in use |
//! | [`session`] | sessions by random token with sliding expiry; all sessions of a user can be ended at once |
//! | [`social`] | likes, leaderboards, follows, inboxes, places, sign-ins, visits, order lists |
//! | [`stream`] | streams with workers: at-least-once handling, dead letters instead of loss |
//! | [`queue`] | delayed items with leases, a simple list, a broadcast |
//! | [`survey`] | finds big keys, hot keys and skew in a Redis, live or in an RDB file |
//! | [`stock`] | flash sales and sharded inventories that never oversell |
//! | [`key`], [`member`] | keys made of typed parts; members of collections |
//! | [`guard`] | breaker, rate, concurrency and deadline around calls; works without Redis |
//! | [`clock`], [`testing`] | time that tests can control; an engine on that clock, with faults |

pub mod bigkey;
#[cfg(feature = "bloom")]
pub mod bloom;
#[cfg(feature = "id")]
pub mod id;
#[cfg(feature = "limit")]
pub mod limit;
mod seawall;
#[cfg(feature = "session")]
pub mod session;
#[cfg(feature = "testing")]
pub mod testing;

pub use redis::{Cmd, FromRedisValue, ToRedisArgs, Value, cmd};
#[cfg(feature = "cache")]
#[doc(inline)]
pub use seawall_cache::{self as cache, hotkey};
#[doc(inline)]
pub use seawall_client::{
    Client, Error, Handle, KeyPart, Result, Script, Topology, client, error, key, member,
};
#[cfg(feature = "inspect")]
#[doc(inline)]
pub use seawall_inspect as survey;
#[cfg(feature = "jobs")]
#[doc(inline)]
pub use seawall_jobs::{queue, stream};
#[cfg(feature = "lock")]
#[doc(inline)]
pub use seawall_lock as lock;
#[doc(inline)]
pub use seawall_resilience::{self as guard, clock};
#[cfg(feature = "social")]
#[doc(inline)]
pub use seawall_social as social;
#[cfg(feature = "stock")]
#[doc(inline)]
pub use seawall_stock as stock;

pub use self::seawall::{Builder, Seawall};

/// Runs the README's examples as tests.
#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
