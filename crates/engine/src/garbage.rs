//! Large values that were removed: freeing them takes time, so the host should do it on another
//! thread.
//!
//! The engine has no threads. It puts large values on a list; a host takes them and drops them on a
//! thread that no client waits for. Values that no host takes are dropped by the cron a little
//! later.

use crate::keyspace::{Db, Entry};

/// A large value to be dropped.
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

/// Removed values that wait to be dropped.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    waiting: Vec<Garbage>,
    /// They were already here at the last check.
    stale: bool,
}

/// Number of elements from which a value is worth deferring.
const LARGE: usize = 64;

impl Heap {
    /// Disposes of a removed entry. Returns `true` if it was large.
    pub(crate) fn bury(&mut self, entry: Entry) -> bool {
        let large = entry.value().effort() > LARGE;
        if large {
            self.waiting.push(Garbage(Kept::Entry(entry)));
        }
        large
    }

    /// Disposes of the contents of a database.
    pub(crate) fn bury_db(&mut self, db: Db) {
        if db.len() > LARGE {
            self.waiting.push(Garbage(Kept::Db(Box::new(db))));
        }
    }

    pub(crate) fn take(&mut self) -> Vec<Garbage> {
        std::mem::take(&mut self.waiting)
    }

    /// Drops the values that no host took since the last call.
    pub(crate) fn sweep(&mut self) {
        if self.stale {
            self.waiting.clear();
        }
        self.stale = !self.waiting.is_empty();
    }
}
