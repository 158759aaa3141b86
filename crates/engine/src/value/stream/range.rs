//! Walking the log between two ids, forwards and backwards.
//!
//! The node that may hold the bound to start from is found in the tree; inside it entries are
//! walked one by one, at most a node's worth. Deleted entries are never shown.

use std::collections::btree_map;

use super::id::StreamId;
use super::log::Log;
use super::node::{Entries, Entry, Node};

/// Live entries from `start` to `end`, both included, ascending.
#[derive(Clone, Debug)]
pub(crate) struct Range<'a> {
    nodes: btree_map::Range<'a, StreamId, Node>,
    entries: Option<Entries<'a>>,
    end: StreamId,
}

/// Live entries from `end` to `start`, both included, descending.
#[derive(Clone, Debug)]
pub(crate) struct RangeRev<'a> {
    nodes: btree_map::Range<'a, StreamId, Node>,
    entries: Option<Entries<'a>>,
    start: StreamId,
    end: StreamId,
}

impl Log {
    /// Live entries from `start` to `end`, ascending; nothing if the bounds are swapped.
    pub(crate) fn range(&self, start: StreamId, end: StreamId) -> Range<'_> {
        let holder = self.nodes.range(..=start).next_back();
        let from = holder.map_or(StreamId::MIN, |(first, _)| *first);
        let mut nodes = self.nodes.range(from..);
        let mut entries = nodes.next().map(|(first, node)| node.entries(*first));
        if let Some(entries) = &mut entries {
            entries.seek(start);
        }
        Range { nodes, entries, end }
    }

    /// Live entries from `end` down to `start`; nothing if the bounds are swapped.
    pub(crate) fn range_rev(&self, start: StreamId, end: StreamId) -> RangeRev<'_> {
        RangeRev { nodes: self.nodes.range(..=end), entries: None, start, end }
    }

    /// The live entry with this id.
    pub(crate) fn get(&self, id: StreamId) -> Option<Entry<'_>> {
        self.range(id, id).next()
    }

    /// The id of the last live entry.
    pub(crate) fn last_live_id(&self) -> Option<StreamId> {
        self.range_rev(StreamId::MIN, StreamId::MAX).next().map(|entry| entry.id)
    }

    /// The id of the first stored entry, be it deleted.
    pub(crate) fn first_stored_id(&self) -> Option<StreamId> {
        self.nodes.first_key_value().map(|(first, _)| *first)
    }
}

impl<'a> Iterator for Range<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            let Some(entries) = &mut self.entries else {
                let (first, node) = self.nodes.next()?;
                self.entries = Some(node.entries(*first));
                continue;
            };
            match entries.next() {
                None => self.entries = None,
                Some(entry) if entry.id > self.end => return None,
                Some(entry) if entry.deleted => {}
                found => return found,
            }
        }
    }
}

impl<'a> Iterator for RangeRev<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            let Some(entries) = &mut self.entries else {
                let (first, node) = self.nodes.next_back()?;
                self.entries = Some(node.entries(*first));
                continue;
            };
            match entries.next_back() {
                None => self.entries = None,
                Some(entry) if entry.id < self.start => return None,
                Some(entry) if entry.deleted || entry.id > self.end => {}
                found => return found,
            }
        }
    }
}
