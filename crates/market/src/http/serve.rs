//! The server under the router: sockets, time-outs, a connection limit and graceful shutdown.
//!
//! `axum::serve` sets no time limit for request headers and accepts any number of connections; this
//! server adds both with hyper. The time limit for headers also bounds how long a keep-alive
//! connection may be idle, because hyper starts the timer when it waits for the next request. A
//! client that does not read its response is disconnected by the operating system after the same
//! time.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulConnection, GracefulShutdown},
};
#[cfg(target_os = "linux")]
use socket2::SockRef;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};

use tower_service::Service as _;

use super::extract::Peer;

/// Limits of the server.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Maximum concurrent connections; more wait until one ends.
    pub connections: usize,
    /// Time limit for a client to send its headers, or to be idle between requests.
    pub headers_within: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { connections: 8192, headers_within: Duration::from_secs(30) }
    }
}

/// Maximum size of a request head, in bytes.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// Time limit for requests in progress at shutdown.
const DRAIN_LIMIT: Duration = Duration::from_secs(6);
/// Time during which connections already queued at shutdown are accepted.
const LAST_ACCEPTS: Duration = Duration::from_millis(100);
/// Pause after the system could not accept another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stop` is ready, then finishes the requests in progress.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    bounds: Bounds,
    stop: impl Future<Output = ()>,
) {
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(bounds.connections));
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = accept(&listener, &room) => accepted,
        };
        begin(accepted, &router, bounds, &graceful);
    }
    // A client that the system accepted before the end may have sent a request.
    let last = tokio::time::Instant::now() + LAST_ACCEPTS;
    while let Ok(accepted) = tokio::time::timeout_at(last, accept(&listener, &room)).await {
        begin(accepted, &router, bounds, &graceful);
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_LIMIT, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in time and are cut off");
    }
}

/// An accepted connection and its permit.
type Accepted = (TcpStream, SocketAddr, OwnedSemaphorePermit);

/// Serves a connection in its own task.
fn begin(accepted: Accepted, router: &Router, bounds: Bounds, graceful: &GracefulShutdown) {
    let (stream, peer, permit) = accepted;
    let served = connection(stream, peer, router.clone(), bounds.headers_within);
    let served = graceful.watch(served);
    tokio::spawn(async move {
        if let Err(error) = served.await {
            tracing::debug!(%peer, %error, "a connection ended");
        }
        drop(permit);
    });
}

async fn accept(listener: &TcpListener, room: &Arc<Semaphore>) -> Accepted {
    loop {
        let permit = Arc::clone(room).acquire_owned().await.expect("nobody closes the semaphore");
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, permit),
            Err(error) => {
                tracing::warn!(%error, "cannot take a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    headers_within: Duration,
) -> impl GracefulConnection<Error = hyper::Error> + Send {
    // A socket works even if this option cannot be set.
    let _ = stream.set_nodelay(true);
    // Data that stays unsent for this long, because the client does not read it, ends the
    // connection.
    #[cfg(target_os = "linux")]
    let _ = SockRef::from(&stream).set_tcp_user_timeout(Some(headers_within));
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut router = router.clone();
        async move {
            let mut request: Request = request.map(Body::new);
            request.extensions_mut().insert(Peer(peer));
            router.call(request).await
        }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(headers_within)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
}
