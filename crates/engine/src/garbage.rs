//! Large values that were removed: freeing them takes time, so that somebody else should do it.
//!
//! The engine has no threads. It puts what is large on a list; a host takes it from there and drops
//! it where nobody waits. What no host takes is dropped by the cron a little later.

use crate::keyspace::{Db, Entry};

/// Something large to be dropped.
pub struct Garbage(#[expect(dead_code, reason = "held only to be dropped")] Kept);

#[expect(dead_code, reason = "held only to be dropped")]
enum Kept {
    Entry(Entry),
    Db(Box<Db>),
}

impl std::fmt::Debug for Garbage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Garbage")
    }
}

/// Removed values that wait for somebody to drop them.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    waiting: Vec<Garbage>,
    /// They were here at the last look, too.
    stale: bool,
}

/// Elements from which on a value is worth the detour.
const LARGE: usize = 64;

impl Heap {
    /// Gets rid of a removed entry; says whether it was large.
    pub(crate) fn bury(&mut self, entry: Entry) -> bool {
        let large = entry.value().effort() > LARGE;
        if large {
            self.waiting.push(Garbage(Kept::Entry(entry)));
        }
        large
    }

    /// Gets rid of the contents of a database.
    pub(crate) fn bury_db(&mut self, db: Db) {
        if db.len() > LARGE {
            self.waiting.push(Garbage(Kept::Db(Box::new(db))));
        }
    }

    pub(crate) fn take(&mut self) -> Vec<Garbage> {
        std::mem::take(&mut self.waiting)
    }

    /// Drops what no host took since the last call.
    pub(crate) fn sweep(&mut self) {
        if self.stale {
            self.waiting.clear();
        }
        self.stale = !self.waiting.is_empty();
    }
}
