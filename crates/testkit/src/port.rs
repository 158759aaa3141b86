//! Free TCP ports on the loopback interface.
//!
//! They are drawn from below the range that systems use for outgoing connections: a port in that
//! range can be taken by any connection at any moment, even while the server that owns it is being
//! restarted, and a connection to it can even connect to itself.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::TcpListener;

/// Ports to draw from; Linux uses outgoing ports from 32768 on, other systems from 49152 on.
const RANGE: std::ops::Range<u16> = 10_000..32_000;
/// Maximum draws before giving up.
const MAX_DRAWS: usize = 10_000;

/// Returns a TCP port on 127.0.0.1 that was free a moment ago.
///
/// Another process may take it before the caller does; a caller that starts a server on it must be
/// ready to retry with another port, as [`crate::ServerBuilder::start`] does.
///
/// # Errors
///
/// If the system has no port left.
pub fn free_port() -> io::Result<u16> {
    free_ports(1).map(|ports| ports[0])
}

/// Returns `count` different ports, as [`free_port`] does.
///
/// # Errors
///
/// If there are not that many.
pub fn free_ports(count: usize) -> io::Result<Vec<u16>> {
    let random = RandomState::new();
    let span = u64::from(RANGE.end - RANGE.start);
    // Held until all are found, so that none is found twice.
    let mut held: Vec<(u16, TcpListener)> = Vec::new();
    for draw in 0..MAX_DRAWS {
        if held.len() == count {
            break;
        }
        let offset = u16::try_from(random.hash_one(draw) % span).unwrap_or_default();
        let port = RANGE.start + offset;
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
            held.push((port, listener));
        }
    }
    if held.len() < count {
        return Err(io::Error::new(io::ErrorKind::AddrInUse, "no free ports left"));
    }
    Ok(held.iter().map(|(port, _)| *port).collect())
}
