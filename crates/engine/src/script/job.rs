//! Messages between the engine and the driver of scripts.

use std::sync::Arc;

use super::RegisteredFunction;
use super::store::{LibraryId, Script, Sha};
use super::vm::ScriptReply;
use crate::command::index::CommandRef;
use crate::error::Error;
use crate::resp::Protocol;

/// A request that an interpreter is needed for, and where its keys are.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) args: Arc<[Box<[u8]>]>,
    /// How many arguments from the fourth on are keys.
    pub(crate) key_count: usize,
}

impl Request {
    const FIRST_KEY: usize = 3;

    /// Copies a request; it outlives the buffer that it came in.
    pub(crate) fn new(args: &[&[u8]], key_count: usize) -> Request {
        Request { args: args.iter().map(|arg| Box::from(*arg)).collect(), key_count }
    }

    /// `KEYS`
    pub(crate) fn keys(&self) -> &[Box<[u8]>] {
        &self.args[Self::FIRST_KEY..Self::FIRST_KEY + self.key_count]
    }

    /// `ARGV`
    pub(crate) fn argv(&self) -> &[Box<[u8]>] {
        &self.args[Self::FIRST_KEY + self.key_count..]
    }
}

/// A job to be run outside the engine.
#[derive(Debug)]
pub(crate) struct ScriptJob {
    /// The session on whose behalf it runs.
    pub(crate) session: usize,
    /// The protocol of the reply.
    pub(crate) protocol: Protocol,
    /// The command that requested it.
    pub(crate) command: CommandRef,
    /// Its arguments.
    pub(crate) request: Request,
    /// Libraries that the interpreter may drop.
    pub(crate) retired: Vec<LibraryId>,
    pub(crate) work: Work,
}

/// Kinds of work.
#[derive(Debug)]
pub(crate) enum Work {
    /// EVAL and EVALSHA.
    Eval { generation: u64, sha: Sha, script: Script },
    /// SCRIPT LOAD: compile and remember.
    Compile { generation: u64, sha: Sha, script: Script },
    /// FUNCTION LOAD: run the code of a library, which registers functions.
    LoadLibrary { generation: u64, id: LibraryId, name: Vec<u8>, source: Arc<[u8]>, code_at: usize },
    /// FCALL.
    CallFunction {
        generation: u64,
        id: LibraryId,
        source: Arc<[u8]>,
        code_at: usize,
        function: Vec<u8>,
    },
}

/// A job that was run.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) job: ScriptJob,
    pub(crate) ended: Ended,
}

/// How it ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// A script or function has replied.
    Replied(ScriptReply),
    /// A script was compiled, or the text of the error.
    Compiled(Result<(), Vec<u8>>),
    /// A library has registered functions, or the text of the error.
    Loaded(Result<Vec<RegisteredFunction>, Vec<u8>>),
}

/// The script that runs now. While there is one, no other session's requests run.
#[derive(Debug)]
pub(crate) struct ScriptRun {
    pub(crate) session: usize,
    /// The database that the script has selected.
    pub(crate) db: u32,
    /// Time stands still inside a script.
    pub(crate) now_ms: i64,
    pub(crate) started_nanos: u64,
    pub(crate) read_only: bool,
    /// Memory was above its limit at the start, and the script may not write then.
    pub(crate) out_of_memory: bool,
    /// Whether its writes are logged; `redis.set_repl` changes it.
    pub(crate) logged: bool,
    /// It has changed something and can no longer be killed.
    pub(crate) wrote: bool,
    /// It is past its time limit: other clients get an error instead of waiting.
    pub(crate) busy: bool,
    /// A client asked to end it.
    pub(crate) killed: bool,
    /// Its session has gone.
    pub(crate) orphaned: bool,
    /// What runs, for limits and messages.
    pub(crate) kind: RunKind,
}

/// What kind of code runs.
#[derive(Debug)]
pub(crate) enum RunKind {
    Script,
    /// A function, with its name and the request that called it.
    Function(Vec<u8>, Request),
    /// The code of a library, which must run quickly.
    Loading,
}

impl ScriptRun {
    /// Returns the error that other clients get while the script is past its time limit.
    pub(crate) fn busy_error(&self) -> Error {
        Error::fixed(match self.kind {
            RunKind::Function(..) => {
                "BUSY Redis is busy running a script. \
                 You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
            }
            RunKind::Script | RunKind::Loading => {
                "BUSY Redis is busy running a script. \
                 You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
            }
        })
    }
}
