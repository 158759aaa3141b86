//! Fencing tokens, with which a resource rejects former holders.
//!
//! No lock with a lease can keep a paused process from waking up and writing. The resource can: it
//! remembers the highest token it has seen and rejects lower ones.

use std::fmt;

/// The token of one holder; a later holder has a greater one.
///
/// `epoch` is the server's clock in microseconds when the lock was acquired, and always greater
/// than the previous epoch as long as the server remembers that. It alone orders tokens. `sequence`
/// counts the acquisitions that the server remembers: a greater epoch with a smaller sequence means
/// that the server has lost data in between.
///
/// Guaranteed: the tokens of one lock rise in the order of its holders. They also rise if the
/// server lost its data or was replaced, unless its clock is behind the last token's epoch.
///
/// ```
/// use seawall::lock::Token;
///
/// let (before, after) = (Token { epoch: 7, sequence: 9 }, Token { epoch: 8, sequence: 1 });
/// assert!(after > before);
/// assert_eq!(after.to_u64(), 8);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    /// Determines the order of tokens.
    pub epoch: u64,
    /// Number of acquisitions of the lock, as far as the server remembers.
    pub sequence: u64,
}

impl Token {
    /// Returns the token as one number with the same order; fits a signed 64-bit column.
    #[must_use]
    pub fn to_u64(self) -> u64 {
        self.epoch
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.sequence)
    }
}
