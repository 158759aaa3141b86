//! Redis connection layer shared by all Seawall capabilities: commands, keys, errors, and the
//! handle that shuts everything down in order.
//!
//! Applications use the crate `seawall`, whose `Seawall` type is a [`Handle`] with a constructor
//! for each capability. Items that are public here but not in `seawall` are for crates that
//! implement their own capabilities.
//!
//! | | |
//! | --- | --- |
//! | [`Handle`] | a connection with its key prefix, its background tasks and their orderly shutdown |
//! | [`client`] | the only access path to Redis: send a command, run a script, open a subscription |
//! | [`key`], [`member`] | keys built from typed parts; values stored inside collections |
//! | [`error`], [`retry`] | not sent, unknown, refused; retries that never turn unknown into not sent |
//! | [`unlink_slowly`] | deletes a large key in slices |
//! | [`lifetime`], [`striped_counter`] | TTLs that a server accepts; counters without contention |
//! | [`testing`] | outages and lost replies on demand, an engine on a manual clock |

pub mod client;
pub mod error;
mod handle;
pub mod key;
pub mod lifetime;
pub mod member;
mod metrics;
pub mod retry;
pub mod sequence;
pub mod striped_counter;
pub mod testing;
mod unlink;

pub use client::{Client, Script, Topology};
pub use error::{Error, Result};
pub use handle::{Builder, Handle};
pub use key::KeyPart;
pub use metrics::METRICS;
pub use unlink::{Unlinked, unlink_slowly};

/// Maximum number of bytes that one command transfers.
pub const MAX_COMMAND_BYTES: usize = 1 << 20;
/// Maximum number of members that one command transfers.
pub const MAX_COMMAND_MEMBERS: usize = 1000;
