//! How many nodes a server's radix tree over stream ids has, counted from the ids as they pass by.
//!
//! A server indexes the pieces of a stream and the pending entries of each group and consumer by their
//! ids, and `MEMORY USAGE` counts a quarter of a KiB for each node of those trees: with many pending
//! entries they are most of a stream. How many nodes there are depends on the ids. A few that lie far
//! apart have two nodes each, thousands that were added in the same second share nearly all of theirs.
//!
//! A tree has a node for each id, one wherever ids part, and one for each run of bytes between those.
//! Ids stand in the file in their order, so each is compared with the one before alone, and the only
//! thing remembered is where the last one parted from earlier ones: a mark for each of its bytes.
//!
//! What is not in order (a damaged file) gives a wrong count and does no other harm.

/// The bytes of an id.
pub(super) const ID: usize = 16;

/// The nodes of one tree.
#[derive(Debug, Default)]
pub(super) struct Index {
    ids: u64,
    nodes: u64,
    last: [u8; ID],
    /// At which bytes of the last id others part from it; from the root down.
    parted: [bool; ID],
}

impl Index {
    /// Takes the next id, greater than all before.
    pub(super) fn add(&mut self, id: [u8; ID]) {
        if self.ids > 0 {
            let parts = self.last.iter().zip(&id).position(|(one, other)| one != other);
            // The same once more: the tree does not change.
            let Some(parts) = parts else { return };
            let below = self.count_below(parts + 1);
            self.nodes += u64::from(below > parts + 1);
            self.parted[parts] = true;
        }
        self.ids += 1;
        self.last = id;
    }

    /// Counts the nodes of the last id from this byte on, which no later id can change: its end, where
    /// others parted from it, and the runs of bytes between those. At which byte the first of them is.
    fn count_below(&mut self, from: usize) -> usize {
        let mut below = ID;
        self.nodes += 1;
        for depth in (from..ID).rev() {
            if std::mem::take(&mut self.parted[depth]) {
                self.nodes += 1 + u64::from(below > depth + 1);
                below = depth;
            }
        }
        below
    }

    /// How many ids there are.
    pub(super) fn ids(&self) -> u64 {
        self.ids
    }

    /// How many nodes their tree has.
    pub(super) fn nodes(mut self) -> u64 {
        if self.ids == 0 {
            // The root is always there.
            return 1;
        }
        let first = self.count_below(0);
        // What all have in common.
        self.nodes + u64::from(first > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(ids: impl IntoIterator<Item = (u64, u64)>) -> u64 {
        let mut index = Index::default();
        for (millis, number) in ids {
            let mut id = [0; ID];
            id[..8].copy_from_slice(&millis.to_be_bytes());
            id[8..].copy_from_slice(&number.to_be_bytes());
            index.add(id);
        }
        index.nodes()
    }

    #[test]
    fn nodes_are_those_of_the_tree() {
        assert_eq!(nodes([]), 1, "the root");
        assert_eq!(nodes([(1, 1)]), 2, "sixteen bytes and their end");
        assert_eq!(nodes([(1, 1), (1, 1)]), 2);
        // Fifteen bytes in common, then two ends.
        assert_eq!(nodes([(1, 1), (1, 2)]), 4);
        // Seven in common; eight to each of the ends.
        assert_eq!(nodes([(1, 0), (2, 0)]), 6);
        // They part at once.
        assert_eq!(nodes([(1 << 56, 0), (2 << 56, 0)]), 5);
        // 256 ends below one byte; with one more the byte before parts as well.
        assert_eq!(nodes((0..256).map(|number| (1, number))), 258);
        assert_eq!(nodes((0..257).map(|number| (1, number))), 261);
        // (1, 0) and (1, 1) lie below one node, (3, 0) beside it.
        assert_eq!(nodes([(1, 0), (1, 1), (3, 0)]), 8);
    }
}
