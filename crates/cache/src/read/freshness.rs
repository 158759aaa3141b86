//! Decides what an entry is worth to a reader: whether it is new enough, and what follows.

use std::time::Duration;

use seawall_resilience::clock::Moment;

use super::lookup::Lookup;
use crate::{
    Freshness, Mode,
    load::coordinator::Sought,
    store::entry::{Entry, Stale},
};

/// Decides what an entry in Redis means for a reader. `sought` says what to load if nothing was found.
pub(super) fn judge<V>(
    found: Option<Entry<V>>,
    mut sought: Sought<V>,
    older: Option<&Entry<V>>,
    (freshness, now): (Freshness, Moment),
    mode: Mode,
) -> Lookup<V> {
    let Some(entry) = found else {
        sought.stale = older.map(|entry| Stale { entry: entry.clone(), stored: false });
        return Lookup::Miss(sought, None);
    };
    let fresh = now < entry.fresh_until && !entry.invalidated;
    let suits = entry.suits(freshness, now);
    if fresh && suits {
        return Lookup::Hit(entry);
    }
    if suits && !entry.invalidated && mode != Mode::Mutex {
        return Lookup::Stale(entry);
    }
    if fresh {
        // Fresh, but not new enough for this reader: it is to be replaced.
        sought.replaces = Some(entry.version);
    }
    sought.stale = Some(Stale { entry: entry.clone(), stored: !entry.invalidated });
    Lookup::Miss(sought, suits.then_some(entry))
}

impl<V> Entry<V> {
    /// Returns whether an entry that Redis just called fresh may answer this reader.
    pub(crate) fn is_current(&self, freshness: Freshness, now: Moment) -> bool {
        freshness == Freshness::Strong || self.suits(freshness, now)
    }

    /// Returns whether this entry may answer this reader now.
    pub(crate) fn suits(&self, freshness: Freshness, now: Moment) -> bool {
        if freshness == Freshness::Strong {
            return !self.invalidated && now < self.fresh_until;
        }
        let usable = !self.invalidated && now < self.stale_until;
        freshness.admits(usable, self.version, now.since(self.written))
    }
}

impl Freshness {
    /// Returns whether a copy in this process' memory may answer at all.
    ///
    /// Versions are times of the server that has the key. When a slot moves to a server whose clock is
    /// behind, or a clock is set back, a write may get a version below that of an older copy. Only the
    /// server itself can tell them apart: it raises the version of what it has.
    #[inline]
    pub(crate) fn asks_memory(self) -> bool {
        !matches!(self, Freshness::Strong | Freshness::After(_))
    }

    /// Returns whether a copy, usable or past its time, of this version and age is new enough for
    /// readers other than strong ones.
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
