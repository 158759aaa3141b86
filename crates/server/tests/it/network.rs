//! The event loop over real sockets: order, fragments, volume, many clients, endings.

use std::{
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    thread,
};

use crate::support::{ask, client, eventually, expect, read_to_end, request, serve};
use seawall_server::{Config, Server, StartError};

#[test]
fn a_pipeline_is_answered_in_order() {
    let server = serve();
    let mut stream = client(&server);
    let count = 10_000;
    let pipeline: Vec<u8> = (0..count).flat_map(|_| request(&["INCR", "n"])).collect();
    let mut writer = stream.try_clone().expect("a socket can be cloned");
    let sender = thread::spawn(move || writer.write_all(&pipeline));
    let replies: String = (1..=count).map(|n| format!(":{n}\r\n")).collect();
    expect(&mut stream, &replies);
    sender.join().expect("no panic").expect("the server reads");
}

#[test]
fn input_may_come_byte_by_byte() {
    let server = serve();
    let mut stream = client(&server);
    let mut bytes = request(&["SET", "key", "a value\r\nwith a line"]);
    bytes.extend_from_slice(b"GET key\r\n");
    for byte in bytes {
        stream.write_all(&[byte]).expect("the server reads");
    }
    expect(&mut stream, "+OK\r\n$20\r\na value\r\nwith a line\r\n");
}

#[test]
fn a_reader_that_lags_far_behind_gets_everything() {
    let server = serve();
    let mut stream = client(&server);
    let value = "v".repeat(10_000);
    ask(&mut stream, &["SET", "key", &value], "+OK\r\n");
    let count = 5_000; // 50 MB of replies, far above any socket buffer.
    let pipeline: Vec<u8> = (0..count).flat_map(|_| request(&["GET", "key"])).collect();
    stream.write_all(&pipeline).expect("the server reads without being read from");
    let reply = format!("$10000\r\n{value}\r\n");
    for _ in 0..count {
        expect(&mut stream, &reply);
    }
    ask(&mut stream, &["PING"], "+PONG\r\n");
}

#[test]
fn a_large_argument_arrives_whole() {
    let server = serve();
    let mut stream = client(&server);
    let value = "0123456789".repeat(1_000_000);
    ask(&mut stream, &["SET", "key", &value], "+OK\r\n");
    ask(&mut stream, &["STRLEN", "key"], ":10000000\r\n");
    ask(&mut stream, &["GETRANGE", "key", "9999995", "-1"], "$5\r\n56789\r\n");
}

#[test]
fn a_thousand_clients_are_served() {
    let server = serve();
    let mut clients: Vec<_> = (0..1_000).map(|_| client(&server)).collect();
    for stream in &mut clients {
        stream.write_all(b"PING\r\n").expect("the server reads");
    }
    for stream in &mut clients {
        expect(stream, "+PONG\r\n");
    }
    assert_eq!(server.core().engine().session_count(), 1_000);
    drop(clients);
    eventually("all sessions end", || server.core().engine().session_count() == 0);
}

#[test]
fn a_half_closed_client_gets_its_replies_and_then_the_end() {
    let server = serve();
    let mut stream = client(&server);
    let pipeline: Vec<u8> = (0..50_000).flat_map(|_| request(&["PING"])).collect();
    let mut writer = stream.try_clone().expect("a socket can be cloned");
    let sender = thread::spawn(move || {
        writer.write_all(&pipeline).expect("the server reads");
        writer.shutdown(Shutdown::Write).expect("the socket is open");
    });
    assert_eq!(read_to_end(&mut stream).len(), 50_000 * "+PONG\r\n".len());
    sender.join().expect("no panic");
}

#[test]
fn a_client_that_leaves_while_blocked_takes_nothing() {
    let server = serve();
    let mut blocked = client(&server);
    blocked.write_all(&request(&["BLPOP", "list", "0"])).expect("the server reads");
    eventually("the client blocks", || {
        let mut info = client(&server);
        info.write_all(b"INFO clients\r\n").expect("the server reads");
        info.shutdown(Shutdown::Write).expect("the socket is open");
        String::from_utf8_lossy(&read_to_end(&mut info)).contains("blocked_clients:1\r\n")
    });
    drop(blocked);
    eventually("its session ends", || server.core().engine().session_count() == 0);
    let mut other = client(&server);
    ask(&mut other, &["RPUSH", "list", "x"], ":1\r\n");
    ask(&mut other, &["LLEN", "list"], ":1\r\n");
}

#[test]
fn blocked_clients_are_served_and_time_out() {
    let server = serve();
    let (mut first, mut second) = (client(&server), client(&server));
    first.write_all(&request(&["BLPOP", "list", "0"])).expect("the server reads");
    eventually("the client blocks", || server.core().engine().session_count() == 2);
    // A time-out ahead of the loop's period is kept, too.
    ask(&mut second, &["BLPOP", "other", "0.01"], "*-1\r\n");
    ask(&mut second, &["RPUSH", "list", "x"], ":1\r\n");
    expect(&mut first, "*2\r\n$4\r\nlist\r\n$1\r\nx\r\n");
}

#[test]
fn broken_requests_are_named_and_end_the_connection() {
    let server = serve();
    let cases: [(&[u8], &str); 4] = [
        (b"*1\r\n:1\r\n", "-ERR Protocol error: expected '$', got ':'\r\n"),
        (b"*-x\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
        (b"*1\r\n$-5\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        (b"*99999999999\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
    ];
    for (input, error) in cases {
        let mut stream = client(&server);
        stream.write_all(b"PING\r\n").expect("the server reads");
        stream.write_all(input).expect("the server reads");
        let all = read_to_end(&mut stream);
        assert_eq!(String::from_utf8_lossy(&all), format!("+PONG\r\n{error}"));
    }
    ask(&mut client(&server), &["PING"], "+PONG\r\n");
}

#[test]
fn servers_in_one_process_share_nothing() {
    let (one, two) = (serve(), serve());
    ask(&mut client(&one), &["SET", "key", "1"], "+OK\r\n");
    ask(&mut client(&two), &["GET", "key"], "$-1\r\n");
    one.shutdown().expect("a clean end");
    ask(&mut client(&two), &["PING"], "+PONG\r\n");
}

#[test]
fn a_unix_socket_is_served_and_removed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("engine.sock");
    let mut config = Config::default();
    config.unix_socket = Some(path.clone());
    let server = Server::start(config.clone()).expect("a server starts");
    let mut stream = UnixStream::connect(&path).expect("the server accepts");
    stream.write_all(b"PING\r\n").expect("the server reads");
    let mut reply = [0; 7];
    stream.read_exact(&mut reply).expect("the server answers");
    assert_eq!(&reply, b"+PONG\r\n");
    let taken = Server::start(config.clone()).expect_err("the socket is taken");
    assert!(matches!(taken, StartError::UnixSocket { .. }), "{taken}");
    server.shutdown().expect("a clean end");
    assert!(!path.exists());
    std::fs::write(&path, "precious").expect("a file can be written");
    Server::start(config).expect_err("the path is another file");
    assert_eq!(std::fs::read_to_string(&path).expect("the file is there"), "precious");
}

#[test]
fn unsafe_or_taken_addresses_are_refused() {
    let server = serve();
    let addr = server.addr().expect("the server listens");
    let taken = Server::start(Config::loopback(addr.port())).expect_err("the port is taken");
    assert!(matches!(taken, StartError::AddressTaken(at) if at == addr), "{taken}");
    let mut open = Config::default();
    open.listen = vec!["0.0.0.0:0".parse().expect("an address")];
    let refused = Server::start(open.clone()).expect_err("no password");
    assert!(matches!(refused, StartError::Unprotected(_)), "{refused}");
    open.engine.settings.requirepass = "secret".into();
    let server = Server::start(open).expect("with a password any address will do");
    ask(&mut client(&server), &["PING"], "-NOAUTH Authentication required.\r\n");
}

#[test]
fn shutdown_ends_the_server() {
    let server = serve();
    let mut stream = client(&server);
    stream.write_all(&request(&["SHUTDOWN", "NOSAVE"])).expect("the server reads");
    assert_eq!(read_to_end(&mut stream), b"");
    server.wait().expect("a clean end");
    server.shutdown().expect("ending twice is no mistake");
}
