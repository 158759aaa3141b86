//! The secret that a client presents, and the digest of it that is used everywhere else.

use std::fmt;

use seawall_client::error::{Error, Result};
use seawall_resilience::random::Randomness;
use sha2::{Digest as _, Sha256};

/// Length of a token's text.
const TOKEN_CHARS: usize = 32;
/// Length of an id's text.
const ID_CHARS: usize = 64;

/// The secret of one session: 128 random bits in hexadecimal. Its `Debug` output hides them.
///
/// ```
/// use seawall::session::Token;
///
/// let token = Token::parse("00112233445566778899aabbccddeeff").expect("well formed");
/// assert_eq!(format!("{token:?}"), "Token(…)");
/// assert!(Token::parse("'; DROP TABLE").is_none());
/// ```
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Creates a token, in production from the operating system's random generator.
    pub(super) fn random(randomness: &Randomness) -> Result<Self> {
        let mut bytes = [0; TOKEN_CHARS / 2];
        randomness.fill_secret(&mut bytes).map_err(|error| {
            Error::Unavailable(format!("the system gives no random bytes: {error}").into())
        })?;
        Ok(Token(hex(&bytes)))
    }

    /// Parses a token that a client sent. Returns `None` if the text is not a token.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        is_hex(text, TOKEN_CHARS).then(|| Token(text.to_owned()))
    }

    /// Returns the text that the client gets. Do not log it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns the session's id, which names it in Redis and may be shown to others.
    #[must_use]
    pub fn id(&self) -> SessionId {
        SessionId(hex(&Sha256::digest(self.0.as_bytes())))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// A session's public id: the digest of its token.
///
/// It does not give access to the session, but its user can end the session by it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(String);

impl SessionId {
    /// Parses the text of [`SessionId::as_str`]. Returns `None` if the text is not an id.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        is_hex(text, ID_CHARS).then(|| SessionId(text.to_owned()))
    }

    /// Returns its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_hex(text: &str, chars: usize) -> bool {
    text.len() == chars && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_random_hexadecimal_and_tell_nothing() {
        let random = || Token::random(&Randomness::system()).unwrap();
        let (one, other) = (random(), random());
        assert_ne!(one.reveal(), other.reveal());
        assert!(Token::parse(one.reveal()).is_some());
        assert!(!format!("{one:?}{:?}", Some(&one)).contains(one.reveal()));
        assert!(!one.id().as_str().contains(one.reveal()));
        for bad in ["", "0", "}{", "GGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGG", &"a".repeat(33)] {
            assert!(Token::parse(bad).is_none() && SessionId::parse(bad).is_none(), "{bad}");
        }
        // SHA-256 of the text, as other programs compute it.
        let known = Token::parse("00000000000000000000000000000000").unwrap();
        assert!(known.id().as_str().starts_with("84e0c0eafaa95a34"));
    }
}
