//! The compact form: one buffer of entries in order.
//!
//! ```text
//! [score][length of the member: LEB128][member] …
//!
//! whole score:  c vvvvvv 0   c vvvvvvv …     zigzag, lowest bits first, c: another byte follows
//! any other:    0 000000 1   8 bytes, little endian
//! ```
//!
//! Most scores are whole and small, so an entry costs two or three bytes more than its member.
//! Everything is a walk from the front, which is what makes it compact; the limits keep it short.
//! Invariant: the buffer holds exactly `len` whole entries, ascending by (score, bytes).

use std::ops::Range;

use crate::number;

/// The first byte of a score that is not written as an integer.
const RAW: u8 = 1;
/// Integers up to this size are shorter than the eight bytes of a double.
const WHOLE_MAX: i64 = 1 << 46;
/// The longest score and length together.
const HEAD_MAX: usize = 9 + 10;

/// A small sorted set.
#[derive(Clone)]
pub(super) struct Small {
    bytes: Vec<u8>,
    len: usize,
}

/// Where a member was found.
pub(super) struct Found {
    bytes: Range<usize>,
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
                let bytes = offset..self.bytes.len() - walk.bytes.len();
                return Some(Found { bytes, rank, score });
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

    /// Removes what [`Small::find`] found.
    pub(super) fn remove(&mut self, found: Found) {
        self.bytes.drain(found.bytes);
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

    /// The same ranks, found from the high end; others when the entries are in no order of these
    /// conditions.
    pub(super) fn ranks_back(
        &self,
        misses: impl Fn(&[u8], f64) -> bool,
        reaches: impl Fn(&[u8], f64) -> bool,
    ) -> Range<usize> {
        let entries: Vec<(&[u8], f64)> = self.walk(0..self.len).collect();
        let holds = |at: usize, condition: &dyn Fn(&[u8], f64) -> bool| {
            let (member, score) = entries[at];
            condition(member, score)
        };
        let last = (0..entries.len()).rev().find(|&at| holds(at, &reaches));
        let Some(last) = last else { return 0..0 };
        let before = (0..=last).rev().find(|&at| holds(at, &misses));
        before.map_or(0, |at| at + 1)..last + 1
    }

    fn put(&mut self, offset: usize, score: f64, member: &[u8]) {
        let mut head = Head { bytes: [0; HEAD_MAX], len: 0 };
        head.score(score);
        head.leb128(member.len() as u64);
        let head = &head.bytes[..head.len];
        let size = head.len() + member.len();
        let old = self.bytes.len();
        if self.bytes.capacity() - old < size {
            // Little slack: sets of this form are many, so doubling would waste too much.
            self.bytes.reserve_exact(size + old / 16);
        }
        self.bytes.resize(old + size, 0);
        self.bytes.copy_within(offset..old, offset + size);
        let (place, rest) = self.bytes[offset..].split_at_mut(head.len());
        place.copy_from_slice(head);
        rest[..member.len()].copy_from_slice(member);
        self.len += 1;
    }
}

/// What stands before a member.
struct Head {
    bytes: [u8; HEAD_MAX],
    len: usize,
}

impl Head {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Redis: whole scores are kept as integers here, which loses the sign of zero.
    fn score(&mut self, score: f64) {
        match number::integral(score) {
            Some(whole) if whole.abs() <= WHOLE_MAX => {
                let zigzag = ((whole << 1) ^ (whole >> 63)) as u64;
                self.leb128(zigzag << 1);
            }
            _ => {
                self.push(&[RAW]);
                self.push(&score.to_le_bytes());
            }
        }
    }

    /// Seven bits a byte, lowest first, the high bit set on all but the last.
    fn leb128(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.push(&[n as u8 | 0x80]);
            n >>= 7;
        }
        self.push(&[n as u8]);
    }
}

/// Reads a number and returns what is behind it.
#[inline]
fn read_leb128(mut bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut n = 0;
    let mut shift = 0;
    loop {
        let (&byte, rest) = bytes.split_first()?;
        bytes = rest;
        n |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((n, bytes));
        }
        shift += 7;
    }
}

/// Reads a score and returns what is behind it.
#[inline]
fn read_score(bytes: &[u8]) -> Option<(f64, &[u8])> {
    if *bytes.first()? == RAW {
        let (raw, rest) = bytes[1..].split_first_chunk::<8>()?;
        return Some((f64::from_le_bytes(*raw), rest));
    }
    let (n, rest) = read_leb128(bytes)?;
    let zigzag = n >> 1;
    let whole = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
    Some((whole as f64, rest))
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
        let (score, rest) = read_score(self.bytes)?;
        let (len, rest) = read_leb128(rest)?;
        let (member, rest) = rest.split_at_checked(len as usize)?;
        self.bytes = rest;
        self.left -= 1;
        Some((member, score))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}
