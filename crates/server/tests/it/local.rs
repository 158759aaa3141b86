//! Connections inside the process: with redis-rs, with each other, with sockets, by the thousand.

use std::{io::Write, time::Duration};

use crate::support::{PATIENCE, ask, client, eventually, expect, request, serve};
use redis::{
    AsyncCommands, AsyncConnectionConfig, RedisConnectionInfo, aio::MultiplexedConnection,
};
use seawall_server::{Config, Handle, LocalStream, Server};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinSet,
    time::timeout,
};

async fn say(stream: &mut LocalStream, args: &[&str]) {
    stream.write_all(&request(args)).await.expect("the engine takes input");
}

async fn hear(stream: &mut LocalStream, reply: &str) {
    let mut bytes = vec![0; reply.len()];
    let read = timeout(PATIENCE, stream.read_exact(&mut bytes)).await;
    read.expect("a reply comes in time").expect("the engine answers");
    assert_eq!(String::from_utf8_lossy(&bytes), reply);
}

async fn connect(server: &Handle) -> MultiplexedConnection {
    let info = RedisConnectionInfo::default();
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let (connection, driver) =
        MultiplexedConnection::new_with_config(&info, server.connect(), config)
            .await
            .expect("redis-rs can be built on the stream");
    tokio::spawn(driver);
    connection
}

fn embedded() -> Handle {
    Server::start(Config::default()).expect("an embedded server starts")
}

#[tokio::test]
async fn redis_rs_runs_on_the_stream() {
    let server = embedded();
    let mut connection = connect(&server).await;
    let () = connection.set("key", "value").await.expect("SET works");
    let value: String = connection.get("key").await.expect("GET works");
    assert_eq!(value, "value");
    let (a, b): (i64, i64) = redis::pipe()
        .atomic()
        .incr("n", 1)
        .incr("n", 1)
        .query_async(&mut connection)
        .await
        .expect("a transaction works");
    assert_eq!((a, b), (1, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn thousands_of_tasks_count_right() {
    let server = embedded();
    let mut tasks = JoinSet::new();
    let shared = connect(&server).await;
    for task in 0..2_000 {
        let mut connection = shared.clone();
        let mut stream = server.connect();
        tasks.spawn(async move {
            if task % 2 == 0 {
                for _ in 0..5 {
                    let _: i64 = connection.incr("n", 1).await.expect("INCR works");
                }
            } else {
                for _ in 0..5 {
                    say(&mut stream, &["INCR", "n"]).await;
                    let mut byte = [0];
                    while byte != *b"\n" {
                        stream.read_exact(&mut byte).await.expect("the engine answers");
                    }
                }
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("no panic");
    }
    let mut connection = shared.clone();
    let count: i64 = connection.get("n").await.expect("GET works");
    assert_eq!(count, 10_000);
    assert_eq!(server.core().engine().session_count(), 1, "dropped streams leave no session");
}

#[tokio::test]
async fn messages_cross_between_streams_and_sockets() {
    let server = serve();
    let mut socket = client(&server);
    let subscribed = "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
    ask(&mut socket, &["SUBSCRIBE", "c"], subscribed);
    let (mut listener, mut sender) = (server.connect(), server.connect());
    say(&mut listener, &["SUBSCRIBE", "c"]).await;
    hear(&mut listener, subscribed).await;

    let message = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n";
    let waiting = tokio::spawn(async move {
        hear(&mut listener, message).await;
        listener
    });
    say(&mut sender, &["PUBLISH", "c", "hi"]).await;
    hear(&mut sender, ":2\r\n").await;
    expect(&mut socket, message);
    let mut listener = waiting.await.expect("no panic");

    ask(&mut client(&server), &["PUBLISH", "c", "hi"], ":2\r\n");
    expect(&mut socket, message);
    hear(&mut listener, message).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_stream_is_woken_by_others_and_by_time() {
    let server = serve();
    let popped = "*2\r\n$4\r\nlist\r\n$1\r\nx\r\n";
    for by_socket in [false, true] {
        let mut blocked = server.connect();
        say(&mut blocked, &["BLPOP", "list", "0"]).await;
        let waiting = tokio::spawn(async move { hear(&mut blocked, popped).await });
        if by_socket {
            let mut socket = client(&server);
            socket.write_all(&request(&["RPUSH", "list", "x"])).expect("the server reads");
            expect(&mut socket, ":1\r\n");
        } else {
            let mut other = server.connect();
            say(&mut other, &["RPUSH", "list", "x"]).await;
            hear(&mut other, ":1\r\n").await;
        }
        waiting.await.expect("no panic");
    }
    let mut alone = server.connect();
    say(&mut alone, &["BLPOP", "list", "0.01"]).await;
    hear(&mut alone, "*-1\r\n").await;
}

#[tokio::test]
async fn a_stream_dropped_while_blocked_takes_nothing() {
    let server = embedded();
    let mut blocked = server.connect();
    say(&mut blocked, &["BLPOP", "list", "0"]).await;
    let mut byte = [0];
    timeout(Duration::from_millis(1), blocked.read(&mut byte)).await.expect_err("it blocks");
    drop(blocked);
    let mut other = server.connect();
    say(&mut other, &["RPUSH", "list", "x"]).await;
    say(&mut other, &["LLEN", "list"]).await;
    hear(&mut other, ":1\r\n:1\r\n").await;
}

#[tokio::test]
async fn endings_are_seen() {
    let server = embedded();
    let mut quitting = server.connect();
    say(&mut quitting, &["QUIT"]).await;
    let mut all = Vec::new();
    quitting.read_to_end(&mut all).await.expect("the stream ends");
    assert_eq!(all, b"+OK\r\n");
    quitting.write_all(b"PING\r\n").await.expect_err("nobody is there");

    let mut leaving = server.connect();
    say(&mut leaving, &["PING"]).await;
    leaving.shutdown().await.expect("a stream can be shut down");
    all.clear();
    leaving.read_to_end(&mut all).await.expect("the stream ends");
    assert_eq!(all, b"+PONG\r\n");

    let mut left_behind = server.connect();
    let reader = tokio::spawn(async move {
        let mut all = Vec::new();
        left_behind.read_to_end(&mut all).await.map(|_| all)
    });
    tokio::task::yield_now().await;
    tokio::task::spawn_blocking(|| server.shutdown()).await.expect("no panic").expect("clean");
    assert_eq!(reader.await.expect("no panic").expect("the stream ends"), b"");
}

#[tokio::test]
async fn a_killed_stream_ends() {
    let server = serve();
    let mut stream = server.connect();
    say(&mut stream, &["CLIENT", "ID"]).await;
    let mut id = [0; 4];
    stream.read_exact(&mut id).await.expect("the engine answers");
    let id = String::from_utf8_lossy(&id[1..2]).into_owned();
    let waiting = tokio::spawn(async move {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.map(|_| all)
    });
    tokio::task::yield_now().await;
    ask(&mut client(&server), &["CLIENT", "KILL", "ID", &id], ":1\r\n");
    assert_eq!(waiting.await.expect("no panic").expect("the stream ends"), b"");
    eventually("its session ends", || server.core().engine().session_count() <= 1);
}

#[tokio::test]
async fn a_stream_that_never_reads_is_bounded() {
    let server = embedded();
    let (mut lazy, mut sender) = (server.connect(), server.connect());
    say(&mut sender, &["CONFIG", "SET", "client-output-buffer-limit", "pubsub 1mb 0 0"]).await;
    hear(&mut sender, "+OK\r\n").await;
    say(&mut lazy, &["SUBSCRIBE", "c"]).await;
    let message = "m".repeat(100_000);
    for _ in 0..100 {
        say(&mut sender, &["PUBLISH", "c", &message]).await;
        hear(&mut sender, ":1\r\n").await;
    }
    let mut all = Vec::new();
    let error = lazy.read_to_end(&mut all).await.expect_err("output was dropped");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(all.len() < 2_000_000);
    assert_eq!(server.core().engine().session_count(), 1);
}
