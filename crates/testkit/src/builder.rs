//! What private server to start, and how.
//!
//! A builder is data: the same one starts any number of servers, and a [`ServerProcess`] keeps its
//! own so that it can be started again on the same port with the same files. A port is free only
//! until somebody else takes it, so starting is tried again on another one, unless the caller
//! chose the port, as the nodes of a Cluster must.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::port::free_port;
use crate::process::ServerProcess;

/// How often a start on another port is tried.
const START_ATTEMPTS: usize = 5;

/// What to start, and how.
#[derive(Debug, Clone)]
pub struct ServerBuilder {
    program: PathBuf,
    leading: Vec<OsString>,
    extra: Vec<OsString>,
    dir: Option<PathBuf>,
    port: Option<u16>,
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

    /// A sentinel with its configuration in `file`, which it rewrites.
    pub(crate) fn sentinel(file: &Path) -> Self {
        let mut builder = Self::program("redis-server");
        builder.leading = vec![file.as_os_str().to_owned(), OsString::from("--sentinel")];
        builder
    }

    /// The engine of the binary at `program`, without persistence.
    #[must_use]
    pub fn seawall(program: impl Into<PathBuf>) -> Self {
        Self::program(program).leading(["engine", "--bind", "127.0.0.1"])
    }

    fn program(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            leading: Vec::new(),
            extra: Vec::new(),
            dir: None,
            port: None,
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

    /// Takes this port instead of a free one; the start then fails when it is taken.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
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

    /// Starts the server without waiting for it, so that several can start side by side.
    pub(crate) fn launch(&self) -> io::Result<ServerProcess> {
        let port = self.port.map_or_else(free_port, Ok)?;
        let temporary = tempfile::Builder::new().prefix("seawall-test-").tempdir()?;
        let dir = self.dir.clone().unwrap_or_else(|| temporary.path().to_owned());
        ServerProcess::spawn(self.clone(), port, dir, temporary)
    }

    /// The program itself, once, with its output appended to `log`.
    pub(crate) fn spawn(&self, port: u16, dir: &Path, log: &Path) -> io::Result<Child> {
        let output = File::options().create(true).append(true).open(log)?;
        Command::new(&self.program)
            .args(&self.leading)
            .args(["--port", &port.to_string(), "--dir"])
            .arg(dir)
            .args(&self.extra)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .map_err(|error| {
                let program = self.program.display();
                let hint = "run `cargo xtask test`, which installs and builds what is missing";
                io::Error::new(error.kind(), format!("cannot start {program}: {error}; {hint}"))
            })
    }
}
