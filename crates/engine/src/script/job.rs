//! What the engine and the driver of scripts say to each other.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::Error;
use crate::resp::Protocol;

/// A script to be run outside the engine.
#[derive(Debug)]
pub(crate) struct ScriptJob {
    /// The session in whose name it runs.
    pub(crate) session: usize,
    /// The protocol of the reply.
    pub(crate) protocol: Protocol,
    pub(crate) work: Work,
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Work {
    /// EVAL and EVALSHA.
    Eval { sha: String, source: Arc<[u8]>, keys: Vec<Vec<u8>>, args: Vec<Vec<u8>>, read_only: bool },
    /// SCRIPT LOAD: compile and remember.
    Load { source: Arc<[u8]> },
}

/// Scripts by their SHA1, and the job that the current command has just made.
#[derive(Debug, Default)]
pub(crate) struct ScriptStore {
    pub(crate) by_sha: HashMap<String, Arc<[u8]>>,
    pub(crate) pending: Option<Box<ScriptJob>>,
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
    /// What `redis.call` answers in; `redis.setresp` changes it.
    pub(crate) protocol: Protocol,
    pub(crate) read_only: bool,
    /// It has changed something and can no longer be killed.
    pub(crate) wrote: bool,
    /// It is past its time limit: others are told so instead of waiting.
    pub(crate) busy: bool,
    /// Somebody asked to end it.
    pub(crate) killed: bool,
    /// Its session has gone.
    pub(crate) orphaned: bool,
    /// Name of the function, for scripts that are one.
    pub(crate) function: Option<String>,
}

impl ScriptRun {
    /// What everyone else is told while the script is past its time.
    pub(crate) fn busy_error(&self) -> Error {
        Error::fixed(if self.function.is_some() {
            "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
        } else {
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
        })
    }
}
