//! Memory of removed data goes back to the system although nobody asks for anything any more, with the
//! allocator of the program.

use std::{fs, io::Write};

use crate::support::{ask, client, eventually, request, serve};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MIB: usize = 1 << 20;

fn resident_bytes() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a figure");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<usize>().ok()).expect("a number") << 10
}

/// Fills the engine with small values of many sizes.
fn fill(stream: &mut std::net::TcpStream) {
    for part in 0..60 {
        let mut bytes = Vec::new();
        for n in 0..5000 {
            let key = format!("key:{part}:{n}");
            bytes.extend_from_slice(&request(&["SET", &key, &"x".repeat(100 + n % 900)]));
        }
        let writer = std::thread::spawn({
            let mut stream = stream.try_clone().expect("a socket");
            move || stream.write_all(&bytes).expect("the server reads")
        });
        crate::support::expect(stream, &"+OK\r\n".repeat(5000));
        writer.join().expect("no panic");
    }
}

#[test]
fn memory_of_large_values_is_given_back() {
    let server = serve();
    let mut stream = client(&server);
    let before = resident_bytes();
    for n in 0..100 {
        ask(&mut stream, &["SET", &format!("large:{n}"), &"x".repeat(3 * MIB)], "+OK\r\n");
    }
    let lazy: Vec<_> = (0..5)
        .map(|n| {
            let mut stream = client(&server);
            let bytes = request(&["GET", &format!("large:{n}")]).repeat(20);
            stream.write_all(&bytes).expect("the server reads");
            stream
        })
        .collect();
    eventually("all is held", || resident_bytes() > before + 250 * MIB);
    let full = resident_bytes();
    drop(lazy);
    ask(&mut stream, &["FLUSHALL"], "+OK\r\n");
    ask(&mut stream, &["MEMORY", "PURGE"], "+OK\r\n");
    eventually("memory is given back", || resident_bytes() < before + (full - before) / 4);
}

#[test]
fn memory_is_given_back_when_nobody_asks() {
    let server = serve();
    let mut stream = client(&server);
    let before = resident_bytes();
    fill(&mut stream);
    let full = resident_bytes();
    assert!(full > before + 100 * MIB, "{} MiB", (full - before) / MIB);
    ask(&mut stream, &["FLUSHALL"], "+OK\r\n");
    ask(&mut stream, &["MEMORY", "PURGE"], "+OK\r\n");
    // Not a request from here on.
    eventually("memory is given back", || resident_bytes() < before + (full - before) / 4);
}
