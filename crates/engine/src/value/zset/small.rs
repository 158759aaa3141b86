//! The compact form: one buffer of entries in order.
//!
//! ```text
//! [score: 8 bytes LE][length of the member: LEB128][member] …
//! ```
//!
//! Everything is a walk from the front, which is what makes it compact; the limits keep it short.
//! Invariant: the buffer holds exactly `len` whole entries, ascending by (score, bytes).

use std::ops::Range;

/// Bytes of a score.
const SCORE_BYTES: usize = 8;

/// A small sorted set.
#[derive(Clone)]
pub(super) struct Small {
    bytes: Vec<u8>,
    len: usize,
}

/// Where a member was found.
pub(super) struct Found {
    offset: usize,
    /// Its rank.
    pub(super) rank: usize,
    /// Its score.
    pub(super) score: f64,
}

impl Small {
    pub(super) const fn new() -> Self {
        Self { bytes: Vec::new(), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn mem_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The entries of a range of ranks, which must end at or before `len`.
    pub(super) fn walk(&self, ranks: Range<usize>) -> SmallWalk<'_> {
        let mut walk = SmallWalk { bytes: &self.bytes, left: self.len };
        walk.by_ref().take(ranks.start.min(self.len)).for_each(drop);
        walk.left = ranks.end.saturating_sub(ranks.start);
        walk
    }

    pub(super) fn find(&self, member: &[u8]) -> Option<Found> {
        let mut walk = SmallWalk { bytes: &self.bytes, left: self.len };
        for rank in 0.. {
            let offset = self.bytes.len() - walk.bytes.len();
            let (other, score) = walk.next()?;
            if other == member {
                return Some(Found { offset, rank, score });
            }
        }
        None
    }

    /// Adds a member that is not there at its place.
    pub(super) fn insert(&mut self, score: f64, member: &[u8]) {
        let before = |other: &[u8], s: f64| s < score || (s == score && other < member);
        let mut walk = SmallWalk { bytes: &self.bytes, left: self.len };
        let mut offset = 0;
        while let Some((other, s)) = walk.next() {
            if !before(other, s) {
                break;
            }
            offset = self.bytes.len() - walk.bytes.len();
        }
        self.put(offset, score, member);
    }

    /// Adds a member above all others.
    pub(super) fn push(&mut self, score: f64, member: &[u8]) {
        self.put(self.bytes.len(), score, member);
    }

    /// Removes what [`Small::find`] found; `member_len` is the length of that member.
    pub(super) fn remove(&mut self, found: &Found, member_len: usize) {
        let (_, digits) = leb128(member_len);
        let end = found.offset + SCORE_BYTES + digits + member_len;
        self.bytes.drain(found.offset..end);
        self.len -= 1;
    }

    pub(super) fn remove_ranks(&mut self, ranks: Range<usize>) {
        let end = ranks.end.min(self.len);
        if ranks.start >= end {
            return;
        }
        let total = self.bytes.len();
        let from = total - self.walk(ranks.start..end).bytes.len();
        let to = total - self.walk(end..end).bytes.len();
        self.bytes.drain(from..to);
        self.len -= end - ranks.start;
    }

    /// The ranks between the entries that `misses` holds for and those that `reaches` ceases to.
    pub(super) fn ranks(
        &self,
        misses: impl Fn(&[u8], f64) -> bool,
        reaches: impl Fn(&[u8], f64) -> bool,
    ) -> Range<usize> {
        let mut walk = self.walk(0..self.len).peekable();
        let mut start = 0;
        while walk.next_if(|(member, score)| misses(member, *score)).is_some() {
            start += 1;
        }
        let inside = walk.take_while(|(member, score)| reaches(member, *score)).count();
        start..start + inside
    }

    fn put(&mut self, offset: usize, score: f64, member: &[u8]) {
        let (head, digits) = leb128(member.len());
        let size = SCORE_BYTES + digits + member.len();
        let old = self.bytes.len();
        if self.bytes.capacity() - old < size {
            // An eighth of slack: sets of this form are many, so doubling would waste too much.
            self.bytes.reserve_exact(size + old / 8);
        }
        self.bytes.resize(old + size, 0);
        self.bytes.copy_within(offset..old, offset + size);
        let place = &mut self.bytes[offset..offset + size];
        // Redis: the compact form keeps whole scores as integers, which loses the sign of zero.
        let score = score + 0.0;
        place[..SCORE_BYTES].copy_from_slice(&score.to_le_bytes());
        place[SCORE_BYTES..SCORE_BYTES + digits].copy_from_slice(&head[..digits]);
        place[SCORE_BYTES + digits..].copy_from_slice(member);
        self.len += 1;
    }
}

/// Seven bits a byte, lowest first, the high bit set on all but the last; and how many bytes.
fn leb128(mut n: usize) -> ([u8; 10], usize) {
    let mut out = [0; 10];
    let mut len = 0;
    loop {
        out[len] = (n & 0x7f) as u8;
        n >>= 7;
        len += 1;
        if n == 0 {
            return (out, len);
        }
        out[len - 1] |= 0x80;
    }
}

/// Entries from some place on.
pub(super) struct SmallWalk<'a> {
    bytes: &'a [u8],
    left: usize,
}

impl<'a> Iterator for SmallWalk<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let (score, mut rest) = self.bytes.split_first_chunk::<SCORE_BYTES>()?;
        let mut len = 0;
        let mut shift = 0;
        loop {
            let (&byte, after) = rest.split_first()?;
            rest = after;
            len |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
            shift += 7;
        }
        let (member, rest) = rest.split_at_checked(len)?;
        self.bytes = rest;
        self.left -= 1;
        Some((member, f64::from_le_bytes(*score)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}
