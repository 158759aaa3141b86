//! What a segment keeps its items in: a dense vector, with one byte of each item's hash beside it.
//!
//! ```text
//! tags  [3f a1 07 c4 … 00 00 00]   32 bytes, in the segment itself; 00 is no item
//! items [ T  T  T  T … ]           one allocation without holes
//! ```
//!
//! A lookup compares all tags with a few word operations and looks at the items whose tag fits, one
//! in most cases. Against a probed table of the same size there are no empty buckets to pay for
//! (about 30 bytes a key in the keyspace) and one cache miss less, because tags and pointer share a
//! line. Items behind the last tag, which are rare, are compared one by one.

/// Items that have a tag.
const TAGS: usize = 32;
/// Places made at a time when the vector is full.
const STEP: usize = 4;

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// A few dozen items.
pub(super) struct Bunch<T> {
    tags: [u8; TAGS],
    items: Vec<T>,
}

impl<T: Clone> Clone for Bunch<T> {
    /// Allocates as much as the original, so that a clone's account of bytes holds.
    fn clone(&self) -> Self {
        let mut items = Vec::with_capacity(self.items.capacity());
        items.extend_from_slice(&self.items);
        Self { tags: self.tags, items }
    }
}

impl<T> Bunch<T> {
    pub(super) const fn new() -> Self {
        Self { tags: [0; TAGS], items: Vec::new() }
    }

    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.items.len()
    }

    /// Bytes allocated for the items.
    pub(super) const fn allocation_size(&self) -> usize {
        self.items.capacity() * size_of::<T>()
    }

    /// Where the item is that `is_it` recognises; its tag is known.
    #[inline]
    pub(super) fn find(&self, tag: u8, is_it: impl Fn(&T) -> bool) -> Option<usize> {
        let wanted = u64::from(tag) * LOW;
        let tagged = self.items.len().min(TAGS);
        for (word, eight) in self.tags[..tagged.next_multiple_of(8)].chunks_exact(8).enumerate() {
            let eight = u64::from_le_bytes(eight.try_into().expect("a chunk has eight bytes"));
            let differs = eight ^ wanted;
            // Marks the bytes that are zero, and now and then one that is not.
            let mut zero = differs.wrapping_sub(LOW) & !differs & HIGH;
            while zero != 0 {
                let at = word * 8 + (zero.trailing_zeros() / 8) as usize;
                if self.items.get(at).is_some_and(&is_it) {
                    return Some(at);
                }
                zero &= zero - 1;
            }
        }
        let behind = self.items.get(TAGS..)?;
        behind.iter().position(is_it).map(|at| TAGS + at)
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<&T> {
        self.items.get(at)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.items.get_mut(at)
    }

    /// Puts an item in that is not there yet.
    pub(super) fn push(&mut self, tag: u8, item: T) {
        let at = self.items.len();
        if at == self.items.capacity() {
            self.items.reserve_exact(STEP);
        }
        if at < TAGS {
            self.tags[at] = tag;
        }
        self.items.push(item);
    }

    /// Takes out the item at a place; the last one moves there.
    pub(super) fn remove(&mut self, at: usize, tag_of: impl Fn(&T) -> u8) -> T {
        let item = self.items.swap_remove(at);
        let len = self.items.len();
        if at < TAGS {
            self.tags[at] = self.items.get(at).map_or(0, tag_of);
        }
        if len < TAGS {
            self.tags[len] = 0;
        }
        item
    }

    /// Takes out all items that `leaves` names and gives them to `to`.
    pub(super) fn extract(
        &mut self,
        mut leaves: impl FnMut(&T) -> bool,
        tag_of: impl Fn(&T) -> u8,
        mut to: impl FnMut(T),
    ) {
        let mut at = 0;
        while at < self.items.len() {
            if leaves(&self.items[at]) {
                to(self.remove(at, &tag_of));
            } else {
                at += 1;
            }
        }
    }

    /// Gives back what is allocated beyond the items and one step.
    pub(super) fn trim(&mut self) {
        if self.items.capacity() - self.items.len() > STEP {
            self.items.shrink_to(self.items.len().next_multiple_of(STEP));
        }
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }

    pub(super) fn into_items(self) -> Vec<T> {
        self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Few tags, so that they collide; more items than tags.
    fn tag_of(n: &u32) -> u8 {
        (n % 3 + 1) as u8
    }

    #[test]
    fn finds_what_is_there_and_nothing_else() {
        let mut bunch = Bunch::new();
        for n in 0..80 {
            assert_eq!(bunch.find(tag_of(&n), |other| *other == n), None);
            bunch.push(tag_of(&n), n);
        }
        for n in 0..80 {
            let at = bunch.find(tag_of(&n), |other| *other == n);
            assert_eq!(at.and_then(|at| bunch.get(at)), Some(&n));
        }
    }

    #[test]
    fn tags_follow_their_items() {
        let mut bunch = Bunch::new();
        (0..80).for_each(|n| bunch.push(tag_of(&n), n));
        let mut gone = Vec::new();
        bunch.extract(|n| n % 4 == 1, tag_of, |n| gone.push(n));
        gone.sort_unstable();
        assert_eq!(gone, (0..80).filter(|n| n % 4 == 1).collect::<Vec<_>>());
        for n in 0..80 {
            let found = bunch.find(tag_of(&n), |other| *other == n).is_some();
            assert_eq!(found, n % 4 != 1, "{n}");
        }
        let kept: Vec<u32> = bunch.iter().copied().collect();
        for n in kept {
            let at = bunch.find(tag_of(&n), |other| *other == n).expect("it is there");
            assert_eq!(bunch.remove(at, tag_of), n);
            assert_eq!(bunch.find(tag_of(&n), |other| *other == n), None);
        }
        assert_eq!(bunch.len(), 0);
        assert_eq!(bunch.tags, [0; TAGS]);
    }
}
