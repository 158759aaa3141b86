//! The server under the router: sockets, time-outs, a cap on connections, an orderly end.
//!
//! `axum::serve` sets no limit on how long a client may take for its headers and takes any number of
//! connections; this does both with hyper. The time for headers also bounds how long a kept-alive
//! connection may be idle, because hyper begins to count when it waits for the next request.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};

use super::extract::Peer;

/// Connections at the same time; more wait until one ends.
const MAX_CONNECTIONS: usize = 8192;
/// How long a client may take to send its headers, or be idle between requests.
const HEADER_LIMIT: Duration = Duration::from_secs(30);
/// Largest head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// How long requests in hand may take once the server is told to end.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);
/// Pause after the system had no room for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stop` is ready, then finishes what is in hand.
pub async fn serve(listener: TcpListener, router: Router, stop: impl Future<Output = ()>) {
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = accept(&listener, &room) => accepted,
        };
        let (stream, peer, permit) = accepted;
        connection(stream, peer, permit, router.clone(), &graceful);
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_LIMIT, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in time and are cut off");
    }
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
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
    permit: OwnedSemaphorePermit,
    router: Router,
    graceful: &GracefulShutdown,
) {
    // A socket that cannot be told to send at once still works.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut router = router.clone();
        async move {
            let mut request: Request = request.map(Body::new);
            request.extensions_mut().insert(Peer(peer));
            Ok::<_, Infallible>(call(&mut router, request).await)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_LIMIT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let served = graceful.watch(served);
    tokio::spawn(async move {
        if let Err(error) = served.await {
            tracing::debug!(%peer, %error, "a connection ended");
        }
        drop(permit);
    });
}

async fn call(router: &mut Router, request: Request) -> axum::response::Response {
    use tower_service::Service as _;
    router.call(request).await.unwrap_or_else(|never| match never {})
}
