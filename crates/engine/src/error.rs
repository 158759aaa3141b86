//! Error replies of commands.
//!
//! Redis' error texts are part of its interface: clients and scripts match on the first word and
//! sometimes on the whole line. An error is therefore its text, code word included, and the common
//! ones are constants, so that two commands never spell one refusal in two ways.

use std::borrow::Cow;

/// A refusal, as the text that follows `-` on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Error(Cow<'static, str>);

/// What a command handler returns: its reply is already written, or an error is to be written.
pub(crate) type Done = Result<(), Error>;

impl Error {
    pub(crate) const WRONG_TYPE: Error =
        Error::fixed("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub(crate) const SYNTAX: Error = Error::fixed("ERR syntax error");
    pub(crate) const NOT_INTEGER: Error =
        Error::fixed("ERR value is not an integer or out of range");
    pub(crate) const NOT_FLOAT: Error = Error::fixed("ERR value is not a valid float");
    pub(crate) const OUT_OF_RANGE: Error = Error::fixed("ERR index out of range");
    pub(crate) const NO_SUCH_KEY: Error = Error::fixed("ERR no such key");
    pub(crate) const OVERFLOW: Error = Error::fixed("ERR increment or decrement would overflow");
    pub(crate) const NAN_OR_INF: Error =
        Error::fixed("ERR increment would produce NaN or Infinity");
    pub(crate) const NOT_POSITIVE: Error =
        Error::fixed("ERR value is out of range, must be positive");
    pub(crate) const OOM: Error =
        Error::fixed("OOM command not allowed when used memory > 'maxmemory'.");
    pub(crate) const TIMEOUT_NOT_FLOAT: Error =
        Error::fixed("ERR timeout is not a float or out of range");
    pub(crate) const TIMEOUT_NEGATIVE: Error = Error::fixed("ERR timeout is negative");

    /// An error whose whole text, code word included, is known at compile time.
    pub(crate) const fn fixed(text: &'static str) -> Error {
        Error(Cow::Borrowed(text))
    }

    /// An error whose text is made at run time; it includes the code word.
    pub(crate) fn new(text: impl Into<String>) -> Error {
        Error(Cow::Owned(text.into()))
    }

    /// The refusal of a call with too few or too many arguments.
    pub(crate) fn arity(full_name: &str) -> Error {
        Error::new(format!("ERR wrong number of arguments for '{full_name}' command"))
    }

    /// The text, code word included.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// Bytes of a request as text for an error message, cut to `max` bytes and at the first NUL, where
/// Redis' own messages end.
///
/// An error is text here and bytes on the wire, and what a client sent must come back unchanged. So
/// each byte becomes the character of the same number, which the reply writer turns back.
pub(crate) fn printable(bytes: &[u8], max: usize) -> Cow<'_, str> {
    let bytes = &bytes[..bytes.len().min(max)];
    let bytes = &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())];
    match std::str::from_utf8(bytes) {
        Ok(text) if text.is_ascii() => Cow::Borrowed(text),
        _ => Cow::Owned(bytes.iter().copied().map(char::from).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::{Protocol, Reply};

    #[test]
    fn bytes_come_back_as_they_were_sent() {
        let mut reply = Reply::new(Protocol::Resp2);
        reply.error(&format!("ERR '{}'", printable(b"a\xff\xc3\xa9\r\n\0b", 5)));
        assert_eq!(reply.as_bytes(), b"-ERR 'a\xff\xc3\xa9 '\r\n");
        assert_eq!(printable(b"a\0b", 9), "a");
    }
}
