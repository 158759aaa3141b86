//! What a server is started with.
//!
//! The default listens nowhere: an embedded engine is reached through
//! [`Handle::connect`](crate::Handle::connect) alone. Settings that `CONFIG SET` can change live in
//! the engine's own configuration.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use seawall_engine::{Clock, Options};

use crate::{journal::OpenJournal, notice::Notices};

/// What a server is started with.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Config {
    /// The engine's seed and settings.
    pub engine: Options,
    /// TCP addresses to listen on; port 0 takes a free one.
    pub listen: Vec<SocketAddr>,
    /// Path of a unix socket to listen on.
    pub unix_socket: Option<PathBuf>,
    /// Permission bits of the unix socket; the process' mask decides without them.
    pub unix_permissions: Option<u32>,
    /// The clock; the machine's without one.
    pub clock: Option<Arc<dyn Clock>>,
    /// Where changes are logged; without one nothing is kept.
    pub journal: Option<OpenJournal>,
    /// Where lines for the operator go.
    pub notices: Notices,
}

impl Config {
    /// A server on one TCP port of this machine; port 0 takes a free one.
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
