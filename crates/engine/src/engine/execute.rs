//! Executes one request: finds the command, checks the preconditions, queues or runs it.

use crate::command::index::CommandRef;
use crate::command::spec::flag;
use crate::ctx::{Caller, Ctx, Propagation};
use crate::error::Error;
use crate::resp::Reply;
use crate::script::ScriptJob;
use crate::session::{Ack, Blocked, Queued, ReplyMode, Running, Wait};
use crate::slowlog::Slow;

use super::Engine;

const NO_DEBUG: &str = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \
                        \"local\", you can run it from a local connection, otherwise you need to \
                        set this option in the configuration file, and then restart the server.";

/// Outcome of a request.
#[derive(Debug)]
pub(crate) enum Flow {
    /// The reply is written, or the session waits.
    Done,
    /// A script must be run; its reply completes the request.
    Script(Box<ScriptJob>),
}

impl Engine {
    /// Runs one request of a session and writes the reply to its output.
    pub(crate) fn execute(&mut self, session: usize, args: &[&[u8]]) -> Flow {
        let state = &mut self.sessions[session];
        let mut out = Reply::onto(std::mem::take(&mut state.output), state.protocol);
        let start = out.len();
        let dirty = self.dirty;
        let flow = self.execute_into(session, args, &mut out);
        // A request that waits for a script is acknowledged with the script's reply.
        let told = match &flow {
            Flow::Done if self.dirty != dirty => Told::Change,
            Flow::Script(_) if out.len() > start => Told::Part,
            _ => Told::Nothing,
        };
        self.finish_reply(session, out, start, told);
        flow
    }

    /// Records that the reply at the end of a session's output acknowledges a change.
    pub(crate) fn acknowledge(&mut self, session: usize, from: usize, told: Told) {
        if !self.logging {
            return;
        }
        let state = &mut self.sessions[session];
        let end = state.output.position();
        if from == 0 {
            state.acks.clear();
        }
        match told {
            Told::Change if end > from => state.acks.push(Ack::Reply(from, end)),
            Told::Part => state.acks.push(Ack::Part(from)),
            Told::Change | Told::Nothing => {}
        }
    }

    /// Puts the output back, with what other parts of the engine sent to this session meanwhile in
    /// front of the reply, and drops the reply if CLIENT REPLY says so.
    fn finish_reply(&mut self, session: usize, mut out: Reply, start: usize, told: Told) {
        let state = &mut self.sessions[session];
        match state.reply_mode {
            ReplyMode::On => {}
            // Redis: confirmations of subscriptions are messages, not replies.
            _ if state.last_command.ends_with("subscribe") => {}
            ReplyMode::Off => out.truncate(start),
            ReplyMode::SkipNext => {
                out.truncate(start);
                state.reply_mode = ReplyMode::Skip;
            }
            ReplyMode::Skip => {
                out.truncate(start);
                state.reply_mode = ReplyMode::On;
            }
        }
        let mut reply_at = start;
        if !state.output.is_empty() {
            // Messages share no buffers.
            let pushed = std::mem::take(&mut state.output).into_bytes();
            out.splice_raw(start, &pushed);
            reply_at += pushed.len();
        }
        let grew = out.len() > start;
        state.output = out.into_output();
        self.acknowledge(session, reply_at, told);
        self.flush_own_invalidations(session);
        if grew {
            self.touch_session(session);
        }
    }

    fn execute_into(&mut self, session: usize, args: &[&[u8]], out: &mut Reply) -> Flow {
        let command = match self.index.resolve(args) {
            Ok(command) => command,
            Err(error) => {
                let known = self.index.by_name(args[0]).filter(|known| known.subs.is_empty());
                self.reject(session, known, &error, out);
                return Flow::Done;
            }
        };
        self.sessions[session].last_command = self.index.listed(command).full_name;
        if command.name == "debug" && !self.may_debug(session) {
            self.reject(session, Some(command), &Error::fixed(NO_DEBUG), out);
            return Flow::Done;
        }
        if self.tracking.is_active() {
            self.limit_tracked_keys();
        }
        if let Err(error) = self.admit(session, command) {
            self.reject(session, Some(command), &error, out);
            return Flow::Done;
        }
        if self.must_pause(session, command, args) {
            self.park_paused(session, command, args);
            return Flow::Done;
        }
        if self.sessions[session].multi.is_some()
            && !ends_or_changes_transaction(self.index.listed(command).full_name)
        {
            self.queue(session, command, args, out);
            return Flow::Done;
        }
        if self.pause_tells_exec(session, command) {
            self.park_paused(session, command, args);
            return Flow::Done;
        }
        self.call(session, command, args, Caller::Client, out);
        self.after_call(session, out)
    }

    /// Whether a session may use DEBUG.
    fn may_debug(&self, session: usize) -> bool {
        const YES: i64 = 1;
        const LOCAL: i64 = 2;
        match self.settings.enable_debug_command {
            YES => true,
            LOCAL => self.sessions[session].peer.is_local(),
            _ => false,
        }
    }

    /// Checks the preconditions of running or queuing a command.
    fn admit(&mut self, session: usize, command: CommandRef) -> Result<(), Error> {
        let state = &self.sessions[session];
        if !state.authenticated && !command.has(flag::NO_AUTH) {
            return Err(Error::fixed("NOAUTH Authentication required."));
        }
        let in_transaction = state.multi.is_some();
        if in_transaction && command.has(flag::NO_MULTI) {
            return Err(Error::fixed("ERR Command not allowed inside a transaction"));
        }
        let full_name = self.index.listed(command).full_name;
        if state.in_subscriber_mode() && !allowed_for_subscribers(full_name) {
            return Err(Error::new(format!(
                "ERR Can't execute '{full_name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / \
                 QUIT / RESET are allowed in this context"
            )));
        }
        if let Some(script) = &self.script
            && !command.has(flag::ALLOW_BUSY)
        {
            return Err(script.busy_error());
        }
        if self.settings.maxmemory > 0 && !self.make_room() {
            let queued = self.sessions[session].multi.as_ref().map_or(0, |multi| multi.flags);
            let exec = command.name == "exec" && queued & flag::DENY_OOM != 0;
            if command.has(flag::DENY_OOM) || exec {
                return Err(Error::OOM);
            }
        }
        if command.has(flag::WRITE)
            && let Some(text) = &self.refuse_writes
        {
            return Err(Error::new(text.clone()));
        }
        Ok(())
    }

    /// Answers with a refusal, which also aborts an open transaction.
    pub(crate) fn reject(
        &mut self,
        session: usize,
        command: Option<CommandRef>,
        error: &Error,
        out: &mut Reply,
    ) {
        if let Some(command) = command {
            self.stats.commands[command.id as usize].rejected += 1;
        }
        self.stats.count_error(error.text());
        if command.is_some_and(|command| command.name == "exec") {
            self.discard(session);
            let why = error.text().strip_prefix("ERR ").unwrap_or(error.text());
            out.error(&format!("EXECABORT Transaction discarded because of: {why}"));
            return;
        }
        if let Some(multi) = &mut self.sessions[session].multi {
            multi.refused = true;
        }
        out.error(error.text());
    }

    fn queue(&mut self, session: usize, command: CommandRef, args: &[&[u8]], out: &mut Reply) {
        if let Some(multi) = &mut self.sessions[session].multi {
            multi.flags |= command.flags;
            multi.bytes += args.iter().map(|arg| arg.len() + size_of::<Box<[u8]>>()).sum::<usize>();
            multi
                .queue
                .push(Queued { command, args: args.iter().map(|a| Box::from(*a)).collect() });
            out.simple("QUEUED");
        }
    }

    /// Runs a command that was admitted: handler, statistics, log.
    pub(crate) fn call(
        &mut self,
        session: usize,
        command: CommandRef,
        args: &[&[u8]],
        caller: Caller,
        out: &mut Reply,
    ) -> Called {
        let started = self.clock.monotonic_nanos();
        // Redis: MONITOR shows a command after its effects, a script before its commands, and EXEC
        // after the whole transaction.
        let shown = !self.monitors.is_empty() && caller != Caller::Retry;
        if shown && command.has(flag::SKIP_MONITOR) {
            self.tell_monitors(session, command, args, caller);
        }
        let dirty_before = self.dirty;
        let db = self.db_of(session, caller);
        let now = self.time_of(caller);
        let start = out.len();
        let mut cx = Ctx {
            engine: self,
            session,
            db,
            now,
            command,
            caller,
            propagation: Propagation::Verbatim,
            parked: false,
        };
        let outer = cx.engine.tracking.current.replace(session);
        let result = (command.run)(&mut cx, args, out);
        let (propagation, parked) = (cx.propagation, cx.parked);
        self.tracking.current = outer;
        if self.dirty != dirty_before && self.logging && propagation == Propagation::Verbatim {
            self.effects.push(db, args);
        }
        let failed = result.is_err();
        if let Err(error) = result {
            out.truncate(start);
            out.error(error.text());
            self.stats.count_error(error.text());
        }
        if !self.sessions.contains(session) {
            return Called { parked };
        }
        let begun = command.name == "exec" && self.sessions[session].running.is_some();
        if shown && !begun && !command.has(flag::SKIP_MONITOR) {
            self.tell_monitors(session, command, args, caller);
        }
        if self.sessions[session].tracking.is_some() {
            self.track_reads(session, command, args, caller);
        }
        let nanos = self.clock.monotonic_nanos().saturating_sub(started);
        let stats = &mut self.stats.commands[command.id as usize];
        stats.calls += u64::from(!parked);
        stats.nanos += nanos;
        stats.failed += u64::from(failed);
        self.stats.total_commands += u64::from(!parked);
        if self.settings.slowlog_log_slower_than >= 0
            && nanos / 1000 >= self.settings.slowlog_log_slower_than as u64
            && !command.has(flag::SKIP_SLOWLOG)
            && caller != Caller::Script
        {
            self.note_slow(session, args, nanos);
        }
        Called { parked }
    }

    pub(crate) fn note_slow(&mut self, session: usize, args: &[&[u8]], nanos: u64) {
        let state = &self.sessions[session];
        let slow = Slow {
            id: 0,
            at_seconds: self.now_us / 1_000_000,
            micros: (nanos / 1000) as i64,
            args: Vec::new(),
            peer: state.peer.addr.clone(),
            name: state.name.clone(),
        };
        self.slowlog.add(&redacted(args), slow, self.settings.slowlog_max_len);
    }

    /// Continues what a handler left to do beyond its own reply: a transaction to run, or a script.
    fn after_call(&mut self, session: usize, out: &mut Reply) -> Flow {
        if let Some(job) = self.scripts.pending.take() {
            return Flow::Script(job);
        }
        if self.sessions.get(session).is_some_and(|state| state.running.is_some()) {
            return self.run_transaction(session, out);
        }
        Flow::Done
    }

    /// Begins to run a queued transaction; EXEC's handler wrote the array's header.
    pub(crate) fn start_transaction(&mut self, session: usize, queue: Vec<Queued>) {
        self.sessions[session].running = Some(Running { queue: queue.into_iter() });
    }

    /// Runs what is left of a transaction, up to its end or the next script.
    fn run_transaction(&mut self, session: usize, out: &mut Reply) -> Flow {
        while let Some(queued) =
            self.sessions[session].running.as_mut().and_then(|r| r.queue.next())
        {
            let args: Vec<&[u8]> = queued.args.iter().map(|a| &**a).collect();
            self.call(session, queued.command, &args, Caller::Transaction, out);
            if let Some(job) = self.scripts.pending.take() {
                return Flow::Script(job);
            }
        }
        self.sessions[session].running = None;
        if !self.monitors.is_empty()
            && let Some(exec) = self.index.by_name(b"exec")
        {
            self.tell_monitors(session, exec, &[b"exec"], Caller::Client);
        }
        Flow::Done
    }

    /// Takes the reply of a script and continues the request that it was part of.
    pub(crate) fn script_replied(&mut self, session: usize, reply: &[u8], wrote: bool) -> Flow {
        let dirty = self.dirty;
        let state = &mut self.sessions[session];
        let in_transaction = state.running.is_some();
        let mut out = Reply::onto(std::mem::take(&mut state.output), state.protocol);
        let start = out.len();
        out.raw(reply);
        let flow = if state.running.is_some() {
            self.run_transaction(session, &mut out)
        } else {
            Flow::Done
        };
        let told = match () {
            () if in_transaction => Told::Part,
            () if wrote || self.dirty != dirty => Told::Change,
            () => Told::Nothing,
        };
        self.finish_reply(session, out, start, told);
        flow
    }

    fn db_of(&self, session: usize, caller: Caller) -> u32 {
        match (&self.script, caller) {
            (Some(script), Caller::Script) => script.db,
            _ => self.sessions[session].db,
        }
    }

    /// Unix milliseconds; inside a script, those of its start.
    fn time_of(&self, caller: Caller) -> i64 {
        match (&self.script, caller) {
            (Some(script), Caller::Script) => script.now_ms,
            _ => self.now_ms(),
        }
    }

    // ---- CLIENT PAUSE --------------------------------------------------------------------------

    fn must_pause(&self, session: usize, command: CommandRef, args: &[&[u8]]) -> bool {
        if self.asleep_until.is_some() {
            return true;
        }
        let Some(pause) = self.pause else { return false };
        if self.sessions[session].multi.is_some() || command.name == "exec" {
            return false;
        }
        !pause.writes_only || self.may_write(command, args)
    }

    /// EXEC of a transaction with writes waits for the end of a pause.
    fn pause_tells_exec(&self, session: usize, command: CommandRef) -> bool {
        let Some(pause) = self.pause else { return false };
        let Some(multi) = &self.sessions[session].multi else { return false };
        command.name == "exec"
            && (!pause.writes_only
                || multi.flags & flag::WRITE != 0
                || multi.queue.iter().any(|queued| {
                    let args: Vec<&[u8]> = queued.args.iter().map(|a| &**a).collect();
                    self.may_write(queued.command, &args)
                }))
    }

    /// Whether a request may change something. Redis: PUBLISH and scripts count, because their
    /// effects are replicated; a script that promises not to write does not.
    fn may_write(&self, command: CommandRef, args: &[&[u8]]) -> bool {
        command.has(flag::WRITE)
            || match command.name {
                "publish" | "spublish" | "pfcount" => true,
                "eval" | "evalsha" | "fcall" => {
                    !self.scripts.promises_no_writes(command.name, args)
                }
                _ => false,
            }
    }

    fn park_paused(&mut self, session: usize, command: CommandRef, args: &[&[u8]]) {
        let blocked = Blocked {
            wait: Wait::Pause,
            command,
            args: args.iter().map(|a| Box::from(*a)).collect(),
            deadline: None,
            ticket: self.waiting.ticket(),
        };
        self.block(session, blocked);
    }
}

/// What a reply acknowledges to its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// Nothing that a log would have to keep.
    Nothing,
    /// That data was changed.
    Change,
    /// It is a part of a transaction's reply that is written in several steps.
    Part,
}

/// Outcome of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Called {
    /// It waits; no reply was written.
    pub(crate) parked: bool,
}

/// The arguments with secrets taken out, for MONITOR and the slow log.
pub(crate) fn redacted<'a>(args: &[&'a [u8]]) -> Vec<&'a [u8]> {
    const HIDDEN: &[u8] = b"(redacted)";
    let mut shown = args.to_vec();
    let is = |arg: &[u8], word: &str| arg.eq_ignore_ascii_case(word.as_bytes());
    if is(args[0], "auth") {
        shown[1..].fill(HIDDEN);
    } else if is(args[0], "hello")
        && let Some(at) = args.iter().position(|arg| is(arg, "auth"))
    {
        let end = shown.len().min(at + 3);
        shown[at + 1..end].fill(HIDDEN);
    } else if is(args[0], "config") && args.get(1).is_some_and(|sub| is(sub, "set")) {
        let secrets = ["requirepass", "masterauth", "masteruser"];
        for i in (2..args.len().saturating_sub(1)).step_by(2) {
            if secrets.iter().any(|name| is(args[i], name)) {
                shown[i + 1] = HIDDEN;
            }
        }
    }
    shown
}

/// By the full name, because SLOWLOG RESET is not RESET.
fn ends_or_changes_transaction(full_name: &str) -> bool {
    matches!(full_name, "exec" | "discard" | "multi" | "watch" | "quit" | "reset")
}

fn allowed_for_subscribers(full_name: &str) -> bool {
    matches!(
        full_name,
        "ping"
            | "subscribe"
            | "unsubscribe"
            | "psubscribe"
            | "punsubscribe"
            | "ssubscribe"
            | "sunsubscribe"
            | "quit"
            | "reset"
    )
}
