//! Parses the URL that locates a Redis deployment.
//!
//! There is one form for each kind of deployment: see [`FORMS`], and for what they mean
//! [`Handle::connect`](crate::Handle::connect). `USER:PASSWORD@` may precede the hosts.
//!
//! Parsed by hand, because no URL crate accepts several hosts. The URL may contain a password, but
//! an environment variable or a file is preferable (see [`Builder`](crate::Builder)). Passwords are
//! never displayed.

use std::{fmt, path::PathBuf};

use crate::error::{Error, Result};

const DEFAULT_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// A parsed URL.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) place: Place,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: i64,
    pub(crate) tls: bool,
}

/// Where the servers are and how to find them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Embedded(Option<PathBuf>),
    Tcp(Host),
    Unix(PathBuf),
    Sentinel { sentinels: Vec<Host>, master: String },
    Cluster(Vec<Host>),
}

/// A host and its port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Host {
    /// Name or IP address.
    pub name: String,
    /// TCP port.
    pub port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(f, "[{}]:{}", self.name, self.port)
        } else {
            write!(f, "{}:{}", self.name, self.port)
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Invariant: no password reaches a log.
        f.debug_struct("Target")
            .field("place", &self.place)
            .field("database", &self.database)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

/// The forms of a URL. `rediss` instead of `redis` is the same over TLS.
const FORMS: [&str; 6] = [
    "embedded:",
    "embedded:DIR",
    "redis://HOST:PORT/DB",
    "unix:PATH?db=DB",
    "redis-sentinel://H1:P,H2:P/MASTER/DB",
    "redis-cluster://H1:P,H2:P",
];

/// Returns an error that ends with the allowed forms.
fn no_form(what: &str) -> Error {
    let forms = FORMS.join(", ");
    Error::Invalid(format!("{what}: allowed are {forms}; over TLS rediss instead of redis"))
}

impl Target {
    /// Parses a URL.
    ///
    /// # Errors
    /// [`Error::Invalid`], with the name of the part that is invalid.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let (scheme, rest) = url
            .split_once(':')
            .ok_or_else(|| no_form(&format!("{:?} is not a Redis URL", hide(url))))?;
        let plain =
            |place| Target { place, username: None, password: None, database: 0, tls: false };
        match scheme {
            "embedded" => {
                let dir = rest.strip_prefix("//").unwrap_or(rest);
                check_path(
                    dir,
                    "embedded: for an engine in memory, or embedded:DIR with a folder",
                )?;
                Ok(plain(Place::Embedded((!dir.is_empty()).then(|| PathBuf::from(dir)))))
            }
            "unix" => {
                let (path, database) = match rest.split_once("?db=") {
                    Some((path, database)) => (path, parse_database(database)?),
                    None => (rest, 0),
                };
                let path = path.strip_prefix("//").unwrap_or(path);
                check_path(path, "unix:PATH or unix:PATH?db=1")?;
                if path.is_empty() {
                    return Err(Error::Invalid(
                        "unix: needs the path of a socket, as in unix:/run/redis.sock".into(),
                    ));
                }
                Ok(Target { database, ..plain(Place::Unix(path.into())) })
            }
            "redis" | "rediss" | "redis-sentinel" | "rediss-sentinel" | "redis-cluster"
            | "rediss-cluster" => {
                let rest = rest.strip_prefix("//").ok_or_else(|| {
                    Error::Invalid(format!(
                        "{scheme}: is followed by //, as in {scheme}://127.0.0.1:6379"
                    ))
                })?;
                Self::parse_hosts(scheme, rest)
            }
            _ => Err(no_form(&format!("{scheme:?} is not a kind of Redis URL"))),
        }
    }

    fn parse_hosts(scheme: &str, rest: &str) -> Result<Self> {
        let tls = scheme.starts_with("rediss");
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        let (username, password) = match login {
            None => (None, None),
            Some(login) => {
                let (user, password) = login.split_once(':').unwrap_or((login, ""));
                let part = |text: &str| decode(text).map(|text| (!text.is_empty()).then_some(text));
                (part(user)?, part(password)?)
            }
        };
        let kind = scheme.trim_start_matches("rediss").trim_start_matches("redis");
        let port = if kind == "-sentinel" { SENTINEL_PORT } else { DEFAULT_PORT };
        let mut hosts =
            hosts.split(',').map(|host| Host::parse(host, port)).collect::<Result<Vec<_>>>()?;
        let (place, database) = match kind {
            "" => {
                if hosts.len() != 1 {
                    return Err(Error::Invalid(format!(
                        "{scheme}:// names one host; several are redis-cluster:// or redis-sentinel://"
                    )));
                }
                (Place::Tcp(hosts.remove(0)), parse_database(path)?)
            }
            "-cluster" => {
                if parse_database(path)? != 0 {
                    return Err(Error::Invalid("a Redis Cluster has database 0 alone".into()));
                }
                (Place::Cluster(hosts), 0)
            }
            _ => {
                let (master, database) = path.split_once('/').unwrap_or((path, ""));
                if master.is_empty() {
                    return Err(Error::Invalid(format!(
                        "{scheme}:// ends in the name under which the sentinels know the primary, as in …/mymaster/0"
                    )));
                }
                (
                    Place::Sentinel { sentinels: hosts, master: decode(master)? },
                    parse_database(database)?,
                )
            }
        };
        Ok(Target { place, username, password, database, tls })
    }
}

impl Host {
    fn parse(text: &str, default_port: u16) -> Result<Self> {
        let wrong = || {
            Error::Invalid(format!(
                "{text:?} is not a host and port, as in 127.0.0.1:6379 or [::1]:6379"
            ))
        };
        let (name, port) = if let Some(rest) = text.strip_prefix('[') {
            let (name, port) = rest.split_once(']').ok_or_else(wrong)?;
            (name, port.strip_prefix(':').unwrap_or(port))
        } else {
            text.split_once(':').unwrap_or((text, ""))
        };
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(wrong());
        }
        let port =
            if port.is_empty() { default_port } else { port.parse().map_err(|_| wrong())? };
        Ok(Host { name: name.to_owned(), port })
    }
}

/// Refuses what cannot be meant as a path: a blank one, or one with a parameter that no form has.
fn check_path(path: &str, write: &str) -> Result<()> {
    let wrong = match path {
        _ if path.contains('?') => "is no path, and there is no such parameter",
        _ if path.contains(char::is_control) => "has a control character",
        _ if !path.is_empty() && path.trim().is_empty() => "is blank",
        _ => return Ok(()),
    };
    Err(Error::Invalid(format!("{path:?} {wrong}: write {write}")))
}

fn parse_database(text: &str) -> Result<i64> {
    match text.trim_end_matches('/') {
        "" => Ok(0),
        number => number.parse::<u32>().map(i64::from).map_err(|_| {
            Error::Invalid(format!("{text:?} is not the number of a database, such as 0"))
        }),
    }
}

/// Decodes percent-encoding.
fn decode(text: &str) -> Result<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        match (digit(rest.next()), digit(rest.next())) {
            (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
            _ => {
                return Err(Error::Invalid(
                    "a % in a URL is followed by two hexadecimal digits".into(),
                ));
            }
        }
    }
    String::from_utf8(bytes)
        .map_err(|_| Error::Invalid("user, password and names in a URL are UTF-8".into()))
}

/// Returns the URL without its credentials, for display.
pub(crate) fn hide(url: &str) -> String {
    match (url.find("//"), url.rfind('@')) {
        (Some(start), Some(end)) if start + 2 <= end => {
            format!("{}…{}", &url[..start + 2], &url[end..])
        }
        (None, Some(end)) => format!("…{}", &url[end..]),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, port: u16) -> Host {
        Host { name: name.into(), port }
    }

    #[test]
    fn every_form_is_read() {
        let place = |url| Target::parse(url).expect("it is one of the forms").place;
        assert_eq!(place("embedded:"), Place::Embedded(None));
        assert_eq!(place("embedded://"), Place::Embedded(None));
        assert_eq!(place("embedded:./data"), Place::Embedded(Some("./data".into())));
        for url in ["embedded:/srv/data", "embedded:///srv/data", "embedded:////srv/data"] {
            assert_eq!(place(url), Place::Embedded(Some("/srv/data".into())), "{url}");
        }
        assert_eq!(place("redis://h"), Place::Tcp(host("h", 6379)));
        assert_eq!(place("redis://[::1]:7"), Place::Tcp(host("::1", 7)));
        assert_eq!(place("unix:/run/r.sock"), Place::Unix("/run/r.sock".into()));
        assert_eq!(
            place("redis-cluster://a:1,b"),
            Place::Cluster(vec![host("a", 1), host("b", 6379)])
        );
        let sentinel = Target::parse("redis-sentinel://a:1,b/main/3").expect("a form");
        assert_eq!(sentinel.database, 3);
        let sentinels = vec![host("a", 1), host("b", 26379)];
        assert_eq!(sentinel.place, Place::Sentinel { sentinels, master: "main".into() });
        let secure = Target::parse("rediss://me:p%40ss@h:1/2").expect("a form");
        assert!(secure.tls);
        assert_eq!(
            (secure.username.as_deref(), secure.password.as_deref()),
            (Some("me"), Some("p@ss"))
        );
        assert_eq!(secure.database, 2);
    }

    #[test]
    fn every_form_of_the_list_is_one() {
        for form in FORMS {
            let url = form.replace("PORT", "1").replace(":P", ":1").replace("DB", "0");
            assert!(Target::parse(&url).is_ok(), "{url}");
        }
    }

    #[test]
    fn nonsense_is_refused_by_name_and_secrets_stay_secret() {
        for (url, names) in [
            ("nothing", "not a Redis URL"),
            ("http://h", "\"http\""),
            ("redis:h", "followed by //"),
            ("redis://", "host and port"),
            ("redis://h:99999", "host and port"),
            ("redis://h/x", "number of a database"),
            ("redis://a,b", "one host"),
            ("redis-cluster://a/1", "database 0"),
            ("redis-sentinel://a", "name under which"),
            ("redis://u:%zz@h", "hexadecimal"),
            ("unix:", "path of a socket"),
            ("unix:/run/r.sock?database=1", "write unix:PATH or unix:PATH?db=1"),
            ("embedded:?x", "\"?x\" is no path, and there is no such parameter: write embedded:"),
            ("embedded:./data?db=1", "or embedded:DIR with a folder"),
            ("embedded:// ", "\" \" is blank: write"),
            ("embedded:da\nta", "control character"),
        ] {
            let Err(error) = Target::parse(url) else { panic!("{url} must be refused") };
            assert!(error.to_string().contains(names), "{url}: {error}");
        }
        assert_eq!(hide("redis://me:secret@h:1/0"), "redis://…@h:1/0");
        let shown = format!("{:?}", Target::parse("redis://me:secret@h").expect("a form"));
        assert!(!shown.contains("secret"));
    }
}
