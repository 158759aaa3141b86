//! A disk that takes no more: every write in flight is answered, by an error that says that it is in
//! memory and not in the log; what a restart then finds; and how it goes on when there is room again.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::support::{PATIENCE, ask, client, eventually, expect, request};
use seawall_server::{
    Config, Handle, Server,
    aof::{
        LOG_FILE, open_journal_on,
        sim::{Faults, SimDisk},
    },
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const POLICIES: [&str; 3] = ["always", "everysec", "no"];
/// Promised is a second; a loaded machine gets more.
const SOON: Duration = Duration::from_secs(5);

fn serve_on(disk: &SimDisk, policy: &str) -> Handle {
    let mut config = Config::loopback(0);
    for (name, value) in [("appendonly", "yes"), ("appendfsync", policy)] {
        config.engine.settings.set(name, value).expect("a setting");
    }
    config.journal = Some(open_journal_on(Arc::new(disk.clone())));
    Server::start(config).expect("a server starts")
}

/// Lets only `more` bytes fit on the disk from now on.
fn fill(disk: &SimDisk, more: u64) {
    let used = disk.contents(LOG_FILE).expect("a log").len() as u64;
    disk.set_faults(Faults { capacity_bytes: Some(used + more), ..Faults::default() });
}

/// The next line.
fn line(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n") {
        stream.read_exact(&mut byte).expect("the server answers");
        bytes.push(byte[0]);
    }
    String::from_utf8_lossy(&bytes).trim_end().to_owned()
}

fn assert_confession(text: &str) {
    assert!(text.starts_with("-UNLOGGED "), "{text}");
    assert!(text.contains("in memory") && text.contains("not in the log"), "{text}");
}

#[test]
fn the_write_in_flight_is_answered() {
    let big = "x".repeat(500);
    for policy in POLICIES {
        let disk = SimDisk::new(1);
        let server = serve_on(&disk, policy);
        let mut writer = client(&server);
        ask(&mut writer, &["SET", "a", "1"], "+OK\r\n");
        fill(&disk, 30);
        // One batch: what only reads or fails is answered as ever.
        let batch: [&[&str]; 6] = [
            &["GET", "a"],
            &["SET", "big", &big],
            &["LPUSH", "a", "x"],
            &["INCR", "n"],
            &["STRLEN", "big"],
            &["PING"],
        ];
        let begun = Instant::now();
        let bytes: Vec<u8> = batch.iter().flat_map(|args| request(args)).collect();
        writer.write_all(&bytes).expect("the server reads");
        expect(&mut writer, "$1\r\n1\r\n");
        assert_confession(&line(&mut writer));
        assert!(line(&mut writer).starts_with("-WRONGTYPE "));
        assert_confession(&line(&mut writer));
        expect(&mut writer, ":500\r\n+PONG\r\n");
        assert!(begun.elapsed() < SOON, "{policy}: {:?}", begun.elapsed());

        // Others read it; new writes are refused before they change anything.
        let mut other = client(&server);
        ask(&mut other, &["STRLEN", "big"], ":500\r\n");
        other.write_all(&request(&["SET", "b", "1"])).expect("the server reads");
        assert!(line(&mut other).starts_with("-MISCONF Errors writing to the AOF file: "));
        ask(&mut other, &["EXISTS", "b"], ":0\r\n");

        // A restart now does not find what was not in the log.
        drop((writer, other));
        drop(server);
        disk.set_faults(Faults::default());
        let server = serve_on(&disk, policy);
        let mut reader = client(&server);
        ask(&mut reader, &["GET", "a"], "$1\r\n1\r\n");
        ask(&mut reader, &["EXISTS", "big", "n"], ":0\r\n");
    }
}

#[test]
fn room_brings_the_write_into_the_log() {
    let big = "x".repeat(500);
    for policy in POLICIES {
        let disk = SimDisk::new(2);
        let server = serve_on(&disk, policy);
        let mut writer = client(&server);
        ask(&mut writer, &["SET", "a", "1"], "+OK\r\n");
        fill(&disk, 30);
        writer.write_all(&request(&["SET", "big", &big])).expect("the server reads");
        assert_confession(&line(&mut writer));
        disk.set_faults(Faults::default());
        eventually("writes are taken again", || {
            writer.write_all(&request(&["SET", "b", "1"])).expect("the server reads");
            line(&mut writer) == "+OK"
        });
        drop(writer);
        drop(server);
        let server = serve_on(&disk, policy);
        ask(&mut client(&server), &["EXISTS", "a", "big", "b"], ":3\r\n");
    }
}

#[test]
fn transactions_scripts_and_waiters_are_answered() {
    let big = "x".repeat(500);
    let eval = format!("redis.call('SET', 'big', '{big}') return 7");
    let requests: [&[&[&str]]; 4] = [
        &[&["MULTI"], &["SET", "big", &big], &["INCR", "n"], &["EXEC"]],
        &[&["EVAL", &eval, "0"]],
        &[&["MULTI"], &["SET", "big", &big], &["EVAL", "return 1", "0"], &["EXEC"]],
        &[&["BRPOPLPUSH", "none", &big, "0"]],
    ];
    for (which, batch) in requests.into_iter().enumerate() {
        let disk = SimDisk::new(3);
        let server = serve_on(&disk, "always");
        let mut writer = client(&server);
        ask(&mut writer, &["SET", "a", "1"], "+OK\r\n");
        if which == 3 {
            ask(&mut client(&server), &["LPUSH", "waiting", "x"], ":1\r\n");
        }
        fill(&disk, 30);
        let bytes: Vec<u8> = batch.iter().flat_map(|args| request(args)).collect();
        writer.write_all(&bytes).expect("the server reads");
        match which {
            0 => {
                expect(&mut writer, "+OK\r\n+QUEUED\r\n+QUEUED\r\n");
                assert_confession(&line(&mut writer));
            }
            1 => assert_confession(&line(&mut writer)),
            // A reply that was written in several steps cannot be exchanged: the client is cut off.
            2 => {
                let told =
                    String::from_utf8_lossy(&crate::support::read_to_end(&mut writer)).into_owned();
                assert!(!told.contains(":1\r\n"), "{told}");
                continue;
            }
            _ => {
                eventually("the waiter waits", || {
                    let mut looker = client(&server);
                    looker.write_all(&request(&["INFO", "clients"])).expect("the server reads");
                    let mut text = vec![0; 4096];
                    let count = looker.read(&mut text).expect("the server answers");
                    String::from_utf8_lossy(&text[..count]).contains("blocked_clients:1")
                });
                let mut pusher = client(&server);
                pusher.write_all(&request(&["RENAME", "waiting", "none"])).expect("it reads");
                assert_confession(&line(&mut writer));
                assert_confession(&line(&mut pusher));
            }
        }
        ask(&mut writer, &["PING"], "+PONG\r\n");
    }
}

#[tokio::test]
async fn in_process_writes_are_answered() {
    let big = "x".repeat(500);
    for policy in POLICIES {
        let disk = SimDisk::new(4);
        let server = serve_on(&disk, policy);
        let mut stream = server.connect();
        stream.write_all(&request(&["SET", "a", "1"])).await.expect("the engine reads");
        let mut ok = [0; 5];
        stream.read_exact(&mut ok).await.expect("the engine answers");
        fill(&disk, 30);
        let bytes = [request(&["GET", "a"]), request(&["SET", "big", &big])].concat();
        stream.write_all(&bytes).await.expect("the engine reads");
        let mut told = Vec::new();
        let mut piece = [0; 16];
        while !told.ends_with(b"loses it.\r\n") {
            let read = tokio::time::timeout(PATIENCE, stream.read(&mut piece)).await;
            let count = read.expect("in time").expect("the engine answers");
            assert!(count > 0, "{}", String::from_utf8_lossy(&told));
            told.extend_from_slice(&piece[..count]);
        }
        assert!(told.starts_with(b"$1\r\n1\r\n-UNLOGGED "), "{}", String::from_utf8_lossy(&told));
    }
}
