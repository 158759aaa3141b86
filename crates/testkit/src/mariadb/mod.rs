//! A private MariaDB server: started on a free port in a temporary folder, ready when the value
//! exists, stopped when it is dropped.
//!
//! Tests that only need tables use a [`TestDatabase`] on the server that `cargo xtask test` started
//! for all of them; tests that break things start a [`MariaDb`]. A server is accepted as ours if it
//! takes the random password that only ours knows. It can be killed, paused and restarted through a
//! shared reference, because tests hold it in an `Arc`.
//!
//! Deliberately absent: replication. The toolkit talks to one database.

mod access;
mod builder;
mod database;

use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::daemon::Daemon;
use crate::node::NodeState;
use crate::settle::POLL_PAUSE;
use access::Access;
pub use builder::MariaDbBuilder;
pub use database::TestDatabase;

/// The environment variable with the URL of the server that all tests share.
pub const MARIADB_VARIABLE: &str = "SEAWALL_TEST_MARIADB";
/// Maximum time until a server answers; also after a crash, when it repairs its files.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Maximum time for a server's first message on a connection.
const GREETING_LIMIT: Duration = Duration::from_secs(1);
/// Maximum time for a requested shutdown.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// A server that runs while this value lives, or the one that all tests share.
///
/// ```no_run
/// use seawall_testkit::MariaDb;
///
/// let server = MariaDb::start()?;
/// let url = server.database()?;
/// // … connect to url …
/// server.pause()?; // holds its connections and answers nothing
/// server.resume()?;
/// server.kill()?;
/// server.restart()?; // on the same port, with its data
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct MariaDb {
    access: Access,
    /// `None` for the server that all tests share.
    process: Option<Mutex<Process>>,
}

#[derive(Debug)]
struct Process {
    builder: MariaDbBuilder,
    daemon: Daemon,
    state: NodeState,
    /// After the daemon, so that it is removed when no process writes to it any more.
    temporary: TempDir,
}

impl MariaDb {
    /// Starts a private server with default settings.
    ///
    /// # Errors
    ///
    /// As [`MariaDbBuilder::start`].
    pub fn start() -> io::Result<Self> {
        Self::builder().start()
    }

    /// Returns a builder of a private server.
    #[must_use]
    pub fn builder() -> MariaDbBuilder {
        MariaDbBuilder::default()
    }

    /// Returns the server that all tests share, or starts one if none was started for them.
    ///
    /// # Errors
    ///
    /// If it does not start, or the URL in the environment is malformed.
    pub fn shared() -> io::Result<Self> {
        match std::env::var(MARIADB_VARIABLE).ok().filter(|url| !url.is_empty()) {
            Some(url) => Ok(Self { access: Access::parse(&url)?, process: None }),
            None => Self::start(),
        }
    }

    fn private(
        builder: MariaDbBuilder,
        access: Access,
        daemon: Daemon,
        temporary: TempDir,
    ) -> Self {
        let process = Process { builder, daemon, state: NodeState::Running, temporary };
        Self { access, process: Some(Mutex::new(process)) }
    }

    /// Returns the URL of the server, without a database:
    /// `mysql://seawall:PASSWORD@127.0.0.1:PORT/`.
    #[must_use]
    pub fn url(&self) -> String {
        self.access.url("")
    }

    /// Returns the TCP port; a restart does not change it.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.access.port
    }

    /// Creates an empty database with a unique name and returns its URL.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub fn database(&self) -> io::Result<String> {
        self.access.create_database().map(|name| self.access.url(&name))
    }

    /// Runs statements with the `mariadb` program, outside of any database. Returns the rows, one
    /// per line, with tabs between the fields.
    ///
    /// # Errors
    ///
    /// The server's error; `NotConnected` if there is no server, `PermissionDenied` if it requires
    /// another password, `TimedOut` if it does not answer.
    pub fn query(&self, sql: &str) -> io::Result<String> {
        self.access.query("", sql)
    }

    /// Returns its state; a shared server always runs.
    #[must_use]
    pub fn state(&self) -> NodeState {
        self.process().map_or(NodeState::Running, |process| process.state)
    }

    /// Returns the process id.
    ///
    /// # Errors
    ///
    /// `Unsupported` on a shared server.
    pub fn pid(&self) -> io::Result<u32> {
        self.process().map(|process| process.daemon.pid())
    }

    /// Returns its output so far; nothing for a shared server.
    #[must_use]
    pub fn log(&self) -> String {
        self.process().map(|process| process.daemon.log()).unwrap_or_default()
    }

    /// Stops the process (SIGSTOP): it keeps its connections and answers nothing.
    ///
    /// # Errors
    ///
    /// If it was killed; `Unsupported` on a shared server, as for the others below.
    pub fn pause(&self) -> io::Result<()> {
        self.process()?.signal("STOP", NodeState::Paused)
    }

    /// Resumes a paused process.
    ///
    /// # Errors
    ///
    /// If it was killed.
    pub fn resume(&self) -> io::Result<()> {
        self.process()?.signal("CONT", NodeState::Running)
    }

    /// Kills the process (SIGKILL), as a crash would.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn kill(&self) -> io::Result<()> {
        let mut process = self.process()?;
        process.daemon.kill()?;
        process.state = NodeState::Dead;
        Ok(())
    }

    /// Kills the process if it still runs, and restarts it on its port, with its data.
    ///
    /// # Errors
    ///
    /// If it does not come up; its port may have been taken meanwhile.
    pub fn restart(&self) -> io::Result<()> {
        let mut process = self.process()?;
        process.daemon.kill()?;
        process.state = NodeState::Dead;
        let daemon = process.builder.spawn(process.temporary.path(), self.access.port)?;
        process.daemon = Self::wait_until_ready(daemon, &self.access)?;
        process.state = NodeState::Running;
        Ok(())
    }

    fn access(&self) -> &Access {
        &self.access
    }

    fn is_shared(&self) -> bool {
        self.process.is_none()
    }

    fn process(&self) -> io::Result<MutexGuard<'_, Process>> {
        let Some(process) = &self.process else {
            let message = "all tests share this server; MariaDb::start gives one of one's own";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        };
        // A test that panicked while holding the lock left a process that is still ours.
        Ok(process.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn wait_until_ready(mut daemon: Daemon, access: &Access) -> io::Result<Daemon> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            daemon.check_alive()?;
            // The program is called only if a server answers, because starting it is expensive.
            if greets(access.port) {
                match access.query("", "SELECT 1") {
                    Ok(_) => return Ok(daemon),
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                        return Err(io::Error::new(io::ErrorKind::AddrInUse, "port was taken"));
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
                    Err(_) => {}
                }
            }
            if Instant::now() > deadline {
                let message = format!("not ready after {START_LIMIT:?}: {}", daemon.log());
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            thread::sleep(POLL_PAUSE);
        }
    }
}

impl Process {
    fn signal(&mut self, name: &str, state: NodeState) -> io::Result<()> {
        // Its process id may belong to another process by now.
        if self.state == NodeState::Dead {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "the server was killed"));
        }
        self.daemon.signal(name)?;
        self.state = state;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Only a running process can react; one that does not is killed with the daemon.
        if self.state == NodeState::Running && matches!(self.daemon.exited(), Ok(None)) {
            let _ = self.daemon.terminate(STOP_LIMIT);
        }
    }
}

/// Returns `true` if a server speaks first on this port, as a database does.
fn greets(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let read = stream.set_read_timeout(Some(GREETING_LIMIT));
    read.is_ok() && matches!(stream.read(&mut [0; 1]), Ok(1))
}
