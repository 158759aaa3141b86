//! The engine: a deterministic function from (session, time, input bytes) to (output bytes, log).
//!
//! It has no sockets, no threads, no clock and no unseeded randomness. Hosts open sessions, feed
//! them bytes and drain their output (through [`crate::Core`], which also drives scripts); time
//! comes from the clock they pass in. Whatever a command does to other sessions (a message, a
//! blocked pop that can continue, an invalidation) is in their output when the call returns, and
//! they are in the list of touched sessions.
//!
//! Reading order: [`execute`] runs one request, [`input`] parses requests from bytes, [`wake`]
//! serves blocked sessions, [`cron`] does the periodic work, [`change`] notifies of changes.

mod change;
mod clients;
mod cron;
mod execute;
mod input;
mod replay;
pub(crate) mod scripting;
mod wake;

pub use replay::{Logging, Replay};

use std::sync::Arc;

use slab::Slab;

use crate::clock::Clock;
use crate::command::index::Index;
use crate::config::Settings;
use crate::effects::Effects;
use crate::evict::Pool;
use crate::garbage::{Garbage, Heap};
use crate::keyspace::Db;
use crate::pubsub::PubSub;
use crate::resp::Output;
use crate::rng::Rng;
use crate::script::{ScriptRun, ScriptStore};
use crate::session::{Ack, Peer, Session, SessionId};
use crate::slowlog::SlowLog;
use crate::stats::Stats;
use crate::tracking::Tracking;
use crate::wait::{Waiting, Watches};

/// Start options of an engine.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Seeds hash tables and every random choice; the same seed and input give the same output.
    pub seed: u64,
    /// The settings.
    pub settings: Settings,
    /// Whether changes are kept for a log (see [`Engine::take_effects`]).
    pub logging: bool,
}

/// A request that only the host can fulfil; the session that asked waits for [`Engine::answer`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostRequest {
    /// SAVE: write a snapshot, then answer.
    Save(SessionId),
    /// BGSAVE: begin a snapshot, answer at once.
    BackgroundSave(SessionId),
    /// BGSAVE SCHEDULE: begin a snapshot, or do so when a rewrite has ended; answer at once.
    ScheduleSave(SessionId),
    /// BGREWRITEAOF: begin a rewrite of the log, answer at once.
    Rewrite(SessionId),
    /// DEBUG RELOAD and DEBUG LOADAOF: write everything out and read it again, then answer.
    Reload(SessionId),
    /// SHUTDOWN: end the process; an answer means that it failed.
    Shutdown {
        /// The session that asked.
        session: SessionId,
        /// `Some(true)` for SAVE, `Some(false)` for NOSAVE.
        save: Option<bool>,
    },
    /// CONFIG SET changed settings that the host acts on.
    SettingsChanged,
    /// A script wrote a line to the server's log.
    Log {
        /// 0 to 3: debug, verbose, notice, warning.
        level: u8,
        /// The line.
        text: String,
    },
    /// CONFIG REWRITE: write the settings to the configuration file, then answer.
    RewriteConfig(SessionId),
}

/// Facts that only the host knows, for INFO.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "the fields are INFO's, by the same names")]
pub struct HostInfo {
    pub process_id: u32,
    pub tcp_port: u16,
    pub run_id: String,
    pub executable: String,
    pub config_file: String,
    pub loading: bool,
    pub aof_enabled: bool,
    pub aof_rewrite_in_progress: bool,
    pub aof_rewrite_scheduled: bool,
    pub aof_last_bgrewrite_ok: bool,
    pub aof_last_write_ok: bool,
    pub aof_current_size: u64,
    pub aof_base_size: u64,
    pub rdb_bgsave_in_progress: bool,
    pub rdb_last_save_unix: i64,
    pub rdb_last_bgsave_ok: bool,
    pub used_memory_rss: u64,
    pub longest_turn_usec: u64,
    pub longest_turn_duty: &'static str,
    pub longest_turn_unix: i64,
    /// The figures above were reset; the host restarts them.
    pub longest_turn_reset: bool,
    pub used_cpu_sys_micros: u64,
    pub used_cpu_user_micros: u64,
}

/// A pause requested by CLIENT PAUSE.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pause {
    pub(crate) until_ms: i64,
    pub(crate) writes_only: bool,
}

/// All state of one server.
pub struct Engine {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) now_us: i64,
    pub(crate) started_ms: i64,
    pub(crate) rng: Rng,
    pub(crate) settings: Settings,
    pub(crate) index: Index,
    pub(crate) dbs: Vec<Db>,
    pub(crate) sessions: Slab<Session>,
    pub(crate) next_client_id: u64,
    /// Bytes that all sessions hold; see `clients.rs`.
    pub(crate) client_bytes: usize,
    /// Large arguments of the current request, which values can keep without copying.
    pub(crate) large_args: Vec<Arc<Vec<u8>>>,
    pub(crate) touched: Vec<SessionId>,
    pub(crate) runnable: std::collections::VecDeque<usize>,
    pub(crate) waiting: Waiting,
    pub(crate) watches: Watches,
    pub(crate) pubsub: PubSub,
    pub(crate) tracking: Tracking,
    pub(crate) monitors: Vec<usize>,
    pub(crate) stats: Stats,
    pub(crate) slowlog: SlowLog,
    pub(crate) dirty: u64,
    pub(crate) dirty_at_save: u64,
    pub(crate) logging: bool,
    pub(crate) effects: Effects,
    /// Effects from before the running script; they may be written already.
    pub(crate) sealed: Effects,
    /// The log cannot accept writes: the text that refuses them.
    pub(crate) refuse_writes: Option<String>,
    pub(crate) scripts: ScriptStore,
    pub(crate) script: Option<ScriptRun>,
    pub(crate) pause: Option<Pause>,
    /// DEBUG SLEEP: nothing runs before this time.
    pub(crate) asleep_until: Option<i64>,
    pub(crate) evict_pool: Pool,
    pub(crate) requests: Vec<HostRequest>,
    pub(crate) garbage: Heap,
    pub(crate) host: HostInfo,
    pub(crate) last_cron_ms: i64,
    /// The database that expiry begins with.
    pub(crate) expire_first: usize,
    /// When the operator was last warned of a client that speaks HTTP.
    pub(crate) http_warned_ms: Option<i64>,
    /// DEBUG PAUSE-CRON: the periodic work is not done.
    pub(crate) cron_paused: bool,
}

impl Engine {
    pub(crate) fn new(options: Options, clock: Arc<dyn Clock>) -> Engine {
        let index = Index::new();
        let now_us = clock.unix_micros();
        let databases = usize::try_from(options.settings.databases).unwrap_or(16).max(1);
        let mut rng = Rng::new(options.seed);
        Engine {
            clock,
            now_us,
            started_ms: now_us / 1000,
            dbs: (0..databases).map(|_| Db::new(rng.next_u64())).collect(),
            rng,
            stats: Stats::new(index.list().len()),
            index,
            settings: options.settings,
            sessions: Slab::new(),
            next_client_id: 1,
            client_bytes: 0,
            large_args: Vec::new(),
            touched: Vec::new(),
            runnable: std::collections::VecDeque::new(),
            waiting: Waiting::default(),
            watches: Watches::default(),
            pubsub: PubSub::default(),
            tracking: Tracking::new(options.seed),
            monitors: Vec::new(),
            slowlog: SlowLog::default(),
            dirty: 0,
            dirty_at_save: 0,
            logging: options.logging,
            effects: Effects::new(),
            sealed: Effects::new(),
            refuse_writes: None,
            scripts: ScriptStore::default(),
            script: None,
            pause: None,
            asleep_until: None,
            evict_pool: Pool::default(),
            requests: Vec::new(),
            garbage: Heap::default(),
            host: HostInfo::default(),
            last_cron_ms: 0,
            expire_first: 0,
            http_warned_ms: None,
            cron_paused: false,
        }
    }

    /// Begins a session.
    pub(crate) fn open(&mut self, peer: Peer) -> SessionId {
        let client_id = self.next_client_id;
        self.next_client_id += 1;
        self.stats.total_connections += 1;
        let authenticated = self.settings.requirepass.is_empty();
        let now_ms = self.now_us / 1000;
        let session = self.sessions.insert(Session::new(client_id, peer, now_ms, authenticated));
        self.recount(session);
        SessionId(session)
    }

    /// Ends a session and everything it held.
    pub(crate) fn close(&mut self, id: SessionId) {
        if !self.sessions.contains(id.0) {
            return;
        }
        self.unblock(id.0);
        self.leave_all(id.0);
        self.unwatch(id.0);
        self.stop_tracking(id.0);
        self.tracking.forget_pending(id.0);
        self.monitors.retain(|s| *s != id.0);
        self.touched.retain(|s| *s != id);
        self.runnable.retain(|s| *s != id.0);
        // A script continues without its caller, as in Redis; its reply is dropped.
        if let Some(script) = &mut self.script
            && script.session == id.0
        {
            script.orphaned = true;
            let state = &mut self.sessions[id.0];
            (state.output, state.unsent) = (Output::default(), 0);
            self.recount(id.0);
            return;
        }
        self.forget_session(id.0);
    }

    /// Returns the pending output of a session; the host drains it.
    pub fn output(&mut self, id: SessionId) -> Option<&mut Output> {
        self.sessions.get_mut(id.0).map(|session| &mut session.output)
    }

    /// Takes the pending output of a session, in one piece.
    pub fn take_output(&mut self, id: SessionId) -> Option<Vec<u8>> {
        self.output(id).map(|output| std::mem::take(output).into_bytes())
    }

    /// Moves the acknowledgements in the session's output to `into`; the host calls it when it
    /// takes the output.
    pub fn take_acks(&mut self, id: SessionId, into: &mut Vec<Ack>) {
        if let Some(session) = self.sessions.get_mut(id.0) {
            into.append(&mut session.acks);
        }
    }

    /// Drops the pending output of a session.
    pub fn drop_output(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(id.0) {
            session.output = Output::default();
            session.acks.clear();
            self.recount(id.0);
        }
    }

    /// Moves the sessions with new output, or that must be closed, since the last call to `into`.
    pub fn take_touched(&mut self, into: &mut Vec<SessionId>) {
        for id in self.touched.drain(..) {
            if let Some(session) = self.sessions.get_mut(id.0) {
                session.touched = false;
                into.push(id);
            }
        }
    }

    /// Returns `true` if a session must be closed once its output is flushed.
    #[must_use]
    pub fn wants_close(&self, id: SessionId) -> bool {
        self.sessions.get(id.0).is_none_or(|session| session.close_after_flush)
    }

    /// Returns `true` if more input is useful now; otherwise the host may stop reading for a while.
    #[must_use]
    pub fn wants_input(&self, id: SessionId) -> bool {
        const ENOUGH: usize = 1 << 20;
        self.sessions
            .get(id.0)
            .is_some_and(|session| session.blocked.is_none() || session.input.len() < ENOUGH)
    }

    /// Returns when [`crate::Core::tick`] has work to do, in Unix milliseconds.
    #[must_use]
    pub fn next_deadline(&self) -> Option<i64> {
        let pause = self.pause.map(|pause| pause.until_ms);
        [self.waiting.next_deadline(), pause, self.asleep_until].into_iter().flatten().min()
    }

    /// Moves the operations for the log to `into` and returns their number. The operations of a
    /// script are returned only when it has ended, so that they stay together.
    pub fn take_effects(&mut self, into: &mut Vec<u8>) -> u64 {
        let from = if self.script.is_some() { &mut self.sealed } else { &mut self.effects };
        let operations = from.operations();
        into.extend_from_slice(from.as_bytes());
        from.clear();
        operations
    }

    /// Moves the requests to the host to `into`.
    pub fn take_requests(&mut self, into: &mut Vec<HostRequest>) {
        into.append(&mut self.requests);
    }

    /// Takes large values that were removed; the host drops them on a thread that no client waits
    /// for.
    #[must_use]
    pub fn take_garbage(&mut self) -> Vec<Garbage> {
        self.garbage.take()
    }

    /// Answers a session that waits for the host.
    pub fn answer(&mut self, id: SessionId, result: Result<&str, &str>) {
        if self.sessions.get(id.0).is_none_or(|session| session.blocked.is_none()) {
            return;
        }
        self.unblock(id.0);
        self.reply_to(id.0, |out| match result {
            Ok(text) => out.simple(text),
            Err(text) => out.error(text),
        });
        self.make_runnable(id.0);
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the facts that only the host knows, for INFO; the host keeps them up to date.
    pub fn host_info(&mut self) -> &mut HostInfo {
        &mut self.host
    }

    /// Refuses writes with this text (the log failed), or accepts them again.
    pub fn refuse_writes(&mut self, text: Option<String>) {
        self.refuse_writes = text;
    }

    /// Counts a connection that the host rejected.
    pub fn count_rejected_connection(&mut self) {
        self.stats.rejected_connections += 1;
    }

    /// Sets how many bytes of a session's output wait in the host; they count as the client's
    /// memory.
    pub fn set_unsent(&mut self, id: SessionId, bytes: usize) {
        if let Some(session) = self.sessions.get_mut(id.0) {
            session.unsent = bytes;
            self.recount(id.0);
        }
    }

    /// Returns `true` if a session must be closed now, even with unsent output.
    #[must_use]
    pub fn wants_drop(&self, id: SessionId) -> bool {
        self.sessions.get(id.0).is_some_and(|session| session.doomed)
    }

    /// Estimated bytes in use, as INFO's `used_memory`.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.used_memory() as u64
    }

    /// Returns the number of open sessions.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Returns `true` if a session is subscribed to channels, for the output limits of its class.
    #[must_use]
    pub fn is_subscriber(&self, id: SessionId) -> bool {
        self.sessions.get(id.0).is_some_and(|session| session.all_subscriptions() > 0)
    }

    /// Returns when the session last sent something, in Unix milliseconds.
    #[must_use]
    pub fn last_active_ms(&self, id: SessionId) -> Option<i64> {
        self.sessions.get(id.0).map(|session| session.last_ms)
    }

    /// Returns `true` if the session waits for data or replicas, which does not count as idle.
    #[must_use]
    pub fn is_blocked(&self, id: SessionId) -> bool {
        self.sessions.get(id.0).is_some_and(|session| session.blocked.is_some())
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.now_us / 1000
    }

    /// Reads the clock, once per batch.
    pub(crate) fn refresh_time(&mut self) {
        self.now_us = self.clock.unix_micros();
    }

    /// Estimated bytes in use: data, buffers and tables.
    pub(crate) fn used_memory(&self) -> usize {
        const BASE: usize = 512 << 10;
        let data: usize = self.dbs.iter().map(Db::heap_bytes).sum();
        BASE + data + self.client_bytes
    }
}
