//! An engine without a thread: the caller's calls are all that moves it.

use std::{sync::Arc, time::Duration};

use crate::support::request;
use futures_util::FutureExt as _;
use seawall_engine::ManualClock;
use seawall_server::{Config, Host, LocalStream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const START_MS: i64 = 1_700_000_000_000;

fn host(seed: u64) -> (Host, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at_millis(START_MS));
    let mut config = Config::default();
    config.engine.seed = seed;
    config.clock = Some(Arc::clone(&clock) as _);
    (Host::new(config).expect("a host needs nothing"), clock)
}

/// Writes a command; it is executed when this returns.
fn say(stream: &mut LocalStream, args: &[&str]) {
    stream.write_all(&request(args)).now_or_never().expect("nothing to wait for").expect("taken");
}

/// Returns what there is to read now; `None` if there is nothing, an empty text at the stream's end.
fn heard(stream: &mut LocalStream) -> Option<String> {
    let mut all: Option<String> = None;
    let mut bytes = vec![0; 64 * 1024];
    while let Some(read) = stream.read(&mut bytes).now_or_never() {
        let count = read.expect("the engine answers");
        *all.get_or_insert_default() += &*String::from_utf8_lossy(&bytes[..count]);
        if count == 0 {
            break;
        }
    }
    all
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("Linux tells").count()
}

#[test]
fn time_passes_only_when_the_caller_says_so_and_no_thread_is_started() {
    let before = threads();
    let (host, clock) = host(1);
    let mut stream = host.connect();
    say(&mut stream, &["SET", "key", "value", "PX", "50"]);
    assert_eq!(heard(&mut stream).as_deref(), Some("+OK\r\n"));
    let mut blocked = host.connect();
    say(&mut blocked, &["BLPOP", "list", "0.03"]);
    assert_eq!(heard(&mut blocked), None);
    host.tick();
    assert_eq!(host.due_ms(), START_MS + 30, "the end of the blocked pop");
    clock.advance(Duration::from_millis(30));
    assert_eq!(heard(&mut blocked), None, "its time is over, but the host was not called");
    host.tick();
    assert_eq!(heard(&mut blocked).as_deref(), Some("*-1\r\n"));
    assert_eq!(host.due_ms(), START_MS + 100, "the periodic work");
    clock.advance(Duration::from_millis(20));
    say(&mut stream, &["GET", "key"]);
    assert_eq!(heard(&mut stream).as_deref(), Some("$-1\r\n"));
    // A large value is freed at once, not on a thread.
    say(&mut stream, &["EVAL", "for i = 1, 5000 do redis.call('RPUSH', 'big', i) end", "0"]);
    say(&mut stream, &["UNLINK", "big"]);
    assert_eq!(heard(&mut stream).as_deref(), Some("$-1\r\n:1\r\n"));
    assert_eq!(threads(), before);
}

#[test]
fn streams_reach_each_other_and_requests_reach_the_host() {
    let (host, _clock) = host(2);
    let (mut one, mut other) = (host.connect(), host.connect());
    say(&mut one, &["SUBSCRIBE", "news"]);
    let _ = heard(&mut one).expect("confirmed");
    say(&mut other, &["PUBLISH", "news", "hello"]);
    let message = heard(&mut one).expect("delivered");
    assert!(message.ends_with("hello\r\n"), "{message}");
    host.tick();
    assert!(host.due_ms() > 0);
    say(&mut other, &["SAVE"]);
    assert_eq!(host.due_ms(), 0, "a request to the host is due at once");
    host.tick();
    let answer = heard(&mut other).expect("answered");
    assert!(answer.contains("no data directory"), "{answer}");
    say(&mut other, &["SHUTDOWN"]);
    host.tick();
    assert!(host.is_stopped());
    assert_eq!(heard(&mut one).as_deref(), Some(""), "the stream has ended");
}

#[test]
fn the_seed_decides() {
    let run = |seed| {
        let (host, _clock) = host(seed);
        let mut stream = host.connect();
        for member in 0..100 {
            say(&mut stream, &["SADD", "set", &format!("member {member}")]);
        }
        let _ = heard(&mut stream);
        for command in
            [["SRANDMEMBER", "set"].as_slice(), &["SMEMBERS", "set"], &["INFO", "server"]]
        {
            say(&mut stream, command);
        }
        heard(&mut stream).expect("answered")
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn a_host_that_should_listen_is_refused() {
    let refused = Host::new(Config::loopback(0)).expect_err("it has no thread");
    assert!(refused.to_string().contains("Server::start"), "{refused}");
}
