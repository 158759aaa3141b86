//! One reply of a server, in either protocol, exactly as received.
//!
//! The types of RESP2 and RESP3 stay separate (`$-1`, `*-1` and `_` are three values, a map is not
//! an array), and numbers that are written as text keep their text: a test that compares replies
//! must see every difference that a client could see. Deliberately absent: conveniences that blur
//! types.

use std::fmt;

/// Maximum nesting that [`parse`] follows; deeper input is refused.
const MAX_DEPTH: usize = 128;

/// A reply as received.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reply {
    /// `+OK`
    Simple(Vec<u8>),
    /// `-ERR text`
    Error(Vec<u8>),
    /// `:1`
    Int(i64),
    /// `$3` and its bytes
    Bulk(Vec<u8>),
    /// `$-1`, the missing string of RESP2
    NilBulk,
    /// `*-1`, the missing array of RESP2
    NilArray,
    /// `_`, the missing value of RESP3
    Null,
    /// `*`
    Array(Vec<Reply>),
    /// `%`
    Map(Vec<(Reply, Reply)>),
    /// `~`
    Set(Vec<Reply>),
    /// `>`, sent without a request
    Push(Vec<Reply>),
    /// `,` with the number as text
    Double(Vec<u8>),
    /// `#t` or `#f`
    Bool(bool),
    /// `(` with the number as text
    BigNumber(Vec<u8>),
    /// `=`, the three letters of the format and the text after them
    Verbatim([u8; 3], Vec<u8>),
    /// `!`, an error of any length
    BulkError(Vec<u8>),
    /// `|`, attributes of the reply that follows it
    Attribute(Vec<(Reply, Reply)>),
}

impl Reply {
    /// Creates a bulk string.
    pub fn bulk(bytes: impl AsRef<[u8]>) -> Self {
        Self::Bulk(bytes.as_ref().to_vec())
    }

    /// Returns `true` for an error of either kind.
    #[must_use]
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_) | Self::BulkError(_))
    }

    /// Returns `true` for one of the three null values.
    #[must_use]
    pub fn is_nil(&self) -> bool {
        matches!(self, Self::NilBulk | Self::NilArray | Self::Null)
    }

    /// Returns the integer, if this is one.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// Returns the bytes of a string, status, error, verbatim text or number written as text.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Simple(b)
            | Self::Error(b)
            | Self::Bulk(b)
            | Self::Double(b)
            | Self::BigNumber(b)
            | Self::Verbatim(_, b)
            | Self::BulkError(b) => Some(b),
            _ => None,
        }
    }

    /// Returns the text of [`Reply::as_bytes`], with invalid UTF-8 replaced; empty for other types.
    #[must_use]
    pub fn text(&self) -> String {
        self.as_bytes().map(|b| String::from_utf8_lossy(b).into_owned()).unwrap_or_default()
    }

    /// Returns the elements of an array, set or push; empty for other types.
    #[must_use]
    pub fn items(&self) -> &[Reply] {
        match self {
            Self::Array(items) | Self::Set(items) | Self::Push(items) => items,
            _ => &[],
        }
    }
}

/// The notation of the transcripts: short, one line, printable; see [`crate::transcript`].
impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A space at the end of a line would be invisible.
            Self::Simple(b) | Self::Error(b) if b.ends_with(b" ") => write_element(f, self),
            Self::Simple(b) => write!(f, "+{}", Escaped(b)),
            Self::Error(b) => write!(f, "-{}", Escaped(b)),
            Self::Int(n) => write!(f, ":{n}"),
            Self::Bulk(b) => write!(f, "\"{}\"", Escaped(b)),
            Self::NilBulk => f.write_str("nil"),
            Self::NilArray => f.write_str("nil-array"),
            Self::Null => f.write_str("null"),
            Self::Array(items) => write_items(f, "", items),
            Self::Set(items) => write_items(f, "~", items),
            Self::Push(items) => write_items(f, ">", items),
            Self::Map(pairs) => write_pairs(f, "", pairs),
            Self::Attribute(pairs) => write_pairs(f, "|", pairs),
            Self::Double(b) => write!(f, ",{}", Escaped(b)),
            Self::Bool(true) => f.write_str("#t"),
            Self::Bool(false) => f.write_str("#f"),
            Self::BigNumber(b) => write!(f, "({}", Escaped(b)),
            Self::Verbatim(kind, b) => write!(f, "=\"{}:{}\"", Escaped(kind), Escaped(b)),
            Self::BulkError(b) => write!(f, "!\"{}\"", Escaped(b)),
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Inside an array an error or status does not end at a line end, so it is quoted: `-"ERR x"`.
fn write_element(f: &mut fmt::Formatter<'_>, item: &Reply) -> fmt::Result {
    match item {
        Reply::Simple(b) => write!(f, "+\"{}\"", Escaped(b)),
        Reply::Error(b) => write!(f, "-\"{}\"", Escaped(b)),
        other => write!(f, "{other}"),
    }
}

fn write_items(f: &mut fmt::Formatter<'_>, mark: &str, items: &[Reply]) -> fmt::Result {
    write!(f, "{mark}[")?;
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            f.write_str(", ")?;
        }
        write_element(f, item)?;
    }
    f.write_str("]")
}

fn write_pairs(f: &mut fmt::Formatter<'_>, mark: &str, pairs: &[(Reply, Reply)]) -> fmt::Result {
    write!(f, "{mark}{{")?;
    for (at, (key, value)) in pairs.iter().enumerate() {
        if at > 0 {
            f.write_str(", ")?;
        }
        write_element(f, key)?;
        f.write_str(": ")?;
        write_element(f, value)?;
    }
    f.write_str("}")
}

/// Bytes in printable form: `\n`, `\r`, `\t`, `\"`, `\\` and `\xNN`.
pub(crate) struct Escaped<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.0 {
            match byte {
                b'\n' => f.write_str("\\n")?,
                b'\r' => f.write_str("\\r")?,
                b'\t' => f.write_str("\\t")?,
                b'"' => f.write_str("\\\"")?,
                b'\\' => f.write_str("\\\\")?,
                0x20..=0x7e => write!(f, "{}", byte as char)?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        Ok(())
    }
}

/// Bytes that no RESP server sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolError(String);

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a RESP reply: {}", self.0)
    }
}

impl std::error::Error for ProtocolError {}

/// Reads one reply from the front of `input`. Returns the reply and its length, or `None` if more
/// bytes are needed.
///
/// # Errors
///
/// If the bytes cannot be a reply.
pub fn parse(input: &[u8]) -> Result<Option<(Reply, usize)>, ProtocolError> {
    let mut reader = Reader { input, at: 0 };
    Ok(reader.reply(0)?.map(|reply| (reply, reader.at)))
}

struct Reader<'a> {
    input: &'a [u8],
    at: usize,
}

type Partial<T> = Result<Option<T>, ProtocolError>;

/// `?` for the two ways in which a reply is not available: malformed, or incomplete.
macro_rules! ready {
    ($e:expr) => {
        match $e? {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

impl<'a> Reader<'a> {
    fn reply(&mut self, depth: usize) -> Partial<Reply> {
        if depth > MAX_DEPTH {
            return Err(ProtocolError(format!("nested deeper than {MAX_DEPTH}")));
        }
        let line = ready!(self.line());
        let Some((&kind, rest)) = line.split_first() else {
            return Err(ProtocolError("an empty line".into()));
        };
        Ok(Some(match kind {
            b'+' => Reply::Simple(rest.to_vec()),
            b'-' => Reply::Error(rest.to_vec()),
            b',' => Reply::Double(rest.to_vec()),
            b'(' => Reply::BigNumber(rest.to_vec()),
            b':' => Reply::Int(number(rest)?),
            b'_' => Reply::Null,
            b'#' => Reply::Bool(rest == b"t"),
            b'$' if rest == b"-1" => Reply::NilBulk,
            b'*' if rest == b"-1" => Reply::NilArray,
            b'$' => Reply::Bulk(ready!(self.bytes(rest)).to_vec()),
            b'!' => Reply::BulkError(ready!(self.bytes(rest)).to_vec()),
            b'=' => verbatim(ready!(self.bytes(rest)))?,
            b'*' => Reply::Array(ready!(self.items(rest, depth))),
            b'~' => Reply::Set(ready!(self.items(rest, depth))),
            b'>' => Reply::Push(ready!(self.items(rest, depth))),
            b'%' => Reply::Map(ready!(self.pairs(rest, depth))),
            b'|' => Reply::Attribute(ready!(self.pairs(rest, depth))),
            _ => return Err(ProtocolError(format!("\"{}\"", Escaped(line)))),
        }))
    }

    fn line(&mut self) -> Partial<&'a [u8]> {
        let rest = &self.input[self.at..];
        let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else {
            return Ok(None);
        };
        self.at += end + 2;
        Ok(Some(&rest[..end]))
    }

    fn bytes(&mut self, length: &[u8]) -> Partial<&'a [u8]> {
        let length = length_of(length)?;
        let rest = &self.input[self.at..];
        if rest.len() < length.saturating_add(2) {
            return Ok(None);
        }
        if &rest[length..length + 2] != b"\r\n" {
            return Err(ProtocolError("a string without its line end".into()));
        }
        self.at += length + 2;
        Ok(Some(&rest[..length]))
    }

    fn items(&mut self, count: &[u8], depth: usize) -> Partial<Vec<Reply>> {
        let mut items = Vec::new();
        for _ in 0..length_of(count)? {
            items.push(ready!(self.reply(depth + 1)));
        }
        Ok(Some(items))
    }

    fn pairs(&mut self, count: &[u8], depth: usize) -> Partial<Vec<(Reply, Reply)>> {
        let mut pairs = Vec::new();
        for _ in 0..length_of(count)? {
            let key = ready!(self.reply(depth + 1));
            pairs.push((key, ready!(self.reply(depth + 1))));
        }
        Ok(Some(pairs))
    }
}

fn verbatim(bytes: &[u8]) -> Result<Reply, ProtocolError> {
    match bytes {
        [a, b, c, b':', text @ ..] => Ok(Reply::Verbatim([*a, *b, *c], text.to_vec())),
        _ => Err(ProtocolError("verbatim text without its format".into())),
    }
}

fn number(text: &[u8]) -> Result<i64, ProtocolError> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| ProtocolError(format!("the number \"{}\"", Escaped(text))))
}

fn length_of(text: &[u8]) -> Result<usize, ProtocolError> {
    usize::try_from(number(text)?)
        .map_err(|_| ProtocolError(format!("the length \"{}\"", Escaped(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_parses_and_every_prefix_asks_for_more() {
        let wire: &[u8] =
            b"*15\r\n+OK\r\n-ERR x\r\n:-7\r\n$3\r\na\r\n\r\n$-1\r\n*-1\r\n_\r\n%1\r\n+k\r\n:1\r\n\
              ~1\r\n:1\r\n>1\r\n:1\r\n,1.5\r\n#t\r\n(99\r\n=5\r\ntxt:a\r\n!3\r\nbad\r\n";
        for end in 0..wire.len() {
            assert_eq!(parse(&wire[..end]), Ok(None), "prefix of {end} bytes");
        }
        let (reply, used) = parse(wire).unwrap().unwrap();
        assert_eq!(used, wire.len());
        assert_eq!(
            reply.to_string(),
            "[+\"OK\", -\"ERR x\", :-7, \"a\\r\\n\", nil, nil-array, null, {+\"k\": :1}, ~[:1], \
             >[:1], ,1.5, #t, (99, =\"txt:a\", !\"bad\"]"
        );
    }

    #[test]
    fn nonsense_is_refused_without_a_panic() {
        for wire in
            ["\r\n", "?1\r\n", ":x\r\n", "$-2\r\n", "*99999999999999999999\r\n", "=1\r\na\r\n"]
        {
            assert!(parse(wire.as_bytes()).is_err(), "{wire:?}");
        }
        let deep = "*1\r\n".repeat(10_000);
        assert!(parse(deep.as_bytes()).is_err());
    }
}
