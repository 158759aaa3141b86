//! The connection under every capability of Seawall: commands, keys, errors, and the handle that ends
//! everything in order.
//!
//! Applications use the crate `seawall`, whose `Seawall` is a [`Handle`] with a constructor for each
//! capability. What is public here and not there is for crates that build capabilities of their own.
//!
//! | | |
//! | --- | --- |
//! | [`Handle`] | a connection with its key prefix, its background tasks and their end |
//! | [`client`] | the one seam to Redis: send a command, run a script, open a subscription |
//! | [`key`], [`member`] | keys made of typed parts; what stands inside collections |
//! | [`error`], [`retry`] | not sent, unknown, refused; asking again without forgetting what is unknown |
//! | [`unlink_slowly`] | deletes a large key in slices |
//! | [`lifetime`], [`striped_counter`] | lifetimes that a server can keep; counters without contention |
//! | [`testing`] | outages and lost replies on demand, an engine on a manual clock |

pub mod client;
pub mod error;
mod handle;
pub mod key;
pub mod lifetime;
pub mod member;
pub mod retry;
pub mod striped_counter;
pub mod testing;
mod unlink;

pub use client::{Client, Script, Topology};
pub use error::{Error, Result};
pub use handle::{Builder, Handle};
pub use key::KeyPart;
pub use unlink::{Unlinked, unlink_slowly};

/// No command moves more bytes than this.
pub const MAX_COMMAND_BYTES: usize = 1 << 20;
/// No command moves more members than this.
pub const MAX_COMMAND_MEMBERS: usize = 1000;
