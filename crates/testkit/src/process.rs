//! A private server for one test: started on a free port in a temporary folder, ready when the
//! value exists, stopped when it is dropped.
//!
//! `redis-server` and `seawall engine` are started the same way, so a test only names which of the
//! two it wants. A server is accepted as ours only if it reports our child's process id.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::builder::ServerBuilder;
use crate::client::{Address, Client};
use crate::daemon::{Daemon, POLL_PAUSE};
use crate::tls::Tls;

/// Maximum time until a server answers.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A running server. Dropping it stops the process.
#[derive(Debug)]
pub struct ServerProcess {
    builder: ServerBuilder,
    daemon: Daemon,
    port: u16,
    dir: PathBuf,
    log: PathBuf,
    extras: Extras,
    _temporary: TempDir,
}

/// Additional ways to connect, and their credentials.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    pub(crate) password: Option<String>,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) tls: Option<Tls>,
}

impl ServerProcess {
    /// Starts a private `redis-server` with default settings.
    ///
    /// # Errors
    ///
    /// As [`ServerBuilder::start`].
    pub fn redis() -> io::Result<Self> {
        ServerBuilder::redis().start()
    }

    /// Starts a private `valkey-server` with default settings.
    ///
    /// # Errors
    ///
    /// As [`ServerBuilder::start`]; `NotFound` if it is not installed.
    pub fn valkey() -> io::Result<Self> {
        ServerBuilder::valkey()?.start()
    }

    /// Starts a private engine of the binary at `program`, in memory only.
    ///
    /// # Errors
    ///
    /// As [`ServerBuilder::start`].
    pub fn seawall(program: impl Into<PathBuf>) -> io::Result<Self> {
        ServerBuilder::seawall(program).args(["--appendonly", "no"]).start()
    }

    pub(crate) fn spawn(
        builder: ServerBuilder,
        port: u16,
        dir: PathBuf,
        temporary: TempDir,
        extras: Extras,
    ) -> io::Result<Self> {
        let log = temporary.path().join("log");
        let daemon = builder.spawn(port, &dir, &log)?;
        Ok(Self { builder, daemon, port, dir, log, extras, _temporary: temporary })
    }

    /// Returns the TCP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address.
    #[must_use]
    pub fn address(&self) -> Address {
        Address::Tcp(self.port)
    }

    /// Returns the URL of its TCP port.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Returns the process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    /// Returns the folder of the server's files.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the unix socket, if requested.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        self.extras.socket.as_deref()
    }

    /// Returns how to connect with TLS, if requested.
    #[must_use]
    pub fn tls(&self) -> Option<&Tls> {
        self.extras.tls.as_ref()
    }

    /// Opens a connection, and sends the password that [`ServerBuilder::password`] set.
    ///
    /// # Errors
    ///
    /// If the server is gone.
    pub fn connect(&self) -> io::Result<Client> {
        let mut client = Client::connect(&self.address())?;
        if let Some(password) = &self.extras.password {
            client.call(&["AUTH", password])?;
        }
        Ok(client)
    }

    /// Returns the server's output so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.daemon.log()
    }

    /// Returns the exit status if the process has exited.
    ///
    /// # Errors
    ///
    /// If the system cannot tell.
    pub fn exited(&mut self) -> io::Result<Option<ExitStatus>> {
        self.daemon.exited()
    }

    /// Kills the server, as a crash would.
    ///
    /// # Errors
    ///
    /// If it ended before.
    pub fn kill(&mut self) -> io::Result<()> {
        self.daemon.kill()
    }

    /// Kills the server if it still runs, and restarts it on the same port with its files.
    ///
    /// # Errors
    ///
    /// As [`ServerBuilder::start`]; the port may have been taken in the meantime.
    pub fn restart(&mut self) -> io::Result<()> {
        self.relaunch()?;
        self.wait_until_ready()
    }

    pub(crate) fn relaunch(&mut self) -> io::Result<()> {
        self.daemon.kill()?;
        self.daemon = self.builder.spawn(self.port, &self.dir, &self.log)?;
        Ok(())
    }

    /// Asks the server to exit (SIGTERM) and waits at most `limit` for it.
    ///
    /// # Errors
    ///
    /// `TimedOut` if it still runs afterwards.
    pub fn terminate(&mut self, limit: Duration) -> io::Result<ExitStatus> {
        self.daemon.terminate(limit)
    }

    /// Sends a signal by name, such as `STOP` or `CONT`, to this process only.
    ///
    /// # Errors
    ///
    /// If the process is gone.
    pub fn signal(&self, name: &str) -> io::Result<()> {
        self.daemon.signal(name)
    }

    pub(crate) fn wait_until_ready(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            self.daemon.check_alive()?;
            match self.identity() {
                Some(Identity::Ours) => return Ok(()),
                Some(Identity::Foreign) => {
                    return Err(io::Error::new(io::ErrorKind::AddrInUse, "port was taken"));
                }
                None => {}
            }
            if Instant::now() > deadline {
                let message = format!("not ready after {START_LIMIT:?}: {}", self.log());
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            thread::sleep(POLL_PAUSE);
        }
    }

    /// Identifies the server that answers on the port; `None` while none does.
    fn identity(&self) -> Option<Identity> {
        let mut client = self.connect().ok()?;
        client.set_timeout(Duration::from_secs(1)).ok()?;
        let text = client.call(&["INFO"]).ok()?.text();
        // A server that is loading its files answers INFO and little else.
        if text.starts_with("LOADING") || text.contains("loading:1") {
            return None;
        }
        let id = text.lines().find_map(|line| line.strip_prefix("process_id:"));
        match id {
            Some(id) if id.trim() != self.pid().to_string() => Some(Identity::Foreign),
            // A server that requires a password answers NOAUTH: it is up.
            _ => Some(Identity::Ours),
        }
    }
}

enum Identity {
    Ours,
    Foreign,
}
