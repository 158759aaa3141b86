//! Free TCP ports on the loopback interface.

use std::io;
use std::net::TcpListener;

/// A TCP port on 127.0.0.1 that was free a moment ago.
///
/// Another process may take it before the caller does; whoever starts a server on it must be
/// ready to try again with another one, as [`crate::ServerBuilder::start`] does.
///
/// # Errors
///
/// When the system has no port left.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
