//! Sessions: a random token, a hash of fields in Redis that slides, an index for each user.
//!
//! ```text
//! session:{NAME:DIGEST}      hash   ~user, ~until and the fields; lives `idle` after its last use
//! session-of:{NAME:USER}     zset   digest → when the session ends at the latest
//! session-bar:{NAME:DIGEST}  text   while it must not be restored; has a lifetime
//! ```
//!
//! - **Only a digest of the token is in Redis** (SHA-256), in the key's name. Whoever reads a backup,
//!   a MONITOR or a slow log learns of no session that could be used. Tokens have 128 random bits
//!   from the operating system, so the digest needs no salt. [`Token`] shows itself nowhere but by
//!   [`Token::reveal`].
//! - **Reading slides.** Most reads are two plain commands in one round trip and write nothing; once in a
//!   fraction of the lifetime (an eighth by default) a script reads and extends it. It never goes
//!   beyond `longest`.
//! - **The index comes first.** A session is entered in its user's index as being opened, then
//!   created, then entered as open. Who ends sessions deletes them first and takes them out of the
//!   index afterwards, each only as it was read: one that was being opened then and is open now
//!   stays. Whatever fails or races, no live session is missing in the index, so that
//!   [`Sessions::revoke_all`] ends all that were opened before it. The index may name sessions that
//!   are not there; they are skipped.
//!
//! - **The limit counts open sessions.** Each that turns open ends the oldest of those that were open
//!   before it, and bars them from being restored; what is still being opened is left alone.
//!
//! Index and session lie in different slots, so that sessions spread over a Cluster.

mod builder;
mod store;
mod token;

pub use builder::SessionsBuilder;
pub use store::{Fields, Load, Restore, Revoke, Session, SessionInfo, Sessions};
pub use token::{SessionId, Token};
