//! Consumer groups: which consumer got which entry and has not acknowledged it yet.
//!
//! A group keeps one record per pending entry (the "nack": when it was last delivered, how often,
//! to which consumer) in id order, and each consumer keeps the ids of its own entries. The record
//! names its consumer by slot, so moving an entry between consumers touches two sets and one
//! record.
//!
//! Invariant: an id is in the group's pending map exactly if it is in the pending set of the
//! one consumer that its record names.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use slab::Slab;

use super::id::StreamId;
use super::log::Log;

/// All groups of a stream, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    by_name: BTreeMap<Box<[u8]>, Group>,
    heap_bytes: usize,
}

/// A group: how far it has read, its consumers and what they have pending.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    last_id: StreamId,
    entries_read: Option<i64>,
    pending: BTreeMap<StreamId, Nack>,
    consumers: Slab<Consumer>,
    by_name: BTreeMap<Arc<[u8]>, ConsumerSlot>,
    name_bytes: usize,
}

/// Names a consumer inside its group until it is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConsumerSlot(u32);

/// A member of a group.
#[derive(Clone, Debug)]
pub(crate) struct Consumer {
    /// Its name.
    pub(crate) name: Arc<[u8]>,
    /// When it last asked for anything, in milliseconds.
    pub(crate) seen_ms: i64,
    pending: BTreeSet<StreamId>,
}

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nack {
    /// When it was last delivered, in milliseconds.
    pub(crate) delivered_ms: i64,
    /// How often it was delivered.
    pub(crate) deliveries: i64,
    /// The consumer.
    pub(crate) consumer: ConsumerSlot,
}

/// What trees spend on an element of `bytes`, at an ordinary fill.
const fn slot_bytes(bytes: usize) -> usize {
    bytes * 3 / 2
}

const PENDING_BYTES: usize =
    slot_bytes(size_of::<StreamId>() + size_of::<Nack>()) + slot_bytes(size_of::<StreamId>());
const CONSUMER_BYTES: usize =
    size_of::<Consumer>() + slot_bytes(size_of::<Arc<[u8]>>() + size_of::<ConsumerSlot>());
const GROUP_BYTES: usize = slot_bytes(size_of::<Box<[u8]>>() + size_of::<Group>());

impl Groups {
    /// The number of groups.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// A group.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&Group> {
        self.by_name.get(name)
    }

    /// A group, to be changed.
    pub(crate) fn get_mut(&mut self, name: &[u8]) -> Option<GroupMut<'_>> {
        let group = self.by_name.get_mut(name)?;
        let before = group.heap_bytes();
        Some(GroupMut { group, before, total: &mut self.heap_bytes })
    }

    /// All groups in the order of their names.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &Group)> {
        self.by_name.iter().map(|(name, group)| (&**name, group))
    }

    /// Creates a group; answers whether the name was free.
    pub(crate) fn create(
        &mut self,
        name: &[u8],
        last_id: StreamId,
        entries_read: Option<i64>,
    ) -> bool {
        if self.by_name.contains_key(name) {
            return false;
        }
        self.by_name.insert(name.into(), Group { last_id, entries_read, ..Group::default() });
        self.heap_bytes += GROUP_BYTES + name.len();
        true
    }

    /// Removes a group; answers whether it was there.
    pub(crate) fn destroy(&mut self, name: &[u8]) -> bool {
        let Some(group) = self.by_name.remove(name) else {
            return false;
        };
        self.heap_bytes -= GROUP_BYTES + name.len() + group.heap_bytes();
        true
    }

    /// Bytes on the heap.
    pub(crate) fn mem_bytes(&self) -> usize {
        self.heap_bytes
    }
}

/// Access to a group that keeps the memory count of all groups right.
#[derive(Debug)]
pub(crate) struct GroupMut<'a> {
    group: &'a mut Group,
    before: usize,
    total: &'a mut usize,
}

impl Deref for GroupMut<'_> {
    type Target = Group;

    fn deref(&self) -> &Group {
        self.group
    }
}

impl DerefMut for GroupMut<'_> {
    fn deref_mut(&mut self) -> &mut Group {
        self.group
    }
}

impl Drop for GroupMut<'_> {
    fn drop(&mut self) {
        *self.total = *self.total - self.before + self.group.heap_bytes();
    }
}

impl Group {
    /// The greatest id delivered as new.
    pub(crate) fn last_id(&self) -> StreamId {
        self.last_id
    }

    /// How many entries were ever read, if known.
    pub(crate) fn entries_read(&self) -> Option<i64> {
        self.entries_read
    }

    /// Places the group in the stream (`XGROUP SETID`).
    pub(crate) fn set_position(&mut self, last_id: StreamId, entries_read: Option<i64>) {
        self.last_id = last_id;
        self.entries_read = entries_read;
    }

    /// Moves the last id forward without counting (`XCLAIM … LASTID`); answers whether it did.
    pub(crate) fn raise_last_id(&mut self, id: StreamId) -> bool {
        let raised = id > self.last_id;
        self.last_id = self.last_id.max(id);
        raised
    }

    /// Notes that `id` is delivered as new; answers whether the group moved forward.
    ///
    /// The count of entries read goes on as long as nothing ahead was deleted, and is otherwise
    /// looked up again, which may fail.
    pub(crate) fn advance(&mut self, log: &Log, id: StreamId) -> bool {
        if id <= self.last_id {
            return false;
        }
        match self.entries_read {
            Some(read) if !log.has_tombstone_from(id) => self.entries_read = Some(read + 1),
            _ if log.entries_added() != 0 => self.entries_read = log.distance_from_start(id),
            _ => {}
        }
        self.last_id = id;
        true
    }

    /// How many entries are yet to be delivered, if that can be told.
    pub(crate) fn lag(&self, log: &Log) -> Option<i64> {
        let added = log.entries_added() as i64;
        if added == 0 {
            return Some(0);
        }
        let read = match self.entries_read {
            Some(read) if !log.has_tombstone_from(self.last_id) => read,
            _ => log.distance_from_start(self.last_id)?,
        };
        Some(added.wrapping_sub(read))
    }

    /// The number of pending entries.
    pub(crate) fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// The smallest and greatest pending id.
    pub(crate) fn pending_bounds(&self) -> Option<(StreamId, StreamId)> {
        Some((*self.pending.first_key_value()?.0, *self.pending.last_key_value()?.0))
    }

    /// Pending entries from `start` on, in id order.
    pub(crate) fn pending_from(&self, start: StreamId) -> impl Iterator<Item = (StreamId, &Nack)> {
        self.pending.range(start..).map(|(id, nack)| (*id, nack))
    }

    /// The first pending id from `start` on.
    pub(crate) fn next_pending(&self, start: StreamId) -> Option<StreamId> {
        self.pending.range(start..).next().map(|(id, _)| *id)
    }

    /// The record of a pending entry.
    pub(crate) fn nack(&self, id: StreamId) -> Option<&Nack> {
        self.pending.get(&id)
    }

    /// Makes an entry pending, or hands it over with what `nack` says.
    pub(crate) fn assign(&mut self, id: StreamId, nack: Nack) {
        let old = self.pending.insert(id, nack);
        if old.is_some_and(|old| old.consumer == nack.consumer) {
            return;
        }
        if let Some(old) = old {
            self.consumers[old.consumer.0 as usize].pending.remove(&id);
        }
        self.consumers[nack.consumer.0 as usize].pending.insert(id);
    }

    /// Forgets a pending entry; answers what was known about it.
    pub(crate) fn acknowledge(&mut self, id: StreamId) -> Option<Nack> {
        let nack = self.pending.remove(&id)?;
        self.consumers[nack.consumer.0 as usize].pending.remove(&id);
        Some(nack)
    }

    /// The number of consumers.
    pub(crate) fn consumers_len(&self) -> usize {
        self.by_name.len()
    }

    /// All consumers in the order of their names.
    pub(crate) fn consumers(&self) -> impl ExactSizeIterator<Item = &Consumer> {
        self.by_name.values().map(|slot| self.consumer(*slot))
    }

    /// Finds a consumer by name.
    pub(crate) fn find_consumer(&self, name: &[u8]) -> Option<ConsumerSlot> {
        self.by_name.get(name).copied()
    }

    /// Creates a consumer, unless the name is taken.
    pub(crate) fn create_consumer(&mut self, name: &[u8], now_ms: i64) -> Option<ConsumerSlot> {
        if self.by_name.contains_key(name) {
            return None;
        }
        let name: Arc<[u8]> = name.into();
        let consumer = Consumer { name: name.clone(), seen_ms: now_ms, pending: BTreeSet::new() };
        let slot = ConsumerSlot(self.consumers.insert(consumer) as u32);
        self.name_bytes += name.len();
        self.by_name.insert(name, slot);
        Some(slot)
    }

    /// Deletes a consumer and forgets what it had pending; answers how much that was.
    pub(crate) fn delete_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let slot = self.by_name.remove(name)?;
        let consumer = self.consumers.remove(slot.0 as usize);
        for id in &consumer.pending {
            self.pending.remove(id);
        }
        self.name_bytes -= name.len();
        Some(consumer.pending.len())
    }

    /// A consumer.
    pub(crate) fn consumer(&self, slot: ConsumerSlot) -> &Consumer {
        &self.consumers[slot.0 as usize]
    }

    /// Notes that a consumer was active.
    pub(crate) fn touch(&mut self, slot: ConsumerSlot, now_ms: i64) {
        self.consumers[slot.0 as usize].seen_ms = now_ms;
    }

    fn heap_bytes(&self) -> usize {
        self.pending.len() * PENDING_BYTES + self.by_name.len() * CONSUMER_BYTES + self.name_bytes
    }
}

impl Consumer {
    /// The number of its pending entries.
    pub(crate) fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// Its pending ids from `start` on.
    pub(crate) fn pending_from(&self, start: StreamId) -> impl Iterator<Item = StreamId> {
        self.pending.range(start..).copied()
    }
}
