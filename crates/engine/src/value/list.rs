//! The list type: a deque of packed chunks.
//!
//! Chunks are bounded (8 KiB unless configured otherwise), so both ends and the middle cost at most
//! a move of that much, and memory stays near the bytes stored. An index is found by adding up
//! chunk lengths from the nearer end. An element too large for any chunk gets a separate one.
//!
//! Invariants: no chunk is empty; `len` and `chunk_bytes` are exact sums over the chunks.

mod cut;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

pub(crate) use cut::Side;

use super::{
    elem::Elem,
    packed::{Packed, packed_len},
};

/// Bytes of a chunk whose bound is a number of entries.
const SAFE_CHUNK_BYTES: usize = 8192;

/// The bound of a chunk, from `list-max-listpack-size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkLimit {
    max_bytes: usize,
    max_entries: usize,
}

impl ChunkLimit {
    /// Redis: -1 to -5 are 4 to 64 KiB, positive numbers a count of entries.
    pub(crate) const fn from_config(fill: i64) -> Self {
        match fill {
            ..=-5 => Self::bytes(65_536),
            -4 => Self::bytes(32_768),
            -3 => Self::bytes(16_384),
            -2 => Self::bytes(8192),
            -1 => Self::bytes(4096),
            0 => Self { max_bytes: SAFE_CHUNK_BYTES, max_entries: 1 },
            n => Self { max_bytes: SAFE_CHUNK_BYTES, max_entries: n as usize },
        }
    }

    const fn bytes(max_bytes: usize) -> Self {
        Self { max_bytes, max_entries: usize::MAX }
    }

    /// Returns `true` if a chunk may take another entry of this many bytes.
    #[inline]
    const fn accepts(&self, chunk: &Packed, entry_bytes: usize) -> bool {
        chunk.byte_len() + entry_bytes <= self.max_bytes && chunk.len() < self.max_entries
    }
}

impl Default for ChunkLimit {
    fn default() -> Self {
        Self::from_config(-2)
    }
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Where index 0 is; the left one.
    Head,
    /// Where index -1 is; the right one.
    Tail,
}

/// A sequence of byte strings.
#[derive(Clone, Debug, Default)]
pub(crate) struct List {
    chunks: VecDeque<Packed>,
    len: usize,
    chunk_bytes: usize,
}

impl List {
    /// An empty list, which allocates nothing yet.
    pub(crate) const fn new() -> Self {
        Self { chunks: VecDeque::new(), len: 0, chunk_bytes: 0 }
    }

    /// How many elements it has.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes allocated, beyond the list's own size.
    pub(crate) fn mem_bytes(&self) -> usize {
        self.chunk_bytes + self.chunks.capacity() * size_of::<Packed>()
    }

    /// Adds an element at an end.
    pub(crate) fn push(&mut self, end: End, item: &[u8], limit: ChunkLimit) {
        let bytes = packed_len(item);
        let last = match end {
            End::Head => self.chunks.front_mut(),
            End::Tail => self.chunks.back_mut(),
        };
        let fits = last.as_deref().is_some_and(|chunk| limit.accepts(chunk, bytes));
        if !fits {
            if let Some(full) = last {
                // It will hardly grow again.
                let before = full.mem_bytes();
                full.fit();
                self.chunk_bytes = self.chunk_bytes + full.mem_bytes() - before;
            }
            if self.chunks.is_empty() {
                // Most lists stay within one chunk.
                self.chunks.reserve_exact(1);
            }
            match end {
                End::Head => self.chunks.push_front(Packed::new()),
                End::Tail => self.chunks.push_back(Packed::new()),
            }
        }
        let index = match end {
            End::Head => 0,
            End::Tail => self.chunks.len() - 1,
        };
        self.change(index, |chunk| match end {
            End::Head => chunk.push_front(item),
            End::Tail => chunk.push_back(item),
        });
        self.len += 1;
    }

    /// The element at an end.
    #[inline]
    pub(crate) fn peek(&self, end: End) -> Option<Elem<'_>> {
        match end {
            End::Head => self.chunks.front()?.iter().next(),
            End::Tail => self.chunks.back()?.iter_rev().next(),
        }
    }

    /// Takes out the element at an end, if there is one.
    pub(crate) fn pop(&mut self, end: End) {
        if self.is_empty() {
            return;
        }
        let index = match end {
            End::Head => 0,
            End::Tail => self.chunks.len() - 1,
        };
        self.change(index, |chunk| match end {
            End::Head => chunk.drop_front(),
            End::Tail => chunk.drop_back(),
        });
        self.len -= 1;
        self.drop_if_empty(index);
    }

    /// The element with this index.
    pub(crate) fn get(&self, index: usize) -> Option<Elem<'_>> {
        let (chunk, rest) = self.locate(index)?;
        self.chunks[chunk].get(rest)
    }

    /// All elements from the head.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Elem<'_>> {
        self.chunks.iter().flat_map(Packed::iter)
    }

    /// The elements from an index on.
    pub(crate) fn iter_from(&self, index: usize) -> impl Iterator<Item = Elem<'_>> {
        let (first, rest) = self.locate(index).unwrap_or((self.chunks.len(), 0));
        let head = self.chunks.get(first).map(|chunk| chunk.iter_from(chunk.place(rest)));
        head.into_iter().flatten().chain(self.chunks.range_from(first + 1).flat_map(Packed::iter))
    }

    /// All elements from the tail.
    pub(crate) fn iter_rev(&self) -> impl Iterator<Item = Elem<'_>> {
        self.chunks.iter().rev().flat_map(Packed::iter_rev)
    }

    /// The chunk that has the element with this index, and the index within.
    fn locate(&self, index: usize) -> Option<(usize, usize)> {
        if index >= self.len {
            return None;
        }
        if index < self.len / 2 {
            let mut rest = index;
            for (i, chunk) in self.chunks.iter().enumerate() {
                if rest < chunk.len() {
                    return Some((i, rest));
                }
                rest -= chunk.len();
            }
        } else {
            let mut behind = self.len - index;
            for (i, chunk) in self.chunks.iter().enumerate().rev() {
                if behind <= chunk.len() {
                    return Some((i, chunk.len() - behind));
                }
                behind -= chunk.len();
            }
        }
        None
    }

    /// Changes a chunk and keeps count of its allocation.
    #[inline]
    fn change<R>(&mut self, index: usize, f: impl FnOnce(&mut Packed) -> R) -> R {
        let chunk = &mut self.chunks[index];
        let before = chunk.mem_bytes();
        let result = f(chunk);
        self.chunk_bytes = self.chunk_bytes + chunk.mem_bytes() - before;
        result
    }

    fn drop_if_empty(&mut self, index: usize) {
        if self.chunks[index].is_empty() {
            self.chunk_bytes -= self.chunks[index].mem_bytes();
            self.chunks.remove(index);
            self.fit_chunks();
        }
    }

    fn fit_chunks(&mut self) {
        if self.chunks.capacity() > 64 && self.chunks.len() * 4 < self.chunks.capacity() {
            self.chunks.shrink_to(self.chunks.len() * 2);
        }
    }
}

/// The part of a deque from an index on, which may be beyond its end.
trait RangeFrom<T> {
    fn range_from(&self, from: usize) -> std::collections::vec_deque::Iter<'_, T>;
}

impl<T> RangeFrom<T> for VecDeque<T> {
    fn range_from(&self, from: usize) -> std::collections::vec_deque::Iter<'_, T> {
        self.range(from.min(self.len())..)
    }
}
