//! Start options of a server.
//!
//! By default the server does not listen: an embedded engine is reached only through
//! [`Handle::connect`](crate::Handle::connect). Settings that `CONFIG SET` can change are in the
//! engine's own configuration.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use seawall_engine::{Clock, Options};

use crate::{journal::OpenJournal, notice::Notices};

/// Start options of a server.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Config {
    /// The engine's seed and settings.
    pub engine: Options,
    /// TCP addresses to listen on; port 0 picks a free port.
    pub listen: Vec<SocketAddr>,
    /// Path of a unix socket to listen on.
    pub unix_socket: Option<PathBuf>,
    /// Permission bits of the unix socket. Default: set by the process' umask.
    pub unix_permissions: Option<u32>,
    /// The clock. Default: the machine's clock.
    pub clock: Option<Arc<dyn Clock>>,
    /// Opens the log of changes. Default: none, and nothing is persisted.
    pub journal: Option<OpenJournal>,
    /// Receives log lines for the operator.
    pub notices: Notices,
}

impl Config {
    /// A server on one TCP port of the loopback interface; port 0 picks a free port.
    pub fn loopback(port: u16) -> Self {
        Self { listen: vec![SocketAddr::from(([127, 0, 0, 1], port))], ..Self::default() }
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("listen", &self.listen)
            .field("unix_socket", &self.unix_socket)
            .field("logged", &self.journal.is_some())
            .finish_non_exhaustive()
    }
}
