//! Members in order of (score, bytes), with ranks: a counted B+tree.
//!
//! ```text
//!            inner   [low,count,node][low,count,node] …          up to 128 children
//!                        │                │
//!            leaf  ⇄  [score,member]…  ⇄ [score,member]…  ⇄      up to 128 entries, both ways
//! ```
//!
//! Nodes live in two slabs and name each other by index, so there is no pointer chasing over
//! separate allocations per member and no `unsafe`. Every child carries the number of entries below
//! it; ranks are sums of these. Leaves grow in steps of eight entries, so that a tree filled at
//! random wastes little. A thin node is merged with a neighbour when both fit well in one, and
//! dropped when it is empty; nothing is ever moved between two nodes that stay, because the pair of
//! them is more than half full anyway.
//!
//! Invariants: all leaves are at the same depth; entries ascend within and across leaves; every
//! entry below child `i > 0` is at or above `low` of child `i` and below `low` of child `i + 1`
//! (the `low` of child 0 is never compared); `count` is exact; only the root may be empty.
//!
//! Scores are never NaN: the callers refuse it.

mod edit;
mod walk;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::ops::Range;

use slab::Slab;
use smallvec::SmallVec;

use super::member::Member;
pub(crate) use walk::Iter;

/// Entries in a leaf, and children of an inner node, at most.
///
/// Measured with 100,000 and a million members: 128 is as fast as 64 to fill, faster to rank, and
/// wastes less. Tests use small nodes, so that few members make many levels.
const NODE_MAX: usize = if cfg!(test) { 16 } else { 128 };
/// A node with fewer looks for a neighbour to merge with.
const NODE_MIN: usize = NODE_MAX / 4;
/// Two neighbours merge when they have together at most this many.
const MERGE_MAX: usize = NODE_MAX / 4 * 3;
/// Leaves grow by this many entries.
const GROW: usize = 8;
/// No such node.
const NONE: u32 = u32::MAX;

/// A member with its score.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The score; never NaN.
    pub(crate) score: f64,
    /// The member.
    pub(crate) member: Member,
}

impl Entry {
    /// Compares with a key, first by score, then by bytes.
    #[inline]
    fn compare(&self, score: f64, member: &[u8]) -> Ordering {
        if self.score < score {
            Ordering::Less
        } else if self.score > score {
            Ordering::Greater
        } else {
            self.member.as_bytes().cmp(member)
        }
    }
}

#[derive(Clone)]
struct Leaf {
    entries: Vec<Entry>,
    prev: u32,
    next: u32,
}

#[derive(Clone)]
struct Inner {
    children: Vec<Child>,
}

#[derive(Clone)]
struct Child {
    low: Entry,
    count: usize,
    node: u32,
}

/// One step of the way from the root: the inner node and which of its children was taken.
#[derive(Clone, Copy)]
struct Step {
    inner: u32,
    slot: usize,
}

type Path = SmallVec<[Step; 8]>;

/// Where an entry is: its leaf and the place in it.
#[derive(Clone, Copy)]
struct Place {
    leaf: u32,
    slot: usize,
}

/// The ordered members.
#[derive(Clone)]
pub(crate) struct OrderTree {
    leaves: Slab<Leaf>,
    inners: Slab<Inner>,
    root: u32,
    /// Levels of inner nodes; 0: the root is a leaf.
    height: u32,
    len: usize,
    first: u32,
    last: u32,
    /// Entries that the leaves have room for, for `mem_bytes`.
    leaf_room: usize,
}

impl OrderTree {
    /// An empty tree.
    pub(crate) fn new() -> Self {
        let mut leaves = Slab::new();
        leaves.insert(Leaf { entries: Vec::new(), prev: NONE, next: NONE });
        Self {
            leaves,
            inners: Slab::new(),
            root: 0,
            height: 0,
            len: 0,
            first: 0,
            last: 0,
            leaf_room: 0,
        }
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes held by the nodes, without what long members allocate.
    pub(crate) fn mem_bytes(&self) -> usize {
        self.leaf_room * size_of::<Entry>()
            + self.leaves.capacity() * size_of::<Leaf>()
            + self.inners.len() * NODE_MAX * size_of::<Child>()
    }

    /// How many entries are below (score, member): the rank of the entry, if it is there.
    pub(crate) fn rank(&self, score: f64, member: &[u8]) -> usize {
        self.count_while(|entry| entry.compare(score, member).is_lt())
    }

    /// How many leading entries satisfy `below`, which must hold for a prefix of the order.
    pub(crate) fn count_while(&self, below: impl Fn(&Entry) -> bool) -> usize {
        let mut node = self.root;
        let mut rank = 0;
        for _ in 0..self.height {
            let children = &self.inners[node as usize].children;
            let slot = child_for(children, &below);
            rank += children[..slot].iter().map(|child| child.count).sum::<usize>();
            node = children[slot].node;
        }
        rank + self.leaves[node as usize].entries.partition_point(below)
    }

    /// The entry at `rank`, counted from 0 at the lowest.
    pub(crate) fn nth(&self, rank: usize) -> Option<&Entry> {
        if rank >= self.len {
            return None;
        }
        let place = self.locate(rank);
        self.leaves[place.leaf as usize].entries.get(place.slot)
    }

    /// The entries of a range of ranks, from both ends.
    ///
    /// The range is cut to what there is.
    pub(crate) fn range(&self, ranks: Range<usize>) -> Iter<'_> {
        Iter::new(self, ranks)
    }

    /// The place of the entry at `rank`, which must exist.
    fn locate(&self, mut rank: usize) -> Place {
        if rank + 1 == self.len {
            let slot = self.leaves[self.last as usize].entries.len() - 1;
            return Place { leaf: self.last, slot };
        }
        let mut node = self.root;
        for _ in 0..self.height {
            let children = &self.inners[node as usize].children;
            let mut slot = 0;
            while rank >= children[slot].count {
                rank -= children[slot].count;
                slot += 1;
            }
            node = children[slot].node;
        }
        Place { leaf: node, slot: rank }
    }

    /// Goes down to the leaf where `below` stops to hold, noting the way.
    fn descend(&self, below: impl Fn(&Entry) -> bool) -> (Path, u32) {
        let mut path = Path::new();
        let mut node = self.root;
        for _ in 0..self.height {
            let children = &self.inners[node as usize].children;
            let slot = child_for(children, &below);
            path.push(Step { inner: node, slot });
            node = children[slot].node;
        }
        (path, node)
    }

    /// Goes down to the entry at `rank`, which must exist, noting the way.
    fn descend_rank(&self, mut rank: usize) -> (Path, Place) {
        let mut path = Path::new();
        let mut node = self.root;
        for _ in 0..self.height {
            let children = &self.inners[node as usize].children;
            let mut slot = 0;
            while rank >= children[slot].count {
                rank -= children[slot].count;
                slot += 1;
            }
            path.push(Step { inner: node, slot });
            node = children[slot].node;
        }
        (path, Place { leaf: node, slot: rank })
    }
}

/// The last child whose low end satisfies `below`, or the first.
#[inline]
fn child_for(children: &[Child], below: &impl Fn(&Entry) -> bool) -> usize {
    children[1..].partition_point(|child| below(&child.low))
}
