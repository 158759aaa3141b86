//! Replies out of a stream of bytes, as they arrive.
//!
//! Strings in a [`Reply`] are views of what was read: whoever drives the connection copies nothing,
//! and who gets a reply may decode from there (the cache does) or make a [`Value`] of it.
//!
//! What has arrived of an array is kept decoded: a large reply that comes in many pieces is read
//! once, not once a piece. Only RESP2, which is what our connections speak; anything else means that
//! the stream can no longer be trusted. Lines that are errors, which are rare, are left to the
//! client's own parser, so that they are the same values as elsewhere.

use bytes::{Buf, Bytes, BytesMut};
use redis::Value;

/// Elements that room is made for before they are there.
const AHEAD: usize = 1024;
/// How deep arrays may lie in each other.
const DEEPEST: usize = 128;
/// Room for what is read next, at least.
const ROOM_BYTES: usize = 8 * 1024;
/// Room that is made when there is not enough.
const CHUNK_BYTES: usize = 64 * 1024;
/// Longest string that Redis sends unless it is told otherwise.
const MAX_STRING_BYTES: usize = 512 * 1024 * 1024;

/// A reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// Nothing.
    Nil,
    /// `OK`.
    Okay,
    /// A number.
    Int(i64),
    /// A status, a line of text.
    Line(Bytes),
    /// A string.
    String(Bytes),
    /// Several replies.
    Array(Vec<Reply>),
    /// Whatever comes as a value of the client's: errors, mostly.
    Other(Value),
}

impl From<Reply> for Value {
    fn from(reply: Reply) -> Value {
        match reply {
            Reply::Nil => Value::Nil,
            Reply::Okay => Value::Okay,
            Reply::Int(number) => Value::Int(number),
            Reply::Line(text) => Value::SimpleString(String::from_utf8_lossy(&text).into_owned()),
            // Copied, because a short string would hold on to all that was read with it.
            Reply::String(bytes) => Value::BulkString(bytes.to_vec()),
            Reply::Array(replies) => Value::Array(replies.into_iter().map(Value::from).collect()),
            Reply::Other(value) => value,
        }
    }
}

/// What came as a value, seen as a reply.
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

/// A stream of replies.
#[derive(Default)]
pub(super) struct Replies {
    /// What was read and not decoded yet.
    buffer: BytesMut,
    /// Arrays that are not complete: how many elements are missing, and those that are there.
    open: Vec<(usize, Vec<Reply>)>,
    /// Bytes without which there is no point in looking again.
    missing: usize,
}

/// The stream is not what a Redis server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

enum Element {
    Whole(Reply),
    Array(usize),
}

impl Replies {
    /// Where the next bytes go.
    pub(super) fn room(&mut self) -> &mut BytesMut {
        let wanted = ROOM_BYTES.max(self.missing.saturating_sub(self.buffer.len()));
        if self.buffer.capacity() - self.buffer.len() < wanted {
            self.buffer.reserve(wanted.max(CHUNK_BYTES));
        }
        &mut self.buffer
    }

    /// The next reply; `None` when more bytes are needed.
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

    /// The next element, taken out of the buffer.
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
    // Counted downwards, because the lowest number has no positive counterpart.
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
