//! A toolkit for high concurrency on Redis: *keeps the flood off your database*.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::{io, time::Duration};
//! use seawall::{Seawall, cache::{Cache, Freshness, Loaded}};
//!
//! // `redis://…`, `redis-sentinel://…` and `redis-cluster://…` work the same way.
//! let seawall = Seawall::connect("embedded:").await?;
//! let shops: Cache<u64, String> = seawall.cache("shop").ttl(Duration::from_secs(60)).build()?;
//!
//! // A thousand callers at once cause one load.
//! let load = || async { Ok::<_, io::Error>(Loaded::Found("tea house".to_owned())) };
//! let shop = shops.get_or_load(&42, load).await?;
//! assert_eq!(shop.value.as_deref().map(String::as_str), Some("tea house"));
//!
//! // Changes the database, then invalidates. A load that runs meanwhile is not stored.
//! let update = async { Ok::<_, io::Error>(()) };
//! let ((), _invalidated) = shops.write(&42, update).await?;
//! let load = || async { Ok::<_, io::Error>(Loaded::Found("tea room".to_owned())) };
//! let shop = shops.get_or_load_as(Freshness::Strong, &42, load).await?;
//! assert_eq!(shop.value.as_deref().map(String::as_str), Some("tea room"));
//!
//! // One holder over all processes. The body is cancelled if the lock is lost.
//! let report = seawall
//!     .lock(("report", 7))
//!     .try_with(Duration::from_secs(1), |guard| async move {
//!         Ok::<_, io::Error>(guard.token().sequence)
//!     })
//!     .await?;
//! assert_eq!(report, 1);
//! # seawall.shutdown().await; Ok(()) }
//! ```
//!
//! Each capability is a feature of this crate and a page under `docs/` that says what is guaranteed, what
//! is not, and what happens when Redis fails.
//!
//! | | |
//! | --- | --- |
//! | [`Seawall`] | the handle that everything starts from: `embedded:`, `redis://`, Sentinel, Cluster |
//! | [`client`] | direct access: commands, scripts, subscriptions |
//! | [`cache`] | two levels, one load per key for concurrent callers, strong reads never return what was invalidated |
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
//! | `cached`, `invalidates` | attributes that cache a function or invalidate after it (feature `macros`) |
//! | [`guard`] | breaker, rate, concurrency and deadline around calls; works without Redis |
//! | [`observe`] | the metrics: names, help texts, units, buckets |
//! | [`clock`], [`testing`] | time that tests can control; an engine on that clock, with faults |

pub mod bigkey;
#[cfg(feature = "bloom")]
pub mod bloom;
#[cfg(feature = "redis-rs")]
mod connection;
#[cfg(feature = "id")]
pub mod id;
#[cfg(feature = "limit")]
pub mod limit;
pub mod observe;
mod seawall;
#[cfg(feature = "session")]
pub mod session;
#[cfg(feature = "testing")]
pub mod testing;

#[cfg(feature = "redis-rs")]
pub use redis::{self, Cmd, FromRedisValue, ToRedisArgs, Value, cmd};
#[cfg(feature = "cache")]
#[doc(inline)]
pub use seawall_cache::{self as cache, hotkey};
#[cfg(feature = "redis-rs")]
#[doc(inline)]
pub use seawall_client::{Client, Script, client};
#[doc(inline)]
pub use seawall_client::{Error, Handle, KeyPart, Result, Topology, error, key, member};
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

#[cfg(feature = "redis-rs")]
pub use self::connection::Connection;
pub use self::{
    observe::describe_metrics,
    seawall::{Builder, Seawall},
};
