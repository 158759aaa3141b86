//! A private PostgreSQL server: started on a free port in a temporary folder, ready when the value
//! exists, stopped when it is dropped.
//!
//! Nothing is synced to disk, because tests kill processes and never the machine. PostgreSQL refuses to
//! run as root, so root runs it as another user, who owns the folder.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::daemon::{Daemon, missing};
use crate::port::free_port;
use crate::rng::random_word;
use crate::settle::POLL_PAUSE;

/// Where Debian puts the programs of each version; they are on no user's search path.
const VERSIONS: &str = "/usr/lib/postgresql";
/// Users that root may run the server as, the best one first.
const USERS: [&str; 2] = ["postgres", "nobody"];
/// The user that tests log in as.
const LOGIN: &str = "seawall";
/// Maximum starts on different ports.
const START_ATTEMPTS: usize = 5;
/// Maximum time until a server answers.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Maximum time for a shutdown.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// A server that runs while this value lives.
///
/// ```no_run
/// use seawall_testkit::PostgresServer;
///
/// let server = PostgresServer::start()?;
/// // … connect to server.url() …
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct PostgresServer {
    daemon: Daemon,
    port: u16,
    password: String,
    /// After the daemon, so that it is removed when no process writes to it any more.
    _temporary: TempDir,
}

impl PostgresServer {
    /// Installs and starts a server and waits until it answers; about 2 s.
    ///
    /// # Errors
    ///
    /// If a program is missing, exits early or does not answer in time; the message contains its log.
    pub fn start() -> io::Result<Self> {
        let temporary = tempfile::Builder::new().prefix("seawall-postgres-").tempdir()?;
        let user = other_user(temporary.path())?;
        if let Some((uid, gid)) = user {
            chown(temporary.path(), Some(uid), Some(gid))?;
        }
        let password = random_word();
        install(temporary.path(), user, &password)?;
        let mut last = io::Error::other("not tried");
        for _ in 0..START_ATTEMPTS {
            let port = free_port()?;
            let mut command = program("postgres", temporary.path(), user)?;
            command.arg("-D").arg(temporary.path().join("data")).args(["-p", &port.to_string()]);
            for setting in [
                "listen_addresses=127.0.0.1",
                "unix_socket_directories=",
                "fsync=off",
                "full_page_writes=off",
                "max_connections=50",
                "shared_buffers=16MB",
            ] {
                command.args(["-c", setting]);
            }
            let daemon = Daemon::spawn(&mut command, &temporary.path().join("log"))?;
            match wait_until_ready(daemon, port, &password) {
                Ok(daemon) => return Ok(Self { daemon, port, password, _temporary: temporary }),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    /// Returns the URL of its database: `postgres://seawall:PASSWORD@127.0.0.1:PORT/postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://{LOGIN}:{}@127.0.0.1:{}/postgres", self.password, self.port)
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // Ends its children and gives back its shared memory; SIGKILL would not.
        let deadline = Instant::now() + STOP_LIMIT;
        if self.daemon.signal("QUIT").is_ok() {
            while matches!(self.daemon.exited(), Ok(None)) && Instant::now() < deadline {
                thread::sleep(POLL_PAUSE);
            }
        }
    }
}

/// Returns the path of a program of PostgreSQL: `initdb` or `postgres`, of the newest version that is
/// installed.
///
/// # Errors
///
/// `NotFound` if there is none.
pub fn postgres_program(name: &str) -> io::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A search path may have one of the two; both come from one folder.
    let is_whole = |folder: &Path| ["initdb", "postgres"].iter().all(|p| folder.join(p).is_file());
    if let Some(folder) = std::env::split_paths(&path).find(|folder| is_whole(folder)) {
        return Ok(folder.join(name));
    }
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().filter_map(Result::ok);
    let numbered = versions.filter_map(|entry| {
        let number: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((number, entry.path().join("bin")))
    });
    let newest = numbered.filter(|(_, folder)| is_whole(folder)).max();
    let none = || missing(OsStr::new(name), &io::Error::from(io::ErrorKind::NotFound));
    newest.map(|(_, folder)| folder.join(name)).ok_or_else(none)
}

/// Returns the ids of another user if this one is root.
fn other_user(own_folder: &Path) -> io::Result<Option<(u32, u32)>> {
    if fs::metadata(own_folder)?.uid() != 0 {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let find = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    let found = USERS.iter().find_map(|name| find(name));
    found.map(Some).ok_or_else(|| io::Error::other("PostgreSQL needs a user other than root"))
}

fn program(name: &str, folder: &Path, user: Option<(u32, u32)>) -> io::Result<Command> {
    let mut command = Command::new(postgres_program(name)?);
    command.current_dir(folder).env("LC_ALL", "C");
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    Ok(command)
}

fn install(folder: &Path, user: Option<(u32, u32)>, password: &str) -> io::Result<()> {
    let secret = folder.join("password");
    fs::write(&secret, password)?;
    if let Some((uid, gid)) = user {
        chown(&secret, Some(uid), Some(gid))?;
    }
    let mut command = program("initdb", folder, user)?;
    command.arg("-D").arg(folder.join("data")).arg("--pwfile").arg(&secret);
    command.args(["-U", LOGIN, "--auth=scram-sha-256", "--encoding=UTF8", "--no-sync"]);
    let output = command.output().map_err(|error| missing(command.get_program(), &error))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(io::Error::other(format!("initdb: {}", String::from_utf8_lossy(&text))))
}

/// Waits until the server takes the password that only ours knows.
fn wait_until_ready(mut daemon: Daemon, port: u16, password: &str) -> io::Result<Daemon> {
    let deadline = Instant::now() + START_LIMIT;
    loop {
        daemon.check_alive()?;
        let mut psql = Command::new("psql");
        psql.args(["-h", "127.0.0.1", "-p", &port.to_string(), "-U", LOGIN, "-d", "postgres"]);
        psql.args(["-X", "-c", "select 1"]).env("PGPASSWORD", password);
        psql.env("PGCONNECT_TIMEOUT", "5");
        let asked = psql.output().map_err(|error| missing(psql.get_program(), &error))?;
        if asked.status.success() {
            return Ok(daemon);
        }
        if Instant::now() > deadline {
            let message = format!("not ready after {START_LIMIT:?}: {}", daemon.log());
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        thread::sleep(POLL_PAUSE);
    }
}
