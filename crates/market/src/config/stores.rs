//! Locations of the stores, and their passwords: from the environment or a file that only its owner
//! can read, never from the command line.

use std::{
    fmt, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use super::sources::{Source, Sources};

/// Location of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Database {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// A MySQL or MariaDB server: `mysql://USER:PASSWORD@HOST:PORT/NAME`.
    Mysql(Secret),
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Database::Sqlite(path) => write!(f, "{}", path.display()),
            Database::Mysql(url) => f.write_str(&without_password(url.expose())),
        }
    }
}

/// Text that is never logged.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Sources {
    pub(super) fn redis(&self, data: &Path) -> Result<String, String> {
        let Some(url) = self.text("redis") else {
            return Ok(format!("embedded:{}", data.display()));
        };
        self.refuse_open_password("redis", url)?;
        Ok(url.to_owned())
    }

    pub(super) fn database(&self, data: &Path) -> Result<Database, String> {
        let Some(url) = self.text("database") else {
            return Ok(Database::Sqlite(data.join("market.db")));
        };
        if let Some(path) = url.strip_prefix("sqlite:") {
            let path = path.trim_start_matches("//");
            return match path {
                "" => Err(self.refuse("database", "the path is missing")),
                path => Ok(Database::Sqlite(PathBuf::from(path))),
            };
        }
        self.refuse_open_password("database", url)?;
        let rest = url.strip_prefix("mysql://").or_else(|| url.strip_prefix("mariadb://"));
        // The value may contain a password: the message omits it.
        let refuse = |why| self.refuse("database", why).replace(url, &without_password(url));
        let rest = rest.ok_or_else(|| refuse(""))?;
        let (authority, name) = rest.split_once('/').ok_or_else(|| refuse("a name is missing"))?;
        if name.is_empty() || name.starts_with('?') {
            return Err(refuse("the name of the database is missing"));
        }
        let (login, host) =
            authority.rsplit_once('@').ok_or_else(|| refuse("a user is missing"))?;
        if login.is_empty() || host.is_empty() {
            return Err(refuse("it needs a user and a host"));
        }
        let (user, given) = match login.split_once(':') {
            Some((user, password)) => (user, Some(password.to_owned())),
            None => (login, None),
        };
        let kept = match given {
            Some(password) => Some(password),
            None => self.database_password()?.map(|password| percent_encode(&password)),
        };
        let password = kept.map_or_else(String::new, |password| format!(":{password}"));
        Ok(Database::Mysql(Secret(format!("mysql://{user}{password}@{host}/{name}"))))
    }

    fn database_password(&self) -> Result<Option<String>, String> {
        match self.password_file("database-password-file")? {
            Some(password) => Ok(Some(password)),
            None => Ok(self.database_password.clone()),
        }
    }

    /// Returns the first line of a file that only its owner can read.
    pub(super) fn password_file(&self, setting: &'static str) -> Result<Option<String>, String> {
        let Some((path, source)) = self.given(setting) else { return Ok(None) };
        let fail = |what: &str| format!("{} {path}: {what}", source.name(setting));
        let text = fs::read_to_string(path).map_err(|error| fail(&error.to_string()))?;
        if open_to_others(Path::new(path)) {
            return Err(fail("other users can read it; run `chmod 600` on it first"));
        }
        match text.lines().next() {
            Some(password) if !password.is_empty() => Ok(Some(password.to_owned())),
            _ => Err(fail("its first line must be the password, and it is empty")),
        }
    }

    /// Refuses a password in a URL if other users of this machine could read it.
    fn refuse_open_password(&self, setting: &'static str, url: &str) -> Result<(), String> {
        let Some((_, source)) = self.given(setting) else { return Ok(()) };
        let has_password = login(url).is_some_and(|login| login.contains(':'));
        let variable = format!("SEAWALL_{}_PASSWORD", setting.to_uppercase());
        let advice = format!(
            "put the password into {variable}, or into a file named by --{setting}-password-file"
        );
        match source {
            Source::Flag if has_password => Err(format!(
                "--{setting} carries a password, and other users of this machine can read command \
                 lines; {advice}"
            )),
            Source::File(path) if has_password && open_to_others(path) => Err(format!(
                "{}: {setting} carries a password, and other users can read the file; {advice}, or \
                 run `chmod 600` on it",
                path.display()
            )),
            _ => Ok(()),
        }
    }
}

fn login(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    rest.split('/').next()?.rsplit_once('@').map(|(login, _)| login)
}

/// Returns a URL without its password.
fn without_password(url: &str) -> String {
    let Some((user, password)) = login(url).and_then(|login| login.split_once(':')) else {
        return url.to_owned();
    };
    url.replacen(&format!("{user}:{password}@"), &format!("{user}@"), 1)
}

/// Escapes everything except letters and digits: safe in every part of a URL.
fn percent_encode(text: &str) -> String {
    let escape = |byte: u8| match byte {
        _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

fn open_to_others(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
}
