//! The byte streams under all connections, and who opens them.
//!
//! By default they are TCP and Unix sockets. A [`Transport`] opens them in another way: through a
//! tunnel, a corporate proxy, or a simulated network.

use std::{fmt, future::Future, io, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
};

use super::dial::Address;

/// A byte stream in both directions, such as a socket.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for T {}

type Open = dyn Fn(Address) -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>> + Send + Sync;

/// Opens the byte streams of a handle. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Transport {
    /// Default: sockets.
    open: Option<Arc<Open>>,
}

impl Transport {
    /// Creates a transport from a function.
    pub(crate) fn new<F, Fut, S>(open: F) -> Self
    where
        F: Fn(Address) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = io::Result<S>> + Send + 'static,
        S: ByteStream + 'static,
    {
        let open = move |address| -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>> {
            let stream = open(address);
            Box::pin(async move { Ok(Box::new(stream.await?) as Box<dyn ByteStream>) })
        };
        Transport { open: Some(Arc::new(open)) }
    }

    /// Opens a stream to a server outside this process.
    pub(crate) async fn open(&self, address: &Address) -> io::Result<Box<dyn ByteStream>> {
        if let Some(open) = &self.open {
            return open(address.clone()).await;
        }
        match address {
            Address::Tcp(host) => {
                let stream = TcpStream::connect((host.name.as_str(), host.port)).await?;
                stream.set_nodelay(true)?;
                SockRef::from(&stream).set_tcp_keepalive(&keepalive())?;
                Ok(Box::new(stream))
            }
            Address::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
            Address::Embedded => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// Detects a peer that vanished silently within about half a minute, even on an idle connection.
fn keepalive() -> TcpKeepalive {
    TcpKeepalive::new()
        .with_time(Duration::from_secs(15))
        .with_interval(Duration::from_secs(5))
        .with_retries(3)
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.open.is_some() { "Transport(function)" } else { "Transport(sockets)" })
    }
}
