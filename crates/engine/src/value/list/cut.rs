//! Changes in the middle of a list: set, insert, remove, trim.

use super::{ChunkLimit, End, List, Packed, packed_len};

/// On which side of a pivot to insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Nearer to the head.
    Before,
    /// Nearer to the tail.
    After,
}

impl List {
    /// Puts another element in the place of the one with this index; `false` if there is none.
    pub(crate) fn set(&mut self, index: usize, item: &[u8], limit: ChunkLimit) -> bool {
        let Some((i, rest)) = self.locate(index) else { return false };
        let chunk = &self.chunks[i];
        let place = chunk.place(rest);
        let old = chunk.at(place).map_or(0, |elem| packed_len(&elem));
        if chunk.byte_len() - old + packed_len(item) <= limit.max_bytes || chunk.len() == 1 {
            self.change(i, |chunk| chunk.replace(place, item));
        } else {
            // Invariant: the chunk has others left, so it does not become empty.
            self.change(i, |chunk| chunk.remove(place, 1));
            self.len -= 1;
            self.insert_in(i, rest, item, limit);
        }
        true
    }

    /// Inserts next to the first element equal to `pivot`; `false` if there is none.
    pub(crate) fn insert(
        &mut self,
        side: Side,
        pivot: &[u8],
        item: &[u8],
        limit: ChunkLimit,
    ) -> bool {
        let found = self.chunks.iter().enumerate().find_map(|(i, c)| Some((i, c.find(pivot, 0)?)));
        let Some((i, place)) = found else { return false };
        let rest = match side {
            Side::Before => place.index,
            Side::After => place.index + 1,
        };
        self.insert_in(i, rest, item, limit);
        true
    }

    /// Inserts into a chunk before the entry `rest`, or splits it there if it is full.
    fn insert_in(&mut self, i: usize, rest: usize, item: &[u8], limit: ChunkLimit) {
        let bytes = packed_len(item);
        self.len += 1;
        if limit.accepts(&self.chunks[i], bytes) {
            return self.change(i, |chunk| chunk.insert_at(rest, item));
        }
        let behind = self.change(i, |chunk| chunk.split_off(chunk.place(rest)));
        self.chunk_bytes += behind.mem_bytes();
        let new = Packed::from_iter([item]);
        self.chunk_bytes += new.mem_bytes();
        let parts = [behind, new];
        for part in parts {
            if !part.is_empty() {
                self.chunks.insert(i + 1, part);
            }
        }
        let first = if self.chunks[i].is_empty() {
            self.chunk_bytes -= self.chunks[i].mem_bytes();
            self.chunks.remove(i);
            i
        } else {
            i + 1
        };
        self.merge_around(first, limit);
    }

    /// Joins a chunk that was just made with its neighbours, if they are small enough together.
    fn merge_around(&mut self, i: usize, limit: ChunkLimit) {
        for left in [Some(i), i.checked_sub(1)].into_iter().flatten() {
            let (Some(a), Some(b)) = (self.chunks.get(left), self.chunks.get(left + 1)) else {
                continue;
            };
            if a.byte_len() + b.byte_len() > limit.max_bytes
                || a.len() + b.len() > limit.max_entries
            {
                continue;
            }
            let right = self.chunks.remove(left + 1).expect("both were just seen");
            self.chunk_bytes -= right.mem_bytes();
            self.change(left, |chunk| right.iter().for_each(|elem| chunk.push_back(&elem)));
        }
    }

    /// Takes out elements equal to `item`, at most `max`, the ones nearest to an end first; returns
    /// how many.
    pub(crate) fn remove(&mut self, item: &[u8], max: usize, from: End) -> usize {
        let mut left = max;
        let mut i = match from {
            End::Head => 0,
            End::Tail => self.chunks.len(),
        };
        while left > 0 {
            let index = match from {
                End::Head if i < self.chunks.len() => i,
                End::Tail if i > 0 => i - 1,
                _ => break,
            };
            let removed = self.change(index, |chunk| {
                // From the tail, matches are counted first, so that the pass can spare the earliest.
                let spare = match from {
                    End::Head => 0,
                    End::Tail => chunk.count_equal(item).saturating_sub(left),
                };
                let last = spare.saturating_add(left);
                chunk.remove_equal(item, |n| n >= spare && n < last)
            });
            left -= removed;
            self.len -= removed;
            let emptied = self.chunks[index].is_empty();
            self.drop_if_empty(index);
            match from {
                End::Head => i += usize::from(!emptied),
                End::Tail => i -= 1,
            }
        }
        max - left
    }

    /// Keeps only the elements from `start` on, `count` of them.
    pub(crate) fn trim(&mut self, start: usize, count: usize) {
        let start = start.min(self.len);
        self.cut_head(start);
        self.cut_tail(self.len.saturating_sub(count));
    }

    /// Takes out the first `count` elements.
    pub(crate) fn cut_head(&mut self, count: usize) {
        let mut left = count.min(self.len);
        self.len -= left;
        while left > 0 {
            let chunk = &self.chunks[0];
            if chunk.len() <= left {
                left -= chunk.len();
                self.chunk_bytes -= chunk.mem_bytes();
                self.chunks.pop_front();
            } else {
                self.change(0, |chunk| chunk.remove_at(0, left));
                left = 0;
            }
        }
        self.fit_chunks();
    }

    /// Takes out the last `count` elements.
    pub(crate) fn cut_tail(&mut self, count: usize) {
        let mut left = count.min(self.len);
        self.len -= left;
        while left > 0 {
            let last = self.chunks.len() - 1;
            let chunk = &self.chunks[last];
            if chunk.len() <= left {
                left -= chunk.len();
                self.chunk_bytes -= chunk.mem_bytes();
                self.chunks.pop_back();
            } else {
                self.change(last, |chunk| chunk.remove_at(chunk.len() - left, left));
                left = 0;
            }
        }
        self.fit_chunks();
    }
}
