//! A position in a list that is ordered by score, newest first.
//!
//! A score alone is not a position if several items share it, and a score with an offset is one
//! only until another item with that score arrives. [`Cursor`] names the last item seen by score
//! *and* member, which is the order of a sorted set. The items after it are the same, whatever
//! arrived or left elsewhere. It needs no state in Redis, and the item that it names may have been
//! removed.
//!
//! [`Scroll`] is the pair of score and offset that clients of the documented route use.

use std::{fmt, str::FromStr};

use seawall_client::{
    client::{Script, ScriptInvocation},
    error::{Error, Result},
    member::MAX_MEMBER_BYTES,
};

use super::template::check_score;

static PAGE: Script = Script::new(include_str!("script/page.lua"));
/// Longest member that a cursor names: an author and an item, each of whose bytes may be escaped.
const MAX_NAMED_BYTES: usize = 8 * MAX_MEMBER_BYTES;

/// The last item seen; its text can be given to clients.
///
/// ```
/// use seawall::social::Cursor;
///
/// let cursor = Cursor::new(1_794_787_200_123, b"7:42")?;
/// assert_eq!(cursor.to_string(), "1794787200123-373a3432");
/// assert_eq!("1794787200123-373a3432".parse::<Cursor>()?, cursor);
/// assert!("yesterday".parse::<Cursor>().is_err());
/// # Ok::<(), seawall::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor {
    score: i64,
    member: Vec<u8>,
}

impl Cursor {
    /// Creates a cursor at the item with this score and these bytes.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the score is beyond ±[`MAX_SCORE`](super::MAX_SCORE) or there are too
    /// many bytes.
    pub fn new(score: i64, member: &[u8]) -> Result<Self> {
        check_score(score)?;
        if member.is_empty() || member.len() > MAX_NAMED_BYTES {
            return Err(Error::Invalid("a cursor names an item by 1 to 8,192 bytes".into()));
        }
        Ok(Cursor { score, member: member.to_vec() })
    }

    pub(super) fn of(item: &(Vec<u8>, i64)) -> Self {
        Cursor { score: item.1, member: item.0.clone() }
    }

    /// Returns the score of the item.
    #[must_use]
    pub fn score(&self) -> i64 {
        self.score
    }

    pub(super) fn member(&self) -> &[u8] {
        &self.member
    }

    /// Returns `true` if an item comes after this one: it is older, or as old with smaller bytes.
    pub(super) fn is_before(&self, item: &(Vec<u8>, i64)) -> bool {
        (item.1, item.0.as_slice()) < (self.score, self.member.as_slice())
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-", self.score)?;
        self.member.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let strange =
            || Error::Invalid("a cursor is a score, a dash and hexadecimal digits".into());
        let (score, hex) = text.rsplit_once('-').ok_or_else(strange)?;
        if hex.len() > 2 * MAX_NAMED_BYTES || !hex.is_ascii() {
            return Err(strange());
        }
        let member = (hex.as_bytes().chunks(2))
            .map(|pair| match pair {
                [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
                _ => None,
            })
            .collect::<Option<Vec<u8>>>()
            .ok_or_else(strange)?;
        Cursor::new(score.parse().map_err(|_| strange())?, &member)
    }
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// Score and offset: a position for clients that do not use [`Cursor`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scroll {
    /// Largest score: items of this score and smaller ones follow.
    pub max: i64,
    /// Number of items of exactly that score that have been seen.
    pub offset: u64,
}

impl Scroll {
    /// Starts at the newest item with a score of at most `max`.
    #[must_use]
    pub fn from(max: i64) -> Self {
        Scroll { max, offset: 0 }
    }
}

/// Returns the script call that reads `count` items after a cursor, or the first ones. With a
/// marker key it reads only if the marker says that the list is complete.
pub(super) fn page_call(keys: &[&[u8]], cursor: Option<&Cursor>, count: usize) -> ScriptInvocation {
    let call = PAGE.on(keys).arg(count);
    match cursor {
        None => call,
        Some(cursor) => call.arg(cursor.score).arg(cursor.member()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn cursors_come_back_from_their_text(score in -super::super::MAX_SCORE..=super::super::MAX_SCORE, member in proptest::collection::vec(any::<u8>(), 1..40)) {
            let cursor = Cursor::new(score, &member)?;
            prop_assert_eq!(cursor.to_string().parse::<Cursor>()?, cursor);
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in ".{0,40}") {
            let _ = text.parse::<Cursor>();
        }
    }

    #[test]
    fn hostile_texts_are_refused() {
        for bad in ["", "-", "1-", "1-0", "1-zz", "9007199254740993-00", "1-é0", "x-00", "--00"] {
            assert!(bad.parse::<Cursor>().is_err(), "{bad}");
        }
    }
}
