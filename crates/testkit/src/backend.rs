//! The backends of the toolkit, so that each of its tests can run on each of them.
//!
//! ```no_run
//! use seawall_testkit::backend::{Backend, TestBackend};
//!
//! for backend in Backend::all() {
//!     let stand = TestBackend::shared(backend)?;
//!     // … connect to stand.url(), with keys under a prefix of the test's own …
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! `cargo xtask test` starts one Redis, one Valkey, one Sentinel set and one Cluster before the
//! tests and passes their URLs in the environment. [`TestBackend::shared`] uses those, and starts
//! its own if there are none, as under a bare `cargo test`. A test that breaks things uses
//! [`TestBackend::private`].

use std::fmt;
use std::io;

use crate::builder::ServerBuilder;
use crate::cluster::Cluster;
use crate::process::ServerProcess;
use crate::sentinel::SentinelSet;

/// A backend that the toolkit can connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backend {
    /// The engine inside the process; no server.
    Embedded,
    /// One `redis-server`.
    Redis,
    /// One `valkey-server`.
    Valkey,
    /// A primary with two replicas and three sentinels.
    Sentinel,
    /// Three primaries with a replica each.
    Cluster,
}

impl Backend {
    /// Returns all of them.
    #[must_use]
    pub const fn all() -> [Self; 5] {
        [Self::Embedded, Self::Redis, Self::Valkey, Self::Sentinel, Self::Cluster]
    }

    /// Returns a word for names of tests and keys.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Redis => "redis",
            Self::Valkey => "valkey",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
        }
    }

    /// Returns the environment variable with the URL of the shared backend; `None` for the embedded
    /// engine, which cannot be shared.
    #[must_use]
    pub const fn variable(self) -> Option<&'static str> {
        match self {
            Self::Embedded => None,
            Self::Redis => Some("SEAWALL_TEST_REDIS"),
            Self::Valkey => Some("SEAWALL_TEST_VALKEY"),
            Self::Sentinel => Some("SEAWALL_TEST_SENTINEL"),
            Self::Cluster => Some("SEAWALL_TEST_CLUSTER"),
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A backend that runs while this value lives, or a shared one.
#[derive(Debug)]
pub struct TestBackend {
    backend: Backend,
    url: String,
    running: Running,
}

#[derive(Debug)]
enum Running {
    /// Started by `cargo xtask test`, or nothing to start.
    Elsewhere,
    Server(Box<ServerProcess>),
    Sentinel(Box<SentinelSet>),
    Cluster(Box<Cluster>),
}

impl Running {
    /// Starts one server. Returns its URL and the running process.
    fn server(builder: &ServerBuilder) -> io::Result<(String, Self)> {
        let server = builder.start()?;
        Ok((server.url(), Self::Server(Box::new(server))))
    }
}

impl TestBackend {
    /// Returns the backend that all tests share, or starts one if none was started for them.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn shared(backend: Backend) -> io::Result<Self> {
        let url = backend.variable().and_then(|name| std::env::var(name).ok());
        match url.filter(|url| !url.is_empty()) {
            Some(url) => Ok(Self { backend, url, running: Running::Elsewhere }),
            None => Self::private(backend),
        }
    }

    /// Starts a backend that no other test uses, so that a test may break it.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn private(backend: Backend) -> io::Result<Self> {
        let (url, running) = match backend {
            Backend::Embedded => ("embedded:".to_owned(), Running::Elsewhere),
            Backend::Redis => Running::server(&ServerBuilder::redis())?,
            Backend::Valkey => Running::server(&ServerBuilder::valkey()?)?,
            Backend::Sentinel => {
                let set = SentinelSet::start()?;
                (set.url(), Running::Sentinel(Box::new(set)))
            }
            Backend::Cluster => {
                let cluster = Cluster::start()?;
                (cluster.url(), Running::Cluster(Box::new(cluster)))
            }
        };
        Ok(Self { backend, url, running })
    }

    /// Returns the kind of backend.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Returns the URL; each connection to `embedded:` is a separate engine.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the server, if this is a private one.
    #[must_use]
    pub fn server(&self) -> Option<&ServerProcess> {
        match &self.running {
            Running::Server(server) => Some(server),
            _ => None,
        }
    }

    /// Returns the Sentinel set, if this is a private one.
    #[must_use]
    pub fn sentinel(&self) -> Option<&SentinelSet> {
        match &self.running {
            Running::Sentinel(set) => Some(set),
            _ => None,
        }
    }

    /// Returns the Cluster, if this is a private one.
    #[must_use]
    pub fn cluster(&self) -> Option<&Cluster> {
        match &self.running {
            Running::Cluster(cluster) => Some(cluster),
            _ => None,
        }
    }
}
