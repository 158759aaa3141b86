//! Scripts as seen by the engine: how one begins, what each of its commands may do, how it ends.
//! The code itself runs elsewhere; see [`crate::script`].
//!
//! Invariant: the effects of a script are passed to the log in one piece, after it has ended.

use crate::command::index::CommandRef;
use crate::command::spec::flag;
use crate::ctx::{Caller, Ctx};
use crate::error::{Error, printable};
use crate::resp::{Protocol, Reply};
use crate::script::{
    Ended, Finished, Library, LogLevel, Request, RunKind, ScriptJob, ScriptRun, Tick, Work,
};

use super::execute::Flow;
use super::{Engine, HostRequest};

/// The code of a library must register its functions within this time.
const LOADING_LIMIT_NANOS: u64 = 500_000_000;

/// What a script may do.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Leave {
    pub(crate) read_only: bool,
    /// Memory is above its limit, and the script may not write then.
    pub(crate) out_of_memory: bool,
}

impl Ctx<'_> {
    /// Creates a job; its reply will be the reply of this command.
    pub(crate) fn start_script(&mut self, work: Work, request: Request, leave: Leave) {
        let kind = match &work {
            Work::Eval { .. } | Work::Compile { .. } => RunKind::Script,
            Work::LoadLibrary { .. } => RunKind::Loading,
            Work::CallFunction { function, .. } => {
                RunKind::Function(function.clone(), request.clone())
            }
        };
        let in_transaction = self.session().running.is_some();
        let engine = &mut *self.engine;
        // The effects of a transaction stay with those of its script.
        if !in_transaction {
            engine.seal_effects();
        }
        engine.script = Some(ScriptRun {
            session: self.session,
            db: self.db,
            now_ms: self.now,
            started_nanos: engine.clock.monotonic_nanos(),
            read_only: leave.read_only,
            out_of_memory: leave.out_of_memory,
            logged: true,
            wrote: false,
            busy: false,
            killed: false,
            orphaned: false,
            kind,
        });
        let job = ScriptJob {
            session: self.session,
            protocol: engine.sessions[self.session].protocol,
            command: self.command,
            request,
            retired: engine.scripts.take_retired(),
            work,
        };
        engine.scripts.pending = Some(Box::new(job));
    }
}

impl Engine {
    /// Sets aside the effects logged so far; they may be written while the script runs.
    fn seal_effects(&mut self) {
        if self.sealed.is_empty() {
            std::mem::swap(&mut self.sealed, &mut self.effects);
        } else {
            move_effects(&mut self.effects, &mut self.sealed);
        }
    }

    /// Puts the remaining sealed effects in front of the others again.
    fn unseal_effects(&mut self) {
        if self.sealed.is_empty() {
            return;
        }
        move_effects(&mut self.effects, &mut self.sealed);
        std::mem::swap(&mut self.sealed, &mut self.effects);
    }

    /// Runs one command of the running script and appends its reply.
    pub(crate) fn script_call(&mut self, protocol: Protocol, args: &[&[u8]], reply: &mut Vec<u8>) {
        let Some(session) = self.script.as_ref().map(|script| script.session) else {
            reply.extend_from_slice(b"-ERR No script is running\r\n");
            return;
        };
        let mut out = Reply::onto(std::mem::take(reply), protocol);
        match self.script_command(args) {
            Ok(command) => {
                let logging = self.logging;
                self.logging &= self.script.as_ref().is_some_and(|script| script.logged);
                self.call(session, command, args, Caller::Script, &mut out);
                self.logging = logging;
            }
            Err((command, error)) => {
                if let Some(command) = command {
                    self.stats.commands[command.id as usize].rejected += 1;
                }
                self.stats.count_error(error.text());
                out.error(error.text());
            }
        }
        *reply = out.into_bytes();
    }

    /// Returns the command that a script calls, if it may run it.
    fn script_command(
        &mut self,
        args: &[&[u8]],
    ) -> Result<CommandRef, (Option<CommandRef>, Error)> {
        let Some(command) = self.find_for_script(args) else {
            return Err((None, Error::fixed("ERR Unknown Redis command called from script")));
        };
        let refuse = |text| Err((Some(command), Error::fixed(text)));
        if !command.accepts(args.len()) {
            return refuse("ERR Wrong number of args calling Redis command from script");
        }
        if command.has(flag::NO_SCRIPT) {
            return refuse("ERR This Redis command is not allowed from script");
        }
        let Some(script) = &mut self.script else {
            return refuse("ERR No script is running");
        };
        if script.read_only && (command.has(flag::WRITE) || may_replicate(command)) {
            return refuse("ERR Write commands are not allowed from read-only scripts.");
        }
        if !script.wrote {
            if command.has(flag::WRITE)
                && let Some(text) = &self.refuse_writes
            {
                return Err((Some(command), Error::new(text.clone())));
            }
            if script.out_of_memory && command.has(flag::DENY_OOM) {
                return Err((Some(command), Error::OOM));
            }
        }
        script.wrote |= command.has(flag::WRITE);
        Ok(command)
    }

    /// A command by the words of a request, whatever the number of arguments.
    pub(crate) fn find_for_script(&self, args: &[&[u8]]) -> Option<CommandRef> {
        let command = self.index.by_name(args.first()?)?;
        match args.get(1) {
            Some(sub) if !command.subs.is_empty() => self.index.by_full_name(args[0], Some(sub)),
            _ => Some(command),
        }
    }

    /// Called periodically by a running script. Returns whether it is past its time limit now, and
    /// whether it has to stop.
    pub(crate) fn script_tick(&mut self) -> (Pace, Tick) {
        let nanos = self.clock.monotonic_nanos();
        let limit_ms = self.settings.lua_time_limit;
        let Some(script) = &mut self.script else { return (Pace::Quiet, Tick::Kill) };
        let elapsed = nanos.saturating_sub(script.started_nanos);
        if matches!(script.kind, RunKind::Loading) {
            let over = elapsed > LOADING_LIMIT_NANOS;
            return (Pace::Quiet, if over { Tick::Kill } else { Tick::Continue });
        }
        if script.killed {
            return (Pace::Quiet, Tick::Kill);
        }
        // Redis: a limit of zero means that other clients never get the BUSY error.
        let limit_nanos = u64::try_from(limit_ms).unwrap_or(0).saturating_mul(1_000_000);
        if limit_nanos == 0 || elapsed < limit_nanos {
            return (Pace::Quiet, Tick::Continue);
        }
        let entered = !script.busy;
        script.busy = true;
        if entered {
            // Nothing that runs now can begin a script: all clients get the BUSY error.
            let job = self.run_runnable();
            debug_assert!(job.is_none(), "a script began inside another");
        }
        let stop = self.script.as_ref().is_none_or(|script| script.killed);
        (Pace::Busy, if stop { Tick::Kill } else { Tick::Continue })
    }

    /// Aborts a running script at its next step, because the host is ending. Returns `true` if it
    /// has changed data: its writes are incomplete, and the host must not keep them.
    pub fn abort_script(&mut self) -> bool {
        self.script.as_mut().is_some_and(|script| {
            script.killed = true;
            script.wrote
        })
    }

    /// A line that a script wrote to the server's log.
    pub(crate) fn script_logged(&mut self, level: LogLevel, message: &[u8]) {
        self.requests.push(HostRequest::Log {
            level: level as u8,
            text: String::from_utf8_lossy(message).into_owned(),
        });
    }

    /// Ends a script: passes its reply to the session, and lets all sessions continue.
    pub(crate) fn script_done(&mut self, finished: &Finished) -> Option<Box<ScriptJob>> {
        let session = finished.job.session;
        let script = self.script.take();
        self.unseal_effects();
        let reply = self.conclude(finished);
        if let Some(script) = &script {
            self.count_script(&finished.job, script);
        }
        let wrote = script.as_ref().is_some_and(|script| script.wrote)
            || matches!(finished.job.work, Work::LoadLibrary { .. });
        if script.is_some_and(|script| script.orphaned) {
            self.forget_session(session);
        } else if self.sessions.contains(session)
            && let Flow::Script(job) = self.script_replied(session, &reply, wrote)
        {
            return Some(job);
        }
        self.serve_ready();
        self.make_runnable_first(session);
        self.run_runnable()
    }

    /// Stores the result of a job and returns the reply.
    pub(crate) fn conclude(&mut self, finished: &Finished) -> Vec<u8> {
        let job = &finished.job;
        match (&job.work, &finished.ended) {
            (Work::Eval { generation, sha, script }, Ended::Replied(reply)) => {
                if reply.compiled && *generation == self.scripts.generation {
                    self.scripts.by_sha.entry(*sha).or_insert_with(|| script.clone());
                }
                self.count_failure(job.command, &reply.bytes, reply.counted);
                reply.bytes.clone()
            }
            (Work::CallFunction { .. }, Ended::Replied(reply)) => {
                self.count_failure(job.command, &reply.bytes, reply.counted);
                reply.bytes.clone()
            }
            (Work::Compile { generation, sha, script }, Ended::Compiled(Ok(()))) => {
                if *generation == self.scripts.generation {
                    self.scripts.by_sha.entry(*sha).or_insert_with(|| script.clone());
                }
                bulk(sha)
            }
            (Work::LoadLibrary { id, name, source, code_at, .. }, Ended::Loaded(Ok(functions))) => {
                let library = Library {
                    id: *id,
                    source: source.clone(),
                    code_at: *code_at,
                    functions: functions.clone(),
                };
                self.accept_library(name, library, job)
            }
            (_, Ended::Compiled(Err(text)) | Ended::Loaded(Err(text))) => {
                let text = format!("ERR {}", printable(text, usize::MAX));
                self.refusal(job.command, &text)
            }
            (_, Ended::Replied(_) | Ended::Compiled(_) | Ended::Loaded(_)) => {
                self.refusal(job.command, "ERR the script ended in an unexpected way")
            }
        }
    }

    fn accept_library(&mut self, name: &[u8], library: Library, job: &ScriptJob) -> Vec<u8> {
        let source = library.source.clone();
        if let Err(text) = self.scripts.add_library(name, library) {
            return self.refusal(job.command, &text);
        }
        self.dirty += 1;
        if self.logging {
            // Loading it again must succeed: a rewrite of the log may repeat it.
            let args: [&[u8]; 4] = [b"FUNCTION", b"LOAD", b"REPLACE", &source];
            self.effects.push(0, &args);
        }
        bulk(name)
    }

    /// Returns an error reply of the engine itself, and counts it.
    fn refusal(&mut self, command: CommandRef, text: &str) -> Vec<u8> {
        self.stats.count_error(text);
        self.stats.commands[command.id as usize].failed += 1;
        let mut out = Reply::default();
        out.error(text);
        out.into_bytes()
    }

    fn count_failure(&mut self, command: CommandRef, reply: &[u8], counted: bool) {
        let Some(text) = reply.strip_prefix(b"-") else { return };
        self.stats.commands[command.id as usize].failed += 1;
        if !counted {
            self.stats.count_error(String::from_utf8_lossy(text).trim_end());
        }
    }

    /// Adds the time of a script to its command, and to the slow log if it was slow.
    fn count_script(&mut self, job: &ScriptJob, script: &ScriptRun) {
        let nanos = self.clock.monotonic_nanos().saturating_sub(script.started_nanos);
        self.stats.commands[job.command.id as usize].nanos += nanos;
        if self.settings.slowlog_log_slower_than >= 0
            && nanos / 1000 >= self.settings.slowlog_log_slower_than as u64
            && self.sessions.contains(job.session)
        {
            let args: Vec<&[u8]> = job.request.args.iter().map(|arg| &**arg).collect();
            self.note_slow(job.session, &args, nanos);
        }
    }
}

/// Whether other sessions must be served while the script runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    Quiet,
    Busy,
}

fn move_effects(from: &mut crate::effects::Effects, to: &mut crate::effects::Effects) {
    for operation in from.iter().flatten() {
        to.copy(&operation);
    }
    from.clear();
}

fn bulk(data: &[u8]) -> Vec<u8> {
    let mut out = Reply::default();
    out.bulk(data);
    out.into_bytes()
}

/// Returns `true` for commands that are not writes but whose effects other clients would see.
fn may_replicate(command: CommandRef) -> bool {
    matches!(command.name, "publish" | "spublish" | "pfcount")
}
