//! The event loop: one thread that moves bytes between sockets and the engine.
//!
//! ```text
//! wait ─▶ accept ─▶ read and feed each ready connection ─▶ tick, if due ─▶ flush ─▶ wait …
//! ```
//!
//! Replies are written at the end of a turn: one lock of the engine collects the output of all
//! connections that were fed or touched, the log is written, then each connection gets one write.
//!
//! **Long scripts.** A script runs inside `feed`, on this thread. Past its time limit the engine
//! calls back, and [`EventLoop::serve_while_busy`] does a turn of its own, so that SCRIPT KILL can
//! arrive. That is why the sockets are behind a lock that is never held during `feed`, why buffers
//! are taken out of their place while in use, and why connections that are being executed are
//! neither read nor closed by the inner turn.

use std::{
    mem,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::ThreadId,
    time::Duration,
};

use mio::Poll;
use seawall_engine::Clock;

use crate::{
    connection::{Input, Stage},
    error::StopError,
    give_back,
    hub::{Hub, lock},
    listener::Listener,
    notice::Level,
    process,
    sockets::{Admission, Sockets},
    turns::{Duty, Turns},
};

/// Maximum bytes per read.
const READ_SIZE: usize = 64 * 1024;
/// Interval of the engine's periodic work.
const TICK_MS: u64 = 100;
/// Interval at which INFO's figures about the process are updated.
const DESCRIBE_MS: u64 = 1000;

/// How long the loop may sleep, and why.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sleep {
    pub(crate) timeout: Duration,
    /// When the engine needs a tick before the period ends, in unix milliseconds.
    pub(crate) deadline: Option<i64>,
}

/// The event loop of one server.
pub(crate) struct EventLoop {
    pub(crate) hub: Arc<Hub>,
    clock: Arc<dyn Clock>,
    pub(crate) sockets: Mutex<Sockets>,
    /// The shared read buffer; empty while a turn uses it.
    buffer: Mutex<Vec<u8>>,
    thread: OnceLock<ThreadId>,
    /// A turn inside a script is running.
    nested: AtomicBool,
    turns: Turns,
}

impl EventLoop {
    pub(crate) fn new(
        hub: Arc<Hub>,
        clock: Arc<dyn Clock>,
        poll: Poll,
        listeners: Vec<Listener>,
    ) -> std::io::Result<Self> {
        let admission = Admission::of(hub.core.engine().settings());
        Ok(Self {
            hub,
            clock,
            sockets: Mutex::new(Sockets::new(poll, listeners, admission)?),
            buffer: Mutex::default(),
            thread: OnceLock::new(),
            nested: AtomicBool::new(false),
            turns: Turns::default(),
        })
    }

    /// Serves until the hub is asked to stop; then closes all connections.
    pub(crate) fn run(&self) -> Result<(), StopError> {
        // Set once: a loop runs on one thread.
        let _ = self.thread.set(std::thread::current().id());
        let (mut next_tick_ms, mut next_describe_ms) = (0, 0);
        let mut sleep = Sleep::default();
        while !self.hub.is_stopping() {
            self.turn(sleep.timeout);
            self.hub.check_log();
            let now_ms = self.now_ms();
            let due = sleep.deadline.is_some_and(|at| at <= self.unix_ms());
            if due || now_ms >= next_tick_ms {
                self.busy_with(Duty::Tick, || self.hub.core.tick());
            }
            if now_ms >= next_tick_ms {
                next_tick_ms = now_ms + TICK_MS;
                self.busy_with(Duty::Sweep, || self.sweep());
            }
            if now_ms >= next_describe_ms {
                next_describe_ms = now_ms + DESCRIBE_MS;
                self.busy_with(Duty::Sweep, || self.describe());
            }
            sleep = self.flush(next_tick_ms - now_ms);
        }
        self.say_goodbye()
    }

    /// Serves the sockets from inside a script that runs on this thread past its limit.
    pub(crate) fn serve_while_busy(&self) {
        if self.hub.is_stopping() {
            self.hub.abort_script();
            return;
        }
        if self.thread.get() != Some(&std::thread::current().id()) {
            return; // An in-process caller's script: the loop is free and serves by itself.
        }
        if self.nested.swap(true, Ordering::Relaxed) {
            return;
        }
        self.turn(Duration::ZERO);
        let _ = self.flush(TICK_MS);
        self.nested.store(false, Ordering::Relaxed);
    }

    /// Runs `work` and records how long it took.
    pub(crate) fn busy_with<T>(&self, duty: Duty, work: impl FnOnce() -> T) -> T {
        let started = self.clock.monotonic_nanos();
        let result = work();
        let nanos = self.clock.monotonic_nanos().saturating_sub(started);
        self.turns.note(duty, nanos, || self.unix_ms());
        result
    }

    /// Updates INFO's figures. The system is queried without the engine's lock.
    fn describe(&self) {
        let process = process::Figures::read();
        let mut engine = self.hub.core.engine();
        process.tell(engine.host_info());
        self.turns.describe(engine.host_info());
        let due = give_back::is_due(process.resident_bytes().unwrap_or(0), engine.used_bytes());
        drop(engine);
        if due {
            give_back::nudge();
        }
    }

    fn now_ms(&self) -> u64 {
        self.clock.monotonic_nanos() / 1_000_000
    }

    pub(crate) fn unix_ms(&self) -> i64 {
        self.clock.unix_micros() / 1000
    }

    /// Waits for events, accepts new clients, and reads from each ready connection once.
    fn turn(&self, timeout: Duration) {
        let mut sockets = lock(&self.sockets);
        if let Err(error) = sockets.wait(timeout) {
            self.hub.notices.tell(Level::Warning, format_args!("cannot wait for events: {error}"));
            return;
        }
        sockets.now_ms = self.now_ms();
        sockets.accept(&self.hub);
        let mut buffer = mem::take(&mut *lock(&self.buffer));
        if buffer.is_empty() {
            buffer.resize(READ_SIZE, 0);
        }
        // Only what is ready now: connections that are queued again wait for the next turn.
        for _ in 0..sockets.ready.len() {
            if self.hub.is_stopping() {
                break;
            }
            let Some(slot) = sockets.ready.pop_front() else { break };
            sockets = self.serve(sockets, slot, &mut buffer);
        }
        drop(sockets);
        *lock(&self.buffer) = buffer;
    }

    /// Reads once from a connection and executes the input, with the sockets' lock released.
    fn serve<'a>(
        &'a self,
        mut guard: MutexGuard<'a, Sockets>,
        slot: usize,
        buffer: &mut [u8],
    ) -> MutexGuard<'a, Sockets> {
        let sockets = &mut *guard;
        let now_ms = sockets.now_ms;
        let executing = sockets.executing.contains(&slot);
        let Some(connection) = sockets.connections.get_mut(slot) else { return guard };
        connection.queued = false;
        if executing || !connection.readable {
            // A connection that is being executed is checked again when it has finished.
            return guard;
        }
        if connection.stage != Stage::Open || connection.paused {
            if connection.peer_closed && connection.paused {
                sockets.remove(&self.hub, slot);
            }
            return guard;
        }
        match connection.read(buffer) {
            Input::Bytes(count) => {
                connection.active_ms = now_ms;
                let session = connection.session;
                sockets.executing.push(slot);
                drop(guard);
                self.busy_with(Duty::Requests, || self.hub.core.feed(session, &buffer[..count]));
                guard = lock(&self.sockets);
                guard.executing.pop();
                guard.mark(slot);
                if guard.connections.get(slot).is_some_and(|connection| connection.readable) {
                    guard.queue(slot);
                }
            }
            Input::Nothing => {}
            Input::End => {
                connection.stage = Stage::Closing;
                connection.readable = false;
                sockets.mark(slot);
            }
            Input::Broken => sockets.remove(&self.hub, slot),
        }
        guard
    }
}
