//! What a command handler works with: the keyspace as its session sees it, and the ways to report
//! changes to the rest of the engine.
//!
//! A handler reads with [`Ctx::read`], [`Ctx::str`], [`Ctx::get`], edits with [`Ctx::edit`],
//! [`Ctx::edit_or_new`] and the string setters, then reports the change: [`Ctx::wrote`] (which
//! wakes waiters, breaks watches, invalidates tracked keys, publishes the event and counts the
//! change). The log gets the request itself, unless the handler provided something deterministic
//! with [`Ctx::rewrite`].

use std::sync::Arc;

use crate::command::index::CommandRef;
use crate::engine::Engine;
use crate::error::Error;
use crate::evict;
use crate::keyspace::{Db, Edit, Entry, NEVER, Str};
use crate::notify::Classes;
use crate::session::{Blocked, Session, Wait};
use crate::value::table::{Item, Place};
use crate::value::{Kind, LARGE_STRING, Value};

/// Where a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A client, directly.
    Client,
    /// A client, inside EXEC.
    Transaction,
    /// A script.
    Script,
    /// A client whose blocking command is tried again.
    Retry,
    /// The log, at start.
    Replay,
}

/// What the log gets from this command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// The request as it came, if it changed something.
    Verbatim,
    /// What the handler pushed itself.
    Rewritten,
}

/// One execution of one command.
pub(crate) struct Ctx<'e> {
    pub(crate) engine: &'e mut Engine,
    /// Index of the session on whose behalf it runs.
    pub(crate) session: usize,
    /// Its database.
    pub(crate) db: u32,
    /// Unix milliseconds, the same for the whole batch.
    pub(crate) now: i64,
    pub(crate) command: CommandRef,
    pub(crate) caller: Caller,
    pub(crate) propagation: Propagation,
    /// Whether the handler asked to wait.
    pub(crate) parked: bool,
}

impl Ctx<'_> {
    pub(crate) fn session(&self) -> &Session {
        &self.engine.sessions[self.session]
    }

    pub(crate) fn session_mut(&mut self) -> &mut Session {
        &mut self.engine.sessions[self.session]
    }

    #[inline]
    pub(crate) fn db(&mut self) -> &mut Db {
        &mut self.engine.dbs[self.db as usize]
    }

    /// Selects a database, for this and the following commands of the same caller.
    pub(crate) fn select(&mut self, db: u32) {
        self.db = db;
        match (&mut self.engine.script, self.caller) {
            (Some(script), Caller::Script) => script.db = db,
            _ => self.session_mut().db = db,
        }
    }

    /// A seed for the hash table of a new collection. Each gets its own: a table that is filled in
    /// the scan order of another with the same seed would fill unevenly.
    pub(crate) fn seed(&mut self) -> u64 {
        self.engine.rng.next_u64()
    }

    /// Whether a key whose time has passed counts as gone: not while the log is replayed, which
    /// carries its own deletions.
    fn expires(&self) -> bool {
        self.caller != Caller::Replay
    }

    // ---- reading -------------------------------------------------------------------------------

    /// Returns the place of a live key; deletes the key if it has expired. Redis: while clients are
    /// paused such a key is missing, but is not deleted.
    #[inline]
    fn locate(&mut self, key: &[u8]) -> Option<Place> {
        let table = &self.engine.dbs[self.db as usize].table;
        let place = table.locate(key)?;
        if table.timed() > 0 && table.at(place).deadline() <= self.now && self.expires() {
            if self.engine.pause.is_none() {
                self.engine.expire_key(self.db, key);
            }
            return None;
        }
        Some(place)
    }

    /// Records that the entry at a place was used.
    #[inline]
    fn use_at(&mut self, place: Place) -> &mut Entry {
        let engine = &mut *self.engine;
        let (entry, _) = engine.dbs[self.db as usize].table.at_mut(place);
        entry.idle = if engine.settings.maxmemory_policy.is_lfu() {
            let s = &engine.settings;
            let (decay, factor) = (s.lfu_decay_time, s.lfu_log_factor);
            evict::lfu_used(entry.idle, self.now, decay, factor, &mut engine.rng)
        } else {
            evict::lru_clock(self.now)
        };
        entry
    }

    /// Returns the entry of a live key; counts as a use and in the statistics.
    #[inline]
    pub(crate) fn read(&mut self, key: &[u8]) -> Option<&Entry> {
        let Some(place) = self.locate(key) else {
            self.notify(Classes::KEY_MISS, "keymiss", key);
            self.engine.stats.keyspace_misses += 1;
            return None;
        };
        self.engine.stats.keyspace_hits += 1;
        Some(self.use_at(place))
    }

    /// Returns the entry of a live key, without counting a use.
    pub(crate) fn peek(&mut self, key: &[u8]) -> Option<&Entry> {
        let place = self.locate(key)?;
        Some(self.engine.dbs[self.db as usize].table.at(place))
    }

    /// Returns `true` if the key exists, without counting a use.
    pub(crate) fn exists(&mut self, key: &[u8]) -> bool {
        self.peek(key).is_some()
    }

    /// Deletes the key if it has expired.
    #[inline]
    pub(crate) fn expire_if_due(&mut self, key: &[u8]) {
        if self.engine.dbs[self.db as usize].expiring() > 0 {
            self.locate(key);
        }
    }

    /// The string under a key.
    #[inline]
    pub(crate) fn str(&mut self, key: &[u8]) -> Result<Option<Str<'_>>, Error> {
        match self.read(key) {
            None => Ok(None),
            Some(entry) => entry.str().map(Some).ok_or(Error::WRONG_TYPE),
        }
    }

    /// The collection under a key.
    #[inline]
    pub(crate) fn get<T: Kind>(&mut self, key: &[u8]) -> Result<Option<&T>, Error> {
        match self.read(key) {
            None => Ok(None),
            Some(entry) => T::of(entry.value()).map(Some).ok_or(Error::WRONG_TYPE),
        }
    }

    // ---- writing -------------------------------------------------------------------------------

    /// Returns the collection under a key, to be changed. Report the change with [`Ctx::wrote`],
    /// and call [`Ctx::drop_if_empty`] after removing elements.
    #[inline]
    pub(crate) fn edit<T: Kind>(&mut self, key: &[u8]) -> Result<Option<Edit<'_, T>>, Error> {
        let Some(place) = self.locate(key) else { return Ok(None) };
        self.use_at(place);
        let edit = self.db().edit_at(place);
        edit.map(Some).ok_or(Error::WRONG_TYPE)
    }

    /// Returns the collection under a key, created by `make` if the key is absent.
    pub(crate) fn edit_or_new<T: Kind>(
        &mut self,
        key: &[u8],
        make: impl FnOnce() -> T,
    ) -> Result<Edit<'_, T>, Error> {
        match self.locate(key) {
            Some(place) => {
                self.use_at(place);
                self.db().edit_at(place).ok_or(Error::WRONG_TYPE)
            }
            None => {
                self.insert(Entry::new(key, make().into_value()));
                Ok(self.db().edit(key).expect("the key was made just above"))
            }
        }
    }

    /// Records that a key was used.
    pub(crate) fn touch_idle(&mut self, key: &[u8]) {
        if let Some(place) = self.locate(key) {
            self.use_at(place);
        }
    }

    /// Puts an entry in, replacing what the key held, lifetime included.
    pub(crate) fn insert(&mut self, mut entry: Entry) {
        entry.idle = evict::fresh(self.engine.settings.maxmemory_policy, self.now);
        let key = if self.engine.settings.notify_keyspace_events.contains(Classes::NEW) {
            Some(entry.key().to_vec())
        } else {
            None
        };
        let old = self.db().insert(entry);
        if let (None, Some(key)) = (&old, key) {
            self.notify(Classes::NEW, "new", &key);
        }
    }

    /// Sets a string and takes the lifetime away.
    pub(crate) fn set_string(&mut self, key: &[u8], bytes: &[u8]) {
        self.set_string_keep_ttl(key, bytes);
        if self.db().expiring() > 0 {
            self.db().set_deadline(key, NEVER);
        }
    }

    /// Sets a string and leaves the lifetime as it is.
    pub(crate) fn set_string_keep_ttl(&mut self, key: &[u8], bytes: &[u8]) {
        let idle = evict::fresh(self.engine.settings.maxmemory_policy, self.now);
        if bytes.len() >= LARGE_STRING && self.keep_arrived(key, bytes, idle) {
            return;
        }
        let done = self.db().edit_string(key, |entry| {
            entry.set_string(bytes);
            entry.idle = idle;
        });
        if done.is_none() {
            self.insert(Entry::string(key, bytes));
        }
    }

    /// Sets a large string that already has its own buffer. Returns `false` if it has none.
    #[cold]
    fn keep_arrived(&mut self, key: &[u8], bytes: &[u8], idle: u32) -> bool {
        let Some(large) = self.engine.arrived(bytes) else { return false };
        let shared = Arc::clone(&large);
        let done = self.db().edit_string(key, |entry| {
            entry.set_large(shared);
            entry.idle = idle;
        });
        if done.is_none() {
            self.insert(Entry::new(key, Value::Large(large)));
        }
        true
    }

    /// As [`Ctx::set_string_keep_ttl`], but a number stays text.
    pub(crate) fn set_text_keep_ttl(&mut self, key: &[u8], bytes: &[u8]) {
        self.set_string_keep_ttl(key, bytes);
        self.db().edit_string(key, |entry| entry.set_text(bytes));
    }

    /// Sets any value and takes the lifetime away.
    pub(crate) fn set_value(&mut self, key: &[u8], value: Value) {
        self.insert(Entry::new(key, value));
    }

    /// Removes a key that is alive; no event, no count. Returns what it held.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Entry> {
        self.expire_if_due(key);
        self.db().remove(key)
    }

    /// Removes a collection that has become empty, with its event. Call after [`Ctx::wrote`].
    pub(crate) fn drop_if_empty<T: Kind>(&mut self, key: &[u8]) -> bool {
        let empty = self
            .db()
            .get(key)
            .and_then(|entry| T::of(entry.value()))
            .is_some_and(|value| value.size() == 0);
        if empty {
            self.db().remove(key);
            self.notify(Classes::GENERIC, "del", key);
        }
        empty
    }

    // ---- telling -------------------------------------------------------------------------------

    /// Reports that a key was changed: publishes its event and notifies watchers, waiters and
    /// trackers.
    pub(crate) fn wrote(&mut self, key: &[u8], class: Classes, event: &str) {
        self.touched(key);
        self.notify(class, event, key);
        self.dirty(1);
    }

    /// Notifies watchers, waiters and trackers that a key changed.
    #[inline]
    pub(crate) fn touched(&mut self, key: &[u8]) {
        self.engine.key_changed(self.db, key, Some(self.session));
    }

    /// Publishes a keyspace event if its class is on.
    #[inline]
    pub(crate) fn notify(&mut self, class: Classes, event: &str, key: &[u8]) {
        self.engine.notify(self.db, class, event, key);
    }

    /// Counts changes; a command that made any is written to the log.
    #[inline]
    pub(crate) fn dirty(&mut self, changes: u64) {
        self.engine.dirty += changes;
    }

    /// Logs this instead of the request; may be called several times.
    pub(crate) fn rewrite<A: AsRef<[u8]>>(&mut self, args: &[A]) {
        self.propagation = Propagation::Rewritten;
        if self.engine.logging {
            self.engine.effects.push(self.db, args);
        }
    }

    /// Logs nothing for this command.
    pub(crate) fn no_log(&mut self) {
        self.propagation = Propagation::Rewritten;
    }

    // ---- waiting -------------------------------------------------------------------------------

    /// Returns `true` if the command may wait; otherwise it answers at once as if its time were up.
    pub(crate) fn may_block(&self) -> bool {
        matches!(self.caller, Caller::Client | Caller::Retry)
    }

    /// Returns `true` if a blocking command may take from this key now. A retry may only take from
    /// the key that was written to.
    // Redis: 7.0 serves waiters key by key in the order in which the keys became ready, so the
    // order in which a command names its keys does not count then.
    pub(crate) fn may_serve(&self, key: &[u8]) -> bool {
        self.caller != Caller::Retry
            || self.engine.waiting.serving.as_ref().is_none_or(|(_, ready)| **ready == *key)
    }

    /// Waits until one of the keys is written to, then retries the same request. The caller must
    /// not write a reply. `timeout_ms` 0 waits for ever.
    pub(crate) fn park_on_keys(&mut self, keys: &[&[u8]], args: &[&[u8]], timeout_ms: i64) {
        let keys = keys.iter().map(|k| Box::from(*k)).collect();
        self.park(Wait::Keys { db: self.db, keys }, args, timeout_ms);
    }

    /// Waits for something other than keys.
    pub(crate) fn park(&mut self, wait: Wait, args: &[&[u8]], timeout_ms: i64) {
        self.parked = true;
        if self.caller == Caller::Retry {
            return;
        }
        let deadline = (timeout_ms > 0).then(|| self.now.saturating_add(timeout_ms));
        let blocked = Blocked {
            wait,
            command: self.command,
            args: args.iter().map(|a| Box::from(*a)).collect(),
            deadline,
            ticket: self.engine.waiting.ticket(),
        };
        self.engine.block(self.session, blocked);
    }
}
