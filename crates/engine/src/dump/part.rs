//! A large key, dumped in slices while commands go on changing it.
//!
//! At any moment the host's file holds the *front* of the key, as it is now:
//!
//! | type                  | front                                     | what a change does              |
//! |-----------------------|-------------------------------------------|---------------------------------|
//! | hash, set, sorted set | elements whose place in the table is passed | those it names are written again, as they are now |
//! | list                  | the first elements                        | at the head it is repeated, at the tail it is skipped |
//! | stream                | the oldest entries                        | what it deletes is noted; see `stream` |
//! | string                | all of it, at once: the buffer is shared  | nothing; see [`Frozen`]         |
//!
//! The engine has already executed *all* changes when the host processes some of them. That is why
//! elements are written as they are and not by repeating the change ([`Engine::catch_up`]): writing
//! an element twice, or a little early, does no harm. A change that names no elements (by rank, or
//! a new value) restarts the key's dump.
//!
//! Limit: a key whose dump had to be restarted too often is dumped in one slice.

use std::collections::HashSet;
use std::sync::Arc;

use super::collection;
use super::stream::Front;
use super::{dump, dump_lifetime};
use crate::args::is;
use crate::effects::{Effects, Operation};
use crate::engine::Engine;
use crate::keyspace::Entry;
use crate::number::parse_i64;
use crate::value::list::List;
use crate::value::stream::StreamId;
use crate::value::table::Item;
use crate::value::{Kind, Value};

/// Keys of more bytes are dumped in parts.
const LARGE_KEY_BYTES: usize = 1 << 20;
/// How often a key's dump is restarted before it is dumped in one slice.
const MOST_RESTARTS: u32 = 16;
/// Bytes of a frozen string in one operation.
const PIECE_BYTES: usize = 1 << 20;

/// Progress of the dump of a large key.
#[derive(Debug, Clone)]
pub struct Part {
    /// Its database.
    pub db: u32,
    /// The key.
    pub key: Box<[u8]>,
    /// What is dumped: a place in the table, or how many elements. 0 when nothing is.
    pub done: u64,
    /// Elements of a list behind those that are dumped.
    behind: u64,
    /// Elements that were changed since the last slice.
    named: HashSet<Box<[u8]>>,
    /// Progress of a stream.
    front: Front,
    restarts: u32,
}

impl Part {
    /// A key of which nothing is dumped.
    #[must_use]
    pub fn new(db: u32, key: &[u8]) -> Part {
        let key = Box::from(key);
        let (named, front) = (HashSet::new(), Front::default());
        Part { db, key, done: 0, behind: 0, named, front, restarts: 0 }
    }

    /// Restarts the dump: what is dumped of the key is deleted.
    pub fn restart(&mut self, out: &mut Effects) {
        out.push(self.db, &[b"DEL", &*self.key]);
        self.done = 0;
        self.named.clear();
        self.front = Front::default();
        self.restarts += 1;
    }
}

/// What a slice of a key gave.
#[derive(Debug)]
pub enum Slice {
    /// There is more.
    More,
    /// All of it is dumped.
    Done,
    /// All of it, to be written after what was dumped before, and before everything later.
    Frozen(Frozen),
}

/// A large string as it was at one moment; it is written without locking the engine.
#[derive(Debug)]
pub struct Frozen {
    db: u32,
    key: Box<[u8]>,
    value: Arc<Vec<u8>>,
    expires_at: Option<i64>,
}

impl Frozen {
    /// The commands that make it, in parts of bounded length.
    pub fn parts(&self) -> impl Iterator<Item = Effects> {
        let text = self.value.chunks(PIECE_BYTES).enumerate().map(|(index, piece)| {
            let mut out = Effects::new();
            let name: &[u8] = if index == 0 { b"SET" } else { b"APPEND" };
            out.push(self.db, &[name, &self.key, piece]);
            out
        });
        let lifetime = self.expires_at.map(|at| {
            let mut out = Effects::new();
            dump_lifetime(at, self.db, &self.key, &mut out);
            out
        });
        text.chain(lifetime)
    }
}

pub(super) fn is_large(entry: &Entry) -> bool {
    entry.value().heap_bytes() > LARGE_KEY_BYTES
}

impl Engine {
    /// Whether a key is dumped in parts.
    pub fn is_large(&self, db: u32, key: &[u8]) -> bool {
        self.entry(db, key).is_some_and(is_large)
    }

    fn entry(&self, db: u32, key: &[u8]) -> Option<&Entry> {
        self.dbs.get(db as usize).and_then(|db| db.get(key))
    }

    /// Dumps more of a large key, about `budget_bytes`. All operations so far must have been followed.
    pub fn dump_part(&self, part: &mut Part, budget_bytes: usize, out: &mut Effects) -> Slice {
        let Some(entry) = self.entry(part.db, &part.key) else { return Slice::Done };
        if let Some(list) = List::of(entry.value())
            && part.done > 0
            && part.done + part.behind != list.len() as u64
        {
            part.restart(out);
        }
        let budget = if part.restarts < MOST_RESTARTS { budget_bytes } else { usize::MAX };
        let enough = out.as_bytes().len().saturating_add(budget);
        loop {
            let (db, key, from) = (part.db, &*part.key, part.done);
            part.done = match entry.value() {
                Value::Hash(hash) => collection::hash_slice(hash, from, db, key, out),
                Value::Set(set) => collection::set_slice(set, from, db, key, out),
                Value::ZSet(zset) => collection::zset_slice(zset, from, db, key, out),
                Value::List(list) => {
                    let done = collection::list_slice(list, from as usize, db, key, out);
                    part.behind = (list.len() - done) as u64;
                    if part.behind == 0 { 0 } else { done as u64 }
                }
                Value::Large(value) => {
                    let (key, value) = (part.key.clone(), Arc::clone(value));
                    return Slice::Frozen(Frozen {
                        db,
                        key,
                        value,
                        expires_at: entry.expires_at(),
                    });
                }
                Value::Stream(stream) => {
                    // Any number but 0: the dump has begun.
                    u64::from(!part.front.dump(stream, (db, key), enough, out))
                }
                Value::Int(_) | Value::Embedded | Value::Raw(_) => {
                    dump(entry, db, out);
                    return Slice::Done;
                }
            };
            if part.done == 0 {
                dump_lifetime_of(entry, db, out);
                return Slice::Done;
            }
            if out.as_bytes().len() >= enough {
                return Slice::More;
            }
        }
    }

    /// Processes an operation that changed a partly dumped key. Returns `false` if its dump must be
    /// restarted.
    pub fn follow(&self, part: &mut Part, operation: &Operation<'_>, out: &mut Effects) -> bool {
        let Some(entry) = self.entry(part.db, &part.key) else { return false };
        let args: Vec<&[u8]> = operation.args().collect();
        let lower = args[0].to_ascii_lowercase();
        let name: &[u8] = &lower;
        if let b"expire" | b"pexpire" | b"expireat" | b"pexpireat" | b"persist" = name {
            return true; // The lifetime comes last.
        }
        let (first, step) = match (entry.value(), name) {
            (Value::Hash(_), b"hset" | b"hmset") => (2, 2),
            (Value::Hash(_), b"hsetnx" | b"hincrby" | b"hincrbyfloat") => (2, usize::MAX),
            (Value::Hash(_), b"hdel") => (2, 1),
            (Value::Set(_), b"sadd" | b"srem") => (2, 1),
            (Value::Set(_), b"smove") => (3, 1),
            (Value::ZSet(_), b"zadd") => {
                let options = ["nx", "xx", "gt", "lt", "ch", "incr"];
                let is_option = |arg: &&&[u8]| options.iter().any(|option| is(arg, option));
                (3 + args[2..].iter().take_while(is_option).count(), 2)
            }
            (Value::ZSet(_), b"zincrby") => (3, 1),
            (Value::ZSet(_), b"zrem") => (2, 1),
            (Value::ZSet(_), b"zremrangebyscore") => {
                // Right for all elements that no operation names; those are written again.
                out.copy(operation);
                return true;
            }
            // New entries come later, and groups are dumped last.
            (Value::Stream(_), b"xadd" | b"xtrim" | b"xgroup" | b"xack" | b"xclaim") => {
                return true;
            }
            (Value::Stream(_), b"xdel") => {
                return args[2..].iter().all(|id| part.follow_deletion(id));
            }
            (Value::List(_), _) => return part.follow_list(name, &args, operation, out),
            _ => return false,
        };
        part.named.extend(args.iter().skip(first).step_by(step).map(|&element| element.into()));
        true
    }

    /// Writes changed elements that are already dumped, as they are now. Returns `false` if the
    /// dump must be restarted. Must be called after operations that were followed.
    pub fn catch_up(&self, part: &mut Part, out: &mut Effects) -> bool {
        let Some(entry) = self.entry(part.db, &part.key) else { return false };
        let (db, key) = (part.db, &*part.key);
        part.named.drain().all(|element| {
            let place = match entry.value() {
                Value::Hash(hash) => hash.position_of(&element),
                Value::Set(set) => set.position_of(&element),
                Value::ZSet(zset) => zset.position_of(&element),
                _ => None,
            };
            match place {
                None => return false,
                Some(place) if place >= part.done => return true,
                Some(_) => {}
            }
            match entry.value() {
                Value::Hash(hash) => collection::write_field(hash, &element, db, key, out),
                Value::Set(set) => collection::write_member(set, &element, db, key, out),
                Value::ZSet(zset) => collection::write_score(zset, &element, db, key, out),
                _ => {}
            }
            true
        })
    }
}

impl Part {
    fn follow_deletion(&mut self, id: &[u8]) -> bool {
        StreamId::parse(id, 0).map(|id| self.front.deleted(id)).is_some()
    }

    /// The file holds the first `done` elements.
    fn follow_list(
        &mut self,
        name: &[u8],
        args: &[&[u8]],
        operation: &Operation<'_>,
        out: &mut Effects,
    ) -> bool {
        let pushed = (args.len() - 2) as u64;
        let popped = || match args.get(2) {
            None => Some(1),
            Some(count) => parse_i64(count).and_then(|count| u64::try_from(count).ok()),
        };
        match name {
            b"lpush" | b"lpushx" => {
                out.copy(operation);
                self.done += pushed;
            }
            b"rpush" | b"rpushx" => self.behind += pushed,
            b"lpop" => return popped().is_some_and(|count| self.pop_head(count, out)),
            b"rpop" => return popped().is_some_and(|count| self.pop_tail(count)),
            b"lmove" | b"rpoplpush" if args[1] != args[2] => {
                let moves = name == b"lmove";
                let (from_head, to_head) =
                    (moves && is(args[3], "left"), !moves || is(args[4], "left"));
                return match (*args[1] == *self.key, from_head, to_head) {
                    (true, true, _) => self.pop_head(1, out),
                    (true, false, _) => self.pop_tail(1),
                    // What was moved is not known here.
                    (false, _, true) => false,
                    (false, _, false) => {
                        self.behind += 1;
                        true
                    }
                };
            }
            _ => return false,
        }
        true
    }

    fn pop_head(&mut self, count: u64, out: &mut Effects) -> bool {
        if count >= self.done {
            return false;
        }
        self.done -= count;
        let count = itoa::Buffer::new().format(count).to_owned();
        out.push(self.db, &[b"LPOP", &*self.key, count.as_bytes()]);
        true
    }

    fn pop_tail(&mut self, count: u64) -> bool {
        let left = self.behind.checked_sub(count);
        self.behind = left.unwrap_or(0);
        left.is_some()
    }
}

fn dump_lifetime_of(entry: &Entry, db: u32, out: &mut Effects) {
    if let Some(at) = entry.expires_at() {
        dump_lifetime(at, db, entry.key(), out);
    }
}
