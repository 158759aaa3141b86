//! From bytes to requests.

use crate::resp::{Limits, Parsed};
use crate::script::ScriptJob;

use super::Engine;
use super::execute::Flow;
use crate::session::SessionId;

impl Engine {
    /// Takes input of a session and runs every request that is whole, as far as it may run now.
    /// Returns a script that is to be driven; [`Engine::script_done`] goes on from there.
    pub(crate) fn feed(&mut self, id: SessionId, input: &[u8]) -> Option<Box<ScriptJob>> {
        let now_ms = self.now_ms();
        let limit = self.settings.client_query_buffer_limit;
        let may_run = self.may_run();
        let session = self.sessions.get_mut(id.0)?;
        session.last_ms = now_ms;
        self.stats.input_bytes += input.len() as u64;
        if session.close_after_flush {
            return None;
        }
        let direct = session.input.is_empty() && session.blocked.is_none() && may_run;
        if direct {
            let (used, job) = self.run_buffer(id.0, input);
            self.keep_rest(id.0, &input[used..]);
            if job.is_some() {
                return job;
            }
        } else {
            session.input.extend_from_slice(input);
            if session.input.len() as u64 > limit {
                session.close_after_flush = true;
                self.touch_session(id.0);
                return None;
            }
            self.make_runnable(id.0);
        }
        self.run_runnable()
    }

    /// Whether requests may run: not while a script does, until it is past its time.
    fn may_run(&self) -> bool {
        self.script.as_ref().is_none_or(|script| script.busy)
    }

    fn keep_rest(&mut self, session: usize, rest: &[u8]) {
        let Some(state) = self.sessions.get_mut(session) else { return };
        if rest.is_empty() || state.close_after_flush {
            return;
        }
        // Limit: reserve ahead for a large argument, but never more than a few times what came.
        const AHEAD: usize = 64 << 10;
        let wanted = state.parser.wanted().min(rest.len().saturating_mul(4).max(AHEAD));
        state.input.reserve(wanted.max(rest.len()));
        state.input.extend_from_slice(rest);
    }

    /// Runs the requests in `buf`; returns how many bytes they took.
    fn run_buffer(&mut self, session: usize, buf: &[u8]) -> (usize, Option<Box<ScriptJob>>) {
        let mut used = 0;
        while used < buf.len() {
            let may_run = self.may_run();
            // Whoever waits for a script's reply has nothing else answered before it.
            let own_script = self.script.as_ref().is_some_and(|script| script.session == session);
            let Some(state) = self.sessions.get_mut(session) else { return (buf.len(), None) };
            if state.close_after_flush {
                return (buf.len(), None);
            }
            if state.blocked.is_some() || !may_run || own_script {
                break;
            }
            let limits = Limits {
                max_bulk: self.settings.proto_max_bulk_len,
                authenticated: state.authenticated,
            };
            let state = &mut self.sessions[session];
            let mut parser = std::mem::take(&mut state.parser);
            match parser.parse(&buf[used..], limits) {
                Parsed::Complete(len) => {
                    let request = &buf[used..used + len];
                    self.sessions[session].in_hand = buf.len() - used;
                    used += len;
                    let args = parser.args(request);
                    let flow =
                        if args.is_empty() { Flow::Done } else { self.execute(session, &args) };
                    drop(args);
                    parser.reset();
                    if let Some(state) = self.sessions.get_mut(session) {
                        state.parser = parser;
                    }
                    if let Flow::Script(job) = flow {
                        return (used, Some(job));
                    }
                    self.serve_ready();
                }
                Parsed::Incomplete => {
                    state.parser = parser;
                    break;
                }
                Parsed::Broken(text) => {
                    let text = format!("ERR Protocol error: {text}");
                    self.stats.count_error(&text);
                    self.reply_to(session, |out| out.error(&text));
                    self.sessions[session].close_after_flush = true;
                    self.touch_session(session);
                    return (buf.len(), None);
                }
            }
        }
        (used, None)
    }

    /// Puts a session with waiting input in the queue.
    pub(crate) fn make_runnable(&mut self, session: usize) {
        if let Some(state) = self.sessions.get_mut(session)
            && !state.runnable
            && !state.input.is_empty()
        {
            state.runnable = true;
            self.runnable.push_back(session);
        }
    }

    /// Runs input that waited, of all sessions that can go on.
    pub(crate) fn run_runnable(&mut self) -> Option<Box<ScriptJob>> {
        while self.may_run() {
            let session = self.runnable.pop_front()?;
            let Some(state) = self.sessions.get_mut(session) else { continue };
            state.runnable = false;
            if state.blocked.is_some() {
                continue;
            }
            let buf = std::mem::take(&mut state.input);
            let (used, job) = self.run_buffer(session, &buf);
            if let Some(state) = self.sessions.get_mut(session) {
                // What is left keeps its buffer: a large argument still arriving is not copied.
                let mut buf = buf;
                buf.drain(..used);
                buf.append(&mut state.input);
                state.input = buf;
            }
            if job.is_some() {
                return job;
            }
        }
        None
    }
}
