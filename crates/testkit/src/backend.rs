//! What the toolkit runs on, so that each of its tests can run on each one.
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
//! `cargo xtask test` starts one Redis, one Valkey, one Sentinel set and one Cluster before the tests
//! and names them in the environment; [`TestBackend::shared`] uses those and starts its own when there are
//! none, as under a bare `cargo test`. What breaks things takes [`TestBackend::private`].

use std::fmt;
use std::io;

use crate::builder::ServerBuilder;
use crate::cluster::Cluster;
use crate::process::ServerProcess;
use crate::sentinel::SentinelSet;

/// Something that the toolkit can be connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backend {
    /// The engine inside the process; no server at all.
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
    /// Every one of them.
    #[must_use]
    pub const fn all() -> [Self; 5] {
        [Self::Embedded, Self::Redis, Self::Valkey, Self::Sentinel, Self::Cluster]
    }

    /// A word for names of tests and keys.
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

    /// The environment variable with the URL of the shared one; none for the embedded engine, which
    /// cannot be shared.
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

/// A backend that runs for as long as this value lives, or is somebody else's.
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
    /// Starts one server; returns its URL and the running process.
    fn server(builder: &ServerBuilder) -> io::Result<(String, Self)> {
        let server = builder.start()?;
        Ok((server.url(), Self::Server(Box::new(server))))
    }
}

impl TestBackend {
    /// The backend that all tests share, or one of its own when none was started for them.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub fn shared(backend: Backend) -> io::Result<Self> {
        let url = backend.variable().and_then(|name| std::env::var(name).ok());
        match url.filter(|url| !url.is_empty()) {
            Some(url) => Ok(Self { backend, url, running: Running::Elsewhere }),
            None => Self::private(backend),
        }
    }

    /// A backend that nobody else uses, to be broken at will.
    ///
    /// # Errors
    ///
    /// When it does not start.
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

    /// Which backend it is.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Where to connect; each connection to `embedded:` is an engine of its own.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The server, when this is a private one.
    #[must_use]
    pub fn server(&self) -> Option<&ServerProcess> {
        match &self.running {
            Running::Server(server) => Some(server),
            _ => None,
        }
    }

    /// The Sentinel set, when this is a private one.
    #[must_use]
    pub fn sentinel(&self) -> Option<&SentinelSet> {
        match &self.running {
            Running::Sentinel(set) => Some(set),
            _ => None,
        }
    }

    /// The Cluster, when this is a private one.
    #[must_use]
    pub fn cluster(&self) -> Option<&Cluster> {
        match &self.running {
            Running::Cluster(cluster) => Some(cluster),
            _ => None,
        }
    }
}
