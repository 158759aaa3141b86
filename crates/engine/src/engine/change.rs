//! Notifies the sessions affected by a key change: watchers, waiters, trackers, listeners to
//! keyspace events.

use crate::command::index::CommandRef;
use crate::command::spec::flag;
use crate::ctx::Caller;
use crate::glob;
use crate::keyspace::Entry;
use crate::notify::Classes;
use crate::pubsub;
use crate::resp::Reply;
use crate::session::Watched;

use super::Engine;
use super::execute::redacted;

impl Engine {
    /// A key was written to, deleted or expired. `by` is the session that did it.
    #[inline]
    pub(crate) fn key_changed(&mut self, db: u32, key: &[u8], by: Option<usize>) {
        if !self.watches.is_empty() {
            for session in self.watches.watchers(db, key) {
                let state = &mut self.sessions[*session];
                let was_gone = by.is_none()
                    && state
                        .watching
                        .iter()
                        .any(|w| w.db == db && *w.key == *key && w.expired_at_watch);
                state.watch_broken |= !was_gone;
            }
        }
        self.waiting.signal(db, key);
        if self.tracking.is_active() {
            self.invalidate_tracked(key, by);
        }
    }

    /// Deletes an expired key, with everything that belongs to it.
    pub(crate) fn expire_key(&mut self, db: u32, key: &[u8]) {
        self.dbs[db as usize].remove(key);
        self.expired(db, key);
    }

    /// Reports that an expired key was removed.
    pub(crate) fn expired(&mut self, db: u32, key: &[u8]) {
        self.stats.expired_keys += 1;
        self.log_removal(db, key);
        self.notify(db, Classes::EXPIRED, "expired", key);
        self.key_changed(db, key, None);
    }

    /// Logs the removal of a key that no command removed.
    pub(crate) fn log_removal(&mut self, db: u32, key: &[u8]) {
        if self.logging {
            self.effects.push(db, &[b"DEL".as_slice(), key]);
        }
    }

    /// Called before all keys of a database are removed: notifies watchers of those that exist.
    pub(crate) fn db_cleared(&mut self, db: u32) {
        let now = self.now_ms();
        let mut broken = Vec::new();
        for (key, sessions) in self.watches.of_db(db) {
            let entry = self.dbs[db as usize].get(key);
            if entry.is_some_and(|entry| entry.expires_at().is_none_or(|at| at > now)) {
                broken.extend_from_slice(sessions);
            }
        }
        for session in broken {
            self.sessions[session].watch_broken = true;
        }
        self.waiting.signal_db(db);
    }

    /// Called before two databases are swapped: a watched key in either of them will have another
    /// value.
    pub(crate) fn dbs_swapped(&mut self, first: u32, second: u32) {
        let now = self.now_ms();
        let alive = |db: u32, key: &[u8]| {
            let entry = self.dbs[db as usize].get(key);
            entry.is_some_and(|entry| entry.expires_at().is_none_or(|at| at > now))
        };
        let mut broken = Vec::new();
        for db in [first, second] {
            for (key, sessions) in self.watches.of_db(db) {
                if alive(first, key) || alive(second, key) {
                    broken.extend_from_slice(sessions);
                }
            }
        }
        for session in broken {
            self.sessions[session].watch_broken = true;
        }
    }

    /// Lets a session watch a key.
    pub(crate) fn watch(&mut self, session: usize, db: u32, key: &[u8]) {
        let state = &mut self.sessions[session];
        if state.watching.iter().any(|watched| watched.db == db && *watched.key == *key) {
            return;
        }
        let now = self.now_us / 1000;
        let expired_at_watch =
            self.dbs[db as usize].get(key).and_then(Entry::expires_at).is_some_and(|at| at <= now);
        state.watching.push(Watched { db, key: key.into(), expired_at_watch });
        self.watches.add(session, db, key);
    }

    /// Forgets what a session watches.
    pub(crate) fn unwatch(&mut self, session: usize) {
        for watched in std::mem::take(&mut self.sessions[session].watching) {
            self.watches.remove(session, watched.db, &watched.key);
        }
        self.sessions[session].watch_broken = false;
    }

    /// Forgets an open transaction and what it watched.
    pub(crate) fn discard(&mut self, session: usize) {
        self.sessions[session].multi = None;
        self.unwatch(session);
    }

    // ---- keyspace events -----------------------------------------------------------------------

    #[inline]
    pub(crate) fn notify(&mut self, db: u32, class: Classes, event: &str, key: &[u8]) {
        if self.settings.notify_keyspace_events.contains(class) {
            self.publish_event(db, event, key);
        }
    }

    fn publish_event(&mut self, db: u32, event: &str, key: &[u8]) {
        let on = self.settings.notify_keyspace_events;
        if on.contains(Classes::KEYSPACE) {
            let mut channel = format!("__keyspace@{db}__:").into_bytes();
            channel.extend_from_slice(key);
            self.publish(&channel, event.as_bytes());
        }
        if on.contains(Classes::KEYEVENT) {
            let channel = format!("__keyevent@{db}__:{event}").into_bytes();
            self.publish(&channel, key);
        }
    }

    // ---- messages ------------------------------------------------------------------------------

    /// Sends a message to a channel's listeners and to matching patterns'; returns how many got it.
    pub(crate) fn publish(&mut self, channel: &[u8], message: &[u8]) -> usize {
        if self.pubsub.is_empty() {
            return 0;
        }
        let direct = self.pubsub.channels.get(channel).cloned().unwrap_or_default();
        for session in &direct {
            self.reply_to(*session, |out| {
                out.push(3);
                out.bulk(b"message");
                out.bulk(channel);
                out.bulk(message);
            });
        }
        let matching: Vec<(Vec<u8>, Vec<usize>)> = self
            .pubsub
            .patterns
            .iter()
            .filter(|(pattern, _)| glob::matches(pattern, channel, glob::Case::Sensitive))
            .map(|(pattern, sessions)| (pattern.clone(), sessions.clone()))
            .collect();
        let mut count = direct.len();
        for (pattern, sessions) in matching {
            count += sessions.len();
            for session in sessions {
                self.reply_to(session, |out| {
                    out.push(4);
                    out.bulk(b"pmessage");
                    out.bulk(&pattern);
                    out.bulk(channel);
                    out.bulk(message);
                });
            }
        }
        count
    }

    /// Sends a message to the listeners of a shard channel.
    pub(crate) fn publish_shard(&mut self, channel: &[u8], message: &[u8]) -> usize {
        let listeners = self.pubsub.shard.get(channel).cloned().unwrap_or_default();
        for session in &listeners {
            self.reply_to(*session, |out| {
                out.push(3);
                out.bulk(b"smessage");
                out.bulk(channel);
                out.bulk(message);
            });
        }
        listeners.len()
    }

    /// Takes a session off all channels, without telling it.
    pub(crate) fn leave_all(&mut self, session: usize) {
        let state = &mut self.sessions[session];
        let channels = std::mem::take(&mut state.channels);
        let patterns = std::mem::take(&mut state.patterns);
        let shard = std::mem::take(&mut state.shard_channels);
        for channel in &channels {
            pubsub::leave(&mut self.pubsub.channels, channel, session);
        }
        for pattern in &patterns {
            self.pubsub.leave_pattern(pattern, session);
        }
        for channel in &shard {
            pubsub::leave(&mut self.pubsub.shard, channel, session);
        }
    }

    // ---- MONITOR -------------------------------------------------------------------------------

    /// Sends a command to all sessions in MONITOR mode.
    pub(crate) fn tell_monitors(
        &mut self,
        session: usize,
        command: CommandRef,
        args: &[&[u8]],
        caller: Caller,
    ) {
        if command.has(flag::ADMIN) {
            return;
        }
        let state = &self.sessions[session];
        let from = if caller == Caller::Script { "lua" } else { &state.peer.addr };
        let (seconds, micros) = (self.now_us / 1_000_000, self.now_us % 1_000_000);
        let mut line = format!("{seconds}.{micros:06} [{} {from}]", state.db);
        for arg in redacted(args) {
            line.push(' ');
            quote(arg, &mut line);
        }
        for monitor in self.monitors.clone() {
            self.reply_to(monitor, |out: &mut Reply| out.simple(&line));
        }
    }
}

/// Writes bytes as a quoted, printable word.
pub(crate) fn quote(bytes: &[u8], to: &mut String) {
    use std::fmt::Write;
    to.push('"');
    for &b in bytes {
        match b {
            b'"' | b'\\' => {
                to.push('\\');
                to.push(char::from(b));
            }
            b'\n' => to.push_str("\\n"),
            b'\r' => to.push_str("\\r"),
            b'\t' => to.push_str("\\t"),
            7 => to.push_str("\\a"),
            8 => to.push_str("\\b"),
            b if b.is_ascii_graphic() || b == b' ' => to.push(char::from(b)),
            b => {
                let _ = write!(to, "\\x{b:02x}");
            }
        }
    }
    to.push('"');
}
