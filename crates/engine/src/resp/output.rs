//! Pending output of a client: replies, with large values by reference.
//!
//! A large string is not copied into a reply. The output notes where among its own bytes the value
//! belongs, and shares the value's buffer with the keyspace until it has been sent:
//!
//! ```text
//! own bytes   $1048576\r\n \r\n+OK\r\n
//! pieces                  ▲ at 10: all of that value
//! ```
//!
//! Positions (of acknowledgements, of what is deferred) count own bytes only; lengths count all.
//!
//! Invariant: a piece lies inside a bulk string, between its header and its line break. So no place
//! where a reply begins or ends is that of a piece.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Pending output of a session; the host drains it from the front.
#[derive(Debug, Default, Clone)]
pub struct Output {
    own: Vec<u8>,
    /// Own bytes that have left.
    sent: usize,
    /// Boxed, because few outputs have any and every request moves its session's output.
    pieces: Option<Box<Pieces>>,
}

#[derive(Debug, Default, Clone)]
struct Pieces {
    list: VecDeque<Piece>,
    /// Bytes of all of them that have not left.
    bytes: usize,
}

/// A part of a value.
#[derive(Debug, Clone)]
struct Piece {
    /// The own byte that it is in front of.
    at: usize,
    value: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl Output {
    /// Bytes that are to be sent.
    #[must_use]
    pub fn len(&self) -> usize {
        self.own.len() - self.sent + self.shared()
    }

    /// Whether nothing is to be sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.own.len() == self.sent && self.pieces.is_none()
    }

    /// Returns the memory it holds; shared buffers count in full.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.own.capacity() + self.shared()
    }

    fn shared(&self) -> usize {
        self.pieces.as_ref().map_or(0, |pieces| pieces.bytes)
    }

    /// Drops everything, and releases memory beyond `kept_bytes`.
    pub fn clear(&mut self, kept_bytes: usize) {
        self.pieces = None;
        self.sent = 0;
        if self.own.capacity() > kept_bytes {
            self.own = Vec::new();
        } else {
            self.own.clear();
        }
    }

    /// Returns the next contiguous bytes to send; empty at the end.
    #[must_use]
    pub fn front(&self) -> &[u8] {
        if self.pieces.is_none() {
            return &self.own[self.sent..];
        }
        self.slices().next().unwrap_or_default()
    }

    /// All that is to be sent, in order and in slices that are not empty.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let pieces = self.pieces.iter().flat_map(|pieces| &pieces.list);
        let ends = pieces.clone().map(|piece| piece.at).chain([self.own.len()]);
        let starts = std::iter::once(self.sent).chain(pieces.clone().map(|piece| piece.at));
        let own = starts.zip(ends).map(|(from, to)| &self.own[from..to]);
        let shared = pieces.map(|piece| &piece.value[piece.range.clone()]).chain([&[][..]]);
        own.zip(shared).flat_map(|(own, shared)| [own, shared]).filter(|slice| !slice.is_empty())
    }

    /// Records that the first `count` bytes were sent.
    ///
    /// # Panics
    /// If there were fewer bytes.
    pub fn advance(&mut self, mut count: usize) {
        while let Some(pieces) = &mut self.pieces
            && let Some(piece) = pieces.list.front_mut()
        {
            let own = (piece.at - self.sent).min(count);
            self.sent += own;
            count -= own;
            let shared = piece.range.len().min(count);
            piece.range.start += shared;
            pieces.bytes -= shared;
            count -= shared;
            if self.sent < piece.at || !piece.range.is_empty() {
                return;
            }
            // Released as soon as it is sent: its value may be edited in place again.
            pieces.list.pop_front();
            if pieces.list.is_empty() {
                self.pieces = None;
            }
        }
        assert!(count <= self.own.len() - self.sent, "more has left than there was");
        self.sent += count;
    }

    /// The position behind the last byte.
    pub(crate) fn position(&self) -> usize {
        self.own.len()
    }

    /// Own bytes that have left: the position of what comes next.
    #[must_use]
    pub fn sent(&self) -> usize {
        self.sent
    }

    /// The own byte at a position.
    #[must_use]
    pub fn byte_at(&self, position: usize) -> Option<u8> {
        self.own.get(position).copied()
    }

    /// Moves everything from `other` to the end, and returns the position where it begins. Nothing
    /// of `other` may have left.
    pub fn append(&mut self, other: &mut Output) -> usize {
        let offset = self.own.len();
        debug_assert_eq!(other.sent, 0, "positions would not fit");
        self.own.append(&mut other.own);
        if let Some(more) = other.pieces.take() {
            let pieces = self.pieces.get_or_insert_default();
            pieces.bytes += more.bytes;
            let moved = |piece: Piece| Piece { at: piece.at + offset, ..piece };
            pieces.list.extend(more.list.into_iter().map(moved));
        }
        offset
    }

    /// Exchanges the replies at these positions, which are in order, each for the same text.
    pub fn exchange(&mut self, replies: &[Range<usize>], text: &[u8]) {
        let mut told = Output { own: Vec::with_capacity(self.own.len()), ..Output::default() };
        let mut pieces = self.pieces.take().unwrap_or_default().list.into_iter().peekable();
        let mut copied = 0;
        let end = self.own.len();
        for reply in replies.iter().cloned().chain(std::iter::once(end..end)) {
            let base = told.own.len();
            while let Some(piece) = pieces.next_if(|piece| piece.at < reply.start) {
                told.put_piece(Piece { at: piece.at - copied + base, ..piece });
            }
            told.own.extend_from_slice(&self.own[copied..reply.start]);
            if reply.start < end {
                told.own.extend_from_slice(text);
            }
            while pieces.next_if(|piece| piece.at < reply.end).is_some() {}
            copied = reply.end;
        }
        told.sent = self.sent;
        *self = told;
    }

    /// Everything in one piece.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        if self.sent == 0 && self.pieces.is_none() {
            return self.own;
        }
        let mut all = Vec::with_capacity(self.len());
        self.slices().for_each(|slice| all.extend_from_slice(slice));
        all
    }

    fn put_piece(&mut self, piece: Piece) {
        let pieces = self.pieces.get_or_insert_default();
        pieces.bytes += piece.range.len();
        pieces.list.push_back(piece);
    }
}

/// What the reply writer does.
impl Output {
    /// Own bytes, which positions count.
    pub(super) fn own(&self) -> &[u8] {
        &self.own
    }

    pub(super) fn own_mut(&mut self) -> &mut Vec<u8> {
        &mut self.own
    }

    /// Puts a part of a value at the end.
    pub(super) fn share(&mut self, value: &Arc<Vec<u8>>, range: Range<usize>) {
        if !range.is_empty() {
            self.put_piece(Piece { at: self.own.len(), value: Arc::clone(value), range });
        }
    }

    /// Removes everything after a position.
    pub(super) fn truncate(&mut self, position: usize) {
        self.own.truncate(position);
        let Some(pieces) = &mut self.pieces else { return };
        while let Some(piece) = pieces.list.back().filter(|piece| piece.at > position) {
            pieces.bytes -= piece.range.len();
            pieces.list.pop_back();
        }
        if pieces.list.is_empty() {
            self.pieces = None;
        }
    }

    /// Puts own bytes at a position.
    pub(super) fn splice(&mut self, position: usize, bytes: &[u8]) {
        self.own.splice(position..position, bytes.iter().copied());
        let behind = self.pieces.iter_mut().flat_map(|pieces| pieces.list.iter_mut().rev());
        for piece in behind.take_while(|piece| piece.at > position) {
            piece.at += bytes.len();
        }
    }
}

impl From<Vec<u8>> for Output {
    fn from(own: Vec<u8>) -> Output {
        Output { own, ..Output::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn output(parts: &[(&str, &str)]) -> Output {
        let mut output = Output::default();
        for (own, shared) in parts {
            output.own_mut().extend_from_slice(own.as_bytes());
            let value = Arc::new(format!("<{shared}>").into_bytes());
            output.share(&value, 1..1 + shared.len());
        }
        output
    }

    fn text(output: Output) -> String {
        String::from_utf8(output.into_bytes()).expect("text")
    }

    #[test]
    fn pieces_stay_where_they_belong() {
        let mut out = output(&[("$3\r\n", "abc"), ("\r\n+OK\r\n$1\r\n", "d"), ("\r\n", "")]);
        assert_eq!(out.len(), 21);
        out.splice(6, b"!");
        let mut more = output(&[("$1\r\n", "e"), ("\r\n", "")]);
        assert_eq!(out.append(&mut more), 18);
        assert!(more.is_empty());
        assert_eq!(text(out.clone()), "$3\r\nabc\r\n!+OK\r\n$1\r\nd\r\n$1\r\ne\r\n");
        out.truncate(6);
        assert_eq!((out.len(), text(out)), (9, "$3\r\nabc\r\n".to_owned()));
    }

    #[test]
    fn an_exchanged_reply_takes_its_pieces_along() {
        let mut out = output(&[("$1\r\n", "a"), ("\r\n$1\r\n", "b"), ("\r\n$1\r\n", "c")]);
        out.own_mut().extend_from_slice(b"\r\n+OK\r\n");
        out.advance(2);
        out.exchange(&[6..12, 18..23], b"-NO\r\n");
        assert_eq!(text(out), "\r\na\r\n-NO\r\n$1\r\nc\r\n-NO\r\n");
        let mut plain = Output::from(b"+OK\r\n".to_vec());
        plain.exchange(&[], b"-NO\r\n");
        assert_eq!(text(plain), "+OK\r\n");
    }

    #[test]
    fn what_has_left_is_given_up() {
        let value = Arc::new(b"abc".to_vec());
        let mut out = Output::from(b"$3\r\n".to_vec());
        out.share(&value, 0..3);
        out.own_mut().extend_from_slice(b"\r\n");
        out.advance(6);
        assert_eq!((out.front(), Arc::strong_count(&value)), (&b"c"[..], 2));
        out.advance(1);
        assert_eq!((out.front(), Arc::strong_count(&value)), (&b"\r\n"[..], 1));
        out.advance(2);
        assert!(out.is_empty() && out.front().is_empty());
    }

    proptest! {
        #[test]
        fn any_steps_send_the_same_bytes(
            parts in prop::collection::vec(("[a-z]{0,4}", "[A-Z]{0,4}"), 0..6),
            steps in prop::collection::vec(1..5usize, 0..40),
        ) {
            let parts: Vec<_> = parts.iter().map(|(own, piece)| (&own[..], &piece[..])).collect();
            let mut out = output(&parts);
            let expected: String = parts.iter().flat_map(|(own, shared)| [*own, *shared]).collect();
            prop_assert_eq!(text(out.clone()), expected.clone());
            let mut sent = Vec::new();
            for step in steps {
                let all: Vec<u8> = out.slices().flatten().copied().collect();
                prop_assert_eq!(all.len(), out.len());
                let count = step.min(all.len());
                sent.extend_from_slice(&all[..count]);
                out.advance(count);
            }
            sent.extend(out.into_bytes());
            prop_assert_eq!(String::from_utf8(sent).expect("text"), expected);
        }
    }
}
