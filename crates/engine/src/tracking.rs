//! Client-side caching: which sessions may have cached a key, and which are notified when it
//! changes.
//!
//! A tracking session is remembered with every key it reads (`keys`), and notified once when the
//! key changes; it has to read again to be notified again. In broadcast mode nothing is remembered:
//! sessions name prefixes (`prefixes`), and the changed keys gather there until the batch of
//! requests is done, so that each session gets one message per prefix and not one per key.
//!
//! Messages are RESP3 pushes. A session that speaks RESP2 redirects them to another session, which
//! gets them as messages of the channel `__redis__:invalidate`. Invalidations caused by a session's
//! own command are sent after the reply (`pending`), those caused by the server at once.
//!
//! Readers are not searched for when they leave: a key's list names sessions by slot and client
//! number, and a pair that no longer exists is skipped.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use crate::command::find_keys::find_keys;
use crate::command::index::CommandRef;
use crate::command::spec::flag;
use crate::ctx::Caller;
use crate::engine::Engine;
use crate::resp::{Protocol, Reply};
use crate::session::TrackingState;
use crate::value::alloc_bytes;
use crate::value::table::{Item, Table};

/// Keys dropped at once when the table is too large; grows each time that is not enough.
const LIMIT_EFFORT: usize = 100;

/// Channel on which RESP2 sessions receive invalidations.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// A session that read a key; the client number distinguishes it from a later one in the same slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reader {
    session: usize,
    client_id: u64,
}

/// A key and the sessions that may have cached it.
#[derive(Debug, Clone)]
struct TrackedKey {
    key: Box<[u8]>,
    readers: SmallVec<[Reader; 1]>,
}

impl Item for TrackedKey {
    fn key(&self) -> &[u8] {
        &self.key
    }

    fn heap_bytes(&self) -> usize {
        alloc_bytes(self.key.len())
    }
}

/// Sessions that track keys with a prefix, and the keys that changed in this batch, each with the
/// session that changed it last.
#[derive(Debug, Default)]
struct Prefix {
    sessions: BTreeSet<usize>,
    changed: BTreeMap<Vec<u8>, Option<usize>>,
}

/// Sessions and the keys that they may have cached.
pub(crate) struct Tracking {
    /// Sessions that track, in any mode.
    pub(crate) sessions: usize,
    /// The session whose command runs now.
    pub(crate) current: Option<usize>,
    keys: Table<TrackedKey>,
    readers: usize,
    prefixes: BTreeMap<Vec<u8>, Prefix>,
    /// Whether a prefix has changed keys.
    has_changes: bool,
    /// Invalidations that sessions get after the reply; no key means all keys.
    pending: Vec<(usize, Option<Box<[u8]>>)>,
    /// Keys that the running script declared, if its reads are tracked.
    script_keys: Vec<Box<[u8]>>,
    /// How often in a row the table stayed too large.
    overfull: usize,
}

impl Tracking {
    /// Nothing is tracked yet.
    pub(crate) fn new(seed: u64) -> Tracking {
        Tracking {
            sessions: 0,
            current: None,
            keys: Table::new(seed),
            readers: 0,
            prefixes: BTreeMap::new(),
            has_changes: false,
            pending: Vec::new(),
            script_keys: Vec::new(),
            overfull: 0,
        }
    }

    /// Returns `true` if any session tracks keys, or did and left some.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.sessions > 0 || !self.keys.is_empty()
    }

    /// Reports the figures for INFO.
    pub(crate) fn info(&self, mut row: impl FnMut(&str, usize)) {
        row("tracking_total_keys", self.keys.len());
        row("tracking_total_items", self.readers);
        row("tracking_total_prefixes", self.prefixes.len());
    }

    /// Drops the pending invalidations of a session that is gone.
    pub(crate) fn forget_pending(&mut self, session: usize) {
        self.pending.retain(|(target, _)| *target != session);
    }

    fn remember(&mut self, key: &[u8], reader: Reader) {
        let absent = || TrackedKey { key: key.into(), readers: SmallVec::new() };
        self.keys.insert_if_absent(key, absent);
        let tracked = self.keys.get_mut(key).expect("found or made just above");
        if !tracked.readers.contains(&reader) {
            tracked.readers.push(reader);
            self.readers += 1;
        }
    }

    fn forget(&mut self, key: &[u8]) -> SmallVec<[Reader; 1]> {
        let readers = self.keys.remove(key).map(|tracked| tracked.readers).unwrap_or_default();
        self.readers -= readers.len();
        readers
    }

    fn note_change(&mut self, key: &[u8], by: Option<usize>) {
        for (prefix, state) in &mut self.prefixes {
            if key.starts_with(prefix) {
                state.changed.insert(key.to_vec(), by);
                self.has_changes = true;
            }
        }
    }
}

impl Engine {
    /// Begins or changes tracking for a session. Prefixes are added to those it has.
    pub(crate) fn start_tracking(&mut self, session: usize, mut options: TrackingState) {
        let state = &mut self.sessions[session];
        let wanted = std::mem::take(&mut options.prefixes);
        match state.tracking.take() {
            Some(before) => options.prefixes = before.prefixes,
            None => self.tracking.sessions += 1,
        }
        for prefix in wanted {
            let entry = self.tracking.prefixes.entry(prefix.clone()).or_default();
            entry.sessions.insert(session);
            options.prefixes.insert(prefix);
        }
        state.tracking = Some(Box::new(options));
    }

    /// Ends tracking for a session.
    pub(crate) fn stop_tracking(&mut self, session: usize) {
        let Some(state) = self.sessions[session].tracking.take() else { return };
        self.tracking.sessions -= 1;
        for prefix in &state.prefixes {
            if let Some(entry) = self.tracking.prefixes.get_mut(prefix) {
                entry.sessions.remove(&session);
                if entry.sessions.is_empty() {
                    self.tracking.prefixes.remove(prefix);
                }
            }
        }
    }

    /// Remembers the keys that a session has just read. A script's reads count as reading all keys
    /// that it declared.
    pub(crate) fn track_reads(
        &mut self,
        session: usize,
        command: CommandRef,
        args: &[&[u8]],
        caller: Caller,
    ) {
        let runs_script = runs_script(command);
        if !command.has(flag::READONLY) && !runs_script {
            return;
        }
        let Some(state) = &self.sessions[session].tracking else { return };
        if state.broadcast {
            return;
        }
        let reader = Reader { session, client_id: self.sessions[session].client_id };
        if caller == Caller::Script {
            let keys = std::mem::take(&mut self.tracking.script_keys);
            for key in &keys {
                self.tracking.remember(key, reader);
            }
            self.tracking.script_keys = keys;
            return;
        }
        let wanted = if state.opt_in {
            state.caching == Some(true)
        } else {
            !(state.opt_out && state.caching == Some(false))
        };
        let found = if wanted { find_keys(command, args).unwrap_or_default() } else { Vec::new() };
        if runs_script {
            // The one-shot answer of CLIENT CACHING is gone by the time the script reads.
            self.tracking.script_keys = found.iter().map(|key| args[key.at].into()).collect();
            return;
        }
        if command.has(flag::PUBSUB) {
            return;
        }
        for key in found {
            self.tracking.remember(args[key.at], reader);
        }
    }

    /// Notifies all sessions that may have cached the key.
    pub(crate) fn invalidate_tracked(&mut self, key: &[u8], by: Option<usize>) {
        self.tracking.note_change(key, by);
        self.invalidate_readers(key);
    }

    fn invalidate_readers(&mut self, key: &[u8]) {
        for reader in self.tracking.forget(key) {
            let Some(session) = self.sessions.get(reader.session) else { continue };
            let Some(state) = &session.tracking else { continue };
            if session.client_id != reader.client_id || state.broadcast {
                continue;
            }
            if self.tracking.current != Some(reader.session) {
                self.send_invalidation(reader.session, &key_list([key].into_iter()));
            } else if !state.no_loop {
                self.tracking.pending.push((reader.session, Some(key.into())));
            }
        }
    }

    /// Notifies all sessions that all keys may have changed.
    pub(crate) fn invalidate_all_tracked(&mut self) {
        let trackers: Vec<usize> = self
            .sessions
            .iter()
            .filter(|(_, session)| session.tracking.is_some())
            .map(|(index, _)| index)
            .collect();
        for session in trackers {
            if self.tracking.current == Some(session) {
                self.tracking.pending.push((session, None));
            } else {
                self.send_all_invalid(session);
            }
        }
        self.tracking.keys.clear();
        self.tracking.readers = 0;
    }

    /// Sends a session the invalidations that its own command caused, after the reply, and resets
    /// CLIENT CACHING for that command.
    pub(crate) fn flush_own_invalidations(&mut self, session: usize) {
        let Some(state) = self.sessions.get_mut(session) else { return };
        let in_transaction = state.multi.is_some();
        let is_client = state.last_command.starts_with("client|");
        if let Some(tracking) = &mut state.tracking
            && !in_transaction
            && !is_client
        {
            tracking.caching = None;
        }
        if self.tracking.pending.is_empty() {
            return;
        }
        let pending = std::mem::take(&mut self.tracking.pending);
        let (own, others) = pending.into_iter().partition(|(target, _)| *target == session);
        self.tracking.pending = others;
        for (_, key) in own {
            match key {
                Some(key) => self.send_invalidation(session, &key_list([&*key].into_iter())),
                None => self.send_all_invalid(session),
            }
        }
    }

    /// Sends the sessions that track prefixes the keys that changed since the last call.
    pub(crate) fn broadcast_invalidations(&mut self) {
        if !std::mem::take(&mut self.tracking.has_changes) {
            return;
        }
        let mut messages = Vec::new();
        for state in self.tracking.prefixes.values_mut().filter(|state| !state.changed.is_empty()) {
            messages.push((state.sessions.clone(), std::mem::take(&mut state.changed)));
        }
        for (sessions, changed) in messages {
            let all = key_list(changed.keys().map(Vec::as_slice));
            for session in sessions {
                let no_loop =
                    self.sessions[session].tracking.as_ref().is_some_and(|state| state.no_loop);
                if !no_loop {
                    self.send_invalidation(session, &all);
                    continue;
                }
                let by_others: Vec<&[u8]> = changed
                    .iter()
                    .filter(|(_, by)| **by != Some(session))
                    .map(|(key, _)| key.as_slice())
                    .collect();
                if !by_others.is_empty() {
                    self.send_invalidation(session, &key_list(by_others.into_iter()));
                }
            }
        }
    }

    /// Drops some keys if more are remembered than the setting allows; their readers are notified
    /// as if the keys had changed.
    pub(crate) fn limit_tracked_keys(&mut self) {
        let limit = usize::try_from(self.settings.tracking_table_max_keys).unwrap_or(usize::MAX);
        let is_full = |tracking: &Tracking| limit > 0 && tracking.keys.len() > limit;
        if !is_full(&self.tracking) {
            self.tracking.overfull = 0;
            return;
        }
        for _ in 0..LIMIT_EFFORT * (self.tracking.overfull + 1) {
            let Some(tracked) = self.tracking.keys.random(&mut self.rng) else { break };
            let key = tracked.key.clone();
            self.invalidate_readers(&key);
            if !is_full(&self.tracking) {
                self.tracking.overfull = 0;
                return;
            }
        }
        self.tracking.overfull += 1;
    }

    fn send_all_invalid(&mut self, session: usize) {
        // Redis: the null is that of the tracking session's protocol, even when redirected.
        let mut null = Reply::new(self.sessions[session].protocol);
        null.null();
        self.send_invalidation(session, null.as_bytes());
    }

    /// Sends a message, whose last part is encoded, to a session or to where it redirects.
    fn send_invalidation(&mut self, session: usize, keys: &[u8]) {
        let state = &self.sessions[session];
        // A transaction may have ended tracking after a change that is not sent yet.
        let Some(redirect) = state.tracking.as_ref().and_then(|tracking| tracking.redirect) else {
            if state.protocol == Protocol::Resp3 {
                self.push_invalidation(session, keys);
            }
            return;
        };
        let speaks_resp3 = state.protocol == Protocol::Resp3;
        let target = self
            .sessions
            .get(redirect.session)
            .filter(|target| target.client_id == redirect.client_id && !target.close_after_flush);
        let Some(target) = target else {
            if let Some(tracking) = &mut self.sessions[session].tracking {
                tracking.broken_redirect = true;
            }
            if speaks_resp3 {
                self.reply_to(session, |out| {
                    out.push(2);
                    out.bulk(b"tracking-redir-broken");
                    out.int(redirect.client_id as i64);
                });
            }
            return;
        };
        if target.protocol == Protocol::Resp3 {
            self.push_invalidation(redirect.session, keys);
        } else if target.all_subscriptions() > 0 {
            self.reply_to(redirect.session, |out| {
                out.push(3);
                out.bulk(b"message");
                out.bulk(CHANNEL);
                out.raw(keys);
            });
        }
    }

    fn push_invalidation(&mut self, session: usize, keys: &[u8]) {
        self.reply_to(session, |out| {
            out.push(2);
            out.bulk(b"invalidate");
            out.raw(keys);
        });
    }
}

/// Keys as an array of bulk strings, which both protocols write alike.
fn key_list<'a>(keys: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut list = Reply::default();
    list.array(keys.len());
    keys.for_each(|key| list.bulk(key));
    list.into_bytes()
}

/// Whether a command runs a script, whose reads are tracked by its declared keys.
fn runs_script(command: CommandRef) -> bool {
    matches!(command.name, "eval" | "eval_ro" | "evalsha" | "evalsha_ro" | "fcall" | "fcall_ro")
}
