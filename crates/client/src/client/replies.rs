//! Incremental parser for the replies in a byte stream.
//!
//! Strings in a [`Reply`] are views of the read buffer: the connection's driver copies nothing, and
//! the receiver of a reply can decode from the view (as the cache does) or convert it to a
//! [`Value`].
//!
//! The elements of an incomplete array are kept decoded, so a large reply that arrives in many
//! pieces is parsed once, not once per piece. Only RESP2 is supported, because all our connections
//! use it; anything else means that the stream can no longer be trusted. Error lines, which are
//! rare, are parsed by the client library, so that they produce the same values as elsewhere.

use bytes::{Buf, Bytes, BytesMut};
use redis::Value;

/// Maximum number of array elements for which space is reserved in advance.
const AHEAD: usize = 1024;
/// Maximum nesting depth of arrays.
const DEEPEST: usize = 128;
/// Minimum free space in the buffer for the next read.
const ROOM_BYTES: usize = 8 * 1024;
/// Minimum size of a new allocation if the free space is insufficient.
const CHUNK_BYTES: usize = 64 * 1024;
/// Longest string that Redis sends by default.
const MAX_STRING_BYTES: usize = 512 * 1024 * 1024;

/// A reply of the server.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// Nil.
    Nil,
    /// `OK`.
    Okay,
    /// An integer.
    Int(i64),
    /// A status line.
    Line(Bytes),
    /// A bulk string.
    String(Bytes),
    /// Several replies.
    Array(Vec<Reply>),
    /// A reply represented by the client library's own value type; mostly errors.
    Other(Value),
}

impl From<Reply> for Value {
    fn from(reply: Reply) -> Value {
        match reply {
            Reply::Nil => Value::Nil,
            Reply::Okay => Value::Okay,
            Reply::Int(number) => Value::Int(number),
            Reply::Line(text) => Value::SimpleString(String::from_utf8_lossy(&text).into_owned()),
            // Copied, because a short string would keep the whole read buffer alive.
            Reply::String(bytes) => Value::BulkString(bytes.to_vec()),
            Reply::Array(replies) => Value::Array(replies.into_iter().map(Value::from).collect()),
            Reply::Other(value) => value,
        }
    }
}

/// Converts a value of the client library to a reply.
impl From<Value> for Reply {
    fn from(value: Value) -> Reply {
        match value {
            Value::Nil => Reply::Nil,
            Value::BulkString(bytes) => Reply::String(bytes.into()),
            Value::Array(values) => Reply::Array(values.into_iter().map(Reply::from).collect()),
            value => Reply::Other(value),
        }
    }
}

/// Parser state of one stream of replies.
#[derive(Default)]
pub(super) struct Replies {
    /// Bytes read but not yet decoded.
    buffer: BytesMut,
    /// Incomplete arrays: the number of missing elements, and the elements decoded so far.
    open: Vec<(usize, Vec<Reply>)>,
    /// Buffer length below which parsing need not be attempted again.
    missing: usize,
}

/// The stream is not valid RESP2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

enum Element {
    Whole(Reply),
    Array(usize),
}

impl Replies {
    /// Returns the buffer for the next bytes, with enough free space.
    pub(super) fn room(&mut self) -> &mut BytesMut {
        let wanted = ROOM_BYTES.max(self.missing.saturating_sub(self.buffer.len()));
        if self.buffer.capacity() - self.buffer.len() < wanted {
            self.buffer.reserve(wanted.max(CHUNK_BYTES));
        }
        &mut self.buffer
    }

    /// Returns the next reply, or `None` if more bytes are needed.
    pub(super) fn next(&mut self) -> Result<Option<Reply>, Malformed> {
        if self.buffer.len() < self.missing {
            return Ok(None);
        }
        self.missing = 0;
        loop {
            let mut reply = match self.element()? {
                None => return Ok(None),
                Some(Element::Whole(reply)) => reply,
                Some(Element::Array(0)) => Reply::Array(Vec::new()),
                Some(Element::Array(_)) if self.open.len() == DEEPEST => return Err(Malformed),
                Some(Element::Array(length)) => {
                    self.open.push((length, Vec::with_capacity(length.min(AHEAD))));
                    continue;
                }
            };
            loop {
                let Some((missing, elements)) = self.open.last_mut() else {
                    return Ok(Some(reply));
                };
                elements.push(reply);
                *missing -= 1;
                if *missing > 0 {
                    break;
                }
                let (_, elements) = self.open.pop().expect("it was there a line ago");
                reply = Reply::Array(elements);
            }
        }
    }

    /// Removes the next element from the buffer and returns it.
    fn element(&mut self) -> Result<Option<Element>, Malformed> {
        let Some(end) = memchr::memchr(b'\n', &self.buffer) else { return Ok(None) };
        let Some((&kind, line)) = self.buffer[..end].split_first() else { return Err(Malformed) };
        let line = line.strip_suffix(b"\r").ok_or(Malformed)?;
        let element = match kind {
            b'$' => match number(line)? {
                -1 => Element::Whole(Reply::Nil),
                length => {
                    let length = usize::try_from(length).map_err(|_| Malformed)?;
                    if length > MAX_STRING_BYTES {
                        return Err(Malformed);
                    }
                    let (begin, whole) = (end + 1, end + 1 + length + 2);
                    if self.buffer.len() < whole {
                        self.missing = whole;
                        return Ok(None);
                    }
                    if &self.buffer[begin + length..whole] != b"\r\n" {
                        return Err(Malformed);
                    }
                    self.buffer.advance(begin);
                    let string = self.buffer.split_to(length).freeze();
                    self.buffer.advance(2);
                    return Ok(Some(Element::Whole(Reply::String(string))));
                }
            },
            b'*' => match number(line)? {
                -1 => Element::Whole(Reply::Nil),
                length => Element::Array(usize::try_from(length).map_err(|_| Malformed)?),
            },
            b':' => Element::Whole(Reply::Int(number(line)?)),
            b'+' if line == b"OK" => Element::Whole(Reply::Okay),
            b'+' => Element::Whole(Reply::Line(Bytes::copy_from_slice(line))),
            b'-' => {
                let error = redis::parse_redis_value(&self.buffer[..=end]);
                Element::Whole(Reply::Other(error.map_err(|_| Malformed)?))
            }
            _ => return Err(Malformed),
        };
        self.buffer.advance(end + 1);
        Ok(Some(element))
    }
}

fn number(digits: &[u8]) -> Result<i64, Malformed> {
    let (negative, digits) = match digits.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, digits),
    };
    if digits.is_empty() {
        return Err(Malformed);
    }
    // Accumulated as a negative number, because `i64::MIN` has no positive counterpart.
    let mut sum = 0_i64;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return Err(Malformed);
        }
        sum = sum
            .checked_mul(10)
            .and_then(|sum| sum.checked_sub(i64::from(digit)))
            .ok_or(Malformed)?;
    }
    if negative { Ok(sum) } else { sum.checked_neg().ok_or(Malformed) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(pieces: &[&[u8]]) -> Result<Vec<Value>, Malformed> {
        let mut replies = Replies::default();
        let mut values = Vec::new();
        for piece in pieces {
            replies.room().extend_from_slice(piece);
            while let Some(reply) = replies.next()? {
                values.push(Value::from(reply));
            }
        }
        Ok(values)
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Nil),
            Just(Value::Okay),
            any::<i64>().prop_map(Value::Int),
            proptest::collection::vec(any::<u8>(), 0..40).prop_map(Value::BulkString),
            "[a-zA-Z ]{3,9}".prop_map(Value::SimpleString),
        ];
        leaf.prop_recursive(3, 30, 6, |inner| {
            proptest::collection::vec(inner, 0..6).prop_map(Value::Array)
        })
    }

    fn write(value: &Value, out: &mut Vec<u8>) {
        match value {
            Value::Nil => out.extend(b"$-1\r\n"),
            Value::Okay => out.extend(b"+OK\r\n"),
            Value::Int(number) => out.extend(format!(":{number}\r\n").bytes()),
            Value::SimpleString(text) => out.extend(format!("+{text}\r\n").bytes()),
            Value::BulkString(bytes) => {
                out.extend(format!("${}\r\n", bytes.len()).bytes());
                out.extend(bytes);
                out.extend(b"\r\n");
            }
            Value::Array(values) => {
                out.extend(format!("*{}\r\n", values.len()).bytes());
                values.iter().for_each(|value| write(value, out));
            }
            other => unreachable!("{other:?} is not made here"),
        }
    }

    proptest! {
        #[test]
        fn however_the_bytes_arrive_the_replies_are_the_same(
            values in proptest::collection::vec(value(), 1..5), cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..9),
        ) {
            let mut bytes = Vec::new();
            values.iter().for_each(|value| write(value, &mut bytes));
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            prop_assert_eq!(all(&pieces), Ok(values));
        }

        #[test]
        fn rubbish_is_refused_or_waits_and_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = all(&[&bytes]);
        }
    }

    #[test]
    fn what_a_server_never_sends_is_refused() {
        let wrong: [&[u8]; 9] = [
            b"hello\r\n",
            b"$5\r\nabcdefgh",
            b":12x\r\n",
            b":\r\n",
            b"$-2\r\n",
            b"*-7\r\n",
            b"+OK\n",
            b"$999999999999\r\n",
            b":9223372036854775808\r\n",
        ];
        for bytes in wrong {
            assert_eq!(all(&[bytes]), Err(Malformed), "{}", String::from_utf8_lossy(bytes));
        }
        assert_eq!(all(&[&b"*1\r\n".repeat(DEEPEST + 1)]), Err(Malformed), "too deep");
        assert_eq!(all(&[b":-9223372036854775808\r\n"]), Ok(vec![Value::Int(i64::MIN)]));
        let errors = all(&[b"*2\r\n-ERR no\r\n:1\r\n"]).expect("an error inside an array");
        assert!(
            matches!(&errors[..], [Value::Array(two)] if matches!(two[0], Value::ServerError(_)))
        );
    }
}
