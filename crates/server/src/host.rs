//! An engine without a thread and without a socket, for a caller that owns the time.
//!
//! A [`Server`](crate::Server) has a thread that gives the engine its periodic work. A [`Host`] has
//! none: commands run on the thread that writes them to a [`LocalStream`], and the caller calls
//! [`Host::tick`] at the moments that [`Host::due_ms`] names. On one thread, with an injected clock, a
//! seed and the same input, it gives the same replies in the same order.
//!
//! A [`Config::journal`] may break both: the log on disk (`aof`) writes on a thread of its own and reads
//! the machine's clock.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use seawall_engine::{Clock, Core, Options};

use crate::{
    clock::SystemClock,
    config::Config,
    error::{StartError, StopError},
    hub::Hub,
    local::LocalStream,
};

/// Interval of the engine's periodic work, in milliseconds.
const TICK_MS: i64 = 100;

/// An engine that the caller drives.
///
/// ```
/// use seawall_server::{Config, Host};
///
/// let host = Host::new(Config::default())?;
/// let stream = host.connect(); // Speaks RESP; any Redis client can use it.
/// host.tick(); // Expires keys, ends blocked commands whose time is over.
/// drop(stream);
/// host.stop()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Host {
    hub: Arc<Hub>,
    clock: Arc<dyn Clock>,
    /// When the periodic work is due, in unix milliseconds.
    next_tick_ms: AtomicI64,
}

impl Host {
    /// Creates an engine. Its id in INFO comes from the seed.
    ///
    /// # Errors
    /// If the settings name an address or a socket to listen on, or the log cannot be opened.
    pub fn new(config: Config) -> Result<Self, StartError> {
        if !config.listen.is_empty() || config.unix_socket.is_some() {
            let text = "a host without a thread cannot listen; use Server::start";
            return Err(StartError::System(io::Error::other(text)));
        }
        let clock = config.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        let run_id = format!("{:040x}", config.engine.seed);
        let options = Options { logging: config.journal.is_some(), ..config.engine };
        let core = Core::new(options, Arc::clone(&clock));
        let journal = config.journal.map(|open| open(&core, &config.notices)).transpose()?;
        core.engine().host_info().run_id = run_id;
        let hub = Arc::new(Hub::new(core, journal, config.notices, None));
        hub.listen_to_log();
        Ok(Self { hub, clock, next_tick_ms: AtomicI64::new(0) })
    }

    /// Opens a connection.
    pub fn connect(&self) -> LocalStream {
        LocalStream::open(Arc::clone(&self.hub))
    }

    /// Returns the engine, for callers that inspect it.
    pub fn core(&self) -> &Arc<Core> {
        &self.hub.core
    }

    /// Returns when [`Host::tick`] must be called next, in unix milliseconds; 0 means at once. A command
    /// may set an earlier time, such as the end of a blocked pop.
    pub fn due_ms(&self) -> i64 {
        if self.hub.has_requests() {
            return 0;
        }
        let periodic = self.next_tick_ms.load(Ordering::Relaxed);
        let engine = self.hub.core.engine();
        engine.next_deadline().map_or(periodic, |deadline| deadline.min(periodic))
    }

    /// Does what is due: expires keys, ends blocked commands whose time is over, handles what commands
    /// request of their host, and wakes the streams that have new output.
    pub fn tick(&self) {
        self.hub.check_log();
        self.hub.core.tick();
        let now_ms = self.clock.unix_micros() / 1000;
        if now_ms >= self.next_tick_ms.load(Ordering::Relaxed) {
            self.next_tick_ms.store(now_ms + TICK_MS, Ordering::Relaxed);
            if let Some(journal) = &self.hub.journal {
                journal.tick(&mut self.hub.core.engine());
            }
        }
        self.settle();
        let (mut sockets, mut requests) = (Vec::new(), Vec::new());
        self.hub.take_sockets(&mut sockets, &mut requests);
        if !requests.is_empty() {
            self.hub.handle(requests);
            // Clients that got their replies may have more to do.
            self.hub.core.tick();
            self.settle();
        }
        if self.hub.is_stopping() && !self.hub.is_stopped() {
            // SHUTDOWN has no caller to report to; the log tells its trouble itself.
            let _ = self.stop();
        }
    }

    /// Ends the engine: makes the log durable and ends all streams.
    ///
    /// # Errors
    /// If the log could not be closed.
    pub fn stop(&self) -> Result<(), StopError> {
        self.settle();
        let closed = self.hub.journal.as_ref().map_or(Ok(()), |journal| journal.close());
        self.hub.set_stopped();
        if let Some(journal) = &self.hub.journal {
            journal.release();
        }
        Ok(closed?)
    }

    /// Returns `true` if the engine has ended, because of [`Host::stop`] or SHUTDOWN.
    pub fn is_stopped(&self) -> bool {
        self.hub.is_stopped()
    }

    /// Stages effects and wakes the streams with new output.
    fn settle(&self) {
        let settled = self.hub.settle(&mut self.hub.core.engine(), None);
        self.hub.finish(settled);
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}
