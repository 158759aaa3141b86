//! Blocking and waking.

use crate::ctx::Caller;
use crate::resp::Reply;
use crate::session::{Blocked, SessionId, Wait};

use super::Engine;
use super::execute::Told;

impl Engine {
    /// Lets a session wait.
    pub(crate) fn block(&mut self, session: usize, blocked: Blocked) {
        if let Wait::Keys { db, keys } = &blocked.wait {
            self.waiting.add_keys(session, *db, keys);
        }
        if let Some(at) = blocked.deadline {
            self.waiting.add_deadline(at, session);
        }
        self.waiting.count += 1;
        self.sessions[session].blocked = Some(Box::new(blocked));
    }

    /// Takes a session out of all waiting; what it waited with is returned.
    pub(crate) fn unblock(&mut self, session: usize) -> Option<Box<Blocked>> {
        let blocked = self.sessions.get_mut(session)?.blocked.take()?;
        if let Wait::Keys { db, keys } = &blocked.wait {
            self.waiting.remove_keys(session, *db, keys);
        }
        if let Some(at) = blocked.deadline {
            self.waiting.remove_deadline(at, session);
        }
        self.waiting.count -= 1;
        Some(blocked)
    }

    /// Serves those who wait for keys that were written to, first come first.
    pub(crate) fn serve_ready(&mut self) {
        while let Some(key) = self.waiting.take_ready() {
            let waiters = self.waiting.waiters(&key);
            let there = self.dbs[key.0 as usize].get(&key.1).is_some();
            self.waiting.serving = Some(key);
            for session in waiters {
                self.retry(session);
                // The rest need not try once somebody took the last element.
                if there && !self.serving_exists() {
                    break;
                }
            }
            self.waiting.serving = None;
        }
    }

    fn serving_exists(&self) -> bool {
        let key = self.waiting.serving.as_ref();
        key.is_some_and(|(db, key)| self.dbs[*db as usize].get(key).is_some())
    }

    /// Tries a blocked command again; the session goes on waiting if it still would.
    fn retry(&mut self, session: usize) {
        let Some(state) = self.sessions.get_mut(session) else { return };
        let Some(blocked) = state.blocked.take() else { return };
        let mut out = Reply::onto(std::mem::take(&mut state.output), state.protocol);
        let start = out.len();
        let dirty = self.dirty;
        let args: Vec<&[u8]> = blocked.args.iter().map(|a| &**a).collect();
        let called = self.call(session, blocked.command, &args, Caller::Retry, &mut out);
        let state = &mut self.sessions[session];
        let mut reply_at = start;
        if !state.output.is_empty() {
            // Messages: they share nothing.
            let pushed = std::mem::take(&mut state.output).into_bytes();
            out.splice_raw(start, &pushed);
            reply_at += pushed.len();
        }
        let grew = out.len() > start;
        state.output = out.into_output();
        state.blocked = Some(blocked);
        if self.dirty != dirty {
            self.acknowledge(session, reply_at, Told::Change);
        }
        self.flush_own_invalidations(session);
        if grew {
            self.touch_session(session);
        }
        if !called.parked {
            self.unblock(session);
            self.make_runnable(session);
        }
    }

    /// Ends the waiting of a session whose time is up.
    pub(crate) fn time_out(&mut self, session: usize) {
        let Some(blocked) = self.unblock(session) else { return };
        self.reply_to(session, |out| match blocked.wait {
            Wait::Keys { .. } => out.null_array(),
            Wait::Replicas => out.int(0),
            Wait::Host | Wait::Pause => {}
        });
        self.make_runnable(session);
    }

    /// Lets everyone who was paused run the request that was held back.
    pub(crate) fn end_pause(&mut self) {
        let mut held: Vec<(u64, usize)> = self
            .sessions
            .iter()
            .filter_map(|(i, s)| {
                let blocked = s.blocked.as_ref()?;
                (blocked.wait == Wait::Pause).then_some((blocked.ticket, i))
            })
            .collect();
        held.sort_unstable();
        for (_, session) in held {
            let Some(blocked) = self.unblock(session) else { continue };
            // The request goes back in front of what came behind it.
            let mut input = Vec::new();
            let mut request = Reply::default();
            request.array(blocked.args.len());
            blocked.args.iter().for_each(|arg| request.bulk(arg));
            input.append(&mut request.into_bytes());
            let state = &mut self.sessions[session];
            state.parser.reset();
            input.append(&mut state.input);
            state.input = input;
            self.make_runnable(session);
        }
    }

    /// Writes to a session outside of any request of its own.
    pub(crate) fn reply_to(&mut self, session: usize, write: impl FnOnce(&mut Reply)) {
        let Some(state) = self.sessions.get_mut(session) else { return };
        let mut out = Reply::onto(std::mem::take(&mut state.output), state.protocol);
        write(&mut out);
        state.output = out.into_output();
        self.touch_session(session);
    }

    /// Tells the host to look at a session.
    #[inline]
    pub(crate) fn touch_session(&mut self, session: usize) {
        self.recount(session);
        let state = &mut self.sessions[session];
        if !state.touched {
            state.touched = true;
            self.touched.push(SessionId(session));
        }
    }
}
