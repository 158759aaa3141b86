//! Sessions: a random token, a hash in Redis that slides, a row in the database behind it.
//!
//! Redis decides while it answers. When it is away the row is read instead, so that reading goes on;
//! the row follows the hash only every [`ROW_EVERY`], and is given that much more time, so that it
//! never ends before the hash. The database keeps a digest of the token, not the token.
//!
//! A session ends after [`IDLE`] without a request, after [`LONGEST`] in any case, and by logging
//! out. Logging out takes the row first and fails when Redis is away: a session that might come back
//! must not be called ended.

use std::time::Duration;

use seawall::{Link, Script, cmd};
use sha2::{Digest as _, Sha256};

use super::{User, store};
use crate::{db::Db, error::Result, keys};

/// How long a session lives without a request.
pub const IDLE: Duration = Duration::from_secs(30 * 60);
/// How long a session lives at most.
pub const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
/// How often the database's row follows a session that is used.
pub const ROW_EVERY: Duration = Duration::from_secs(5 * 60);

static PUT: Script = Script::new(include_str!("session_put.lua"));
static LOAD: Script = Script::new(include_str!("session_load.lua"));

/// The secret that a client shows: 128 random bits in hexadecimal. Never logged.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// Length of a token's text.
const TOKEN_CHARS: usize = 32;

impl Token {
    fn random() -> Self {
        Token(format!("{:032x}", rand::random::<u128>()))
    }

    /// A token as a client wrote it; `None` for what can be none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (hex && text.len() == TOKEN_CHARS).then(|| Token(text.to_owned()))
    }

    /// The text that the client gets.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn digest(&self) -> String {
        Sha256::digest(self.0.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// A session's row.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) token_hash: String,
    pub(super) user_id: u64,
    pub(super) expires: i64,
    pub(super) until: i64,
}

/// Opens a session for a user.
pub(super) async fn open(link: &Link, db: &Db, user: &User) -> Result<Token> {
    let token = Token::random();
    let now = link.server_millis();
    let row = Row {
        token_hash: token.digest(),
        user_id: user.id,
        expires: now + millis(IDLE + ROW_EVERY),
        until: now + millis(LONGEST),
    };
    store::insert_session(db, &row, now).await?;
    let call = PUT
        .on(&[keys::session(&token.0)])
        .arg(millis(IDLE))
        .arg(millis(LONGEST))
        .arg(user.id)
        .arg(&user.nick_name)
        .arg(&user.icon)
        .arg(&user.role);
    link.run(&call).await?;
    Ok(token)
}

/// The user of a session, which slides by this; `None` when there is none (any more).
pub(super) async fn load(link: &Link, db: &Db, token: &Token) -> Result<Option<User>> {
    type Fields = Option<(u64, String, String, String, u8)>;
    let call = LOAD.on(&[keys::session(&token.0)]).arg(millis(IDLE)).arg(millis(ROW_EVERY));
    match link.eval::<Fields>(&call).await {
        Ok(None) => Ok(None),
        Ok(Some((id, nick_name, icon, role, due))) => {
            if due == 1 {
                slide_row(link, db, token).await;
            }
            Ok(Some(User { id, nick_name, icon, role }))
        }
        Err(error) if error.is_outage() => {
            tracing::debug!(%error, "a session is read from the database");
            store::session_user(db, &token.digest(), link.server_millis()).await
        }
        Err(error) => Err(error.into()),
    }
}

/// The request goes on without the row: it only matters when Redis is away.
async fn slide_row(link: &Link, db: &Db, token: &Token) {
    let now = link.server_millis();
    let expires = now + millis(IDLE + ROW_EVERY);
    if let Err(error) = store::slide_session(db, &token.digest(), expires, now).await {
        tracing::warn!(%error, "a session's row did not follow");
    }
}

/// Ends a session.
pub(super) async fn close(link: &Link, db: &Db, token: &Token) -> Result<()> {
    store::delete_session(db, &token.digest()).await?;
    let key = keys::session(&token.0);
    link.send(&key, cmd("DEL").arg(&key)).await?;
    Ok(())
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_hexadecimal_of_128_bits_and_nothing_else_is_looked_up() {
        let token = Token::random();
        assert_eq!(Token::parse(token.as_str()), Some(token));
        for bad in ["", "0", "}{", "GGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGG", &"a".repeat(33)] {
            assert_eq!(Token::parse(bad), None, "{bad}");
        }
    }
}
