//! The reply writer: appends RESP2 or RESP3 to one buffer.
//!
//! Handlers describe what they answer (a map, a set, a double, nothing) and the writer chooses the
//! bytes for the session's protocol, so that no handler checks the protocol unless Redis itself
//! answers with a different shape. Aggregates whose length is known only at the end are opened with
//! [`Reply::defer`] and closed with the real count.

use std::ops::Range;
use std::sync::Arc;

use super::output::Output;
use crate::number;

/// The protocol a session speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Protocol {
    #[default]
    Resp2,
    Resp3,
}

/// Where a deferred aggregate begins.
#[derive(Debug, Clone, Copy)]
#[must_use = "a deferred aggregate must be closed"]
pub(crate) struct Mark(usize);

/// An output with replies in one protocol.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    out: Output,
    protocol: Protocol,
}

impl Reply {
    pub(crate) fn new(protocol: Protocol) -> Reply {
        Reply { out: Output::default(), protocol }
    }

    /// Continues to write after what `out` already holds.
    pub(crate) fn onto(out: impl Into<Output>, protocol: Protocol) -> Reply {
        Reply { out: out.into(), protocol }
    }

    pub(crate) fn into_output(self) -> Output {
        self.out
    }

    /// Returns everything in one piece, for callers that do not forward it.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.out.into_bytes()
    }

    #[inline]
    fn bytes(&mut self) -> &mut Vec<u8> {
        self.out.own_mut()
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub(crate) fn is_resp3(&self) -> bool {
        self.protocol == Protocol::Resp3
    }

    pub(crate) fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// The position of what is written next.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.out.own().len()
    }

    /// What was written, without large values.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.out.own()
    }

    /// Removes everything that was written after a position.
    pub(crate) fn truncate(&mut self, position: usize) {
        self.out.truncate(position);
    }

    /// Puts bytes that were made for the same protocol at `at`.
    pub(crate) fn splice_raw(&mut self, at: usize, bytes: &[u8]) {
        self.out.splice(at, bytes);
    }

    /// Appends bytes that were already encoded for the same protocol.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes().extend_from_slice(bytes);
    }

    pub(crate) fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    /// A status line; `text` has no line break.
    pub(crate) fn simple(&mut self, text: &str) {
        self.bytes().push(b'+');
        self.line(text.as_bytes());
    }

    /// An error line; line breaks in `text` become spaces, so that it stays one line, and each
    /// character the byte of its number, as `error::printable` made them.
    pub(crate) fn error(&mut self, text: &str) {
        self.bytes().push(b'-');
        self.bytes().extend(text.chars().map(|c| match c {
            '\r' | '\n' => b' ',
            c => u8::try_from(u32::from(c)).unwrap_or(b'?'),
        }));
        self.bytes().extend_from_slice(b"\r\n");
    }

    #[inline]
    pub(crate) fn int(&mut self, n: i64) {
        match n {
            0 => self.raw(b":0\r\n"),
            1 => self.raw(b":1\r\n"),
            _ => self.header(b':', n),
        }
    }

    /// A length or count as an integer reply.
    pub(crate) fn count(&mut self, n: usize) {
        self.int(i64::try_from(n).unwrap_or(i64::MAX));
    }

    #[inline]
    pub(crate) fn bulk(&mut self, data: &[u8]) {
        // What is large is copied once, into a buffer that holds just it.
        const LARGE: usize = 64 << 10;
        if data.len() < LARGE {
            self.bytes().reserve(data.len() + 16);
        } else {
            self.bytes().reserve_exact(data.len() + 32);
        }
        self.header(b'$', data.len() as i64);
        self.line(data);
    }

    /// A part of a large value, which is not copied.
    pub(crate) fn bulk_shared(&mut self, value: &Arc<Vec<u8>>, range: Range<usize>) {
        self.header(b'$', range.len() as i64);
        self.out.share(value, range);
        self.raw(b"\r\n");
    }

    /// A number as a bulk string.
    pub(crate) fn bulk_int(&mut self, n: i64) {
        self.bulk(itoa::Buffer::new().format(n).as_bytes());
    }

    /// A bulk string, or nothing.
    pub(crate) fn bulk_or_null(&mut self, data: Option<&[u8]>) {
        match data {
            Some(data) => self.bulk(data),
            None => self.null(),
        }
    }

    /// Text whose format a RESP3 client may show: `fmt` is `txt` or `mkd`.
    pub(crate) fn verbatim(&mut self, fmt: &str, text: &[u8]) {
        if !self.is_resp3() {
            return self.bulk(text);
        }
        self.header(b'=', text.len() as i64 + 4);
        self.bytes().extend_from_slice(&fmt.as_bytes()[..3]);
        self.bytes().push(b':');
        self.line(text);
    }

    /// A double: RESP3's own type, a bulk string in RESP2.
    pub(crate) fn double(&mut self, value: f64) {
        let mut text = Vec::with_capacity(24);
        number::format_double_reply(&mut text, value);
        if self.is_resp3() {
            self.bytes().push(b',');
            self.line(&text);
        } else {
            self.bulk(&text);
        }
    }

    pub(crate) fn boolean(&mut self, value: bool) {
        match (self.protocol, value) {
            (Protocol::Resp2, _) => self.int(i64::from(value)),
            (Protocol::Resp3, true) => self.raw(b"#t\r\n"),
            (Protocol::Resp3, false) => self.raw(b"#f\r\n"),
        }
    }

    /// Nothing, where a string or number could be.
    pub(crate) fn null(&mut self) {
        if self.is_resp3() { self.raw(b"_\r\n") } else { self.raw(b"$-1\r\n") }
    }

    /// Nothing, where an array could be.
    pub(crate) fn null_array(&mut self) {
        if self.is_resp3() { self.raw(b"_\r\n") } else { self.raw(b"*-1\r\n") }
    }

    pub(crate) fn array(&mut self, len: usize) {
        self.header(b'*', len as i64);
    }

    /// A map of `pairs` keys, each followed by its value; a flat array in RESP2.
    pub(crate) fn map(&mut self, pairs: usize) {
        if self.is_resp3() {
            self.header(b'%', pairs as i64);
        } else {
            self.header(b'*', pairs as i64 * 2);
        }
    }

    pub(crate) fn set(&mut self, len: usize) {
        self.header(if self.is_resp3() { b'~' } else { b'*' }, len as i64);
    }

    /// An out-of-band message; an array in RESP2.
    pub(crate) fn push(&mut self, len: usize) {
        self.header(if self.is_resp3() { b'>' } else { b'*' }, len as i64);
    }

    /// Opens an aggregate whose length is known only when it ends.
    pub(crate) fn defer(&mut self) -> Mark {
        Mark(self.len())
    }

    pub(crate) fn end_array(&mut self, mark: Mark, len: usize) {
        self.close(mark, |r| r.array(len));
    }

    pub(crate) fn end_map(&mut self, mark: Mark, pairs: usize) {
        self.close(mark, |r| r.map(pairs));
    }

    pub(crate) fn end_set(&mut self, mark: Mark, len: usize) {
        self.close(mark, |r| r.set(len));
    }

    fn close(&mut self, mark: Mark, header: impl FnOnce(&mut Reply)) {
        let mut head = Reply::new(self.protocol);
        header(&mut head);
        self.splice_raw(mark.0, head.as_bytes());
    }

    fn header(&mut self, kind: u8, n: i64) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(n).as_bytes();
        self.bytes().push(kind);
        self.line(digits);
    }

    fn line(&mut self, text: &[u8]) {
        self.bytes().extend_from_slice(text);
        self.bytes().extend_from_slice(b"\r\n");
    }
}
