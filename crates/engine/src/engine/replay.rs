//! Runs logged operations at start.
//!
//! While a log is replayed nothing expires automatically (the log contains its own deletions),
//! nothing is logged again, no session is notified of changes, and nothing counts in the
//! statistics.

use std::sync::Arc;

use crate::ctx::{Caller, Ctx, Propagation};
use crate::effects::Operation;
use crate::resp::Reply;
use crate::script::{Finished, Nobody, ScriptHost, ScriptJob, Vm, run};
use crate::session::{Peer, SessionId, Transport};
use crate::stats::Stats;

use super::Engine;

impl Engine {
    /// Begins to replay.
    pub fn begin_replay(&mut self) -> Replay {
        let fresh = Stats::new(self.index.list().len());
        let stats = std::mem::replace(&mut self.stats, fresh);
        self.logging = false;
        self.host.loading = true;
        let peer =
            Peer { addr: String::new(), local_addr: String::new(), transport: Transport::Local };
        let id = self.open(peer);
        self.sessions[id.0].authenticated = true;
        Replay { session: id, stats, dirty: self.dirty }
    }

    /// Runs one operation of the log.
    ///
    /// # Errors
    /// The command's reply, if it refused: a log that this engine wrote never does.
    pub fn replay(&mut self, by: &Replay, operation: &Operation<'_>) -> Result<(), String> {
        let args: Vec<&[u8]> = operation.args().collect();
        let command = self.index.resolve(&args).map_err(|error| error.text().to_owned())?;
        let db = operation.db;
        if db as usize >= self.dbs.len() {
            return Err(format!("there is no database {db}"));
        }
        let now = self.now_ms();
        let session = by.session.0;
        self.sessions[session].db = db;
        let mut cx = Ctx {
            engine: self,
            session,
            db,
            now,
            command,
            caller: Caller::Replay,
            propagation: Propagation::Verbatim,
            parked: false,
        };
        let mut reply = Reply::onto(Vec::new(), crate::resp::Protocol::default());
        (command.run)(&mut cx, &args, &mut reply).map_err(|error| error.text().to_owned())?;
        match self.scripts.pending.take() {
            Some(job) => self.replay_library(*job),
            None => Ok(()),
        }
    }

    /// Loads a library again: its code only registers functions, so a separate interpreter without
    /// an engine is enough.
    fn replay_library(&mut self, job: ScriptJob) -> Result<(), String> {
        self.script = None;
        let ended = run(&mut Vm::new(), &job, &(Arc::new(Nobody) as Arc<dyn ScriptHost>));
        let reply = self.conclude(&Finished { job, ended });
        match reply.strip_prefix(b"-") {
            Some(text) => Err(String::from_utf8_lossy(text).trim_end().to_owned()),
            None => Ok(()),
        }
    }

    /// Ends a replay; from now on changes are recorded for the log if `logging` says so.
    pub fn end_replay(&mut self, replay: Replay, logging: Logging) {
        self.close(replay.session);
        self.host.loading = false;
        self.stats = replay.stats;
        self.dirty = replay.dirty;
        self.set_logging(logging);
    }

    /// Seconds since the Unix epoch.
    #[must_use]
    pub fn unix_seconds(&self) -> i64 {
        self.now_us / 1_000_000
    }

    /// Sets whether changes are recorded for a log from now on.
    pub fn set_logging(&mut self, logging: Logging) {
        self.logging = logging == Logging::On;
        if !self.logging {
            self.effects.clear();
        }
    }

    /// Returns `true` if a script is half way through its writes: the state is then between two
    /// records.
    #[must_use]
    pub fn is_scripting(&self) -> bool {
        self.script.is_some()
    }

    /// Removes all keys, to load them again (DEBUG RELOAD).
    pub fn forget_everything(&mut self) {
        for db in &mut self.dbs {
            db.empty_out(self.rng.next_u64());
        }
    }

    /// Returns the number of changes since the last snapshot.
    #[must_use]
    pub fn changes_since_save(&self) -> u64 {
        self.dirty.saturating_sub(self.dirty_at_save)
    }

    /// Records that a snapshot holds everything up to now.
    pub fn saved(&mut self) {
        self.dirty_at_save = self.dirty;
    }
}

/// A running replay, to be passed to [`Engine::end_replay`].
#[derive(Debug)]
#[must_use = "the engine is loading until the replay is ended"]
pub struct Replay {
    session: SessionId,
    stats: Stats,
    dirty: u64,
}

/// Whether changes are recorded for a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logging {
    /// They are recorded, and the host drains them with [`Engine::take_effects`].
    On,
    /// They are not recorded.
    Off,
}
