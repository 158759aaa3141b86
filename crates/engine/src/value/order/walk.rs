//! Walking a range of the order from either end, along the links between the leaves.

use std::iter::FusedIterator;
use std::ops::Range;

use super::{Entry, OrderTree, Place};

/// The entries of a range of ranks, in order; reversible.
pub(crate) struct Iter<'a> {
    tree: &'a OrderTree,
    front: Place,
    back: Place,
    left: usize,
}

impl<'a> Iter<'a> {
    pub(super) fn new(tree: &'a OrderTree, ranks: Range<usize>) -> Self {
        let end = ranks.end.min(tree.len);
        let left = end.saturating_sub(ranks.start);
        if left == 0 {
            let nowhere = Place { leaf: tree.first, slot: 0 };
            return Self { tree, front: nowhere, back: nowhere, left };
        }
        Self { tree, front: tree.locate(ranks.start), back: tree.locate(end - 1), left }
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a Entry;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let leaf = &self.tree.leaves[self.front.leaf as usize];
        let entry = &leaf.entries[self.front.slot];
        self.front.slot += 1;
        if self.front.slot == leaf.entries.len() {
            self.front = Place { leaf: leaf.next, slot: 0 };
        }
        Some(entry)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let leaf = &self.tree.leaves[self.back.leaf as usize];
        let entry = &leaf.entries[self.back.slot];
        if self.back.slot > 0 {
            self.back.slot -= 1;
        } else if self.left > 0 {
            let slot = self.tree.leaves[leaf.prev as usize].entries.len() - 1;
            self.back = Place { leaf: leaf.prev, slot };
        }
        Some(entry)
    }
}

impl ExactSizeIterator for Iter<'_> {}
impl FusedIterator for Iter<'_> {}
