//! What clients leave unread is memory: it is counted, bounds see it, and who holds too much goes.
//! Beside redis-server wherever it does the same.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
};

use crate::redis_server::Redis;
use crate::support::{PATIENCE, ask, client, eventually, read_to_end, request, serve};
use seawall_server::Handle;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const MIB: usize = 1 << 20;
/// What the kernel may hold of one connection's output.
const KERNEL: usize = 12 * MIB;

/// Either server.
enum Peer {
    Ours(Handle),
    Theirs(Redis),
}

impl Peer {
    fn both() -> [Peer; 2] {
        [Peer::Ours(serve()), Peer::Theirs(Redis::start(&[]))]
    }

    fn client(&self) -> TcpStream {
        match self {
            Peer::Ours(server) => client(server),
            Peer::Theirs(redis) => redis.client(),
        }
    }

    fn name(&self) -> &'static str {
        if matches!(self, Peer::Ours(_)) { "seawall" } else { "redis-server" }
    }
}

fn text(stream: &mut TcpStream, args: &[&str]) -> String {
    stream.write_all(&request(args)).expect("the server reads");
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n") {
        stream.read_exact(&mut byte).expect("the server answers");
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let Some(length) = head.strip_prefix('$') else { return head };
    let mut body = vec![0; length.trim().parse::<usize>().expect("a length") + 2];
    stream.read_exact(&mut body).expect("the server answers");
    String::from_utf8_lossy(&body).into_owned()
}

fn info(stream: &mut TcpStream, field: &str) -> usize {
    let all = text(stream, &["INFO", "all"]);
    let line = all.lines().find(|line| line.split(':').next() == Some(field));
    let value = line.and_then(|line| line.split(':').nth(1)).unwrap_or_else(|| panic!("{field}"));
    value.parse().expect("a number")
}

/// A client that asks for `count` values and reads none.
fn lazy(peer: &Peer, count: usize) -> TcpStream {
    let mut stream = peer.client();
    let bytes = request(&["GET", "big"]).repeat(count);
    stream.write_all(&bytes).expect("the server reads");
    stream
}

fn store(peer: &Peer, size: usize) -> TcpStream {
    let mut stream = peer.client();
    ask(&mut stream, &["SET", "big", &"x".repeat(size)], "+OK\r\n");
    stream
}

#[test]
fn unread_replies_count_as_memory() {
    for peer in Peer::both() {
        let mut control = store(&peer, 8 * MIB);
        let before = info(&mut control, "used_memory");
        let lazy: Vec<TcpStream> = (0..3).map(|_| lazy(&peer, 4)).collect();
        eventually("the replies count", || {
            info(&mut control, "used_memory") > before + 3 * (32 * MIB - KERNEL)
        });
        eventually("INFO tells whose they are", || {
            info(&mut control, "mem_clients_normal") > 3 * (32 * MIB - KERNEL)
        });
        // The bound of memory sees them.
        ask(&mut control, &["CONFIG", "SET", "maxmemory", "40mb"], "+OK\r\n");
        let refused = text(&mut control, &["SET", "more", "1"]);
        assert!(refused.starts_with("-OOM "), "{}: {refused}", peer.name());
        drop(lazy);
        eventually("they are given back", || info(&mut control, "used_memory") < before + 8 * MIB);
        ask(&mut control, &["SET", "more", "1"], "+OK\r\n");
    }
}

#[test]
fn what_was_read_counts_no_more() {
    for peer in Peer::both() {
        let mut control = store(&peer, 8 * MIB);
        let before = info(&mut control, "used_memory");
        let mut reader = lazy(&peer, 4);
        let mut bytes = vec![0; 4 * (8 * MIB + 12)];
        reader.read_exact(&mut bytes).expect("the server answers");
        eventually("nothing is held", || info(&mut control, "used_memory") < before + MIB);
    }
}

#[test]
fn clients_that_hold_too_much_are_evicted() {
    for peer in Peer::both() {
        let mut control = store(&peer, 8 * MIB);
        ask(&mut control, &["CLIENT", "NO-EVICT", "ON"], "+OK\r\n");
        let mut kept = peer.client();
        ask(&mut kept, &["CLIENT", "NO-EVICT", "ON"], "+OK\r\n");
        kept.write_all(&request(&["GET", "big"]).repeat(3)).expect("the server reads");
        ask(&mut control, &["CONFIG", "SET", "maxmemory-clients", "40mb"], "+OK\r\n");
        let mut small = peer.client();
        ask(&mut small, &["PING"], "+PONG\r\n");
        let mut greedy = lazy(&peer, 8);
        eventually("one is evicted", || info(&mut control, "evicted_clients") == 1);
        let got = read_to_end(&mut greedy);
        assert!(got.len() < 8 * 8 * MIB, "{}: {} bytes", peer.name(), got.len());
        ask(&mut small, &["PING"], "+PONG\r\n");
        let mut all = vec![0; 3 * (8 * MIB + 12)];
        kept.read_exact(&mut all).expect("it was exempt");
        assert_eq!(text(&mut control, &["CONFIG", "GET", "maxmemory-clients"]), "*2\r\n");
    }
}

/// The most memory this process ever had resident.
fn peak_bytes() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<usize>().ok()).expect("a number") << 10
}

#[test]
fn the_output_bound_counts_for_each_reply() {
    let peer = Peer::Ours(serve());
    let mut control = store(&peer, MIB);
    let limit = "normal 2mb 0 0";
    ask(&mut control, &["CONFIG", "SET", "client-output-buffer-limit", limit], "+OK\r\n");
    let before = peak_bytes();
    // Thousands of requests in one batch.
    let mut greedy = lazy(&peer, 1500);
    let got = read_to_end(&mut greedy);
    assert!(got.len() < 100 * MIB, "{} bytes", got.len());
    let grown = peak_bytes() - before;
    assert!(grown < 200 * MIB, "{} MiB more were resident", grown / MIB);
    ask(&mut control, &["PING"], "+PONG\r\n");
}

#[tokio::test]
async fn the_output_bound_counts_in_the_process() {
    let server = serve();
    let peer = client(&server);
    let mut control = peer;
    ask(&mut control, &["SET", "big", &"x".repeat(MIB)], "+OK\r\n");
    let limit = "normal 2mb 0 0";
    ask(&mut control, &["CONFIG", "SET", "client-output-buffer-limit", limit], "+OK\r\n");
    let before = peak_bytes();
    let mut stream = server.connect();
    let _ = stream.write_all(&request(&["GET", "big"]).repeat(1500)).await;
    let mut got = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut got)).await;
    assert!(ended.expect("it ends").is_err(), "{} bytes", got.len());
    let grown = peak_bytes() - before;
    assert!(grown < 200 * MIB, "{} MiB more were resident", grown / MIB);
}

#[test]
fn a_large_value_is_held_once() {
    const LARGE: usize = 64 * MIB;
    let server = serve();
    let mut stream = client(&server);
    let value = "x".repeat(LARGE);
    let bytes = request(&["SET", "large", &value]);
    drop(value);
    let before = peak_bytes();
    stream.write_all(&bytes).expect("the server reads");
    crate::support::expect(&mut stream, "+OK\r\n");
    drop(bytes);
    let stored = peak_bytes() - before;
    assert!(stored < LARGE * 3 / 2, "SET took {} MiB", stored / MIB);
    stream.write_all(&request(&["GET", "large"])).expect("the server reads");
    let mut piece = vec![0; 1 << 16];
    let mut left = LARGE + 13;
    while left > 0 {
        left -= stream.read(&mut piece).expect("the server answers");
    }
    let both = peak_bytes() - before;
    assert!(both < LARGE * 3 / 2, "SET and GET took {} MiB", both / MIB);
}
