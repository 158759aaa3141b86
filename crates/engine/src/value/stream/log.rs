//! The entries of a stream: an ordered, append-only run of packed nodes.
//!
//! Nodes live in a B-tree under the id of their first entry: appending, finding an id and
//! dropping a node anywhere are logarithmic in the number of nodes, and nothing is ever moved
//! as a whole when the stream grows. Where nodes break is Redis' business (see `listpack`).
//!
//! Beside the entries the log keeps the counters that outlive them: the last id ever given, the
//! greatest id ever deleted and the number of entries ever added. Group lag is estimated from
//! these alone.

use std::collections::BTreeMap;

use super::id::{IdSpec, StreamId};
use super::node::{Node, Pairs};
use super::radix;

/// When a node is full: `stream-node-max-entries` and `stream-node-max-bytes`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeLimits {
    /// Entries in a node, deleted ones included; zero for no limit.
    pub(crate) entries: u64,
    /// Bytes of the listpack that Redis would hold; zero for no limit.
    pub(crate) bytes: u64,
}

impl Default for NodeLimits {
    fn default() -> NodeLimits {
        NodeLimits { entries: 100, bytes: 4096 }
    }
}

/// The greatest sum of field and value bytes in an entry, and of bytes in a node.
pub(crate) const MAX_NODE_BYTES: usize = 1 << 30;

/// Why an entry was not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppendError {
    /// The id is not greater than the last one.
    NotGreater,
    /// No sequence is left in the millisecond that was asked for.
    SequenceExhausted,
    /// Fields and values exceed [`MAX_NODE_BYTES`].
    TooLarge,
}

/// The entries of a stream and what is known about those that are gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    pub(super) nodes: BTreeMap<StreamId, Node>,
    pub(super) length: u64,
    pub(super) first_id: StreamId,
    last_id: StreamId,
    max_deleted_id: StreamId,
    entries_added: u64,
    heap_bytes: usize,
}

/// What the tree spends on a node, at the fill that ascending inserts lead to.
pub(super) const NODE_SLOT_BYTES: usize = (size_of::<StreamId>() + size_of::<Node>()) * 11 / 6;

impl Log {
    /// Entries that are not deleted.
    pub(crate) fn len(&self) -> u64 {
        self.length
    }

    /// Whether no entry is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The first entry's id, or `0-0` if there is none.
    pub(crate) fn first_id(&self) -> StreamId {
        self.first_id
    }

    /// The last id ever given.
    pub(crate) fn last_id(&self) -> StreamId {
        self.last_id
    }

    /// The greatest id that `XDEL` ever deleted, or `0-0`.
    pub(crate) fn max_deleted_id(&self) -> StreamId {
        self.max_deleted_id
    }

    /// The number of entries ever added.
    pub(crate) fn entries_added(&self) -> u64 {
        self.entries_added
    }

    /// Sets the last id, and the other counters if given (`XSETID`, loading).
    ///
    /// Invariant: the last id is not below any live entry. Tombstones behind it are dropped, so
    /// that what is appended next still comes last.
    pub(crate) fn set_counters(
        &mut self,
        last: StreamId,
        added: Option<u64>,
        max_deleted: Option<StreamId>,
    ) {
        if last < self.last_id {
            self.drop_tombstones_behind(last);
        }
        self.last_id = last;
        self.entries_added = added.unwrap_or(self.entries_added);
        self.max_deleted_id = max_deleted.unwrap_or(self.max_deleted_id);
    }

    fn drop_tombstones_behind(&mut self, last: StreamId) {
        while let Some(mut tail) = self.nodes.last_entry() {
            let first = *tail.key();
            if first <= last {
                tail.get_mut().truncate_behind(first, last);
                return;
            }
            self.remove_node(first);
        }
    }

    /// The nodes with the ids they start at, oldest first.
    pub(crate) fn nodes(&self) -> impl ExactSizeIterator<Item = (StreamId, &Node)> {
        self.nodes.iter().map(|(first, node)| (*first, node))
    }

    /// The number of nodes that Redis' radix tree would have.
    pub(crate) fn radix_nodes(&self) -> u64 {
        radix::node_count(self.nodes.keys().copied())
    }

    /// Bytes on the heap.
    pub(crate) fn mem_bytes(&self) -> usize {
        self.heap_bytes + self.nodes.len() * NODE_SLOT_BYTES
    }

    /// The id that an entry added at `now_ms` would get.
    ///
    /// # Errors
    /// [`AppendError::NotGreater`] and [`AppendError::SequenceExhausted`].
    pub(crate) fn resolve(&self, spec: IdSpec, now_ms: u64) -> Result<StreamId, AppendError> {
        let last = self.last_id;
        let id = match spec {
            IdSpec::Auto if now_ms > last.ms => StreamId::new(now_ms, 0),
            IdSpec::Auto => last.next().ok_or(AppendError::NotGreater)?,
            IdSpec::AutoSeq(ms) if ms == last.ms => {
                let seq = last.seq.checked_add(1).ok_or(AppendError::SequenceExhausted)?;
                StreamId::new(ms, seq)
            }
            IdSpec::AutoSeq(ms) => StreamId::new(ms, 0),
            IdSpec::Exact(id) => id,
        };
        if id > last { Ok(id) } else { Err(AppendError::NotGreater) }
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// Those of [`AppendError`]; nothing is changed then.
    pub(crate) fn append<'p>(
        &mut self,
        id: StreamId,
        pairs: impl Pairs<'p>,
        limits: NodeLimits,
    ) -> Result<(), AppendError> {
        if id <= self.last_id {
            return Err(AppendError::NotGreater);
        }
        let payload = pairs.clone().map(|(field, value)| field.len() + value.len()).sum();
        if payload > MAX_NODE_BYTES {
            return Err(AppendError::TooLarge);
        }
        if let Some(mut tail) = self.nodes.last_entry() {
            let first = *tail.key();
            let node = tail.get_mut();
            let before = node.heap_bytes();
            let full = is_full(node, payload, limits);
            if full {
                node.seal();
            } else {
                node.push(first, id, pairs.clone());
            }
            self.heap_bytes = self.heap_bytes - before + node.heap_bytes();
            if !full {
                self.count_appended(id);
                return Ok(());
            }
        }
        let mut node = Node::new(id, pairs.clone());
        node.push(id, id, pairs);
        self.heap_bytes += node.heap_bytes();
        self.nodes.insert(id, node);
        self.count_appended(id);
        Ok(())
    }

    fn count_appended(&mut self, id: StreamId) {
        self.length += 1;
        self.entries_added += 1;
        self.last_id = id;
        if self.length == 1 {
            self.first_id = id;
        }
    }

    /// Deletes an entry; answers whether it was there. A node without live entries goes with
    /// its last one.
    pub(crate) fn delete(&mut self, id: StreamId) -> bool {
        let Some((&first, node)) = self.nodes.range_mut(..=id).next_back() else {
            return false;
        };
        let mut entries = node.entries(first);
        entries.seek(id);
        let Some(entry) = entries.next().filter(|entry| entry.id == id && !entry.deleted) else {
            return false;
        };
        let flags_at = entry.flags_at();
        if node.live() == 1 {
            self.remove_node(first);
        } else {
            node.delete(flags_at);
        }
        self.length -= 1;
        self.max_deleted_id = self.max_deleted_id.max(id);
        if self.length == 0 || id == self.first_id {
            self.refresh_first_id();
        }
        true
    }

    pub(super) fn remove_node(&mut self, first: StreamId) {
        let node = self.nodes.remove(&first).expect("the caller just met this node");
        self.heap_bytes -= node.heap_bytes();
    }

    pub(super) fn refresh_first_id(&mut self) {
        let first = self.range(StreamId::MIN, StreamId::MAX).next().map(|entry| entry.id);
        self.first_id = first.unwrap_or(StreamId::MIN);
    }

    /// Whether something that `XDEL` deleted may lie at or after `start`.
    pub(super) fn has_tombstone_from(&self, start: StreamId) -> bool {
        !self.is_empty()
            && !self.max_deleted_id.is_zero()
            && self.first_id <= self.max_deleted_id
            && start <= self.max_deleted_id
    }

    /// How many entries were ever added up to `id`, where that can be told from the counters:
    /// at or after the end, and, if nothing inside was deleted, at or before the first entry.
    pub(crate) fn distance_from_start(&self, id: StreamId) -> Option<i64> {
        let added = self.entries_added as i64;
        if added == 0 || id == self.last_id || (self.is_empty() && id < self.last_id) {
            return Some(added);
        }
        let whole = self.max_deleted_id.is_zero() || self.max_deleted_id < self.first_id;
        if id > self.last_id || !whole {
            return None;
        }
        let before_first = added.wrapping_sub(self.length as i64);
        match id.cmp(&self.first_id) {
            std::cmp::Ordering::Less => Some(before_first),
            std::cmp::Ordering::Equal => Some(before_first + 1),
            std::cmp::Ordering::Greater => None,
        }
    }
}

fn is_full(node: &Node, payload: usize, limits: NodeLimits) -> bool {
    let max_bytes = match usize::try_from(limits.bytes) {
        Ok(bytes @ 1..=MAX_NODE_BYTES) => bytes,
        _ => MAX_NODE_BYTES,
    };
    let entries = u64::from(node.live()) + u64::from(node.deleted());
    node.listpack_bytes() + payload >= max_bytes
        || (limits.entries != 0 && entries >= limits.entries)
}
