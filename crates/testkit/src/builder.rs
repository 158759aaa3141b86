//! Settings of a private server.
//!
//! A builder is data: it can start any number of servers, and a [`ServerProcess`] keeps its own so
//! that it can be restarted on the same port with the same files. A free port may be taken by
//! another process before the server binds it, so a start is retried on another port, unless the
//! caller chose the port, as the nodes of a Cluster must.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::daemon::Daemon;
use crate::port::free_port;
use crate::process::{Extras, ServerProcess};
use crate::tls::Tls;
use crate::valkey::valkey_program;

/// Maximum starts on different ports.
const START_ATTEMPTS: usize = 5;
/// Options of every private server of the Redis family: no snapshots, DEBUG allowed.
const PLAIN: [&str; 8] =
    ["--save", "", "--daemonize", "no", "--bind", "127.0.0.1", "--enable-debug-command", "yes"];

/// Settings of a private server.
#[derive(Debug, Clone)]
pub struct ServerBuilder {
    program: PathBuf,
    leading: Vec<OsString>,
    extra: Vec<OsString>,
    dir: Option<PathBuf>,
    port: Option<u16>,
    password: Option<String>,
    socket: bool,
    tls: bool,
    /// Offset of its clock, in libfaketime's syntax.
    skew: Option<String>,
}

impl ServerBuilder {
    /// A `redis-server` from the search path, without snapshots, with DEBUG allowed.
    #[must_use]
    pub fn redis() -> Self {
        Self::program("redis-server").leading(PLAIN)
    }

    /// The `valkey-server` that `cargo xtask setup` installed, with the same options.
    ///
    /// # Errors
    ///
    /// `NotFound` if it is not installed.
    pub fn valkey() -> io::Result<Self> {
        Ok(Self::program(valkey_program()?).leading(PLAIN))
    }

    /// A sentinel with its configuration in `file`, which it rewrites.
    pub(crate) fn sentinel(file: &Path) -> Self {
        let mut builder = Self::program("redis-server");
        builder.leading = vec![file.as_os_str().to_owned(), OsString::from("--sentinel")];
        builder
    }

    /// The engine of the binary at `program`, without persistence, with DEBUG allowed.
    #[must_use]
    pub fn seawall(program: impl Into<PathBuf>) -> Self {
        let leading = ["engine", "--bind", "127.0.0.1", "--enable-debug-command", "yes"];
        Self::program(program).leading(leading)
    }

    fn program(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            leading: Vec::new(),
            extra: Vec::new(),
            dir: None,
            port: None,
            password: None,
            socket: false,
            tls: false,
            skew: None,
        }
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

    /// Sets the server's wall clock this many seconds ahead, or behind if negative.
    #[must_use]
    pub fn skew_seconds(mut self, seconds: i64) -> Self {
        self.skew = Some(format!("{seconds:+}s"));
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

    /// Uses this port instead of a free one; the start fails if it is taken.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Requires this password of all clients; [`ServerProcess::connect`] sends it.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.args(["--requirepass", password])
    }

    /// Adds an ACL user with a password and rules such as `~app:* +@all`.
    #[must_use]
    pub fn user(self, name: &str, password: &str, rules: &str) -> Self {
        let password = format!(">{password}");
        let rules = rules.split_whitespace();
        self.args(["--user", name, "on", &password].into_iter().chain(rules))
    }

    /// Also listens on a unix socket; [`ServerProcess::socket`] is its path.
    #[must_use]
    pub fn unix_socket(mut self) -> Self {
        self.socket = true;
        self
    }

    /// Also listens with TLS on another port, with a certificate from a private authority;
    /// [`ServerProcess::tls`] has what a client needs.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Errors
    ///
    /// If the program is missing, exits early or does not answer in time; the message contains the
    /// end of its log.
    pub fn start(&self) -> io::Result<ServerProcess> {
        let mut last = io::Error::other("not tried");
        for _ in 0..START_ATTEMPTS {
            let outcome = self.launch().and_then(|mut server| {
                server.wait_until_ready()?;
                Ok(server)
            });
            match outcome {
                Ok(server) => return Ok(server),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && self.port.is_none() => {
                    last = error;
                }
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    /// Starts the server without waiting for it, so that several can start in parallel.
    pub(crate) fn launch(&self) -> io::Result<ServerProcess> {
        let port = self.port.map_or_else(free_port, Ok)?;
        let temporary = tempfile::Builder::new().prefix("seawall-test-").tempdir()?;
        let dir = self.dir.clone().unwrap_or_else(|| temporary.path().to_owned());
        let mut builder = self.clone();
        let mut extras = Extras { password: self.password.clone(), ..Extras::default() };
        if self.socket {
            let path = temporary.path().join("server.sock");
            builder = builder.arg_path("--unixsocket", &path);
            extras.socket = Some(path);
        }
        if self.tls {
            let tls = Tls::create(temporary.path())?;
            builder = builder.args(tls.options());
            extras.tls = Some(tls);
        }
        ServerProcess::spawn(builder, port, dir, temporary, extras)
    }

    /// Starts the program once, with its output appended to `log`.
    pub(crate) fn spawn(&self, port: u16, dir: &Path, log: &Path) -> io::Result<Daemon> {
        let mut command = Command::new(&self.program);
        // Redis sorts words by the rules of the locale; tests expect the order of the bytes.
        command.env("LC_ALL", "C");
        if let Some(skew) = &self.skew {
            // The wrapper `faketime` would be a separate process, with the server as its child. The
            // C library comes second, for its allocator: jemalloc reads the clock before
            // libfaketime is ready.
            command.env("LD_PRELOAD", format!("{}:libc.so.6", faketime()?.display()));
            command.env("FAKETIME", skew);
            command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        command.args(&self.leading).args(["--port", &port.to_string(), "--dir"]).arg(dir);
        Daemon::spawn(command.args(&self.extra), log)
    }
}

/// Returns the path of libfaketime, which Debian keeps in a folder of the machine's architecture.
fn faketime() -> io::Result<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib")?;
    let mut files = folders.flatten().map(|folder| folder.path().join("faketime/libfaketime.so.1"));
    files.find(|file| file.is_file()).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, "libfaketime is missing: install `faketime`")
    })
}
