//! What a client may ask of the server: slow ones, endless ones, many of them.

use std::{net::SocketAddr, time::Duration};

use seawall_market::http::serve::{Bounds, serve};
use seawall_testkit::backend::Backend;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

use crate::market::{Market, PATIENCE};

/// A market behind a real socket.
struct Open {
    market: Market,
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

async fn open(connections: usize) -> Open {
    let market = Market::on(Backend::Embedded).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel();
    let bounds = Bounds { connections, headers_within: Duration::from_millis(300) };
    let task = tokio::spawn(serve(listener, market.router(), bounds, async {
        let _ = stopped.await;
    }));
    Open { market, address, stop, task }
}

impl Open {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("it listens")
    }

    async fn close(self) {
        self.stop.send(()).expect("it serves");
        self.task.await.expect("it ended");
        self.market.shutdown().await;
    }
}

/// Everything until the server closes.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is an end as well.
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    let _ = read.expect("the server closes in time");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn who_is_slow_with_headers_or_idle_is_cut_off() {
    let open = open(16).await;
    let mut slow = open.connect().await;
    slow.write_all(b"GET /healthz HTTP/1.1\r\nho").await.expect("sent");
    let said = rest(&mut slow).await;
    assert!(!said.contains("200 OK"), "{said}");
    let mut silent = open.connect().await;
    assert_eq!(rest(&mut silent).await, "");
    let mut idle = open.connect().await;
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("sent");
    let said = rest(&mut idle).await;
    assert!(said.starts_with("HTTP/1.1 200 OK"), "{said}");
    open.close().await;
}

#[tokio::test]
async fn an_endless_body_is_refused_early() {
    let open = open(16).await;
    let mut stream = open.connect().await;
    let head = b"POST /user/login HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
                 transfer-encoding: chunked\r\n\r\n";
    stream.write_all(head).await.expect("sent");
    let chunk = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
    for _ in 0..5 {
        stream.write_all(chunk.as_bytes()).await.expect("as much as is looked at");
    }
    let mut begin = [0; 12];
    stream.read_exact(&mut begin).await.expect("an answer");
    assert_eq!(&begin, b"HTTP/1.1 413");
    let endless = async { while stream.write_all(chunk.as_bytes()).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, endless).await.expect("the server closes");
    open.close().await;
}

#[tokio::test]
async fn more_connections_than_allowed_wait_for_one_to_end() {
    let open = open(1).await;
    let mut first = open.connect().await;
    first.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("sent");
    let mut begin = [0; 15];
    first.read_exact(&mut begin).await.expect("an answer");
    let mut second = open.connect().await;
    second.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("sent");
    let early = tokio::time::timeout(Duration::from_millis(50), second.read(&mut begin)).await;
    assert!(early.is_err(), "the only place is taken");
    drop(first);
    let said = rest(&mut second).await;
    assert!(said.starts_with("HTTP/1.1 200 OK"), "{said}");
    open.close().await;
}

#[tokio::test]
async fn a_request_in_hand_is_finished_when_the_server_ends() {
    let open = open(16).await;
    let mut stream = open.connect().await;
    let head = b"POST /user/login HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
                 content-length: 2\r\n\r\n{";
    stream.write_all(head).await.expect("sent");
    // The head has been read when the rest is asked for; a look at the socket cannot tell, so the
    // server is given the time of one other request.
    let mut other = open.connect().await;
    other.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("sent");
    other.read_exact(&mut [0; 15]).await.expect("an answer");
    let Open { market, stop, task, address } = open;
    stop.send(()).expect("it serves");
    stream.write_all(b"}").await.expect("sent");
    let said = rest(&mut stream).await;
    assert!(said.starts_with("HTTP/1.1 400"), "{said}");
    task.await.expect("it ended");
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
    market.shutdown().await;
}

#[tokio::test]
async fn who_does_not_read_answers_is_cut_off() {
    let open = open(1).await;
    let mut first = open.connect().await;
    let greedy = b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n".repeat(500);
    first.write_all(&greedy).await.expect("sent");
    let mut second = open.connect().await;
    second.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("sent");
    let said = rest(&mut second).await;
    assert!(said.starts_with("HTTP/1.1 200 OK"), "the only place is free again: {said}");
    drop(first);
    open.close().await;
}

#[tokio::test]
async fn who_was_let_in_before_the_end_is_answered() {
    let open = open(16).await;
    // Until the test waits for something the server does not run: it ends before it looks.
    let mut early = std::net::TcpStream::connect(open.address).expect("it listens");
    let request = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    std::io::Write::write_all(&mut early, request).expect("sent");
    let Open { market, stop, task, .. } = open;
    stop.send(()).expect("it serves");
    early.set_nonblocking(true).expect("a socket");
    let mut early = TcpStream::from_std(early).expect("a socket");
    let said = rest(&mut early).await;
    assert!(said.starts_with("HTTP/1.1 200 OK"), "{said}");
    task.await.expect("it ended");
    market.shutdown().await;
}
