//! Limits: at most a given amount, over all processes together.
//!
//! A [`Limiter`] has a [`Policy`] and counts by *subject* (a user, an address, a phone number).
//! There are two policies: [`Rate`] is GCRA (a steady rate with a burst), [`Window`] is a hard
//! count in any sliding window. Each check is one script in Redis on one key that expires by
//! itself, in constant time and space, by the server's clock. While Redis is unavailable a local
//! limiter with a share of the limit takes over: a limit never fails open. Guarantees and their
//! limits: `docs/limits.md`.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
//! use seawall::{Seawall, limit::{Decision, Rate}};
//!
//! let seawall = Seawall::connect("embedded:").await?;
//! let limiter = seawall.limiter("search", Rate::per_second(5).burst(2)).build()?;
//!
//! assert!(limiter.check("user-1", 1).await?.is_allowed());
//! assert!(limiter.check("user-1", 1).await?.is_allowed());
//! match limiter.check("user-1", 1).await? {
//!     Decision::Allowed { .. } => unreachable!("two at once are the burst"),
//!     Decision::Limited { retry_after } => assert!(retry_after.as_millis() <= 200),
//! }
//! # seawall.shutdown().await; Ok(()) }
//! ```
//!
//! Deliberately absent: waiting for a turn (a caller that can wait uses the time in
//! [`Decision::Limited`]), and a log of uses.

mod away;
mod builder;
mod decision;
mod gcra;
#[cfg(feature = "tower")]
mod layer;
mod limiter;
mod local;
mod policy;
mod silence;
mod window;

pub use builder::{LimiterBuilder, WhenAway};
pub use decision::Decision;
#[cfg(feature = "tower")]
pub use layer::{Limit, LimitLayer};
pub use limiter::Limiter;
pub use policy::{Policy, Rate, Window};
