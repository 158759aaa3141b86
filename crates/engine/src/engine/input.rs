//! Turns bytes into requests.

use std::sync::Arc;

use crate::resp::{Limits, Output, Parsed};
use crate::script::{LogLevel, ScriptJob};

use super::execute::Flow;
use super::{Engine, HostRequest};
use crate::session::SessionId;

/// At most one warning about HTTP in this time: a web page can repeat its request at will.
const HTTP_WARNING_EVERY_MS: i64 = 60_000;

/// An empty input buffer above this capacity is given back to the allocator.
const KEPT_INPUT: usize = 64 << 10;

/// Returns `true` if a request's first word shows that the peer speaks HTTP. An attacker can make a
/// browser send any body to a loopback port, so nothing after such a line may run.
fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

impl Engine {
    /// Takes input of a session and runs every complete request, as far as it may run now. Returns
    /// a script that must be driven; [`Engine::script_done`] continues from there.
    pub(crate) fn feed(&mut self, id: SessionId, input: &[u8]) -> Option<Box<ScriptJob>> {
        let now_ms = self.now_ms();
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
                self.recount(id.0);
                return job;
            }
            if self.limit_input(id.0) {
                return None;
            }
        } else {
            session.input.extend_from_slice(input);
            if self.limit_input(id.0) {
                return None;
            }
            self.make_runnable(id.0);
        }
        self.recount(id.0);
        let job = self.run_runnable();
        self.evict_clients();
        job
    }

    /// Returns `true` if requests may run: not while a script does, until it is past its time
    /// limit.
    fn may_run(&self) -> bool {
        self.script.as_ref().is_none_or(|script| script.busy)
    }

    fn keep_rest(&mut self, session: usize, rest: &[u8]) {
        let Some(state) = self.sessions.get_mut(session) else { return };
        if rest.is_empty() || state.close_after_flush {
            return;
        }
        state.input.extend_from_slice(rest);
    }

    /// Ends a session whose unread input is above its limit. Returns `true` if it did.
    fn limit_input(&mut self, session: usize) -> bool {
        let limit = self.settings.client_query_buffer_limit;
        let Some(state) = self.sessions.get_mut(session) else { return false };
        if state.unread_input() as u64 <= limit {
            return false;
        }
        state.close_after_flush = true;
        self.touch_session(session);
        true
    }

    /// Returns the buffer of a large argument of the current request, found by its bytes.
    #[inline]
    pub(crate) fn arrived(&self, bytes: &[u8]) -> Option<Arc<Vec<u8>>> {
        self.large_args.iter().find(|large| std::ptr::eq(large.as_slice(), bytes)).cloned()
    }

    /// Runs the requests in `buf`; returns how many bytes they took.
    fn run_buffer(&mut self, session: usize, buf: &[u8]) -> (usize, Option<Box<ScriptJob>>) {
        let mut used = 0;
        while used < buf.len() {
            let may_run = self.may_run();
            // A session that waits for its script's reply gets no other reply before it.
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
                    if args.first().is_some_and(|name| is_http(name)) {
                        self.refuse_http(session);
                        return (buf.len(), None);
                    }
                    let detached = parser.is_detached();
                    if detached {
                        self.large_args.extend(parser.large_args().cloned());
                    }
                    let flow =
                        if args.is_empty() { Flow::Done } else { self.execute(session, &args) };
                    if detached {
                        self.large_args.clear();
                    }
                    drop(args);
                    parser.reset();
                    if let Some(state) = self.sessions.get_mut(session) {
                        state.parser = parser;
                    }
                    if let Flow::Script(job) = flow {
                        return (used, Some(job));
                    }
                    self.serve_ready();
                    if self.limit_output(session) {
                        return (buf.len(), None);
                    }
                }
                Parsed::Incomplete => {
                    used += parser.taken();
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

    /// Ends a session that speaks HTTP: nothing after this request runs, nothing more is answered.
    fn refuse_http(&mut self, session: usize) {
        let now_ms = self.now_ms();
        if self.http_warned_ms.is_none_or(|at| now_ms.saturating_sub(at) >= HTTP_WARNING_EVERY_MS) {
            self.http_warned_ms = Some(now_ms);
            let peer = &self.sessions[session].peer.addr;
            let text = format!(
                "possible cross-protocol attack: {peer} sent an HTTP request (POST or Host:); its \
                 connection is closed and nothing behind that line was executed"
            );
            self.requests.push(HostRequest::Log { level: LogLevel::Warning as u8, text });
        }
        let state = &mut self.sessions[session];
        state.output = Output::default();
        state.acks.clear();
        state.close_after_flush = true;
        self.touch_session(session);
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

    /// Puts a session with waiting input in front of the queue: its script is a request like any
    /// other, after which the session continues before those that wait for their turn.
    pub(crate) fn make_runnable_first(&mut self, session: usize) {
        let Some(state) = self.sessions.get_mut(session) else { return };
        if state.input.is_empty() {
            return;
        }
        if std::mem::replace(&mut state.runnable, true) {
            self.runnable.retain(|&other| other != session);
        }
        self.runnable.push_front(session);
    }

    /// Runs the waiting input of all sessions that can continue.
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
                let mut buf = buf;
                buf.drain(..used);
                if buf.is_empty() && buf.capacity() > KEPT_INPUT {
                    buf = Vec::new();
                }
                buf.append(&mut state.input);
                if !state.doomed {
                    state.input = buf;
                }
                self.recount(session);
            }
            if job.is_some() {
                return job;
            }
        }
        None
    }
}
