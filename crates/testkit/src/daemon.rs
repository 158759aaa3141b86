//! A child process that serves: started with its output in a file, ended by its process id when the
//! value is dropped.
//!
//! The common part of all private servers, whatever protocol they speak. Only the child that was
//! started here is ever signalled. The owner decides when a server counts as ready.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Pause between two checks of a process that is starting or stopping.
pub(crate) const POLL_PAUSE: Duration = Duration::from_millis(5);
/// Where Debian puts servers; not on every user's search path.
const SERVERS: &str = "/usr/sbin";

/// A running program. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts `command` with its output appended to `log`.
    pub(crate) fn spawn(command: &mut Command, log: &Path) -> io::Result<Self> {
        let output = File::options().create(true).append(true).open(log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = command.spawn().map_err(|error| missing(command.get_program(), &error))?;
        Ok(Self { child, log: log.to_owned() })
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the output so far.
    pub(crate) fn log(&self) -> String {
        fs::read(&self.log).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
    }

    /// Returns the exit status if the process has exited.
    pub(crate) fn exited(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Returns an error if the process has exited: `AddrInUse` if another process had its port.
    pub(crate) fn check_alive(&mut self) -> io::Result<()> {
        let Some(status) = self.exited()? else { return Ok(()) };
        let log = self.log();
        let taken = log.to_ascii_lowercase().contains("address already in use");
        let kind = if taken { io::ErrorKind::AddrInUse } else { io::ErrorKind::Other };
        Err(io::Error::new(kind, format!("ended with {status}: {log}")))
    }

    /// Kills the process at once, as a crash would; SIGKILL ends a stopped process too.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Asks the process to exit (SIGTERM) and waits at most `limit` for it.
    pub(crate) fn terminate(&mut self, limit: Duration) -> io::Result<ExitStatus> {
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
    pub(crate) fn signal(&self, name: &str) -> io::Result<()> {
        let status = Command::new("kill").args(["-s", name, &self.pid().to_string()]).status()?;
        if status.success() { Ok(()) } else { Err(io::Error::other(format!("kill -s {name}"))) }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have exited already; either way there is nothing left to do.
        let _ = self.kill();
    }
}

/// Returns the path of a server's program: on the search path, or else where Debian puts servers.
pub(crate) fn server_program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|folder| folder.join(name).is_file()) {
        return PathBuf::from(name);
    }
    Path::new(SERVERS).join(name)
}

/// Returns the error for a program that does not start.
pub(crate) fn missing(program: &OsStr, error: &io::Error) -> io::Error {
    let program = program.display();
    let hint = "run `cargo xtask test`, which installs and builds what is missing";
    io::Error::new(error.kind(), format!("cannot start {program}: {error}; {hint}"))
}
