//! A client that speaks HTTP is cut off, as by redis-server, and nothing behind its first telling
//! line runs: a web page can make a browser send a body of its choice to any loopback port.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    sync::{Arc, Mutex},
};

use crate::redis_server::Redis;
use crate::support::{PATIENCE, ask, client, read_to_end, request, serve};
use seawall_server::{Config, Handle, Level, LocalStream, Notices, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What browsers and curl send, and what an attacker would.
const HOSTILE: [&[u8]; 6] = [
    b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 20\r\n\r\nSET pwned 1\r\nSET a 2\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n\r\nSET pwned 1\r\n",
    b"PUT /x HTTP/1.1\r\nhOST: 127.0.0.1\r\n\r\n*3\r\n$3\r\nSET\r\n$5\r\npwned\r\n$1\r\n1\r\n",
    b"post / HTTP/1.0\n\nSET pwned 1\n",
    b"*2\r\n$4\r\nPoSt\r\n$1\r\n/\r\n*3\r\n$3\r\nSET\r\n$5\r\npwned\r\n$1\r\n1\r\n",
    b"MULTI\r\nSET pwned 1\r\nHost: x\r\nEXEC\r\n",
];

/// Sends `bytes` in two pieces; a server that has closed already is fine.
fn send(stream: &mut impl Write, bytes: &[u8], at: usize) {
    for piece in [&bytes[..at], &bytes[at..]] {
        if !piece.is_empty() && stream.write_all(piece).is_err() {
            return;
        }
    }
}

/// The server closed: an end or a reset, and nothing that looks like a success in between.
fn assert_cut_off(answer: &[u8], what: &str) {
    let text = String::from_utf8_lossy(answer);
    assert!(!text.contains("+OK\r\n+OK") && !text.contains('*'), "{what}: answered {text:?}");
}

fn drain(stream: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => bytes,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
            ) =>
        {
            bytes
        }
        Err(error) => panic!("the server neither answers nor closes: {error}"),
    }
}

fn assert_untouched(server: &Handle) {
    ask(&mut client(server), &["DBSIZE"], ":0\r\n");
}

#[test]
fn nothing_behind_an_http_line_runs_over_tcp() {
    let server = serve();
    for hostile in HOSTILE {
        for at in 0..hostile.len() {
            let mut stream = client(&server);
            send(&mut stream, hostile, at);
            assert_cut_off(&read_to_end(&mut stream), "over TCP");
        }
        assert_untouched(&server);
    }
}

#[test]
fn nothing_behind_an_http_line_runs_over_a_unix_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("engine.sock");
    let mut config = Config::loopback(0);
    config.unix_socket = Some(path.clone());
    let server = Server::start(config).expect("a server starts");
    for hostile in HOSTILE {
        for at in 0..hostile.len() {
            let mut stream = UnixStream::connect(&path).expect("the server accepts");
            stream.set_read_timeout(Some(PATIENCE)).expect("a positive time-out");
            send(&mut stream, hostile, at);
            assert_cut_off(&drain(&mut stream), "over a unix socket");
        }
        assert_untouched(&server);
    }
}

#[tokio::test]
async fn nothing_behind_an_http_line_runs_in_the_process() {
    let server = serve();
    for hostile in HOSTILE {
        for at in 0..hostile.len() {
            let mut stream: LocalStream = server.connect();
            let mut answer = Vec::new();
            for piece in [&hostile[..at], &hostile[at..]] {
                if stream.write_all(piece).await.is_err() {
                    break;
                }
            }
            let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
            let _ = ended.expect("the stream ends");
            assert_cut_off(&answer, "in the process");
        }
        assert_untouched(&server);
    }
}

#[test]
fn the_bytes_are_those_of_redis_server() {
    let (server, redis) = (serve(), Redis::start(&[]));
    // In one piece each: what was answered before the cut is not flushed by either.
    for hostile in HOSTILE.iter().chain(&[&b"PING\r\nPOST\r\nPING\r\n"[..], b"\"post\" x\r\n"]) {
        let (mut ours, mut theirs) = (client(&server), redis.client());
        for stream in [&mut ours, &mut theirs] {
            stream.write_all(hostile).expect("the server reads");
        }
        let (ours, theirs) = (read_to_end(&mut ours), read_to_end(&mut theirs));
        let shown = String::from_utf8_lossy(hostile);
        assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(&theirs), "{shown}");
    }
    for stream in [&mut client(&server), &mut redis.client()] {
        ask(stream, &["DBSIZE"], ":0\r\n");
        // Words that only begin like them are commands as any other.
        ask(stream, &["ECHO", "POST"], "$4\r\nPOST\r\n");
        stream.write_all(&request(&["HOST", "x"])).expect("the server reads");
        let mut first = [0; 1];
        stream.read_exact(&mut first).expect("the server answers");
        assert_eq!(first, *b"-");
    }
}

#[test]
fn the_operator_is_warned_once_a_minute() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let mut config = Config::loopback(0);
    config.notices = Notices::to(move |level, line| {
        if level == Level::Warning {
            sink.lock().expect("no panic").push(line.to_string());
        }
    });
    let server = Server::start(config).expect("a server starts");
    for _ in 0..3 {
        let mut stream = client(&server);
        stream.write_all(b"POST / HTTP/1.1\r\n\r\nSET pwned 1\r\n").expect("the server reads");
        read_to_end(&mut stream);
    }
    let warned = lines.lock().expect("no panic").clone();
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].contains("HTTP") && warned[0].contains("127.0.0.1"), "{warned:?}");
}
