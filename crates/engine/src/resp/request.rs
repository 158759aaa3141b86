//! The request parser: RESP arrays of bulk strings, and inline commands as typed into telnet.
//!
//! It keeps ranges, not copies: a complete request borrows from the buffer it arrived in. A request
//! that arrives in pieces is resumed where parsing stopped, not restarted, so that a slow sender
//! costs no more than a fast one. Positions are relative to the first byte of the request, which
//! lets the host move the unread tail to another buffer between calls.
//!
//! A large argument that is incomplete gets a separate buffer, which a string value can keep
//! without copying. From then on the request is *detached*: the bytes read so far are removed from
//! the input, and its other arguments are copied.
//!
//! Invariant: a length in a header alone takes no memory; an argument gets room for at most sixteen
//! times the bytes that have arrived of it.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::value::LARGE_STRING;

/// Result of parsing the buffer once.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// A whole request that takes this many bytes; its arguments are in the parser.
    Complete(usize),
    /// More bytes are needed.
    Incomplete,
    /// The peer does not speak the protocol: answer with this text and close.
    Broken(String),
}

/// Bounds on what a request may claim.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Longest bulk string (`proto-max-bulk-len`).
    pub(crate) max_bulk: u64,
    /// Whether the session has logged in; others get small requests only.
    pub(crate) authenticated: bool,
}

const MAX_INLINE: usize = 64 * 1024;
const MAX_ARGS: i64 = i32::MAX as i64;
const MAX_ARGS_BEFORE_LOGIN: i64 = 10;
const MAX_BULK_BEFORE_LOGIN: i64 = 16 * 1024;

/// An argument has its own bytes where quotes were removed, and in a detached request.
#[derive(Debug, Clone)]
enum Arg {
    Range(usize, usize),
    Owned(Vec<u8>),
    Large(Arc<Vec<u8>>),
}

/// Where parsing of the current request stands.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    at: usize,
    missing: i64,
    bulk: Option<usize>,
    started: bool,
    detached: bool,
    /// A large argument, as far as it has arrived.
    large: Option<Vec<u8>>,
    args: SmallVec<[Arg; 8]>,
}

impl Parser {
    /// Looks for one request at the start of `buf`. After `Complete` read [`Parser::args`], then
    /// call [`Parser::reset`].
    pub(crate) fn parse(&mut self, buf: &[u8], limits: Limits) -> Parsed {
        if !self.started {
            let Some(&first) = buf.first() else { return Parsed::Incomplete };
            if first != b'*' {
                return self.parse_inline(buf);
            }
            match number_line(buf, 0) {
                Line::Missing if buf.len() > MAX_INLINE => {
                    return broken("too big mbulk count string");
                }
                Line::Missing => return Parsed::Incomplete,
                Line::Number(Some(n), end) if n <= MAX_ARGS => {
                    if n > MAX_ARGS_BEFORE_LOGIN && !limits.authenticated {
                        return broken("unauthenticated multibulk length");
                    }
                    self.started = true;
                    self.missing = n.max(0);
                    self.at = end;
                }
                Line::Number(..) => return broken("invalid multibulk length"),
            }
        }
        while self.missing > 0 {
            if let Some(parsed) = self.parse_bulk(buf, limits) {
                return parsed;
            }
        }
        Parsed::Complete(self.at)
    }

    /// Returns how many bytes of an incomplete request are not needed any more. Must be called
    /// after `Incomplete`, and the bytes removed from the input.
    pub(crate) fn taken(&mut self) -> usize {
        if self.detached { std::mem::take(&mut self.at) } else { 0 }
    }

    /// Returns `true` if some arguments have separate buffers.
    #[inline]
    pub(crate) fn is_detached(&self) -> bool {
        self.detached
    }

    /// Bytes of large arguments that have arrived.
    pub(crate) fn held_bytes(&self) -> usize {
        if !self.detached {
            return 0;
        }
        let whole = self.args.iter().map(|arg| match arg {
            Arg::Large(bytes) => bytes.len(),
            Arg::Range(..) | Arg::Owned(_) => 0,
        });
        whole.sum::<usize>() + self.large.as_ref().map_or(0, Vec::len)
    }

    /// Returns the large arguments of a complete request that have separate buffers.
    pub(crate) fn large_args(&self) -> impl Iterator<Item = &Arc<Vec<u8>>> {
        self.args.iter().filter_map(|arg| match arg {
            Arg::Large(bytes) => Some(bytes),
            Arg::Range(..) | Arg::Owned(_) => None,
        })
    }

    /// Makes the request independent of the buffer, and makes room for a large argument.
    fn detach(&mut self, buf: &[u8]) {
        self.detached = true;
        self.large = Some(Vec::new());
        for arg in &mut self.args {
            if let Arg::Range(from, to) = *arg {
                *arg = Arg::Owned(buf[from..to].to_vec());
            }
        }
    }

    /// Moves the arrived part of a large argument to its buffer. Returns `true` if it is complete.
    fn gather(&mut self, buf: &[u8], len: usize) -> bool {
        const AHEAD: usize = 64 << 10;
        // Memory that was reserved and not written to is not resident, so that growing in many steps
        // would cost more than reserving all of it once a part has come.
        const PART: usize = 16;
        let Some(large) = &mut self.large else { return false };
        let more = &buf[self.at..];
        let more = &more[..more.len().min(len - large.len())];
        let least = large.len() + more.len();
        if least > large.capacity() {
            let ahead = if least >= len / PART { len } else { least.saturating_mul(4) };
            let wanted = ahead.max(AHEAD).min(len);
            large.reserve_exact(wanted - large.len());
        }
        large.extend_from_slice(more);
        self.at += more.len();
        large.len() == len && buf.len() >= self.at + 2
    }

    /// One bulk string; `None` when it was whole and the next may follow.
    fn parse_bulk(&mut self, buf: &[u8], limits: Limits) -> Option<Parsed> {
        let len = match self.bulk {
            Some(len) => len,
            None => {
                let &kind = match buf.get(self.at) {
                    Some(kind) => kind,
                    None => return Some(Parsed::Incomplete),
                };
                let line = number_line(buf, self.at);
                if let Line::Missing = line {
                    return Some(if buf.len() - self.at > MAX_INLINE {
                        broken("too big bulk count string")
                    } else {
                        Parsed::Incomplete
                    });
                }
                if kind != b'$' {
                    let shown = char::from(kind);
                    return Some(Parsed::Broken(format!("expected '$', got '{shown}'")));
                }
                match line {
                    Line::Number(Some(n), end) if n >= 0 && n as u64 <= limits.max_bulk => {
                        if n > MAX_BULK_BEFORE_LOGIN && !limits.authenticated {
                            return Some(broken("unauthenticated bulk length"));
                        }
                        self.at = end;
                        self.bulk = Some(n as usize);
                        n as usize
                    }
                    _ => return Some(broken("invalid bulk length")),
                }
            }
        };
        if self.large.is_some() {
            if !self.gather(buf, len) {
                return Some(Parsed::Incomplete);
            }
            let large = self.large.take().unwrap_or_default();
            self.args.push(Arg::Large(Arc::new(large)));
            self.at += 2;
        } else if buf.len() < self.at + len + 2 {
            if len < LARGE_STRING {
                return Some(Parsed::Incomplete);
            }
            self.detach(buf);
            return None;
        } else {
            let arg = if self.detached {
                Arg::Owned(buf[self.at..self.at + len].to_vec())
            } else {
                Arg::Range(self.at, self.at + len)
            };
            self.args.push(arg);
            self.at += len + 2;
        }
        self.bulk = None;
        self.missing -= 1;
        None
    }

    fn parse_inline(&mut self, buf: &[u8]) -> Parsed {
        let Some(end) = memchr::memchr(b'\n', buf) else {
            return if buf.len() > MAX_INLINE {
                broken("too big inline request")
            } else {
                Parsed::Incomplete
            };
        };
        let line = buf[..end].strip_suffix(b"\r").unwrap_or(&buf[..end]);
        match split_quoted(line) {
            Some(args) => {
                self.args = args.into_iter().map(Arg::Owned).collect();
                Parsed::Complete(end + 1)
            }
            None => broken("unbalanced quotes in request"),
        }
    }

    /// The arguments of a complete request, as slices of the buffer that was parsed.
    pub(crate) fn args<'a>(&'a self, buf: &'a [u8]) -> SmallVec<[&'a [u8]; 8]> {
        self.args
            .iter()
            .map(|arg| match arg {
                Arg::Range(from, to) => &buf[*from..*to],
                Arg::Owned(bytes) => bytes.as_slice(),
                Arg::Large(bytes) => bytes.as_slice(),
            })
            .collect()
    }

    /// Forgets the current request.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.at = 0;
        self.missing = 0;
        self.bulk = None;
        self.started = false;
        self.detached = false;
        self.large = None;
        self.args.clear();
    }
}

fn broken(text: &str) -> Parsed {
    Parsed::Broken(text.to_owned())
}

enum Line {
    Missing,
    Number(Option<i64>, usize),
}

/// The number in the line that starts at `at` with a type byte, and where the next line starts.
#[inline]
fn number_line(buf: &[u8], at: usize) -> Line {
    // The usual header is one to four digits: read it without searching for the line's end.
    let mut n: i64 = 0;
    let mut i = at + 1;
    while i < buf.len() && i < at + 9 && buf[i].is_ascii_digit() {
        n = n * 10 + i64::from(buf[i] - b'0');
        i += 1;
    }
    if i > at + 1 && buf.get(i) == Some(&b'\r') && i + 1 < buf.len() && buf[at + 1] != b'0' {
        return Line::Number(Some(n), i + 2);
    }
    let Some(len) = memchr::memchr(b'\r', &buf[at..]) else { return Line::Missing };
    if at + len + 1 >= buf.len() {
        return Line::Missing;
    }
    // The line may be empty, without even a type byte.
    let digits = buf.get(at + 1..at + len).unwrap_or_default();
    Line::Number(crate::number::parse_i64(digits), at + len + 2)
}

/// Splits a typed line into words; double quotes take escapes, single quotes only `\'`. `None` when
/// a quote stays open or is followed by something other than a space.
pub(crate) fn split_quoted(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    // Redis: form feed and vertical tab separate words, but do not end one.
    let space = |b: u8| b.is_ascii_whitespace() || b == 0x0b;
    let ends = |b: u8| matches!(b, b' ' | b'\n' | b'\r' | b'\t' | 0);
    let mut words = Vec::new();
    let mut i = 0;
    loop {
        while i < line.len() && space(line[i]) {
            i += 1;
        }
        if i == line.len() || line[i] == 0 {
            return Some(words);
        }
        let mut word = Vec::new();
        while i < line.len() && !ends(line[i]) {
            match line[i] {
                quote @ (b'"' | b'\'') => {
                    i = quoted(line, i + 1, quote, &mut word)?;
                    if i < line.len() && !space(line[i]) {
                        return None;
                    }
                }
                b => {
                    word.push(b);
                    i += 1;
                }
            }
        }
        words.push(word);
    }
}

/// Reads up to the closing `quote` and returns the position behind it.
fn quoted(line: &[u8], mut i: usize, quote: u8, word: &mut Vec<u8>) -> Option<usize> {
    let hex = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    while i < line.len() {
        let b = line[i];
        if b == quote {
            return Some(i + 1);
        }
        if b != b'\\' || i + 1 >= line.len() {
            word.push(b);
            i += 1;
            continue;
        }
        let next = line[i + 1];
        if quote == b'\'' {
            if next == b'\'' {
                word.push(b'\'');
                i += 2;
            } else {
                word.push(b);
                i += 1;
            }
            continue;
        }
        if next == b'x'
            && let (Some(high), Some(low)) =
                (line.get(i + 2).copied().and_then(hex), line.get(i + 3).copied().and_then(hex))
        {
            word.push(high * 16 + low);
            i += 4;
            continue;
        }
        word.push(match next {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'b' => 8,
            b'a' => 7,
            other => other,
        });
        i += 2;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { max_bulk: 512 << 20, authenticated: true };

    fn whole(buf: &[u8]) -> (Parsed, Vec<Vec<u8>>) {
        let mut parser = Parser::default();
        let parsed = parser.parse(buf, LIMITS);
        let args = parser.args(buf).iter().map(|a| a.to_vec()).collect();
        (parsed, args)
    }

    #[test]
    fn a_request_in_one_piece() {
        let (parsed, args) = whole(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
        assert_eq!(parsed, Parsed::Complete(20));
        assert_eq!(args, [b"GET".to_vec(), b"k".to_vec()]);
    }

    #[test]
    fn any_split_gives_the_same() {
        let buf = b"*3\r\n$3\r\nSET\r\n$10\r\n0123456789\r\n$0\r\n\r\n";
        for cut in 0..buf.len() {
            let mut parser = Parser::default();
            assert_eq!(parser.parse(&buf[..cut], LIMITS), Parsed::Incomplete, "{cut}");
            assert_eq!(parser.parse(buf, LIMITS), Parsed::Complete(buf.len()));
            assert_eq!(parser.args(buf)[1], b"0123456789");
        }
    }

    #[test]
    fn broken_requests_say_what_redis_says() {
        for (buf, text) in [
            (&b"*x\r\n"[..], "invalid multibulk length"),
            (b"*2147483648\r\n", "invalid multibulk length"),
            (b"*1\r\n:1\r\n", "expected '$', got ':'"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"*1\r\n$99999999999\r\n", "invalid bulk length"),
            (b"set \"k\r\n", "unbalanced quotes in request"),
        ] {
            assert_eq!(whole(buf).0, Parsed::Broken(text.into()));
        }
    }

    #[test]
    fn inline_words_and_quotes() {
        assert_eq!(whole(b"set k 'a b'\n").1, [b"set".to_vec(), b"k".to_vec(), b"a b".to_vec()]);
        assert_eq!(whole(b"  \"\\x41\\n\"  \r\n").1, [b"A\n".to_vec()]);
        assert_eq!(whole(b"*0\r\n").0, Parsed::Complete(4));
    }
}
