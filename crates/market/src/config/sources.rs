//! Where settings come from, and how they are put together.
//!
//! One list of names serves the command line, the environment and the TOML file: `listen` is
//! `--listen`, `SEAWALL_LISTEN` and `listen = …`. Flags win over the environment, that over the
//! file. Nothing is guessed: a name that is unknown or a value that is not allowed ends the program
//! with a sentence that names setting, value and what is allowed.
//!
//! Invariant: no message from here carries a password.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use jiff::tz::TimeZone;

use super::{Config, Database, Sms};
use crate::big_keys;

/// Names that the list has, with what they take.
const SETTINGS: [(&str, &str); 13] = [
    ("listen", "an address with a port, such as 127.0.0.1:8080"),
    (
        "redis",
        "embedded:, embedded:DIR, redis://HOST:PORT/DB, rediss://…, unix:PATH, \
         redis-sentinel://H1:P,H2:P/MASTER/DB or redis-cluster://H1:P,H2:P",
    ),
    (
        "redis-password-file",
        "a file that only its owner can read, with the password in its first line",
    ),
    ("database", "sqlite:PATH"),
    ("data", "a folder"),
    ("sms", "log or echo"),
    ("demo", "true or false"),
    ("zone", "a time zone such as Asia/Shanghai"),
    ("code-ip-hourly", "a whole number from 1 to 1000000"),
    ("big-keys-at", "a time of day such as 03:30, or off"),
    ("big-keys-rate", "keys a second, from 1 to 1000000"),
    (
        "big-keys-hook",
        "http://HOST:PORT/PATH; for an https:// hook put a relay in between, this service has no TLS \
         client",
    ),
    ("log", "error, warn, info, debug or trace"),
];

/// Beginnings of variables that others read: the toolkit, the tests.
const OTHER_VARIABLES: [&str; 2] = ["SEAWALL_REDIS_PASSWORD", "SEAWALL_TEST_"];

/// Where a value came from; decides how it is named and whether it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    File(PathBuf),
    Environment,
    Flag,
}

impl Source {
    fn name(&self, setting: &str) -> String {
        match self {
            Source::File(path) => format!("{}: {setting}", path.display()),
            Source::Environment => variable(setting),
            Source::Flag => format!("--{setting}"),
        }
    }
}

/// The environment variable of a setting.
fn variable(setting: &str) -> String {
    format!("SEAWALL_{}", setting.replace('-', "_").to_uppercase())
}

/// Values by name, each with where it came from; later sources win.
#[derive(Debug, Default)]
pub struct Sources {
    values: BTreeMap<&'static str, (String, Source)>,
    oddities: Vec<String>,
}

impl Sources {
    /// Nothing set: the defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a TOML file: one `name = value` a line.
    ///
    /// # Errors
    /// A sentence, when it cannot be read or a name is unknown.
    pub fn file(mut self, path: &Path) -> Result<Self, String> {
        let fail = |what: String| format!("the configuration file {}: {what}", path.display());
        let text = fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
        let table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| fail(error.to_string()))?;
        for (name, value) in table {
            let text = match value {
                toml::Value::String(text) => text,
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Boolean(flag) => flag.to_string(),
                _ => return Err(fail(format!("{name} takes one plain value"))),
            };
            let known = known(&name)
                .ok_or_else(|| fail(format!("{name} is not a setting; there are {}", names())))?;
            self.values.insert(known, (text, Source::File(path.to_owned())));
        }
        Ok(self)
    }

    /// Adds the variables `SEAWALL_…` among these. One that is no setting may be meant for another
    /// program, so it is only noted.
    #[must_use]
    pub fn environment(mut self, variables: impl Iterator<Item = (String, String)>) -> Self {
        let variables: BTreeMap<_, _> = variables.collect();
        for (setting, _) in SETTINGS {
            if let Some(value) = variables.get(&variable(setting)) {
                self.values.insert(setting, (value.clone(), Source::Environment));
            }
        }
        for name in variables.keys().filter(|name| name.starts_with("SEAWALL_")) {
            let setting = SETTINGS.iter().any(|(setting, _)| variable(setting) == *name);
            if !setting && !OTHER_VARIABLES.iter().any(|other| name.starts_with(other)) {
                self.oddities.push(format!("{name} is set, but there is no such setting"));
            }
        }
        self
    }

    /// What may be a mistake, though it is no error.
    #[must_use]
    pub fn oddities(&self) -> &[String] {
        &self.oddities
    }

    /// Adds a flag of the command line.
    ///
    /// # Errors
    /// A sentence, when the name is unknown.
    pub fn flag(mut self, name: &str, value: &str) -> Result<Self, String> {
        let known = known(name)
            .ok_or_else(|| format!("--{name} is not a setting; there are {}", names()))?;
        self.values.insert(known, (value.to_owned(), Source::Flag));
        Ok(self)
    }

    /// Puts everything together.
    ///
    /// # Errors
    /// A sentence that names setting, value and what is allowed.
    pub fn config(&self) -> Result<Config, String> {
        let data = PathBuf::from(self.text("data").unwrap_or("./seawall-data"));
        if data.as_os_str().is_empty() {
            return Err(self.refuse("data", "it is empty"));
        }
        let redis = self.redis(&data)?;
        let database = self.database(&data)?;
        // A login code in an answer is for trying out; with a real store it has to be asked for.
        let tried_out = redis.starts_with("embedded:");
        let sms = match self.text("sms") {
            None if tried_out => Sms::Echo,
            None | Some("log") => Sms::Log,
            Some("echo") => Sms::Echo,
            Some(_) => return Err(self.refuse("sms", "")),
        };
        Ok(Config {
            listen: self
                .parsed("listen")?
                .unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8080))),
            redis,
            redis_password: self.password()?,
            database,
            data,
            sms,
            demo: self.parsed("demo")?.unwrap_or(true),
            zone: self.zone()?,
            code_ip_hourly: self.code_ip_hourly()?,
            big_keys: self.big_keys()?,
            log: self.parsed("log")?.unwrap_or(tracing::Level::INFO),
        })
    }

    fn redis(&self, data: &Path) -> Result<String, String> {
        let Some((url, source)) = self.values.get("redis") else {
            return Ok(format!("embedded:{}", data.display()));
        };
        let has_password = url
            .split_once("://")
            .and_then(|(_, rest)| rest.split('/').next()?.rsplit_once('@'))
            .is_some_and(|(login, _)| login.contains(':'));
        let advice = "put the password into SEAWALL_REDIS_PASSWORD, or into a file named by \
                      --redis-password-file";
        match source {
            Source::Flag if has_password => Err(format!(
                "--redis carries a password, and other users of this machine can read command \
                 lines; {advice}"
            )),
            Source::File(path) if has_password && open_to_others(path) => Err(format!(
                "{}: redis carries a password, and other users can read the file; {advice}, or run \
                 `chmod 600` on it",
                path.display()
            )),
            _ => Ok(url.clone()),
        }
    }

    fn database(&self, data: &Path) -> Result<Database, String> {
        match self.text("database") {
            None => Ok(Database::Sqlite(data.join("market.db"))),
            Some(url) => {
                match url.strip_prefix("sqlite:").map(|path| path.trim_start_matches("//")) {
                    Some(path) if !path.is_empty() => Ok(Database::Sqlite(PathBuf::from(path))),
                    _ => Err(self.refuse("database", "")),
                }
            }
        }
    }

    fn password(&self) -> Result<Option<String>, String> {
        let Some((path, source)) = self.values.get("redis-password-file") else { return Ok(None) };
        let fail = |what: &str| format!("{} {path}: {what}", source.name("redis-password-file"));
        let text = fs::read_to_string(path).map_err(|error| fail(&error.to_string()))?;
        if open_to_others(Path::new(path)) {
            return Err(fail("other users can read it; run `chmod 600` on it first"));
        }
        match text.lines().next() {
            Some(password) if !password.is_empty() => Ok(Some(password.to_owned())),
            _ => Err(fail("its first line must be the password, and it is empty")),
        }
    }

    fn zone(&self) -> Result<TimeZone, String> {
        let name = self.text("zone").unwrap_or("Asia/Shanghai");
        TimeZone::get(name).map_err(|_| self.refuse("zone", ""))
    }

    fn code_ip_hourly(&self) -> Result<u32, String> {
        match self.parsed("code-ip-hourly")? {
            None => Ok(20),
            Some(count @ 1..=1_000_000) => Ok(count),
            Some(_) => Err(self.refuse("code-ip-hourly", "")),
        }
    }

    fn big_keys(&self) -> Result<big_keys::Settings, String> {
        let mut settings = big_keys::Settings::default();
        match self.text("big-keys-at") {
            None => {}
            Some("off") => settings.at = None,
            Some(text) => {
                let time = jiff::civil::Time::strptime("%H:%M", text);
                settings.at = Some(time.map_err(|_| self.refuse("big-keys-at", ""))?);
            }
        }
        match self.parsed("big-keys-rate")? {
            None => {}
            Some(rate @ 1..=1_000_000) => settings.rate = rate,
            Some(_) => return Err(self.refuse("big-keys-rate", "")),
        }
        if let Some(url) = self.text("big-keys-hook") {
            // The path of a hook is often its password: the value is not repeated.
            let hook = big_keys::Hook::parse(url)
                .ok_or_else(|| self.refuse("big-keys-hook", "").replace(url, "what it is set to"));
            settings.hook = Some(hook?);
        }
        Ok(settings)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|(value, _)| value.as_str())
    }

    fn parsed<T: std::str::FromStr>(&self, name: &'static str) -> Result<Option<T>, String> {
        let Some(text) = self.text(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| self.refuse(name, ""))
    }

    /// The sentence for a value that is not allowed.
    fn refuse(&self, name: &'static str, why: &str) -> String {
        let allowed =
            SETTINGS.iter().find(|(known, _)| *known == name).map_or("", |(_, takes)| takes);
        let (value, named) = match self.values.get(name) {
            Some((value, source)) => (value.as_str(), source.name(name)),
            None => ("", name.to_owned()),
        };
        let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
        format!("{named} cannot be '{value}'{why}: it takes {allowed}")
    }
}

fn known(name: &str) -> Option<&'static str> {
    SETTINGS.iter().map(|(known, _)| *known).find(|known| *known == name)
}

fn names() -> String {
    SETTINGS.map(|(name, _)| name).join(", ")
}

fn open_to_others(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
}
