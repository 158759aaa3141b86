//! A segment: a run of ids of one second that belongs to this process alone.

use seawall_resilience::clock::Moment;

use super::ident::Id;

/// Ids `next ..= last` of one second, in hand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    next: u64,
    end: u64,
    size: u64,
    /// When it was asked for: its ids are not older than that.
    pub(super) asked: Moment,
}

impl Segment {
    /// A segment of `size` ids from `first` on.
    pub(super) fn new(first: u64, size: u64, asked: Moment) -> Self {
        Segment { next: first, end: first + size, size, asked }
    }

    /// The next id, if there is one left.
    pub(super) fn take(&mut self) -> Option<Id> {
        (self.next < self.end).then(|| {
            let id = Id::from_bits(self.next);
            self.next += 1;
            id
        })
    }

    /// True when it is time to fetch another one.
    pub(super) fn is_low(&self) -> bool {
        (self.end - self.next) * 2 <= self.size
    }

    /// True when nothing is left.
    pub(super) fn is_spent(&self) -> bool {
        self.next >= self.end
    }

    /// What comes after its last id.
    pub(super) fn end(&self) -> u64 {
        self.end
    }
}
