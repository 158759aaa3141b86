//! Bounds on clients, and replies that wait for the log.

use std::{
    io::Write,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use seawall_engine::ManualClock;
use seawall_server::{Config, Handle, Journal, JournalError, Listener, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{ask, client, eventually, expect, read_to_end, request, serve};

#[test]
fn one_client_too_many_is_told_so() {
    let server = serve();
    let mut first = client(&server);
    ask(&mut first, &["CONFIG", "SET", "maxclients", "2"], "+OK\r\n");
    let mut second = client(&server);
    ask(&mut second, &["PING"], "+PONG\r\n");
    let mut third = client(&server);
    assert_eq!(read_to_end(&mut third), b"-ERR max number of clients reached\r\n");
    drop(second);
    eventually("a place is free again", || {
        let mut other = client(&server);
        let sent = other.write_all(b"QUIT\r\n");
        sent.is_ok() && read_to_end(&mut other) == b"+OK\r\n"
    });
}

#[test]
fn a_client_that_never_reads_is_closed_at_the_hard_limit() {
    let server = serve();
    let mut other = client(&server);
    let limit = "normal 1mb 0 0";
    ask(&mut other, &["CONFIG", "SET", "client-output-buffer-limit", limit], "+OK\r\n");
    ask(&mut other, &["SET", "key", &"v".repeat(100_000)], "+OK\r\n");
    let mut slow = client(&server);
    let pipeline: Vec<u8> = (0..1_000).flat_map(|_| request(&["GET", "key"])).collect();
    // The server may close while this is still being sent.
    let _ = slow.write_all(&pipeline);
    eventually("the slow client is gone", || server.core().engine().session_count() == 1);
    assert!(read_to_end(&mut slow).len() < 100_000_000);
    ask(&mut other, &["PING"], "+PONG\r\n");
}

#[test]
fn idle_clients_are_closed_but_not_blocked_or_subscribed_ones() {
    let clock = Arc::new(ManualClock::at_millis(1_000_000));
    let mut config = Config::loopback(0);
    config.clock = Some(clock.clone());
    config.engine.settings.timeout = 10;
    let server = Server::start(config).expect("a server starts");
    let (mut idle, mut blocked, mut subscribed) =
        (client(&server), client(&server), client(&server));
    ask(&mut idle, &["PING"], "+PONG\r\n");
    ask(&mut subscribed, &["SUBSCRIBE", "c"], "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    ask(&mut blocked, &["PING"], "+PONG\r\n");
    blocked.write_all(&request(&["BLPOP", "list", "0"])).expect("the server reads");
    eventually("the client blocks", || {
        let mut other = client(&server);
        ask(&mut other, &["PING"], "+PONG\r\n");
        other.write_all(b"INFO clients\r\nQUIT\r\n").expect("the server reads");
        String::from_utf8_lossy(&read_to_end(&mut other)).contains("blocked_clients:1\r\n")
    });
    clock.advance(Duration::from_secs(11));
    assert_eq!(read_to_end(&mut idle), b"");
    let mut other = client(&server);
    ask(&mut other, &["RPUSH", "list", "x"], ":1\r\n");
    expect(&mut blocked, "*2\r\n$4\r\nlist\r\n$1\r\nx\r\n");
    ask(&mut other, &["PUBLISH", "c", "m"], ":1\r\n");
    expect(&mut subscribed, "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n");
}

/// A log whose disk the test plays.
#[derive(Default)]
struct Disk {
    staged: AtomicU64,
    released: AtomicU64,
    /// Everything is on disk as soon as it is staged.
    instant: AtomicBool,
    lost: AtomicBool,
    full: AtomicBool,
    listener: Mutex<Option<Listener>>,
}

impl Disk {
    fn tell(&self) {
        if let Some(listener) = &*self.listener.lock().expect("no panic") {
            listener();
        }
    }

    fn sync(&self) {
        self.released.store(self.staged.load(Ordering::SeqCst), Ordering::SeqCst);
        self.tell();
    }
}

impl Journal for Disk {
    fn stage(&self, operations: &[u8]) -> u64 {
        if operations.is_empty() {
            return self.staged.load(Ordering::SeqCst);
        }
        self.staged.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn commit(&self, _: u64) -> Result<(), JournalError> {
        self.failure().map_or(Ok(()), Err)
    }

    fn released(&self) -> u64 {
        if self.instant.load(Ordering::SeqCst) {
            return self.staged.load(Ordering::SeqCst);
        }
        self.released.load(Ordering::SeqCst)
    }

    fn failure(&self) -> Option<JournalError> {
        let failed = self.full.load(Ordering::SeqCst) || self.is_lost();
        failed.then(|| JournalError("No space left on device".into()))
    }

    fn is_lost(&self) -> bool {
        self.lost.load(Ordering::SeqCst)
    }

    fn listen(&self, listener: Listener) {
        *self.listener.lock().expect("no panic") = Some(listener);
    }

    fn close(&self) -> Result<(), JournalError> {
        Ok(())
    }
}

fn on_disk() -> (Handle, Arc<Disk>) {
    let disk = Arc::new(Disk::default());
    let mut config = Config::loopback(0);
    let journal = disk.clone();
    config.journal = Some(Arc::new(move |_, _| Ok(journal.clone())));
    (Server::start(config).expect("a server starts"), disk)
}

#[test]
fn replies_wait_until_the_log_has_the_write() {
    let (server, disk) = on_disk();
    let (mut writer, mut reader) = (client(&server), client(&server));
    writer.write_all(&request(&["SET", "key", "1"])).expect("the server reads");
    eventually("the write is staged", || disk.staged.load(Ordering::SeqCst) == 1);
    // A read that sees the write waits for it, too.
    reader.write_all(&request(&["GET", "key"])).expect("the server reads");
    for stream in [&mut writer, &mut reader] {
        stream.set_nonblocking(true).expect("a socket option");
        let early = std::io::Read::read(stream, &mut [0; 1]).expect_err("nothing is sent yet");
        assert_eq!(early.kind(), std::io::ErrorKind::WouldBlock);
        stream.set_nonblocking(false).expect("a socket option");
    }
    disk.sync();
    expect(&mut writer, "+OK\r\n");
    expect(&mut reader, "$1\r\n1\r\n");
}

#[tokio::test]
async fn replies_in_process_wait_for_the_log_too() {
    let (server, disk) = on_disk();
    let mut stream = server.connect();
    stream.write_all(&request(&["SET", "key", "1"])).await.expect("the engine takes input");
    assert_eq!(disk.staged.load(Ordering::SeqCst), 1, "staged by the very write");
    let mut reply = [0; 5];
    let early = tokio::time::timeout(Duration::from_millis(1), stream.read(&mut reply)).await;
    early.expect_err("nothing is told yet");
    let reader = tokio::spawn(async move {
        stream.read_exact(&mut reply).await.expect("the engine answers");
        reply
    });
    tokio::task::yield_now().await;
    disk.sync();
    assert_eq!(&reader.await.expect("no panic"), b"+OK\r\n");
}

#[test]
fn a_full_disk_refuses_writes_until_it_has_room() {
    let (server, disk) = on_disk();
    disk.instant.store(true, Ordering::SeqCst);
    let mut stream = client(&server);
    ask(&mut stream, &["SET", "key", "1"], "+OK\r\n");
    let refusal = "-MISCONF Errors writing to the AOF file: No space left on device\r\n";
    for (full, reply) in [(true, refusal), (false, "+OK\r\n")] {
        disk.full.store(full, Ordering::SeqCst);
        disk.tell();
        eventually("the engine learns about the disk", || {
            let mut other = client(&server);
            other.write_all(b"SET key 2\r\nQUIT\r\n").expect("the server reads");
            read_to_end(&mut other) == format!("{reply}+OK\r\n").as_bytes()
        });
    }
}

#[test]
fn a_lost_write_is_never_acknowledged() {
    let (server, disk) = on_disk();
    let mut stream = client(&server);
    stream.write_all(&request(&["SET", "key", "1"])).expect("the server reads");
    eventually("the write is staged", || disk.staged.load(Ordering::SeqCst) == 1);
    disk.lost.store(true, Ordering::SeqCst);
    disk.tell();
    assert_eq!(read_to_end(&mut stream), b"");
}

#[tokio::test]
async fn a_lost_write_is_never_acknowledged_in_process() {
    let (server, disk) = on_disk();
    let mut stream = server.connect();
    stream.write_all(&request(&["SET", "key", "1"])).await.expect("the engine takes input");
    let reader = tokio::spawn(async move { stream.read(&mut [0; 5]).await });
    tokio::task::yield_now().await;
    disk.lost.store(true, Ordering::SeqCst);
    disk.tell();
    let error = reader.await.expect("no panic").expect_err("nothing is told");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}
