//! Listening sockets: binds them and accepts clients.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use mio::{
    Interest, Registry, Token,
    net::{TcpListener, UnixListener},
};
use socket2::{Domain, Protocol, SockRef, Socket as RawSocket, TcpKeepalive, Type};

use crate::{connection::Socket, error::StartError};

/// Clients that may wait to be accepted; the kernel caps it further.
const BACKLOG: i32 = 511;

/// A client that was just accepted.
pub(crate) struct Accepted {
    pub(crate) socket: Socket,
    /// The client's address, as shown by CLIENT LIST.
    pub(crate) peer: String,
    /// The server's address, likewise.
    pub(crate) local: String,
}

/// A listening socket.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix { listener: UnixListener, path: PathBuf },
}

impl Listener {
    /// Listens on a TCP address.
    pub(crate) fn tcp(addr: SocketAddr) -> Result<Self, StartError> {
        bind_tcp(addr).map(Self::Tcp).map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => StartError::AddressTaken(addr),
            _ => StartError::Bind { addr, source },
        })
    }

    /// Listens on a unix socket. A stale socket file, on which no process listens, is replaced.
    pub(crate) fn unix(path: &Path, permissions: Option<u32>) -> Result<Self, StartError> {
        let fail = |source| StartError::UnixSocket { path: path.to_owned(), source };
        remove_stale(path).map_err(fail)?;
        let listener = UnixListener::bind(path).map_err(fail)?;
        if let Some(mode) = permissions {
            use std::{fs, os::unix::fs::PermissionsExt};
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(fail)?;
        }
        Ok(Self::Unix { listener, path: path.to_owned() })
    }

    /// Returns the TCP address, with the actual port.
    pub(crate) fn addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix { .. } => None,
        }
    }

    /// Watches for new clients.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => registry.register(listener, token, Interest::READABLE),
            Self::Unix { listener, .. } => registry.register(listener, token, Interest::READABLE),
        }
    }

    /// Accepts one client. Returns `WouldBlock` if none waits.
    pub(crate) fn accept(&self, keepalive: Option<Duration>) -> io::Result<Accepted> {
        match self {
            Self::Tcp(listener) => {
                let (stream, addr) = listener.accept()?;
                // Both only tune the connection; a client that is gone already fails later anyway.
                let _ = stream.set_nodelay(true);
                if let Some(time) = keepalive {
                    let third = (time / 3).max(Duration::from_secs(1));
                    let settings =
                        TcpKeepalive::new().with_time(time).with_interval(third).with_retries(3);
                    let _ = SockRef::from(&stream).set_tcp_keepalive(&settings);
                }
                let local = stream.local_addr().map_or_else(|_| "?:0".into(), |a| a.to_string());
                Ok(Accepted { socket: Socket::Tcp(stream), peer: addr.to_string(), local })
            }
            Self::Unix { listener, path } => {
                let (stream, _) = listener.accept()?;
                // Redis: a unix client is known by the path of the socket and port 0.
                let name = format!("{}:0", path.display());
                Ok(Accepted { socket: Socket::Unix(stream), peer: name.clone(), local: name })
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix { path, .. } = self {
            // Another process may have removed it first.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn bind_tcp(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = RawSocket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    if addr.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}

/// Removes a socket file on which no process listens; leaves any other file alone.
fn remove_stale(path: &Path) -> io::Result<()> {
    use std::os::unix::{fs::FileTypeExt, net::UnixStream};
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the path is another file"));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there")),
        Err(_) => std::fs::remove_file(path),
    }
}
