//! Entry ids: `<ms>-<seq>`, a 128-bit number in two halves.
//!
//! Ids order by time and then by sequence, which is what the derived order of the two fields
//! gives. Parsing follows the C library that Redis leans on for what is not a plain decimal
//! number: leading blanks, a sign and leading zeros are taken, and a NUL byte ends the text.

use std::fmt;

use crate::number::parse_u64_lenient;

/// The id of a stream entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StreamId {
    /// Milliseconds, usually since the Unix epoch.
    pub(crate) ms: u64,
    /// Distinguishes entries of one millisecond.
    pub(crate) seq: u64,
}

/// An id as `XADD` takes it: whole, or with the sequence left to the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdSpec {
    /// `*`: the clock gives the time, the stream the sequence.
    Auto,
    /// `<ms>-*`: the stream gives the sequence.
    AutoSeq(u64),
    /// `<ms>-<seq>`, or `<ms>` alone, which means sequence zero.
    Exact(StreamId),
}

/// The longest text that may be an id.
const MAX_TEXT_BYTES: usize = 127;

impl StreamId {
    /// `0-0`, which no entry ever has.
    pub(crate) const MIN: StreamId = StreamId { ms: 0, seq: 0 };
    /// The greatest id; a stream that holds it accepts nothing more.
    pub(crate) const MAX: StreamId = StreamId { ms: u64::MAX, seq: u64::MAX };

    /// An id from its halves.
    pub(crate) const fn new(ms: u64, seq: u64) -> StreamId {
        StreamId { ms, seq }
    }

    /// Whether this is `0-0`.
    pub(crate) fn is_zero(self) -> bool {
        self == StreamId::MIN
    }

    /// The next greater id, or `None` after the last.
    pub(crate) fn next(self) -> Option<StreamId> {
        match (self.ms, self.seq) {
            (u64::MAX, u64::MAX) => None,
            (ms, u64::MAX) => Some(StreamId::new(ms + 1, 0)),
            (ms, seq) => Some(StreamId::new(ms, seq + 1)),
        }
    }

    /// The next smaller id, or `None` before the first.
    pub(crate) fn prev(self) -> Option<StreamId> {
        match (self.ms, self.seq) {
            (0, 0) => None,
            (ms, 0) => Some(StreamId::new(ms - 1, u64::MAX)),
            (ms, seq) => Some(StreamId::new(ms, seq - 1)),
        }
    }

    /// Parses `<ms>-<seq>` or `<ms>`, whose sequence is then `missing_seq`.
    pub(crate) fn parse(text: &[u8], missing_seq: u64) -> Option<StreamId> {
        match parse_parts(text)? {
            (ms, None) => Some(StreamId::new(ms, missing_seq)),
            (ms, Some(seq)) => Some(StreamId::new(ms, parse_u64_lenient(seq)?)),
        }
    }

    /// Parses an end of a range: like [`parse`](Self::parse), and `-` and `+` for the extremes.
    pub(crate) fn parse_bound(text: &[u8], missing_seq: u64) -> Option<StreamId> {
        match until_nul(text) {
            b"-" if text.len() <= MAX_TEXT_BYTES => Some(StreamId::MIN),
            b"+" if text.len() <= MAX_TEXT_BYTES => Some(StreamId::MAX),
            _ => StreamId::parse(text, missing_seq),
        }
    }

    /// The id as text.
    pub(crate) fn text(self) -> IdText {
        let mut text = IdText { bytes: [0; IdText::CAPACITY], len: 0 };
        let mut number = itoa::Buffer::new();
        text.push(number.format(self.ms).as_bytes());
        text.push(b"-");
        text.push(number.format(self.seq).as_bytes());
        text
    }

    /// The number that orders like the id; its bytes, big-endian, are Redis' key of a node.
    pub(crate) fn to_u128(self) -> u128 {
        (u128::from(self.ms) << 64) | u128::from(self.seq)
    }
}

impl IdSpec {
    /// Parses what `XADD` accepts in the place of the id.
    pub(crate) fn parse(text: &[u8]) -> Option<IdSpec> {
        if text == b"*" {
            return Some(IdSpec::Auto);
        }
        match parse_parts(text)? {
            (ms, None) => Some(IdSpec::Exact(StreamId::new(ms, 0))),
            (ms, Some(b"*")) => Some(IdSpec::AutoSeq(ms)),
            (ms, Some(seq)) => Some(IdSpec::Exact(StreamId::new(ms, parse_u64_lenient(seq)?))),
        }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// An id formatted on the stack.
#[derive(Clone, Copy)]
pub(crate) struct IdText {
    bytes: [u8; IdText::CAPACITY],
    len: u8,
}

impl IdText {
    /// Two numbers of 20 digits and the dash.
    const CAPACITY: usize = 41;

    fn push(&mut self, part: &[u8]) {
        let start = usize::from(self.len);
        self.bytes[start..start + part.len()].copy_from_slice(part);
        self.len += part.len() as u8;
    }

    /// The text.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// The milliseconds, and the text of the sequence if there is a dash.
fn parse_parts(text: &[u8]) -> Option<(u64, Option<&[u8]>)> {
    if text.len() > MAX_TEXT_BYTES {
        return None;
    }
    let text = until_nul(text);
    match memchr::memchr(b'-', text) {
        None => Some((parse_u64_lenient(text)?, None)),
        Some(dash) => Some((parse_u64_lenient(&text[..dash])?, Some(&text[dash + 1..]))),
    }
}

fn until_nul(text: &[u8]) -> &[u8] {
    memchr::memchr(0, text).map_or(text, |end| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(ms: u64, seq: u64) -> Option<StreamId> {
        Some(StreamId::new(ms, seq))
    }

    #[test]
    fn neighbours_carry_between_the_halves() {
        assert_eq!(StreamId::new(1, u64::MAX).next(), id(2, 0));
        assert_eq!(StreamId::new(2, 0).prev(), id(1, u64::MAX));
        assert_eq!(StreamId::MAX.next(), None);
        assert_eq!(StreamId::MIN.prev(), None);
    }

    #[test]
    fn text_round_trips() {
        for id in [StreamId::MIN, StreamId::new(7, 123), StreamId::MAX] {
            assert_eq!(StreamId::parse(id.text().as_bytes(), 0), Some(id));
            assert_eq!(id.to_string().as_bytes(), id.text().as_bytes());
        }
    }

    #[test]
    fn parsing_takes_what_redis_takes() {
        assert_eq!(StreamId::parse(b"5", 9), id(5, 9));
        assert_eq!(StreamId::parse(b"5-", 9), None);
        assert_eq!(StreamId::parse(b"-5", 9), None);
        assert_eq!(StreamId::parse(b"", 0), None);
        assert_eq!(StreamId::parse(b"005-01", 0), id(5, 1));
        assert_eq!(StreamId::parse(b" +5-1", 0), id(5, 1));
        assert_eq!(StreamId::parse(b"5--1", 0), None);
        assert_eq!(StreamId::parse(b"18446744073709551615-1", 0), id(u64::MAX, 1));
        assert_eq!(StreamId::parse(b"18446744073709551616-1", 0), None);
        assert_eq!(StreamId::parse(b"1-*", 0), None);
        assert_eq!(StreamId::parse(b"-", 0), None);
        assert_eq!(StreamId::parse_bound(b"-", 0), Some(StreamId::MIN));
        assert_eq!(StreamId::parse_bound(b"+", 0), Some(StreamId::MAX));
        assert_eq!(IdSpec::parse(b"3-*"), Some(IdSpec::AutoSeq(3)));
        assert_eq!(IdSpec::parse(b"*"), Some(IdSpec::Auto));
        assert_eq!(IdSpec::parse(b"*-1"), None);
        assert_eq!(IdSpec::parse(&[b'1'; 128]), None);
    }
}
