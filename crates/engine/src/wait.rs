//! Blocked sessions: what they wait for, watched keys, deadlines.
//!
//! Waiters on a key are served in the order in which they began to wait, whatever they wait for;
//! a key that was written to is put on the ready list once and looked at after the command.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

/// A key of a database.
pub(crate) type Key = (u32, Box<[u8]>);

/// Sessions that wait.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    by_key: HashMap<Key, Vec<usize>>,
    ready: VecDeque<Key>,
    ready_set: HashSet<Key>,
    deadlines: BTreeSet<(i64, usize)>,
    next_ticket: u64,
    pub(crate) count: usize,
    /// The key whose waiters are being served.
    pub(crate) serving: Option<Key>,
}

impl Waiting {
    pub(crate) fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    pub(crate) fn add_keys(&mut self, session: usize, db: u32, keys: &[Box<[u8]>]) {
        for key in keys {
            let waiters = self.by_key.entry((db, key.clone())).or_default();
            if !waiters.contains(&session) {
                waiters.push(session);
            }
        }
    }

    pub(crate) fn remove_keys(&mut self, session: usize, db: u32, keys: &[Box<[u8]>]) {
        for key in keys {
            let key = (db, key.clone());
            if let Some(waiters) = self.by_key.get_mut(&key) {
                waiters.retain(|s| *s != session);
                if waiters.is_empty() {
                    self.by_key.remove(&key);
                }
            }
        }
    }

    pub(crate) fn add_deadline(&mut self, at: i64, session: usize) {
        self.deadlines.insert((at, session));
    }

    pub(crate) fn remove_deadline(&mut self, at: i64, session: usize) {
        self.deadlines.remove(&(at, session));
    }

    pub(crate) fn next_deadline(&self) -> Option<i64> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// How many sessions wait with a time-out.
    pub(crate) fn timed(&self) -> usize {
        self.deadlines.len()
    }

    /// One session whose time is up.
    pub(crate) fn due(&self, now_ms: i64) -> Option<usize> {
        self.deadlines.first().filter(|(at, _)| *at <= now_ms).map(|(_, session)| *session)
    }

    /// Records that a key was written to, if a session waits for it.
    #[inline]
    pub(crate) fn signal(&mut self, db: u32, key: &[u8]) {
        if !self.by_key.is_empty() {
            self.signal_slow(db, key);
        }
    }

    fn signal_slow(&mut self, db: u32, key: &[u8]) {
        let key: Key = (db, key.into());
        if self.by_key.contains_key(&key) && self.ready_set.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    /// Notes that any key of a database may have come or gone.
    pub(crate) fn signal_db(&mut self, db: u32) {
        let keys: Vec<Key> = self.by_key.keys().filter(|(d, _)| *d == db).cloned().collect();
        for (db, key) in keys {
            self.signal_slow(db, &key);
        }
    }

    pub(crate) fn take_ready(&mut self) -> Option<Key> {
        let key = self.ready.pop_front()?;
        self.ready_set.remove(&key);
        Some(key)
    }

    pub(crate) fn waiters(&self, key: &Key) -> Vec<usize> {
        self.by_key.get(key).cloned().unwrap_or_default()
    }
}

/// Watched keys and the sessions that watch them.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    by_key: HashMap<Key, Vec<usize>>,
}

impl Watches {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub(crate) fn add(&mut self, session: usize, db: u32, key: &[u8]) {
        self.by_key.entry((db, key.into())).or_default().push(session);
    }

    pub(crate) fn remove(&mut self, session: usize, db: u32, key: &[u8]) {
        let key = (db, Box::from(key));
        if let Some(sessions) = self.by_key.get_mut(&key) {
            sessions.retain(|s| *s != session);
            if sessions.is_empty() {
                self.by_key.remove(&key);
            }
        }
    }

    pub(crate) fn watchers(&self, db: u32, key: &[u8]) -> &[usize] {
        self.by_key.get(&(db, Box::from(key))).map_or(&[], Vec::as_slice)
    }

    /// All watched keys of a database with their watchers.
    pub(crate) fn of_db(&self, db: u32) -> impl Iterator<Item = (&[u8], &[usize])> {
        self.by_key
            .iter()
            .filter(move |((d, _), _)| *d == db)
            .map(|((_, key), sessions)| (&**key, sessions.as_slice()))
    }
}
