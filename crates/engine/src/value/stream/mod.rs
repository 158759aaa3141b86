//! The stream value: an append-only log of entries, and groups of consumers that read it.
//!
//! The two halves are separate so that a command can walk entries while it changes a group:
//!
//! - [`Log`] keeps the entries in packed nodes (`node`, `log`), walks them (`range`) and drops
//!   the oldest (`trim`). Nodes break where Redis' do (`listpack`), because approximate trimming
//!   removes whole nodes.
//! - [`Groups`] keeps how far each group has read, its consumers and what they have pending.
//!
//! A stream is never removed for being empty: its counters and groups outlive its entries.

mod group;
mod id;
mod listpack;
mod log;
mod node;
mod radix;
mod range;
#[cfg(test)]
mod tests;
mod trim;
mod varint;

pub(crate) use self::group::{Consumer, ConsumerSlot, Group, Groups, Nack};
pub(crate) use self::id::{IdSpec, IdText, StreamId};
pub(crate) use self::log::{AppendError, Log, NodeLimits};
pub(crate) use self::node::Entry;
pub(crate) use self::trim::{Keep, Precision};

/// A stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    /// The entries.
    pub(crate) log: Log,
    /// The consumer groups.
    pub(crate) groups: Groups,
}

impl Stream {
    /// An empty stream.
    pub(crate) fn new() -> Stream {
        Stream::default()
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.log.len()).unwrap_or(usize::MAX)
    }

    /// Bytes on the heap, in constant time; the value itself not included.
    pub(crate) fn mem_bytes(&self) -> usize {
        self.log.mem_bytes() + self.groups.mem_bytes()
    }
}
