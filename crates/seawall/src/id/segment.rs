//! A segment: a run of ids of one second that belongs to this process alone.

use seawall_resilience::clock::Moment;

use super::ident::Id;

/// Unused ids `next..end` of one second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    next: u64,
    end: u64,
    size: u64,
    /// When it was requested: its ids are not older than that.
    pub(super) asked: Moment,
}

impl Segment {
    /// Creates a segment of `size` ids, starting with `first`.
    pub(super) fn new(first: u64, size: u64, asked: Moment) -> Self {
        Segment { next: first, end: first + size, size, asked }
    }

    /// Returns the next id, if one is left.
    pub(super) fn take(&mut self) -> Option<Id> {
        (self.next < self.end).then(|| {
            let id = Id::from_bits(self.next);
            self.next += 1;
            id
        })
    }

    /// Returns `true` if it is time to fetch another one.
    pub(super) fn is_low(&self) -> bool {
        (self.end - self.next) * 2 <= self.size
    }

    /// Returns `true` if nothing is left.
    pub(super) fn is_spent(&self) -> bool {
        self.next >= self.end
    }

    /// Returns the id after its last one.
    pub(super) fn end(&self) -> u64 {
        self.end
    }
}
