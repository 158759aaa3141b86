//! Lua scripts and function libraries.
//!
//! The engine never holds an interpreter. A command that needs one (`EVAL`,
//! `SCRIPT LOAD`, `FCALL`, `FUNCTION LOAD`) makes the engine hand out a
//! [`ScriptJob`]; the driver runs it on a [`Vm`], outside of the engine's lock,
//! and gives the result back. Inside the run, each `redis.call` comes out again
//! through [`ScriptHost`], which locks the engine for that one command. So no
//! borrow of the engine lives across script code, and while a script runs for
//! too long another thread, or the host from inside the count hook, can lock the
//! engine, be told that it is busy, and stop the script.
//!
//! The interpreter is a cache: jobs carry the source, and a [`Vm`] that does not
//! know a script or a library compiles it again. What a script or library *is*
//! (source, flags, names) is data of the engine; see `store.rs`.
//!
//! Lua 5.1 cannot yield across `pcall`, so nothing here is built on coroutines.

mod api;
mod arguments;
mod convert;
mod fail;
mod guard;
mod job;
mod lib;
mod library;
mod number;
mod pairs;
mod prelude;
mod reply;
mod run;
mod sandbox;
pub(crate) mod shebang;
mod store;
mod vm;

#[cfg(test)]
mod tests;

pub(crate) use job::{Ended, Finished, Request, RunKind, ScriptJob, ScriptRun, Work};
pub(crate) use run::{Nobody, run};
pub(crate) use store::{Library, Script, ScriptStore, Sha, hex_sha1};
pub(crate) use vm::{Call, RegisteredFunction, Vm};

/// Maximum memory of one interpreter; beyond it a script fails with "not enough memory".
///
/// Redis has no such bound: there a script takes memory until the system ends the process. This one
/// holds the largest value a command takes (512 MiB) several times.
pub(crate) const MAX_LUA_BYTES: usize = 2 << 30;
/// Length of one string that a library function makes; checked before it is made.
pub(crate) const MAX_STRING_BYTES: usize = 1 << 30;

/// Answer to the count hook of a running script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tick {
    /// Go on.
    Continue,
    /// Stop the script; it cannot catch this.
    Kill,
}

/// Levels of `redis.log`, in Redis' order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LogLevel {
    Debug,
    Verbose,
    Notice,
    Warning,
}

/// What a running script needs from the engine around it.
///
/// Called on the thread that runs the script. Nothing of the [`Vm`] is locked
/// against the implementation, which may take the engine's lock in every method.
pub(crate) trait ScriptHost: Send + Sync {
    /// Executes one command of the script and appends its reply, in the given
    /// protocol version (2 or 3), to `reply`. A refused command is an error reply.
    fn call(&self, protocol: u8, args: &[&[u8]], reply: &mut Vec<u8>);

    /// Whether the caller may execute this command; `None` if there is no such
    /// command. Answers `redis.acl_check_cmd`.
    fn may_call(&self, args: &[&[u8]]) -> Option<bool>;

    /// Chooses where the effects of the following writes go
    /// (`redis.set_repl`): the log, replicas, both or neither.
    fn set_repl(&self, to_log: bool, to_replicas: bool);

    /// Writes a line to the server's log.
    fn log(&self, level: LogLevel, message: &[u8]);

    /// Asked every few thousand instructions, and as often by functions that work for long.
    fn tick(&self) -> Tick;
}
