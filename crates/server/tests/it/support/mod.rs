//! What the server's tests share: raw sockets, so that a test sees the very bytes.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use seawall_server::{Config, Handle, Server};

/// How long anything may take before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A server on a free port.
pub(crate) fn serve() -> Handle {
    Server::start(Config::loopback(0)).expect("a server starts on a free port")
}

/// A client of `server`.
pub(crate) fn client(server: &Handle) -> TcpStream {
    let addr = server.addr().expect("the server listens on TCP");
    let stream = TcpStream::connect(addr).expect("the server accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a positive time-out");
    stream.set_nodelay(true).expect("a TCP option");
    stream
}

/// A request in RESP.
pub(crate) fn request(args: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n{arg}\r\n", arg.len()).as_bytes());
    }
    bytes
}

/// Sends `args` and expects exactly `reply`.
pub(crate) fn ask(stream: &mut TcpStream, args: &[&str], reply: &str) {
    stream.write_all(&request(args)).expect("the server reads");
    expect(stream, reply);
}

/// Expects exactly these bytes next.
pub(crate) fn expect(stream: &mut TcpStream, reply: &str) {
    let mut bytes = vec![0; reply.len()];
    stream.read_exact(&mut bytes).expect("the server answers");
    assert_eq!(String::from_utf8_lossy(&bytes), reply);
}

/// Whatever comes until the server closes the connection.
pub(crate) fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return bytes,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            // The server may close with unread input, which resets the connection.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return bytes,
            Err(error) => panic!("the server neither answers nor closes: {error}"),
        }
    }
}

/// Waits until `done` holds.
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
