//! Sessions: a random token, a hash of fields in Redis with sliding expiry, and an index per user.
//!
//! ```text
//! session:{NAME:DIGEST}      hash   ~user, ~until, ~slide and the fields; lives `idle_ttl` after its last use
//! session-of:{NAME:USER}     zset   digest → when the session ends at the latest
//! session-bar:{NAME:DIGEST}  text   while it must not be restored; has a lifetime
//! ```
//!
//! - **Only a digest of the token is in Redis** (SHA-256), in the key's name. A backup, a MONITOR
//!   or a slow log reveals no session that could be used. Tokens have 128 random bits from the
//!   operating system, so the digest needs no salt. [`Token`] reveals its text only by
//!   [`Token::reveal`].
//! - **Reading extends.** Most reads are one plain command and write nothing. Once in a fraction of
//!   the idle lifetime (an eighth by default) a script reads and extends the session, never beyond
//!   `max_ttl`.
//! - **The index comes first.** A session is entered in its user's index as being opened, then
//!   created, then entered as open. A process that ends sessions deletes them first and removes
//!   them from the index afterwards, each only if its entry is unchanged since it was read: a
//!   session that was being opened then and is open now stays. Whatever fails or races, no live
//!   session is missing from the index, so that [`Sessions::revoke_all`] ends all sessions that
//!   were opened before it. The index may name sessions that do not exist; they are skipped.
//!
//! - **The limit counts open sessions.** Each session that becomes open ends the oldest of those
//!   that were open before it, and bars them from being restored. Sessions that are still being
//!   opened are left alone.
//!
//! Index and session are in different slots, so that sessions spread over a Cluster.

mod builder;
mod end;
mod index;
mod open;
mod read;
mod store;
mod token;

pub use builder::SessionsBuilder;
pub use end::{Revoke, SessionInfo};
pub use open::Restore;
pub use read::{Load, Session};
pub use store::{Fields, Sessions};
pub use token::{SessionId, Token};
