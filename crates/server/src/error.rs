//! Errors of starting and stopping a server, worded for the operator.

use std::{io, net::SocketAddr, path::PathBuf};

use crate::journal::JournalError;

/// Reason why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Another program already listens there.
    #[error(
        "the address {0} is taken by another program; choose another port or stop that program"
    )]
    AddressTaken(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on {addr}: {source}")]
    Bind {
        /// The requested address.
        addr: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The unix socket cannot be created.
    #[error("cannot listen on the unix socket {}: {source}", path.display())]
    UnixSocket {
        /// The requested path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Other machines could reach the data without a password.
    #[error(
        "refusing to listen on {0} without a password, because other machines could read and change \
         the data; set a password (requirepass) or listen on 127.0.0.1"
    )]
    Unprotected(SocketAddr),
    /// The system refused a resource that the server needs.
    #[error("cannot start the event loop: {0}")]
    System(#[source] io::Error),
    /// The log cannot be opened or replayed.
    #[error("cannot open the log: {0}")]
    Log(#[from] JournalError),
}

/// Reason why a server did not end cleanly.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StopError {
    /// The last writes may not be on disk.
    #[error("the log could not be closed: {0}")]
    Log(#[from] JournalError),
    /// The event loop panicked because of a bug.
    #[error("the event loop panicked: {0}")]
    Panicked(String),
}
