//! Sources of settings, and how they are combined.
//!
//! One list of names serves the command line, the environment and the TOML file: `listen` is
//! `--listen`, `SEAWALL_LISTEN` and `listen = …`. Flags override the environment, which overrides
//! the file. Nothing is guessed: an unknown name or an invalid value ends the program with a
//! message that names the setting, its value and what is allowed.
//!
//! Invariant: no message from here contains a password.

use std::{
    collections::BTreeMap,
    fs,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::tz::TimeZone;
use seawall::cache::Mode;

use super::{Config, LogFormat, Sms};
use crate::{accounts::Phone, big_keys};

/// Known setting names, with their allowed values.
const SETTINGS: [(&str, &str); 22] = [
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
    ("database", "sqlite:PATH or mysql://USER@HOST:PORT/NAME"),
    (
        "database-password-file",
        "a file that only its owner can read, with the password in its first line",
    ),
    ("data", "a folder"),
    ("sms", "log or echo"),
    ("demo", "true or false"),
    ("admin-phone", "the eleven digits of a phone, whose owner is an admin"),
    ("unpaid-after", "seconds until an unpaid order times out, from 1 to 604800"),
    ("orders-per-second", "orders of flash sales, from 1 to 1000000"),
    ("shop-cache", "lease, mutex or logical"),
    ("feed-pull-fans", "the number of fans from which notes are pulled, from 1 to 1000000"),
    ("stock-shards", "a whole number from 1 to 64"),
    (
        "trusted-proxies",
        "addresses separated by commas, whose X-Forwarded-For is believed, such as 127.0.0.1",
    ),
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
    ("log-format", "text or json"),
];

/// Prefixes of variables that other code reads: the toolkit, the command line, the tests.
const OTHER_VARIABLES: [&str; 5] = [
    "SEAWALL_REDIS_PASSWORD",
    DATABASE_PASSWORD,
    "SEAWALL_CONFIG",
    "SEAWALL_NO_DEMO",
    "SEAWALL_TEST_",
];
/// The flag `--no-demo` is the inverse of the setting `demo`; a variable and a line of the same
/// name are accepted too.
const NO_DEMO: &str = "no-demo";
/// Environment variable with the database password.
const DATABASE_PASSWORD: &str = "SEAWALL_DATABASE_PASSWORD";

/// Source of a value; determines how messages name it and whether it may contain a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    File(PathBuf),
    Environment,
    Flag,
}

impl Source {
    pub(super) fn name(&self, setting: &str) -> String {
        match self {
            Source::File(path) => format!("{}: {setting}", path.display()),
            Source::Environment => variable(setting),
            Source::Flag => format!("--{setting}"),
        }
    }
}

/// Translates an inverted setting to its positive name and value.
fn affirmed(name: String, value: String) -> (String, String) {
    if name != NO_DEMO {
        return (name, value);
    }
    let value = match value.as_str() {
        "true" | "1" => "false".to_owned(),
        "false" | "0" | "" => "true".to_owned(),
        _ => value,
    };
    ("demo".to_owned(), value)
}

/// Returns the environment variable of a setting.
fn variable(setting: &str) -> String {
    format!("SEAWALL_{}", setting.replace('-', "_").to_uppercase())
}

/// Values by name with their sources; later sources override earlier ones.
#[derive(Default)]
pub struct Sources {
    values: BTreeMap<&'static str, (String, Source)>,
    pub(super) database_password: Option<String>,
    oddities: Vec<String>,
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.values.keys()).finish()
    }
}

impl Sources {
    /// Creates an empty set: all defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a TOML file with one `name = value` per line.
    ///
    /// # Errors
    /// A message if the file cannot be read or a name is unknown.
    pub fn file(mut self, path: &Path) -> Result<Self, String> {
        let fail = |what: String| format!("the configuration file {}: {what}", path.display());
        let text = fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
        let table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| fail(error.to_string()))?;
        for (name, value) in table {
            let text = match value {
                toml::Value::String(text) => text,
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Float(number) => number.to_string(),
                toml::Value::Boolean(flag) => flag.to_string(),
                _ => return Err(fail(format!("{name} takes one plain value"))),
            };
            let (name, text) = affirmed(name, text);
            let known = known(&name)
                .ok_or_else(|| fail(format!("{name} is not a setting; there are {}", names())))?;
            self.values.insert(known, (text, Source::File(path.to_owned())));
        }
        Ok(self)
    }

    /// Adds the `SEAWALL_…` variables.
    ///
    /// An unknown one may be meant for another program, so it is only recorded.
    #[must_use]
    pub fn environment(mut self, variables: impl Iterator<Item = (String, String)>) -> Self {
        let variables: BTreeMap<_, _> = variables.collect();
        for (setting, _) in SETTINGS {
            if let Some(value) = variables.get(&variable(setting)) {
                self.values.insert(setting, (value.clone(), Source::Environment));
            }
        }
        if let Some(value) = variables.get(&variable(NO_DEMO)) {
            let (_, value) = affirmed(NO_DEMO.to_owned(), value.clone());
            self.values.insert("demo", (value, Source::Environment));
        }
        self.database_password = variables.get(DATABASE_PASSWORD).cloned();
        for name in variables.keys().filter(|name| name.starts_with("SEAWALL_")) {
            let setting = SETTINGS.iter().any(|(setting, _)| variable(setting) == *name);
            if !setting && !OTHER_VARIABLES.iter().any(|other| name.starts_with(other)) {
                self.oddities.push(format!("{name} is set, but there is no such setting"));
            }
        }
        self
    }

    /// Returns possible mistakes that are not errors.
    #[must_use]
    pub fn oddities(&self) -> &[String] {
        &self.oddities
    }

    /// Adds a command-line flag.
    ///
    /// # Errors
    /// A message if the name is unknown.
    pub fn flag(mut self, name: &str, value: &str) -> Result<Self, String> {
        let known = known(name)
            .ok_or_else(|| format!("--{name} is not a setting; there are {}", names()))?;
        self.values.insert(known, (value.to_owned(), Source::Flag));
        Ok(self)
    }

    /// Builds the configuration.
    ///
    /// # Errors
    /// A message that names the setting, its value and what is allowed.
    pub fn config(&self) -> Result<Config, String> {
        let data = PathBuf::from(self.text("data").unwrap_or("./seawall-data"));
        if data.as_os_str().is_empty() {
            return Err(self.refuse("data", "it is empty"));
        }
        let redis = self.redis(&data)?;
        let database = self.database(&data)?;
        // Login codes in responses are for trials; with an external store they must be requested
        // explicitly.
        let tried_out =
            redis.starts_with("embedded:") && matches!(database, super::Database::Sqlite(_));
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
            redis_password: self.password_file("redis-password-file")?,
            database,
            data,
            sms,
            demo: self.parsed("demo")?.unwrap_or(true),
            zone: self.zone()?,
            code_ip_hourly: self.ranged("code-ip-hourly", 1..=1_000_000, 20)?,
            admin_phone: self.admin_phone()?,
            unpaid_after: Duration::from_secs(self.ranged("unpaid-after", 1..=604_800, 900)?),
            orders_per_second: self.ranged("orders-per-second", 1..=1_000_000, 2_000)?,
            shop_cache: self.shop_cache()?,
            feed_pull_fans: self.ranged("feed-pull-fans", 1..=1_000_000, 1_000)?,
            stock_shards: self.ranged("stock-shards", 1..=64, 3)?,
            trusted_proxies: self.trusted_proxies()?,
            big_keys: self.big_keys()?,
            log_format: self.log_format()?,
            log: self.parsed("log")?.unwrap_or(tracing::Level::INFO),
        })
    }

    fn zone(&self) -> Result<TimeZone, String> {
        let name = self.text("zone").unwrap_or("Asia/Shanghai");
        TimeZone::get(name).map_err(|_| self.refuse("zone", ""))
    }

    fn admin_phone(&self) -> Result<Option<Phone>, String> {
        let phone = self.text("admin-phone").map(Phone::parse).transpose();
        phone.map_err(|_| self.refuse("admin-phone", ""))
    }

    fn shop_cache(&self) -> Result<Mode, String> {
        match self.text("shop-cache") {
            None | Some("lease") => Ok(Mode::Lease),
            Some("mutex") => Ok(Mode::Mutex),
            Some("logical") => Ok(Mode::LogicalExpiry),
            Some(_) => Err(self.refuse("shop-cache", "")),
        }
    }

    fn trusted_proxies(&self) -> Result<Vec<IpAddr>, String> {
        let all = self.text("trusted-proxies").unwrap_or_default();
        let words = all.split(',').map(str::trim).filter(|word| !word.is_empty());
        let addresses: Result<_, _> = words.map(str::parse).collect();
        addresses.map_err(|_| self.refuse("trusted-proxies", ""))
    }

    fn log_format(&self) -> Result<LogFormat, String> {
        match self.text("log-format") {
            None | Some("text") => Ok(LogFormat::Text),
            Some("json") => Ok(LogFormat::Json),
            Some(_) => Err(self.refuse("log-format", "")),
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
        settings.rate = self.ranged("big-keys-rate", 1..=1_000_000, settings.rate)?;
        if let Some(url) = self.text("big-keys-hook") {
            // The path of a hook is often a secret: the message does not repeat the value.
            let hook = big_keys::Hook::parse(url)
                .ok_or_else(|| self.refuse("big-keys-hook", "").replace(url, "what it is set to"));
            settings.hook = Some(hook?);
        }
        Ok(settings)
    }

    pub(super) fn given(&self, name: &str) -> Option<&(String, Source)> {
        self.values.get(name)
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|(value, _)| value.as_str())
    }

    /// Returns a whole number within a range, or the default if it is not set.
    fn ranged<T>(
        &self,
        name: &'static str,
        allowed: std::ops::RangeInclusive<T>,
        unset: T,
    ) -> Result<T, String>
    where
        T: std::str::FromStr + PartialOrd,
    {
        match self.parsed(name)? {
            None => Ok(unset),
            Some(value) if allowed.contains(&value) => Ok(value),
            Some(_) => Err(self.refuse(name, "")),
        }
    }

    fn parsed<T: std::str::FromStr>(&self, name: &'static str) -> Result<Option<T>, String> {
        let Some(text) = self.text(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| self.refuse(name, ""))
    }

    /// Returns the message for an invalid value.
    pub(super) fn refuse(&self, name: &'static str, why: &str) -> String {
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
