//! The id: a positive 64-bit number that survives JSON.
//!
//! JavaScript and many JSON parsers read numbers as doubles and round beyond 2^53; these ids are
//! larger. So they are written as strings, and read from strings or numbers.

use std::{
    fmt,
    num::ParseIntError,
    str::FromStr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use seawall_client::{
    error::{Error, Result},
    key::{KeyBuffer, KeyPart},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The epoch of the time in an id: 2022-01-01 00:00 UTC, as a Unix time.
pub const EPOCH_SECONDS: u64 = 1_640_995_200;

/// A unique 64-bit id whose sign bit is 0.
///
/// ```
/// use seawall::id::Id;
///
/// let id: Id = "660325196926025729".parse()?;
/// assert_eq!(id.as_i64(), 660_325_196_926_025_729);
/// assert_eq!(serde_json::to_string(&id).expect("a string"), "\"660325196926025729\"");
/// # Ok::<(), seawall::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u64);

/// The parts of an id of [`Ids`](super::Ids).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdParts {
    /// The second at which its segment was taken, by the server's clock.
    pub time: SystemTime,
    /// Sequence number within that second.
    pub sequence: u32,
}

impl Id {
    /// Invariant: the sign bit is 0.
    pub(super) fn from_bits(bits: u64) -> Self {
        debug_assert!(bits <= i64::MAX as u64, "an id's sign bit is 0");
        Id(bits & i64::MAX as u64)
    }

    /// Returns the number as a signed integer, the type that databases use.
    #[must_use]
    pub const fn as_i64(self) -> i64 {
        self.0.cast_signed()
    }

    /// Returns the number.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Decodes it as an id of [`Ids`](super::Ids).
    #[must_use]
    pub fn decode(self) -> IdParts {
        IdParts {
            time: UNIX_EPOCH + Duration::from_secs(EPOCH_SECONDS + (self.0 >> 32)),
            sequence: self.0 as u32,
        }
    }
}

impl TryFrom<i64> for Id {
    type Error = Error;

    fn try_from(number: i64) -> Result<Self> {
        let number = u64::try_from(number)
            .map_err(|_| Error::Invalid(format!("{number} is no id: it is negative")))?;
        Ok(Id(number))
    }
}

impl From<Id> for i64 {
    fn from(id: Id) -> i64 {
        id.as_i64()
    }
}

impl FromStr for Id {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let number: i64 = text
            .parse()
            .map_err(|error: ParseIntError| Error::Invalid(format!("this is no id: {error}")))?;
        Id::try_from(number)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl KeyPart for Id {
    fn write(&self, key: &mut KeyBuffer) {
        self.0.write(key);
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl de::Visitor<'_> for Reader {
    type Value = Id;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id: a positive 64-bit number, as a string or a number")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Id, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Id, E> {
        Id::try_from(number).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Id, E> {
        let number = i64::try_from(number).map_err(|_| E::custom("an id beyond 63 bits"))?;
        self.visit_i64(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_every_digit() {
        let id = Id::from_bits(i64::MAX as u64);
        let text = serde_json::to_string(&id).expect("writes");
        assert_eq!(text, "\"9223372036854775807\"");
        assert_eq!(serde_json::from_str::<Id>(&text).expect("reads"), id);
        assert_eq!(serde_json::from_str::<Id>("12").expect("reads").as_i64(), 12);
        for bad in ["-1", "\"-1\"", "\"x\"", "\"\"", "18446744073709551615", "1.5", "null"] {
            assert!(serde_json::from_str::<Id>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_id_has_a_time_and_a_sequence() {
        let parts = Id::from_bits((7 << 32) | 42).decode();
        assert_eq!(parts.sequence, 42);
        assert_eq!(parts.time, UNIX_EPOCH + Duration::from_secs(EPOCH_SECONDS + 7));
    }
}
