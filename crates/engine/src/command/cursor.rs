//! Common parts of SCAN, SSCAN, HSCAN and ZSCAN: the cursor, the options, the empty answer.

use crate::{
    args,
    error::Error,
    glob::{self, Case},
    resp::Reply,
};

/// Default number of elements that a call looks at.
const DEFAULT_COUNT: usize = 10;

/// The options behind a cursor.
pub(super) struct ScanOptions<'a> {
    /// About how many elements to look at.
    pub(super) count: usize,
    /// Only keys of this type; SCAN alone takes it.
    pub(super) type_name: Option<&'a [u8]>,
    pattern: Option<&'a [u8]>,
}

/// The kind of collection that is scanned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scanned {
    /// The keyspace: TYPE is an option.
    Keys,
    /// A collection.
    Elements,
}

impl<'a> ScanOptions<'a> {
    /// Reads what follows the cursor.
    pub(super) fn parse(options: &[&'a [u8]], scanned: Scanned) -> Result<Self, Error> {
        let mut parsed = Self { count: DEFAULT_COUNT, type_name: None, pattern: None };
        for option in options.chunks(2) {
            let &[name, value] = option else { return Err(Error::SYNTAX) };
            if args::is(name, "count") {
                let count = args::int(value)?;
                if count < 1 {
                    return Err(Error::SYNTAX);
                }
                parsed.count = count as usize;
            } else if args::is(name, "match") {
                parsed.pattern = (value != b"*").then_some(value);
            } else if args::is(name, "type") && scanned == Scanned::Keys {
                parsed.type_name = Some(value);
            } else {
                return Err(Error::SYNTAX);
            }
        }
        Ok(parsed)
    }

    /// Whether an element is to be shown.
    pub(super) fn matches(&self, element: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, element, Case::Sensitive))
    }
}

/// Reads a cursor.
pub(super) fn parse_cursor(arg: &[u8]) -> Result<u64, Error> {
    const INVALID: Error = Error::fixed("ERR invalid cursor");
    // Redis: strtoul, which takes a sign and leading zeros (and nothing at all as 0).
    let (negative, digits) = match arg {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() {
        return if arg.is_empty() { Ok(0) } else { Err(INVALID) };
    }
    let mut value = 0u64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return Err(INVALID);
        }
        let shifted = value.checked_mul(10).ok_or(INVALID)?;
        value = shifted.checked_add(u64::from(digit - b'0')).ok_or(INVALID)?;
    }
    Ok(if negative { value.wrapping_neg() } else { value })
}

/// The answer for a key that does not exist.
pub(super) fn reply_empty(out: &mut Reply) {
    out.array(2);
    out.bulk(b"0");
    out.array(0);
}

/// Writes the answer: `scan` shows elements to the reply it is given and returns the next cursor
/// and how many it showed.
pub(super) fn reply(out: &mut Reply, scan: impl FnOnce(&mut Reply) -> (u64, usize)) {
    out.array(2);
    let mark = out.len();
    let elements = out.defer();
    let (cursor, shown) = scan(out);
    out.end_array(elements, shown);
    let mut head = Reply::new(out.protocol());
    head.bulk(itoa::Buffer::new().format(cursor).as_bytes());
    out.splice_raw(mark, head.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_redis_does() {
        assert_eq!(parse_cursor(b"0"), Ok(0));
        assert_eq!(parse_cursor(b""), Ok(0));
        assert_eq!(parse_cursor(b"007"), Ok(7));
        assert_eq!(parse_cursor(b"18446744073709551615"), Ok(u64::MAX));
        for text in ["18446744073709551616", "abc", "1a", " 1", "-", "1 "] {
            assert!(parse_cursor(text.as_bytes()).is_err(), "{text}");
        }
    }
}
