//! Where a table keeps its segments, and the arithmetic of linear hashing.
//!
//! The first segment lives inside the table itself, so a small collection costs one allocation
//! (its buckets) and an empty one none. The others live in blocks of a fixed length: growing never
//! moves more than one block, however large the table is.
//!
//! With `n` segments and `2^L <= n < 2^(L+1)`, an index is the low `L + 1` bits of the hash if that
//! segment exists, else the low `L` bits. Adding segment `n` therefore takes items from exactly one
//! other segment (`n` without its highest bit), and removing it gives them back.

use super::bunch::Bunch;

/// Segments in a block; a power of two.
const BLOCK: usize = 1024;

/// A few dozen items and a lower bound of the deadlines among them. With its tags it fills one
/// cache line.
#[derive(Clone)]
pub(super) struct Segment<T> {
    pub(super) items: Bunch<T>,
    /// Invariant: no item in the segment has an earlier deadline.
    pub(super) min_deadline: i64,
}

impl<T> Segment<T> {
    pub(super) const fn new() -> Self {
        Self { items: Bunch::new(), min_deadline: i64::MAX }
    }
}

/// All segments of a table; there is always at least one.
#[derive(Clone)]
pub(super) struct Segments<T> {
    first: Segment<T>,
    blocks: Vec<Vec<Segment<T>>>,
    len: usize,
    /// The smallest `2^k - 1` that is at least `len - 1`.
    mask: u64,
}

impl<T> Segments<T> {
    pub(super) const fn new() -> Self {
        Self { first: Segment::new(), blocks: Vec::new(), len: 1, mask: 0 }
    }

    /// How many there are, at least 1.
    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Which segment an item with this hash belongs to.
    #[inline]
    pub(super) const fn index_of(&self, hash: u64) -> usize {
        let index = (hash & self.mask) as usize;
        if index < self.len { index } else { index & (self.mask >> 1) as usize }
    }

    /// How many low bits of the hash the items of a segment have in common.
    pub(super) const fn bits_of(&self, index: usize) -> u32 {
        let wide = self.mask.count_ones();
        // The partner differs in the highest bit only; if it is absent, this one serves both.
        let top = (self.mask as usize + 1) >> 1;
        if index & top == 0 && index | top >= self.len { wide.saturating_sub(1) } else { wide }
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> &Segment<T> {
        match index.checked_sub(1) {
            None => &self.first,
            Some(i) => &self.blocks[i / BLOCK][i % BLOCK],
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: usize) -> &mut Segment<T> {
        match index.checked_sub(1) {
            None => &mut self.first,
            Some(i) => &mut self.blocks[i / BLOCK][i % BLOCK],
        }
    }

    /// Which segment gives items to the next one to be added, and the mask that tells them apart:
    /// an item moves if its hash under the mask is the new segment's index.
    pub(super) const fn next_split(&self) -> (usize, u64) {
        let mask = (self.len as u64 + 1).next_power_of_two() - 1;
        (self.len & (mask >> 1) as usize, mask)
    }

    /// Adds a segment; its index is the old length.
    pub(super) fn push(&mut self, segment: Segment<T>) {
        let i = self.len - 1;
        if i.is_multiple_of(BLOCK) {
            // The first block grows as a vector does, later ones are worth their full length.
            let capacity = if i == 0 { 1 } else { BLOCK };
            self.blocks.push(Vec::with_capacity(capacity));
        }
        self.blocks[i / BLOCK].push(segment);
        self.set_len(self.len + 1);
    }

    /// Removes the last segment, unless it is the only one. Returns it and the segment that
    /// inherits its items.
    pub(super) fn pop(&mut self) -> Option<(Segment<T>, usize)> {
        let last = self.blocks.last_mut()?;
        let segment = last.pop().expect("a block is dropped when it becomes empty");
        if last.is_empty() {
            self.blocks.pop();
        } else if last.len() * 4 <= last.capacity() {
            last.shrink_to(last.len() * 2);
        }
        self.set_len(self.len - 1);
        let (heir, _) = self.next_split();
        Some((segment, heir))
    }

    const fn set_len(&mut self, len: usize) {
        self.len = len;
        self.mask = (len as u64).next_power_of_two() - 1;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Segment<T>> {
        std::iter::once(&self.first).chain(self.blocks.iter().flatten())
    }

    pub(super) fn into_iter(self) -> impl Iterator<Item = Segment<T>> {
        std::iter::once(self.first).chain(self.blocks.into_iter().flatten())
    }

    /// Bytes allocated for the segments themselves, without their buckets.
    pub(super) fn block_bytes(&self) -> usize {
        // All blocks but the first and the last have exactly BLOCK; no need to visit them.
        let ends = match self.blocks.as_slice() {
            [] => 0,
            [only] => only.capacity(),
            [first, middle @ .., last] => first.capacity() + middle.len() * BLOCK + last.capacity(),
        };
        ends * size_of::<Segment<T>>() + self.blocks.capacity() * size_of::<Vec<Segment<T>>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_and_ranges_stay_consistent_while_growing_and_shrinking() {
        let mut segments = Segments::<u8>::new();
        let check = |s: &Segments<u8>| {
            let mut covered = 0u128;
            for i in 0..s.len() {
                let bits = s.bits_of(i);
                assert_eq!(i as u64 & ((1 << bits) - 1), i as u64, "{i} of {}", s.len());
                covered += 1u128 << (64 - bits);
                // Every hash with these low bits belongs here.
                for high in [0u64, 1, 2, 3, 0x5555] {
                    assert_eq!(s.index_of(i as u64 | high << bits), i, "{i} of {}", s.len());
                }
            }
            assert_eq!(covered, 1u128 << 64);
        };
        for _ in 0..70 {
            check(&segments);
            segments.push(Segment::new());
        }
        for n in 71..2500 {
            assert_eq!(segments.len(), n);
            segments.push(Segment::new());
        }
        check(&segments);
        while let Some((_, heir)) = segments.pop() {
            assert!(heir < segments.len());
        }
        assert_eq!(segments.len(), 1);
        assert_eq!(segments.index_of(u64::MAX), 0);
    }
}
