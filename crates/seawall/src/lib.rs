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
//! | [`client`] | direct access: commands, scripts, subscriptions |
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
//! | `cached`, `invalidates` | attributes that cache a function or invalidate after it (feature `macros`) |
//! | [`guard`] | breaker, rate, concurrency and deadline around calls; works without Redis |
//! | [`clock`], [`testing`] | time, which tests can hold in their hands; an engine on it, with faults |

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
#[cfg(all(feature = "macros", feature = "cache"))]
#[doc(inline)]
pub use seawall_macros::{cached, invalidates};
#[doc(inline)]
pub use seawall_resilience::{self as guard, clock};
#[cfg(feature = "social")]
#[doc(inline)]
pub use seawall_social as social;
#[cfg(feature = "stock")]
#[doc(inline)]
pub use seawall_stock as stock;
#[cfg(feature = "macros")]
#[doc(inline)]
pub use {
    seawall_client::member::Member,
    seawall_macros::{KeyPart, Member},
};

pub use self::seawall::{Builder, Seawall};

/// The README's examples are tests.
#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
