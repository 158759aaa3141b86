//! Entries of a stream as Redis sends them: ids, fields, and the formats of its replies.

use std::{fmt, str::FromStr};

use redis::{RedisWrite, ToRedisArgs, Value};
use seawall_client::error::{Error, Result};

/// Id of an entry: milliseconds of the server's clock, and a sequence number within the
/// millisecond.
///
/// ```
/// use seawall::stream::EntryId;
///
/// let id: EntryId = "1700000000000-3".parse()?;
/// assert_eq!((id.millis(), id.sequence()), (1_700_000_000_000, 3));
/// assert!(id > "1700000000000-2".parse()?);
/// # Ok::<(), seawall::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    millis: u64,
    sequence: u64,
}

impl EntryId {
    /// The id before every entry.
    pub(super) const ZERO: EntryId = EntryId { millis: 0, sequence: 0 };

    /// Returns the time at which the entry was appended, by the server's clock.
    #[must_use]
    pub const fn millis(self) -> u64 {
        self.millis
    }

    /// Returns the sequence number within that millisecond.
    #[must_use]
    pub const fn sequence(self) -> u64 {
        self.sequence
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let dash = bytes.iter().position(|&byte| byte == b'-');
        let parts =
            dash.and_then(|dash| Some((number(&bytes[..dash])?, number(&bytes[dash + 1..])?)));
        match parts {
            Some((millis, sequence)) => Ok(EntryId { millis, sequence }),
            None => Err(Error::unexpected(format!(
                "{:?} is not the id of an entry",
                String::from_utf8_lossy(&bytes[..bytes.len().min(64)])
            ))),
        }
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |sum, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.millis, self.sequence)
    }
}

impl FromStr for EntryId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        EntryId::from_bytes(text.as_bytes()).map_err(|_| {
            Error::Invalid(format!("{text:?} is not an entry's id such as 1700000000000-0"))
        })
    }
}

impl ToRedisArgs for EntryId {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        // Two numbers of at most 20 digits, and a dash.
        let mut text = smallvec::SmallVec::<[u8; 48]>::new();
        text.extend_from_slice(itoa::Buffer::new().format(self.millis).as_bytes());
        text.push(b'-');
        text.extend_from_slice(itoa::Buffer::new().format(self.sequence).as_bytes());
        out.write_arg(&text);
    }
}

/// The field that holds all fields of an entry that has too many for a script. Each word is stored
/// as its length, a colon and the word.
pub(super) const PACKED: &str = "seawall-packed";

/// The fields of an entry, in the order in which they were appended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(Vec<Vec<u8>>);

impl Fields {
    /// Returns the value of a field.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(field, _)| *field == name.as_bytes()).map(|(_, value)| value)
    }

    /// Iterates over names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.chunks_exact(2).map(|pair| (&*pair[0], &*pair[1]))
    }

    /// Splits off everything after the first `pairs` fields.
    pub(super) fn split_off(mut self, pairs: usize) -> (Fields, Fields) {
        let rest = self.0.split_off((pairs * 2).min(self.0.len()));
        (self, Fields(rest))
    }

    fn from_value(value: Value) -> Result<Option<Self>> {
        match value {
            // The entry was deleted while it was pending.
            Value::Nil | Value::Boolean(false) => Ok(None),
            Value::Array(items) => {
                let words = items.into_iter().map(bytes).collect::<Result<_>>()?;
                Ok(Some(Fields(unpacked(words))))
            }
            other => Err(Error::unexpected(format!("{other:?} are not an entry's fields"))),
        }
    }
}

/// Unpacks the words of a packed field, which is always the last field.
fn unpacked(mut words: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    if let [.., name, packed] = &*words
        && name == PACKED.as_bytes()
        && let Some(inside) = unpack(packed)
    {
        words.truncate(words.len() - 2);
        words.extend(inside);
    }
    words
}

/// Returns `None` if the bytes are not packed, even if the field has that name.
fn unpack(mut packed: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    while !packed.is_empty() {
        let colon = packed.iter().position(|&byte| byte == b':')?;
        let length = usize::try_from(number(&packed[..colon])?).ok()?;
        let (word, rest) = packed[colon + 1..].split_at_checked(length)?;
        words.push(word.to_vec());
        packed = rest;
    }
    Some(words)
}

/// An entry; it has no fields if it was deleted from the stream.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: EntryId,
    pub(super) fields: Option<Fields>,
}

fn bytes(value: Value) -> Result<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) => Ok(text.into_bytes()),
        other => Err(Error::unexpected(format!("{other:?} is not a string"))),
    }
}

fn array(value: Value) -> Result<Vec<Value>> {
    match value {
        Value::Array(items) => Ok(items),
        Value::Nil => Ok(Vec::new()),
        other => Err(Error::unexpected(format!("{other:?} is not a list"))),
    }
}

pub(super) fn id(value: Value) -> Result<EntryId> {
    EntryId::from_bytes(&bytes(value)?)
}

/// `[[id, fields], …]`: XRANGE, and each stream of XREADGROUP.
pub(super) fn entries(value: Value) -> Result<Vec<Entry>> {
    let entry = |value| {
        let [id_value, fields]: [Value; 2] = exactly(value)?;
        Ok(Entry { id: id(id_value)?, fields: Fields::from_value(fields)? })
    };
    // Redis: some replies of 6.2 contain nil for a pending entry that was deleted.
    array(value)?.into_iter().filter(|value| *value != Value::Nil).map(entry).collect()
}

/// `[[key, entries], …]`: XREADGROUP.
pub(super) fn by_stream(value: Value) -> Result<Vec<(Vec<u8>, Vec<Entry>)>> {
    let stream = |value| {
        let [key, list]: [Value; 2] = exactly(value)?;
        Ok((bytes(key)?, entries(list)?))
    };
    array(value)?.into_iter().map(stream).collect()
}

/// `[[id, attempts, fields], …]`: the reply of this crate's scripts.
pub(super) fn counted(value: Value) -> Result<Vec<(Entry, u64)>> {
    let entry = |value| {
        let [id_value, attempts, fields]: [Value; 3] = exactly(value)?;
        let attempts = redis::from_redis_value(attempts)?;
        Ok((Entry { id: id(id_value)?, fields: Fields::from_value(fields)? }, attempts))
    };
    array(value)?.into_iter().map(entry).collect()
}

/// Parses a list of exactly `N` items.
pub(super) fn exactly<const N: usize>(value: Value) -> Result<[Value; N]> {
    array(value)?.try_into().map_err(|list: Vec<Value>| {
        Error::unexpected(format!("a list of {} instead of {N}", list.len()))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_id_is_refused() {
        for bad in ["", "-", "1", "1-", "-1", "1-2-3", "a-b", "1--2", "99999999999999999999999-0"] {
            assert!(bad.parse::<EntryId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn packed_fields_are_unpacked_and_what_only_looks_so_is_left() {
        let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let packed: Vec<Vec<u8>> = words(&["ref", "1", PACKED, "1:a0:3:b:c"]);
        assert_eq!(unpacked(packed), words(&["ref", "1", "a", "", "b:c"]));
        for left in ["x", "3:ab", ":a", "9999999999999999999:a", "1:a1"] {
            let fields: Vec<Vec<u8>> = words(&[PACKED, left]);
            assert_eq!(unpacked(fields.clone()), fields, "{left}");
        }
    }

    proptest! {
        #[test]
        fn ids_survive_the_way_to_redis_and_back(millis: u64, sequence: u64) {
            let id = EntryId { millis, sequence };
            prop_assert_eq!(id.to_string().parse::<EntryId>()?, id);
            let arguments = id.to_redis_args();
            prop_assert_eq!(EntryId::from_bytes(&arguments[0])?, id);
        }

        #[test]
        fn no_reply_panics(words in proptest::collection::vec(any::<Vec<u8>>(), 0..6)) {
            let list: Vec<Value> = words.into_iter().map(Value::BulkString).collect();
            let nested = Value::Array(vec![Value::Array(list)]);
            let _ = entries(nested.clone());
            let _ = by_stream(nested.clone());
            let _ = counted(nested);
        }
    }
}
