//! Changing the order tree: insert, move to another score, remove one or a run.
//!
//! Counts are corrected along the noted path before any node is split or merged, so that a split
//! or a merge only has to look at the node, its parent and one neighbour.

use super::{
    Child, Entry, GROW, Inner, Leaf, MERGE_MAX, Member, NODE_MAX, NODE_MIN, NONE, OrderTree, Path,
    Place,
};

impl OrderTree {
    /// Adds an entry that is not there yet.
    pub(crate) fn insert(&mut self, score: f64, member: Member) {
        let below = |entry: &Entry| entry.compare(score, member.as_bytes()).is_lt();
        // Invariant: an entry that equals a low end belongs to the right of it, where `find` looks;
        // a low end may be that of an entry that was removed and comes back now.
        let (path, at) = self.descend(|entry| entry.compare(score, member.as_bytes()).is_le());
        for step in &path {
            self.inners[step.inner as usize].children[step.slot].count += 1;
        }
        self.len += 1;
        let leaf = &mut self.leaves[at as usize];
        let slot = leaf.entries.partition_point(below);
        let entry = Entry { score, member };
        if leaf.entries.len() < NODE_MAX {
            self.leaf_room += insert_growing(&mut leaf.entries, slot, entry);
        } else {
            self.split_leaf(path, at, slot, entry);
        }
    }

    /// Gives the entry (from, member) the score `to`.
    ///
    /// Returns whether the entry was there.
    pub(crate) fn rescore(&mut self, from: f64, member: &[u8], to: f64) -> bool {
        let Some((path, place)) = self.find(from, member) else { return false };
        let leaf = &mut self.leaves[place.leaf as usize];
        let above_prev = match place.slot.checked_sub(1) {
            Some(prev) => leaf.entries[prev].compare(to, member).is_lt(),
            None => leaf.prev == NONE,
        };
        let below_next = match leaf.entries.get(place.slot + 1) {
            Some(next) => next.compare(to, member).is_gt(),
            None => leaf.next == NONE,
        };
        if above_prev && below_next {
            leaf.entries[place.slot].score = to;
            return true;
        }
        let member = leaf.entries[place.slot].member.clone();
        self.cut(path, place, 1, |_| ());
        self.insert(to, member);
        true
    }

    /// Removes the entry (score, member), if it is there.
    pub(crate) fn remove(&mut self, score: f64, member: &[u8]) -> bool {
        let found = self.find(score, member);
        if let Some((path, place)) = found {
            self.cut(path, place, 1, |_| ());
            return true;
        }
        false
    }

    /// Removes `count` entries from `rank` on, as far as there are, and hands each to `removed`.
    pub(crate) fn remove_ranks(
        &mut self,
        rank: usize,
        mut count: usize,
        mut removed: impl FnMut(Entry),
    ) {
        while count > 0 && rank < self.len {
            let (path, place) = self.descend_rank(rank);
            count -= self.cut(path, place, count, &mut removed);
        }
    }

    fn find(&self, score: f64, member: &[u8]) -> Option<(Path, Place)> {
        let (path, leaf) = self.descend(|entry| entry.compare(score, member).is_le());
        let entries = &self.leaves[leaf as usize].entries;
        let slot = entries.partition_point(|entry| entry.compare(score, member).is_lt());
        let entry = entries.get(slot)?;
        (entry.member.as_bytes() == member && entry.score == score)
            .then_some((path, Place { leaf, slot }))
    }

    /// Splits a full leaf and adds `entry` at `slot` of what it was.
    fn split_leaf(&mut self, path: Path, left_id: u32, slot: usize, entry: Entry) {
        let right_id = self.leaves.vacant_key() as u32;
        let left = &mut self.leaves[left_id as usize];
        let room_before = left.entries.capacity();
        let len = left.entries.len();
        // Sets filled in order of score, up or down, get full leaves.
        let mut right_entries;
        if slot == len && left.next == NONE {
            right_entries = Vec::with_capacity(GROW);
            right_entries.push(entry);
        } else if slot == 0 && left.prev == NONE {
            let mut alone = Vec::with_capacity(GROW);
            alone.push(entry);
            right_entries = std::mem::replace(&mut left.entries, alone);
        } else {
            let at = len / 2;
            right_entries = Vec::with_capacity(len - at + GROW);
            right_entries.extend(left.entries.drain(at..));
            left.entries.shrink_to(at + GROW);
            if slot < at {
                left.entries.insert(slot, entry);
            } else {
                right_entries.insert(slot - at, entry);
            }
        }
        let left_len = left.entries.len();
        let left_low = left.entries[0].clone();
        let next = std::mem::replace(&mut left.next, right_id);
        let room_after = left.entries.capacity() + right_entries.capacity();
        self.leaf_room = self.leaf_room + room_after - room_before;
        let right =
            Child { low: right_entries[0].clone(), count: right_entries.len(), node: right_id };
        self.leaves.insert(Leaf { entries: right_entries, prev: left_id, next });
        match self.leaves.get_mut(next as usize) {
            Some(after) if next != NONE => after.prev = right_id,
            _ => self.last = right_id,
        }
        self.add_child(path, left_low, left_len, right);
    }

    /// Hangs a new right neighbour of the node that `path` leads to into its parent.
    ///
    /// `left_count` is what remains below the node that was split.
    fn add_child(&mut self, mut path: Path, left_low: Entry, left_count: usize, right: Child) {
        let mut left_low = left_low;
        let mut left_count = left_count;
        let mut right = right;
        while let Some(step) = path.pop() {
            let new_id = self.inners.vacant_key() as u32;
            let children = &mut self.inners[step.inner as usize].children;
            children[step.slot].count = left_count;
            if children.len() < NODE_MAX {
                children.insert(step.slot + 1, right);
                return;
            }
            let mut tail = Vec::with_capacity(NODE_MAX);
            if step.slot + 1 == children.len() {
                tail.push(right);
            } else {
                tail.extend(children.drain(NODE_MAX / 2..));
                if step.slot < NODE_MAX / 2 {
                    children.insert(step.slot + 1, right);
                } else {
                    tail.insert(step.slot + 1 - NODE_MAX / 2, right);
                }
            }
            left_low = children[0].low.clone();
            left_count = children.iter().map(|child| child.count).sum();
            let count = tail.iter().map(|child| child.count).sum();
            right = Child { low: tail[0].low.clone(), count, node: new_id };
            self.inners.insert(Inner { children: tail });
        }
        let mut children = Vec::with_capacity(NODE_MAX);
        children.push(Child { low: left_low, count: left_count, node: self.root });
        children.push(right);
        self.root = self.inners.insert(Inner { children }) as u32;
        self.height += 1;
    }

    /// Removes up to `count` entries from `place` to the end of its leaf; says how many.
    fn cut(&mut self, path: Path, place: Place, count: usize, removed: impl FnMut(Entry)) -> usize {
        let leaf = &mut self.leaves[place.leaf as usize];
        let end = leaf.entries.len().min(place.slot.saturating_add(count));
        let cut = end - place.slot;
        leaf.entries.drain(place.slot..end).for_each(removed);
        let room = leaf.entries.capacity();
        if room > leaf.entries.len() + 3 * GROW {
            leaf.entries.shrink_to(leaf.entries.len() + GROW);
            self.leaf_room = self.leaf_room + leaf.entries.capacity() - room;
        }
        let thin = leaf.entries.len() < NODE_MIN;
        self.len -= cut;
        for step in &path {
            self.inners[step.inner as usize].children[step.slot].count -= cut;
        }
        if thin {
            self.mend(path);
        }
        cut
    }

    /// Merges or drops the thin leaf that `path` leads to, then its ancestors where they thin out.
    fn mend(&mut self, mut path: Path) {
        let mut of_leaves = true;
        while let Some(step) = path.pop() {
            let before = self.inners[step.inner as usize].children.len();
            self.mend_child(step.inner, step.slot, of_leaves);
            let after = self.inners[step.inner as usize].children.len();
            if after == before || after >= NODE_MIN {
                break;
            }
            of_leaves = false;
        }
        while self.height > 0 {
            let children = &self.inners[self.root as usize].children;
            match children.len() {
                0 => {
                    self.inners.remove(self.root as usize);
                    self.height = 0;
                    let leaf = Leaf { entries: Vec::new(), prev: NONE, next: NONE };
                    self.root = self.leaves.insert(leaf) as u32;
                    (self.first, self.last) = (self.root, self.root);
                }
                1 => {
                    let only = children[0].node;
                    self.inners.remove(self.root as usize);
                    self.height -= 1;
                    self.root = only;
                }
                _ => break,
            }
        }
    }

    /// Drops child `slot` of `parent` if it is empty, or merges it with a neighbour if both fit.
    fn mend_child(&mut self, parent: u32, slot: usize, is_leaf: bool) {
        let children = &self.inners[parent as usize].children;
        let width = |child: &Child| match is_leaf {
            true => self.leaves[child.node as usize].entries.len(),
            false => self.inners[child.node as usize].children.len(),
        };
        if width(&children[slot]) == 0 {
            let gone = self.inners[parent as usize].children.remove(slot);
            self.free(gone.node, is_leaf);
            return;
        }
        let left = if slot + 1 < children.len() { slot } else { slot.wrapping_sub(1) };
        let Some([a, b]) = children.get(left..).and_then(|pair| pair.first_chunk::<2>()) else {
            return;
        };
        if width(a) + width(b) > MERGE_MAX {
            return;
        }
        let left_id = a.node;
        let right = self.inners[parent as usize].children.remove(left + 1);
        self.inners[parent as usize].children[left].count += right.count;
        if is_leaf {
            let mut moved = std::mem::take(&mut self.leaves[right.node as usize].entries);
            self.leaf_room -= moved.capacity();
            let entries = &mut self.leaves[left_id as usize].entries;
            let room = entries.capacity();
            if room < entries.len() + moved.len() {
                entries.reserve_exact(moved.len());
            }
            self.leaf_room = self.leaf_room + entries.capacity() - room;
            entries.append(&mut moved);
        } else {
            let mut moved = std::mem::take(&mut self.inners[right.node as usize].children);
            // Invariant: what was child 0 is compared from now on, so it needs its true low end.
            moved[0].low = right.low;
            self.inners[left_id as usize].children.append(&mut moved);
        }
        self.free(right.node, is_leaf);
    }

    /// Takes an emptied node out of its slab, and a leaf out of the chain.
    fn free(&mut self, node: u32, is_leaf: bool) {
        if !is_leaf {
            self.inners.remove(node as usize);
            return;
        }
        let leaf = self.leaves.remove(node as usize);
        self.leaf_room -= leaf.entries.capacity();
        match leaf.prev {
            NONE => self.first = leaf.next,
            prev => self.leaves[prev as usize].next = leaf.next,
        }
        match leaf.next {
            NONE => self.last = leaf.prev,
            next => self.leaves[next as usize].prev = leaf.prev,
        }
    }
}

/// Inserts into a leaf, growing it by a small step; says by how many entries.
fn insert_growing(entries: &mut Vec<Entry>, slot: usize, entry: Entry) -> usize {
    let room = entries.capacity();
    if entries.len() == room {
        entries.reserve_exact(GROW);
    }
    entries.insert(slot, entry);
    entries.capacity() - room
}
