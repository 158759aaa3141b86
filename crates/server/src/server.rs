//! Starts and stops a server.

use std::{
    hash::{BuildHasher, RandomState},
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, PoisonError, Weak},
    thread::JoinHandle,
};

use mio::Poll;
use seawall_engine::{Core, Options};

use crate::{
    clock::SystemClock,
    config::Config,
    error::{StartError, StopError},
    event_loop::EventLoop,
    hub::{Hub, lock},
    listener::Listener,
    local::LocalStream,
    sockets::WAKE,
};

/// Starts servers.
///
/// ```
/// use seawall_server::{Config, Server};
///
/// let server = Server::start(Config::loopback(0))?;
/// assert!(server.addr().is_some());
/// server.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Server;

/// How a server ended; empty while it runs.
#[derive(Default)]
struct End {
    result: Mutex<Option<Result<(), StopError>>>,
    changed: Condvar,
}

/// A running server. Dropping it shuts the server down.
pub struct Handle {
    hub: Arc<Hub>,
    addrs: Vec<SocketAddr>,
    unix_path: Option<PathBuf>,
    end: Arc<End>,
    thread: Option<JoinHandle<()>>,
}

/// Requests the end of a server, from any thread.
#[derive(Clone)]
pub struct Stopper(Weak<Hub>);

impl Server {
    /// Starts a server on its own thread.
    ///
    /// # Errors
    /// If it cannot listen on a configured address, or may not listen there without a password.
    pub fn start(config: Config) -> Result<Handle, StartError> {
        let protected = !config.engine.settings.requirepass.is_empty();
        let mut listeners = Vec::new();
        for addr in config.listen {
            if !protected && !addr.ip().is_loopback() {
                return Err(StartError::Unprotected(addr));
            }
            listeners.push(Listener::tcp(addr)?);
        }
        let addrs: Vec<SocketAddr> = listeners.iter().filter_map(Listener::addr).collect();
        if let Some(path) = &config.unix_socket {
            listeners.push(Listener::unix(path, config.unix_permissions)?);
        }
        let clock = config.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        let options = Options { logging: config.journal.is_some(), ..config.engine };
        let core = Core::new(options, Arc::clone(&clock));
        let journal = config.journal.map(|open| open(&core, &config.notices)).transpose()?;
        introduce(&core, &addrs);
        let poll = Poll::new().map_err(StartError::System)?;
        let waker = mio::Waker::new(poll.registry(), WAKE).map_err(StartError::System)?;
        let hub = Arc::new(Hub::new(core, journal, config.notices, Some(waker)));
        let event_loop =
            EventLoop::new(Arc::clone(&hub), clock, poll, listeners).map_err(StartError::System)?;
        let event_loop = Arc::new(event_loop);
        connect_callbacks(&hub, &event_loop);
        let end = Arc::new(End::default());
        let thread = spawn(event_loop, Arc::clone(&end)).map_err(StartError::System)?;
        Ok(Handle { hub, addrs, unix_path: config.unix_socket, end, thread: Some(thread) })
    }
}

/// Sets the facts about the host that INFO shows.
fn introduce(core: &Core, addrs: &[SocketAddr]) {
    // The standard library seeds its hash tables at random; nothing else here needs an unguessable
    // id.
    let random = || RandomState::new().hash_one(addrs);
    let mut engine = core.engine();
    let info = engine.host_info();
    info.process_id = std::process::id();
    info.tcp_port = addrs.first().map_or(0, SocketAddr::port);
    info.run_id = format!("{:016x}{:016x}{:08x}", random(), random(), random() >> 32);
    info.executable =
        std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default();
}

/// Lets the engine serve sockets during long scripts, and the log wake sessions whose replies wait
/// for it.
fn connect_callbacks(hub: &Arc<Hub>, event_loop: &Arc<EventLoop>) {
    let weak = Arc::downgrade(event_loop);
    hub.core.set_busy_hook(Box::new(move || {
        if let Some(event_loop) = weak.upgrade() {
            event_loop.serve_while_busy();
        }
    }));
    hub.listen_to_log();
}

fn spawn(event_loop: Arc<EventLoop>, end: Arc<End>) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("seawall-engine".into()).spawn(move || {
        let run = catch_unwind(AssertUnwindSafe(|| event_loop.run()));
        let result = run.unwrap_or_else(|panic| {
            event_loop.hub.set_stopped();
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied());
            Err(StopError::Panicked(text.unwrap_or("without a message").to_owned()))
        });
        // The sockets close before callers learn that the server has ended.
        drop(event_loop);
        *lock(&end.result) = Some(result);
        end.changed.notify_all();
    })
}

impl Handle {
    /// Returns the first TCP address, with the actual port.
    pub fn addr(&self) -> Option<SocketAddr> {
        self.addrs.first().copied()
    }

    /// Returns all TCP addresses.
    pub fn addrs(&self) -> &[SocketAddr] {
        &self.addrs
    }

    /// Returns the path of the unix socket.
    pub fn unix_path(&self) -> Option<&Path> {
        self.unix_path.as_deref()
    }

    /// Opens a connection inside the process.
    pub fn connect(&self) -> LocalStream {
        LocalStream::open(Arc::clone(&self.hub))
    }

    /// Returns the engine, for hosts that inspect it.
    pub fn core(&self) -> &Arc<Core> {
        &self.hub.core
    }

    /// Returns a handle that stops the server from another thread, such as a signal handler's.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::downgrade(&self.hub))
    }

    /// Waits until the server has ended, because of a command or a [`Stopper`].
    ///
    /// # Errors
    /// If it did not end cleanly.
    pub fn wait(&self) -> Result<(), StopError> {
        let mut result = lock(&self.end.result);
        loop {
            if let Some(result) = &*result {
                return result.clone();
            }
            result = self.end.changed.wait(result).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Stops the server: closes all clients and makes the log durable.
    ///
    /// # Errors
    /// If it did not end cleanly.
    pub fn shutdown(mut self) -> Result<(), StopError> {
        self.end();
        self.wait()
    }

    fn end(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.hub.stop();
            // The thread catches its panics and reports them through `end`.
            let _ = thread.join();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.end();
    }
}

impl Stopper {
    /// Requests the end of the server and returns at once.
    pub fn stop(&self) {
        if let Some(hub) = self.0.upgrade() {
            hub.stop();
        }
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle")
            .field("addrs", &self.addrs)
            .field("unix_path", &self.unix_path)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Stopper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stopper")
    }
}
