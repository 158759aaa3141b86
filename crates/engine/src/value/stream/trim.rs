//! Trimming the oldest entries, by length or by id.
//!
//! Whole nodes are dropped as long as that does not remove too much. Exact trimming then marks
//! entries of the next node as deleted; approximate trimming stops there, and also before a
//! node that would exceed its limit of work.

use super::id::StreamId;
use super::log::Log;

/// What to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// The newest entries, this many.
    MaxLen(u64),
    /// Entries from this id on.
    MinId(StreamId),
}

/// How thoroughly to trim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// To the entry.
    Exact,
    /// Only whole nodes, and no more than `limit` entries unless it is zero.
    Approximate {
        /// The most entries to remove.
        limit: u64,
    },
}

impl Log {
    /// Removes the oldest entries that are not to be kept; answers how many.
    pub(crate) fn trim(&mut self, keep: Keep, precision: Precision) -> u64 {
        let mut removed = 0;
        while let Some((&first, node)) = self.nodes.first_key_value() {
            if matches!(keep, Keep::MaxLen(max) if self.length <= max) {
                break;
            }
            let live = u64::from(node.live());
            if let Precision::Approximate { limit } = precision
                && limit != 0
                && removed + live > limit
            {
                break;
            }
            let droppable = match keep {
                Keep::MaxLen(max) => self.length - live >= max,
                Keep::MinId(min) => node.last() < min,
            };
            if droppable {
                self.remove_node(first);
                self.length -= live;
                removed += live;
                continue;
            }
            if precision == Precision::Exact {
                removed += self.trim_inside(first, keep);
            }
            break;
        }
        if removed != 0 {
            self.refresh_first_id();
        }
        removed
    }

    /// Marks entries of one node as deleted; answers how many.
    ///
    /// Redis: the node stays even if none of its entries is left alive.
    fn trim_inside(&mut self, first: StreamId, keep: Keep) -> u64 {
        let node = self.nodes.get_mut(&first).expect("the caller just met this node");
        let most = match keep {
            Keep::MaxLen(max) => usize::try_from(self.length - max).unwrap_or(usize::MAX),
            Keep::MinId(_) => usize::MAX,
        };
        let doomed: Vec<usize> = node
            .entries(first)
            .take_while(|entry| !matches!(keep, Keep::MinId(min) if entry.id >= min))
            .filter(|entry| !entry.deleted)
            .take(most)
            .map(|entry| entry.flags_at())
            .collect();
        for flags_at in &doomed {
            node.delete(*flags_at);
        }
        self.length -= doomed.len() as u64;
        doomed.len() as u64
    }
}
