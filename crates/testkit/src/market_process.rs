//! `seawall serve` as a child process: on a free port, without settings from this environment,
//! ready when the value exists, killed when it is dropped.

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::daemon::POLL_PAUSE;

/// Maximum time for shutting down.
const END_LIMIT: Duration = Duration::from_secs(30);
/// Prefix of the environment variables of its settings.
const SETTING: &str = "SEAWALL_";

/// A running market. Dropping it kills the process.
#[derive(Debug)]
pub struct MarketProcess {
    child: Child,
    address: SocketAddr,
}

impl MarketProcess {
    /// Returns the command `program serve` with its data in `data`, not yet started.
    #[must_use]
    pub fn command(program: impl Into<PathBuf>, data: &Path) -> Command {
        let mut command = Command::new(program.into());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with(SETTING) {
                command.env_remove(name);
            }
        }
        command.arg("serve").arg("--data").arg(data).stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Starts a [`command`](Self::command) on a free port and waits until it prints its address.
    ///
    /// # Errors
    ///
    /// If it exits instead, with its output.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let log = tempfile::NamedTempFile::new()?;
        command.args(["--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(log.reopen()?);
        let mut child = command.spawn()?;
        let out = child.stdout.take().ok_or_else(|| io::Error::other("it has no output"))?;
        let mut lines = BufReader::new(out).lines().map_while(Result::ok);
        let page = lines.find_map(|line| line.trim().strip_prefix("Page").map(str::to_owned));
        let address = page.as_deref().and_then(|page| {
            page.trim().trim_start_matches("http://").trim_end_matches('/').parse().ok()
        });
        if let Some(address) = address {
            return Ok(Self { child, address });
        }
        // It has exited, or printed something unexpected.
        let _ = child.kill();
        let _ = child.wait();
        let said = std::fs::read_to_string(log.path()).unwrap_or_default();
        Err(io::Error::other(format!("it does not say where the page is ({page:?}), but: {said}")))
    }

    /// Returns its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Kills the process, as a crash would.
    ///
    /// # Errors
    ///
    /// If it has exited already.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Asks the process to exit and returns its exit code.
    ///
    /// # Errors
    ///
    /// If it does not exit.
    pub fn terminate(mut self) -> io::Result<Option<i32>> {
        let pid = self.child.id().to_string();
        if !Command::new("kill").args(["-TERM", &pid]).status()?.success() {
            return Err(io::Error::other("there is no such process"));
        }
        let deadline = Instant::now() + END_LIMIT;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.code());
            }
            if Instant::now() > deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not end"));
            }
            thread::sleep(POLL_PAUSE);
        }
    }
}

impl Drop for MarketProcess {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
