//! A server of our own for one test: started on a free port in a temporary folder, ready when the
//! value exists, gone when it is dropped.
//!
//! `redis-server` and `seawall engine` take the same route, so that a test names only which of the
//! two it wants. A port is free only until somebody else takes it, so starting is tried again on
//! another one, and a server is believed to be ours only when it reports our child's process id.
//! Nothing else is ever stopped than the child that was started here.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::{Address, Client};
use crate::port::free_port;

/// How long a server may take until it answers.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How often a start on another port is tried.
const START_ATTEMPTS: usize = 5;
/// Pause between two looks at a server that is starting or stopping.
const POLL_PAUSE: Duration = Duration::from_millis(5);

/// What to start, and how.
#[derive(Debug, Clone)]
pub struct ServerBuilder {
    program: PathBuf,
    leading: Vec<OsString>,
    extra: Vec<OsString>,
    dir: Option<PathBuf>,
}

impl ServerBuilder {
    /// A `redis-server` from the search path, without snapshots, with DEBUG allowed.
    #[must_use]
    pub fn redis() -> Self {
        Self::program("redis-server").leading([
            "--save",
            "",
            "--daemonize",
            "no",
            "--bind",
            "127.0.0.1",
            "--enable-debug-command",
            "yes",
        ])
    }

    /// The engine of the binary at `program`, without persistence.
    #[must_use]
    pub fn seawall(program: impl Into<PathBuf>) -> Self {
        Self::program(program).leading(["engine", "--bind", "127.0.0.1"])
    }

    fn program(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), leading: Vec::new(), extra: Vec::new(), dir: None }
    }

    fn leading<const N: usize>(mut self, args: [&str; N]) -> Self {
        self.leading = args.iter().map(OsString::from).collect();
        self
    }

    /// Adds arguments after the ones that every private server gets.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.extra.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Adds an option that names a file.
    #[must_use]
    pub fn arg_path(self, name: &str, path: &Path) -> Self {
        self.args([OsStr::new(name), path.as_os_str()])
    }

    /// Keeps the server's files in `dir`, which outlives the server, instead of a temporary folder.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Errors
    ///
    /// When the program is missing, ends early or does not answer in time; the message carries the
    /// end of its log.
    pub fn start(&self) -> io::Result<ServerProcess> {
        let mut last = io::Error::other("not tried");
        for _ in 0..START_ATTEMPTS {
            match self.attempt() {
                Ok(server) => return Ok(server),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    fn attempt(&self) -> io::Result<ServerProcess> {
        let port = free_port()?;
        let temporary = tempfile::Builder::new().prefix("seawall-test-").tempdir()?;
        let dir = self.dir.clone().unwrap_or_else(|| temporary.path().to_owned());
        let log = temporary.path().join("log");
        let output = File::create(&log)?;
        let child = Command::new(&self.program)
            .args(&self.leading)
            .args(["--port", &port.to_string(), "--dir"])
            .arg(&dir)
            .args(&self.extra)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .map_err(|error| {
                let program = self.program.display();
                let hint = "run `cargo xtask test`, which installs and builds what is missing";
                io::Error::new(error.kind(), format!("cannot start {program}: {error}; {hint}"))
            })?;
        let mut server = ServerProcess { child, port, dir, log, _temporary: temporary };
        server.wait_until_ready()?;
        Ok(server)
    }
}

/// A running server that ends with this value.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    port: u16,
    dir: PathBuf,
    log: PathBuf,
    _temporary: TempDir,
}

impl ServerProcess {
    /// A private `redis-server` with nothing special.
    ///
    /// # Errors
    ///
    /// As [`ServerBuilder::start`].
    pub fn redis() -> io::Result<Self> {
        ServerBuilder::redis().start()
    }

    /// A private engine of the binary at `program`, in memory only.
    ///
    /// # Errors
    ///
    /// As [`ServerBuilder::start`].
    pub fn seawall(program: impl Into<PathBuf>) -> io::Result<Self> {
        ServerBuilder::seawall(program).args(["--appendonly", "no"]).start()
    }

    /// The TCP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where to connect.
    #[must_use]
    pub fn address(&self) -> Address {
        Address::Tcp(self.port)
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The folder in which the server keeps its files.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// When the server is gone.
    pub fn connect(&self) -> io::Result<Client> {
        Client::connect(&self.address())
    }

    /// What the server printed so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read(&self.log).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
    }

    /// How the process ended, when it has.
    ///
    /// # Errors
    ///
    /// When the system cannot tell.
    pub fn exited(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Ends the server at once, as a crash would.
    ///
    /// # Errors
    ///
    /// When it ended before.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Asks the server to end (SIGTERM) and waits at most `limit` for it.
    ///
    /// # Errors
    ///
    /// `TimedOut` when it is still there afterwards.
    pub fn terminate(&mut self, limit: Duration) -> io::Result<ExitStatus> {
        self.signal("TERM")?;
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                let message = format!("still running {limit:?} after SIGTERM: {}", self.log());
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            thread::sleep(POLL_PAUSE);
        }
    }

    /// Sends a signal by name, such as `STOP` or `CONT`, to this process only.
    ///
    /// # Errors
    ///
    /// When the process is gone.
    pub fn signal(&self, name: &str) -> io::Result<()> {
        let status = Command::new("kill").args(["-s", name, &self.pid().to_string()]).status()?;
        if status.success() { Ok(()) } else { Err(io::Error::other(format!("kill -s {name}"))) }
    }

    fn wait_until_ready(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            if let Some(status) = self.child.try_wait()? {
                let log = self.log();
                let taken = log.to_ascii_lowercase().contains("address already in use");
                let kind = if taken { io::ErrorKind::AddrInUse } else { io::ErrorKind::Other };
                return Err(io::Error::new(kind, format!("ended with {status}: {log}")));
            }
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

    /// Who answers on the port, or `None` while nobody does.
    fn identity(&self) -> Option<Identity> {
        let mut client = self.connect().ok()?;
        client.set_timeout(Duration::from_secs(1)).ok()?;
        let text = client.call(&["INFO", "server"]).ok()?.text();
        if text.starts_with("LOADING") {
            return None;
        }
        let id = text.lines().find_map(|line| line.strip_prefix("process_id:"));
        match id {
            Some(id) if id.trim() != self.pid().to_string() => Some(Identity::Foreign),
            // A server that wants a password says NOAUTH: it is up.
            _ => Some(Identity::Ours),
        }
    }
}

enum Identity {
    Ours,
    Foreign,
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended already; either way there is nothing left to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
