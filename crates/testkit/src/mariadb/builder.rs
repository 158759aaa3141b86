//! Settings of a private MariaDB server: a fresh folder, installed and served on a free port.
//!
//! Everything is small and nothing is synced to disk, because tests kill processes and never the
//! machine: what the server wrote stays with the system when it is killed. That makes installing
//! and creating tables several times faster; [`MariaDbBuilder::durable`] is for tests that measure,
//! or prove an order of writes.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use crate::daemon::{Daemon, missing, server_program};
use crate::mariadb::MariaDb;
use crate::mariadb::access::Access;
use crate::port::free_port;
use crate::rng::random_word;

/// Maximum starts on different ports.
const START_ATTEMPTS: usize = 5;
/// The user that tests log in as.
const USER: &str = "seawall";
/// Options of installing and of serving.
const PLAIN: [&str; 7] = [
    "--innodb-buffer-pool-size=64M",
    "--innodb-log-file-size=16M",
    // The number of io_uring instances of a machine is limited, and many servers run in parallel.
    "--innodb-use-native-aio=0",
    "--performance-schema=off",
    "--character-set-server=utf8mb4",
    "--skip-log-bin",
    "--skip-name-resolve",
];
/// Options of serving only. Tests cut many connections, and no host may be blocked for that; and
/// what is dropped next need not be purged.
const SERVING: [&str; 5] = [
    "--bind-address=127.0.0.1",
    "--max-connections=500",
    "--max-connect-errors=1000000",
    "--innodb-fast-shutdown=2",
    "--innodb-print-all-deadlocks=on",
];
const QUICK: [&str; 3] =
    ["--debug-no-sync", "--innodb-flush-method=nosync", "--innodb-flush-log-at-trx-commit=2"];
const DURABLE: [&str; 1] = ["--innodb-flush-log-at-trx-commit=1"];

/// Settings of a private MariaDB server.
#[derive(Debug, Clone, Default)]
pub struct MariaDbBuilder {
    durable: bool,
    extra: Vec<OsString>,
}

impl MariaDbBuilder {
    /// Syncs each commit to disk before it is confirmed, as a server in production does.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.durable = true;
        self
    }

    /// Adds arguments after the ones that every private server gets; a later one wins.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.extra.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Installs and starts the server and waits until it answers; about 1.5 s.
    ///
    /// # Errors
    ///
    /// If a program is missing, exits early or does not answer in time; the message contains its
    /// log.
    pub fn start(&self) -> io::Result<MariaDb> {
        let temporary = tempfile::Builder::new().prefix("seawall-mariadb-").tempdir()?;
        let password = random_word();
        install(temporary.path())?;
        let first = format!(
            "CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED VIA mysql_native_password \
             USING PASSWORD('{password}');\n\
             GRANT ALL ON *.* TO '{USER}'@'%' WITH GRANT OPTION;\n"
        );
        fs::write(temporary.path().join("init.sql"), first)?;

        let mut last = io::Error::other("not tried");
        for _ in 0..START_ATTEMPTS {
            let access = Access {
                user: USER.to_owned(),
                password: password.clone(),
                host: "127.0.0.1".to_owned(),
                port: free_port()?,
            };
            let daemon = self.spawn(temporary.path(), access.port)?;
            match MariaDb::wait_until_ready(daemon, &access) {
                Ok(daemon) => return Ok(MariaDb::private(self.clone(), access, daemon, temporary)),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    /// Starts the program once, on the data in `dir`.
    pub(crate) fn spawn(&self, dir: &Path, port: u16) -> io::Result<Daemon> {
        let mut command = Command::new(server_program("mariadbd"));
        common(&mut command, dir)?;
        command.args(SERVING).arg(format!("--port={port}"));
        command.args(if self.durable { &DURABLE[..] } else { &QUICK[..] });
        for (name, file) in [("socket", "sock"), ("pid-file", "pid"), ("init-file", "init.sql")] {
            command.arg(option(name, &dir.join(file)));
        }
        Daemon::spawn(command.args(&self.extra), &dir.join("log"))
    }
}

/// Creates the server's system tables; they need not survive a machine crash.
fn install(dir: &Path) -> io::Result<()> {
    let mut command = Command::new("mariadb-install-db");
    common(&mut command, dir)?;
    command.args(["--auth-root-authentication-method=normal", "--skip-test-db"]).args(QUICK);
    let output = command.output().map_err(|error| missing(command.get_program(), &error))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(io::Error::other(format!("mariadb-install-db: {}", String::from_utf8_lossy(&text))))
}

fn common(command: &mut Command, dir: &Path) -> io::Result<()> {
    command.arg("--no-defaults").arg(option("datadir", &dir.join("data"))).args(PLAIN);
    // Temporary tables are named by process id, which servers in other containers share.
    command.env("TMPDIR", dir);
    // It runs as root only when told to; any other user runs it as itself.
    if fs::metadata(dir)?.uid() == 0 {
        command.arg("--user=root");
    }
    Ok(())
}

fn option(name: &str, path: &Path) -> OsString {
    let mut option = OsString::from(format!("--{name}="));
    option.push(path);
    option
}
