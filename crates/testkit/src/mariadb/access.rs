//! Access to a database server: parses its URL, and runs queries with the `mariadb` program.
//!
//! The program instead of a driver, because the tests of the product bring the driver, and what
//! prepares and checks them should not share its mistakes. A query costs about 20 ms.

use std::io;
use std::process::Command;

use crate::daemon::missing;
use crate::rng::random_word;

/// Maximum seconds for a query; a paused server never answers.
const ANSWER_SECONDS: &str = "60";
/// Maximum seconds for connecting, until the server's first message.
const CONNECT_SECONDS: &str = "5";
/// Seconds that a query waits for locks.
const LOCK_SECONDS: u32 = 10;
/// Exit code of `timeout` when it had to end its program.
const TIMED_OUT: i32 = 124;
/// Exit code of `timeout` when there is no such program.
const NO_PROGRAM: i32 = 127;

/// Credentials and address of a server.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Access {
    /// Parses `mysql://user:password@host:port/`, without percent-encoding.
    pub(crate) fn parse(url: &str) -> io::Result<Self> {
        Self::parts(url).ok_or_else(|| {
            // Not the URL itself, which may contain a password.
            let message = "not of the form mysql://user:password@host:port/";
            io::Error::new(io::ErrorKind::InvalidInput, message)
        })
    }

    fn parts(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("mysql://").or_else(|| url.strip_prefix("mariadb://"))?;
        let (login, place) = rest.rsplit_once('@')?;
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let (host, port) = place.split('/').next()?.rsplit_once(':')?;
        Some(Self {
            user: user.to_owned(),
            password: password.to_owned(),
            host: host.to_owned(),
            port: port.parse().ok()?,
        })
    }

    /// Returns the URL of `database`, or of the server if that is empty.
    pub(crate) fn url(&self, database: &str) -> String {
        let Self { user, password, host, port } = self;
        format!("mysql://{user}:{password}@{host}:{port}/{database}")
    }

    /// Runs statements in `database`, or in none if that is empty. Returns the rows, one per line,
    /// with tabs between the fields.
    pub(crate) fn query(&self, database: &str, sql: &str) -> io::Result<String> {
        let mut command = Command::new("timeout");
        command
            .args([ANSWER_SECONDS, "mariadb", "--no-defaults", "--protocol=tcp", "--batch"])
            .args(["--skip-column-names", "--default-character-set=utf8mb4"])
            .arg(format!("--connect-timeout={CONNECT_SECONDS}"))
            .arg(format!("--init-command=SET lock_wait_timeout={LOCK_SECONDS}"))
            .arg(format!("--host={}", self.host))
            .arg(format!("--port={}", self.port))
            .arg(format!("--user={}", self.user))
            .arg(format!("--database={database}"))
            .arg(format!("--execute={sql}"))
            // Not an argument: arguments are visible to all users.
            .env("MYSQL_PWD", &self.password);
        let output = command.output().map_err(|error| missing(command.get_program(), &error))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        match output.status.code() {
            Some(TIMED_OUT) => {
                let message = format!("no answer within {ANSWER_SECONDS} s: {text}");
                Err(io::Error::new(io::ErrorKind::TimedOut, message))
            }
            Some(NO_PROGRAM) => {
                let error = io::Error::new(io::ErrorKind::NotFound, text);
                Err(missing("mariadb".as_ref(), &error))
            }
            _ => Err(io::Error::new(kind_of(&text), text)),
        }
    }

    /// Creates an empty database and returns its name.
    pub(crate) fn create_database(&self) -> io::Result<String> {
        let name = format!("seawall_{}", random_word());
        self.query("", &format!("CREATE DATABASE {name} CHARACTER SET utf8mb4"))?;
        Ok(name)
    }

    pub(crate) fn drop_database(&self, name: &str) -> io::Result<()> {
        self.query("", &format!("DROP DATABASE IF EXISTS {name}")).map(drop)
    }
}

/// Maps an error of the program, by its number.
fn kind_of(text: &str) -> io::ErrorKind {
    let number = text.split("ERROR ").nth(1).and_then(|rest| rest.split(' ').next());
    match number {
        Some("1044" | "1045") => io::ErrorKind::PermissionDenied,
        Some("2002" | "2003" | "2006" | "2013") => io::ErrorKind::NotConnected,
        _ => io::ErrorKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::Access;

    #[test]
    fn a_url_comes_back_as_it_was() {
        for url in ["mysql://seawall:secret@127.0.0.1:3306/", "mysql://a:@db.example:1/"] {
            assert_eq!(Access::parse(url).unwrap().url(""), url);
        }
        let access = Access::parse("mariadb://a:b:c@[::1]:3306/gone?x=y").unwrap();
        assert_eq!((access.host.as_str(), access.password.as_str()), ("[::1]", "b:c"));
    }

    #[test]
    fn what_is_no_url_is_an_error_without_its_password() {
        for url in ["", "mysql://", "redis://a:secret@h:1/", "mysql://a:secret@h/", "a:secret@h:x"]
        {
            let error = Access::parse(url).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
