//! Blocking and waking.

use crate::ctx::Caller;
use crate::resp::Reply;
use crate::session::{Blocked, SessionId, Wait};

use super::Engine;
use super::execute::Told;

impl Engine {
    /// Blocks a session.
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

    /// Ends all waiting of a session and returns what it waited with.
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

    /// Serves sessions that wait for keys that were written to, in the order of their arrival.
    pub(crate) fn serve_ready(&mut self) {
        while let Some(key) = self.waiting.take_ready() {
            let waiters = self.waiting.waiters(&key);
            let there = self.dbs[key.0 as usize].get(&key.1).is_some();
            self.waiting.serving = Some(key);
            for session in waiters {
                self.retry(session);
                // The rest need not try once a session has taken the last element.
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

    /// Retries a blocked command; the session goes on waiting if it still has to.
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
            // Messages share no buffers.
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

    /// Lets all paused sessions run the request that was held back.
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
            // The request goes back in front of later input.
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

    /// Writes to a session outside of its own requests.
    pub(crate) fn reply_to(&mut self, session: usize, write: impl FnOnce(&mut Reply)) {
        let Some(state) = self.sessions.get_mut(session) else { return };
        let mut out = Reply::onto(std::mem::take(&mut state.output), state.protocol);
        write(&mut out);
        state.output = out.into_output();
        self.touch_session(session);
    }

    /// Adds a session to those that the host must check.
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
