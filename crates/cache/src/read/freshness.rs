//! Decides whether an entry is new enough for a reader.

use std::time::Duration;

use seawall_resilience::clock::Moment;

use crate::{Freshness, store::entry::Entry};

impl<V> Entry<V> {
    /// Whether an entry that Redis just called fresh may answer a reader with such wishes.
    pub(crate) fn is_current(&self, freshness: Freshness, now: Moment) -> bool {
        freshness == Freshness::Strong || self.suits(freshness, now)
    }

    /// Whether this may answer a reader with such wishes at this moment.
    pub(crate) fn suits(&self, freshness: Freshness, now: Moment) -> bool {
        if freshness == Freshness::Strong {
            return !self.invalidated && now < self.fresh_until;
        }
        let usable = !self.invalidated && now < self.stale_until;
        freshness.admits(usable, self.version, now.since(self.written))
    }
}

impl Freshness {
    /// Whether a copy in this process' memory may answer at all.
    ///
    /// Versions are times of the server that has the key. When a slot moves to a server whose clock is
    /// behind, or a clock is set back, a write may get a version below that of an older copy. Only the
    /// server itself can tell them apart: it raises the version of what it has.
    #[inline]
    pub(crate) fn asks_memory(self) -> bool {
        !matches!(self, Freshness::Strong | Freshness::After(_))
    }

    /// Whether a copy, usable or past its time, of this version and age is new enough for anybody
    /// but a strong reader.
    #[inline]
    pub(crate) fn admits(self, usable: bool, version: u64, age: Duration) -> bool {
        match self {
            Freshness::Cached => usable,
            Freshness::StaleOk => true,
            Freshness::Within(limit) => usable && age <= limit,
            Freshness::After(least) => usable && version >= least.0,
            Freshness::Strong => false,
        }
    }
}
