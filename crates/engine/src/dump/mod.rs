//! The state as commands: what log rewrites and snapshots consist of.
//!
//! Keys are walked in the order of (database, position in the table), which never changes while a
//! key exists, so a walk can stop anywhere and continue later while commands run in between. The
//! host decides what happens to those commands; for that it asks where their keys are
//! ([`Engine::place`]) and which ones they touch ([`Engine::reach`]).
//!
//! Large keys are left out of that walk and dumped in separate slices ([`part`]).
//!
//! Invariants: a slice ends between two positions, never inside one; every command is of bounded
//! length however large the key, except for a string's in [`Engine::dump_slice`]; running the
//! commands on an empty database gives the same values, lifetimes included. Access times and use
//! counters are not kept.

mod collection;
mod part;
mod reach;
mod stream;

use crate::effects::Effects;
use crate::engine::Engine;
use crate::keyspace::Entry;
use crate::value::Value;
use crate::value::table::Item;

pub use part::{Frozen, Part, Slice};
pub use reach::{Reach, Touch};

/// Keys looked at before the budget is checked again.
const KEYS_AT_ONCE: usize = 16;

/// A place in the order in which keys are dumped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Cursor {
    /// The database.
    pub db: u32,
    /// The place in it.
    pub position: u64,
}

impl Cursor {
    /// In front of everything.
    pub const START: Self = Self { db: 0, position: 0 };
}

impl Engine {
    /// Dumps keys from `cursor` on until about `budget_bytes` are encoded. Returns where to go on,
    /// `None` at the end.
    pub fn dump_slice(
        &self,
        cursor: Cursor,
        budget_bytes: usize,
        out: &mut Effects,
    ) -> Option<Cursor> {
        self.walk(cursor, budget_bytes, out, None)
    }

    /// As [`Engine::dump_slice`], but leaves large keys to the caller; ends where it met some.
    pub fn dump_small(
        &self,
        cursor: Cursor,
        budget_bytes: usize,
        out: &mut Effects,
        large: &mut Vec<Part>,
    ) -> Option<Cursor> {
        self.walk(cursor, budget_bytes, out, Some(large))
    }

    fn walk(
        &self,
        cursor: Cursor,
        budget_bytes: usize,
        out: &mut Effects,
        mut large: Option<&mut Vec<Part>>,
    ) -> Option<Cursor> {
        if cursor == Cursor::START {
            for library in self.scripts.libraries.values() {
                let args: [&[u8]; 4] = [b"FUNCTION", b"LOAD", b"REPLACE", &library.source];
                out.push(0, &args);
            }
        }
        let enough = out.as_bytes().len().saturating_add(budget_bytes);
        let mut at = cursor;
        loop {
            let table = &self.dbs.get(at.db as usize)?.table;
            let next = table.scan(at.position, KEYS_AT_ONCE, |entry| match &mut large {
                Some(large) if part::is_large(entry) => large.push(Part::new(at.db, entry.key())),
                _ => dump(entry, at.db, out),
            });
            at = match next {
                0 => Cursor { db: at.db + 1, position: 0 },
                position => Cursor { position, ..at },
            };
            // Checked last, so that a slice always gets further.
            let met_large = large.as_ref().is_some_and(|large| !large.is_empty());
            if out.as_bytes().len() >= enough || met_large {
                return Some(at);
            }
        }
    }

    /// Dumps one key as `DEL` and the commands that rebuild it, if it exists.
    pub fn dump_key(&self, db: u32, key: &[u8], out: &mut Effects) {
        out.push(db, &[b"DEL", key]);
        if let Some(entry) = self.dbs.get(db as usize).and_then(|db| db.get(key)) {
            dump(entry, db, out);
        }
    }

    /// Returns where a key is, or would be.
    pub fn place(&self, db: u32, key: &[u8]) -> Cursor {
        let position = self.dbs.get(db as usize).map_or(0, |db| db.table.position_of(key));
        Cursor { db, position }
    }
}

/// The commands that make a key, given that it does not exist.
fn dump(entry: &Entry, db: u32, out: &mut Effects) {
    let key = entry.key();
    match entry.value() {
        Value::Int(_) | Value::Embedded | Value::Raw(_) | Value::Large(_) => {
            let text = entry.str().expect("these are the string values");
            out.push(db, &[b"SET", key, text.bytes(&mut itoa::Buffer::new())]);
        }
        Value::List(list) => collection::dump_list(list, db, key, out),
        Value::Set(set) => collection::dump_set(set, db, key, out),
        Value::Hash(hash) => collection::dump_hash(hash, db, key, out),
        Value::ZSet(zset) => collection::dump_zset(zset, db, key, out),
        Value::Stream(value) => stream::dump_stream(value, db, key, out),
    }
    if let Some(at) = entry.expires_at() {
        dump_lifetime(at, db, key, out);
    }
}

fn dump_lifetime(at: i64, db: u32, key: &[u8], out: &mut Effects) {
    out.push(db, &[b"PEXPIREAT", key, itoa::Buffer::new().format(at).as_bytes()]);
}

#[cfg(test)]
mod tests;
