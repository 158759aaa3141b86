//! The wire protocol: requests in ([`request`]), replies out ([`reply`], into an [`output`]), RESP2
//! and RESP3.
//!
//! Both sides are written by hand because no crate matches Redis' bytes: the request parser keeps
//! ranges into the caller's buffer and never copies a complete argument, the reply writer appends
//! to the session's output in place.

mod output;
pub(crate) mod reply;
pub(crate) mod request;

pub use output::Output;
pub(crate) use reply::{Protocol, Reply};
pub(crate) use request::{Limits, Parsed, Parser};
