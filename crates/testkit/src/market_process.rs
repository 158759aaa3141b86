//! `seawall serve` as a child process: on a free port, without settings from this environment, ready
//! when the value exists, gone when it is dropped.

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::daemon::POLL_PAUSE;

/// How long it may take to end.
const END_LIMIT: Duration = Duration::from_secs(30);
/// What the variables of its settings begin with.
const SETTING: &str = "SEAWALL_";

/// A running market that ends with this value.
#[derive(Debug)]
pub struct MarketProcess {
    child: Child,
    address: SocketAddr,
}

impl MarketProcess {
    /// `program serve` with its data in `data`, not yet started.
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

    /// Starts a [`command`](Self::command) on a free port and waits until it says where it is.
    ///
    /// # Errors
    ///
    /// When it ends instead, with what it said.
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
        // It has ended, or does not say what it should.
        let _ = child.kill();
        let _ = child.wait();
        let said = std::fs::read_to_string(log.path()).unwrap_or_default();
        Err(io::Error::other(format!("it does not say where the page is ({page:?}), but: {said}")))
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it as a crash would.
    ///
    /// # Errors
    ///
    /// When it has ended already.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Asks it to end; its exit code.
    ///
    /// # Errors
    ///
    /// When it does not end.
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
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
