//! Ids: 64-bit numbers that are globally unique and rise with time.
//!
//! [`Ids`] are taken from Redis in segments, so that most of them cost no round trip; a process
//! needs no worker number. [`Snowflake`] needs no Redis, but each process needs a worker number
//! that no other process has. `docs/ids.md` says what is guaranteed and what is not.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
//! use seawall::Seawall;
//!
//! let seawall = Seawall::connect("embedded:").await?;
//! let orders = seawall.ids("order").build()?;
//! let first = orders.next().await?;
//! let second = orders.next().await?;
//! assert!(first < second);
//! # seawall.shutdown().await; Ok(()) }
//! ```
//!
//! ```text
//!   Ids        0 │ 31 bits: seconds since 2022 │ 32 bits: sequence
//!   Snowflake  0 │ 41 bits: milliseconds since 2022 │ 10 bits: worker │ 12 bits: sequence
//! ```

mod day;
mod ident;
mod ids;
mod segment;
mod snowflake;
mod supply;

pub use ident::{EPOCH_SECONDS, Id, IdParts};
pub use ids::{Ids, IdsBuilder};
pub use snowflake::{Snowflake, SnowflakeParts};
