//! Counts the nodes of a server's radix tree over stream ids, from the ids as they are read.
//!
//! A server indexes the pieces of a stream and the pending entries of each group and consumer by
//! their ids, and `MEMORY USAGE` counts a quarter of a KiB for each node of those trees: with many
//! pending entries they are most of a stream. The number of nodes depends on the ids. A few ids
//! that are far apart have two nodes each; thousands that were added in the same second share
//! nearly all of theirs.
//!
//! A tree has a node for each id, one wherever ids diverge, and one for each run of bytes between
//! those. Ids are in order in the file, so each is only compared with the one before. The only
//! state is where the last id diverged from earlier ones: a mark for each of its bytes.
//!
//! Ids out of order (a damaged file) give a wrong count and do no other harm.

/// The bytes of an id.
pub(super) const ID: usize = 16;

/// Counts the nodes of one tree.
#[derive(Debug, Default)]
pub(super) struct Index {
    ids: u64,
    nodes: u64,
    last: [u8; ID],
    /// The bytes of the last id at which other ids diverge from it; from the root down.
    parted: [bool; ID],
}

impl Index {
    /// Adds the next id, greater than all before.
    pub(super) fn add(&mut self, id: [u8; ID]) {
        if self.ids > 0 {
            let parts = self.last.iter().zip(&id).position(|(one, other)| one != other);
            // The same id again: the tree does not change.
            let Some(parts) = parts else { return };
            let below = self.count_below(parts + 1);
            self.nodes += u64::from(below > parts + 1);
            self.parted[parts] = true;
        }
        self.ids += 1;
        self.last = id;
    }

    /// Counts the nodes of the last id from this byte on, which no later id can change: its end,
    /// the bytes at which others diverged from it, and the runs of bytes between those. Returns the
    /// byte of the first of them.
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

    /// Returns the number of ids.
    pub(super) fn ids(&self) -> u64 {
        self.ids
    }

    /// Returns the number of nodes of their tree.
    pub(super) fn nodes(mut self) -> u64 {
        if self.ids == 0 {
            // The root always exists.
            return 1;
        }
        let first = self.count_below(0);
        // The prefix that all ids have in common.
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
        // They diverge at the first byte.
        assert_eq!(nodes([(1 << 56, 0), (2 << 56, 0)]), 5);
        // 256 ends below one byte; with one more the byte before diverges as well.
        assert_eq!(nodes((0..256).map(|number| (1, number))), 258);
        assert_eq!(nodes((0..257).map(|number| (1, number))), 261);
        // (1, 0) and (1, 1) are below one node, (3, 0) beside it.
        assert_eq!(nodes([(1, 0), (1, 1), (3, 0)]), 8);
    }
}
