//! A large value is shared between the keyspace and the replies that carry it. Nobody notices: a reply
//! is what the value was when it was asked for, whatever becomes of the key before it is read.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
};

use crate::support::{ask, client, eventually, expect, request, serve};
use seawall_server::{
    Config, Handle, Server,
    aof::{open_journal_on, sim::SimDisk},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// More than the kernel holds of one connection's output.
const LARGE: usize = 16 << 20;

/// A value whose parts differ.
fn pattern(size: usize) -> String {
    let line = |number: usize| format!("{number:01023},");
    let mut text: String = (0..size.div_ceil(1024)).map(line).collect();
    text.truncate(size);
    text
}

fn bulk(value: &str) -> String {
    format!("${}\r\n{value}\r\n", value.len())
}

/// Expects these bytes, and does not print megabytes if they differ.
fn expect_large(stream: &mut TcpStream, reply: &str) {
    let mut bytes = vec![0; reply.len()];
    stream.read_exact(&mut bytes).expect("the server answers");
    assert!(bytes == reply.as_bytes(), "{} bytes differ", bytes.len());
}

/// Asks for something and waits until the server has answered, without reading.
fn ask_only(server: &Handle, stream: &mut TcpStream, args: &[&str]) {
    let before = server.core().engine().used_bytes();
    stream.write_all(&request(args)).expect("the server reads");
    eventually("the reply counts as the client's", || {
        server.core().engine().used_bytes() > before + (LARGE / 2) as u64
    });
}

#[test]
fn a_reply_is_what_the_value_was() {
    let value = pattern(LARGE);
    let edits: [&[&str]; 9] = [
        &["APPEND", "k", "more"],
        &["SETRANGE", "k", "100", "other"],
        &["SETBIT", "k", "7", "1"],
        &["DEL", "k"],
        &["UNLINK", "k"],
        &["SET", "k", "small"],
        &["PEXPIREAT", "k", "1"],
        &["RENAME", "k", "other"],
        &["FLUSHALL"],
    ];
    let server = serve();
    let mut editor = client(&server);
    for edit in edits {
        ask(&mut editor, &["SET", "k", &value], "+OK\r\n");
        let mut lazy = client(&server);
        ask_only(&server, &mut lazy, &["GET", "k"]);
        editor.write_all(&request(edit)).expect("the server reads");
        let mut first = [0; 1];
        editor.read_exact(&mut first).expect("the server answers");
        assert_ne!(first, *b"-", "{edit:?}");
        let mut byte = [0; 1];
        while byte != *b"\n" {
            editor.read_exact(&mut byte).expect("the server answers");
        }
        expect_large(&mut lazy, &bulk(&value));
    }
}

#[test]
fn an_edit_is_seen_by_later_replies_only() {
    let server = serve();
    let mut stream = client(&server);
    let value = pattern(LARGE);
    ask(&mut stream, &["SET", "k", &value], "+OK\r\n");
    let mut lazy = client(&server);
    ask_only(&server, &mut lazy, &["GET", "k"]);
    ask(&mut stream, &["APPEND", "k", "!"], &format!(":{}\r\n", LARGE + 1));
    ask(&mut stream, &["SETRANGE", "k", "0", "?"], &format!(":{}\r\n", LARGE + 1));
    lazy.write_all(&request(&["GETRANGE", "k", "0", "-1"])).expect("the server reads");
    lazy.write_all(&request(&["MGET", "none", "k"])).expect("the server reads");
    expect_large(&mut lazy, &bulk(&value));
    let edited = format!("?{}!", &value[1..]);
    expect_large(&mut lazy, &bulk(&edited));
    expect_large(&mut lazy, &format!("*2\r\n$-1\r\n{}", bulk(&edited)));
    lazy.write_all(&request(&["GETRANGE", "k", "5", "100000"])).expect("the server reads");
    expect_large(&mut lazy, &bulk(&edited[5..=100_000]));
}

#[test]
fn commands_that_give_the_old_value_give_all_of_it() {
    let server = serve();
    let mut stream = client(&server);
    let (old, new) = (pattern(300_000), pattern(200_000));
    ask(&mut stream, &["SET", "k", &old], "+OK\r\n");
    ask(&mut stream, &["SET", "k", &new, "GET"], &bulk(&old));
    ask(&mut stream, &["GETSET", "k", &old], &bulk(&new));
    ask(&mut stream, &["GETEX", "k", "PXAT", "1"], &bulk(&old));
    ask(&mut stream, &["EXISTS", "k"], ":0\r\n");
    ask(&mut stream, &["SET", "k", &new], "+OK\r\n");
    ask(&mut stream, &["COPY", "k", "copy"], ":1\r\n");
    ask(&mut stream, &["APPEND", "copy", "!"], ":200001\r\n");
    ask(&mut stream, &["GETDEL", "k"], &bulk(&new));
    ask(&mut stream, &["GET", "copy"], &bulk(&format!("{new}!")));
    ask(&mut stream, &["OBJECT", "ENCODING", "copy"], "$3\r\nraw\r\n");
    ask(&mut stream, &["INCR", "copy"], "-ERR value is not an integer or out of range\r\n");
}

#[test]
fn transactions_and_scripts_see_the_value() {
    let server = serve();
    let mut stream = client(&server);
    let value = pattern(200_000);
    ask(&mut stream, &["MULTI"], "+OK\r\n");
    let queued: [&[&str]; 4] =
        [&["SET", "k", &value], &["GET", "k"], &["APPEND", "k", "!"], &["GET", "k"]];
    for command in queued {
        ask(&mut stream, command, "+QUEUED\r\n");
    }
    let edited = format!("{value}!");
    let replies = format!("*4\r\n+OK\r\n{}:200001\r\n{}", bulk(&value), bulk(&edited));
    ask(&mut stream, &["EXEC"], &replies);
    let script = "redis.call('SET', KEYS[2], ARGV[1]) return redis.call('GET', KEYS[1])";
    ask(&mut stream, &["EVAL", script, "2", "k", "l", &value], &bulk(&edited));
    ask(&mut stream, &["GET", "l"], &bulk(&value));
    let length = "return #redis.call('GETRANGE', KEYS[1], 1, -1)";
    ask(&mut stream, &["EVAL", length, "1", "k"], ":200000\r\n");
}

#[test]
fn a_rewrite_holds_the_value_of_its_moment() {
    let disk = SimDisk::new(3);
    let mut config = Config::loopback(0);
    config.engine.settings.set("appendonly", "yes").expect("a setting");
    config.journal = Some(open_journal_on(Arc::new(disk)));
    let value = pattern(LARGE);
    {
        let server = Server::start(config.clone()).expect("a server starts");
        let mut stream = client(&server);
        ask(&mut stream, &["SET", "k", &value], "+OK\r\n");
        let mut lazy = client(&server);
        ask_only(&server, &mut lazy, &["GET", "k"]);
        let started = "+Background append only file rewriting started\r\n";
        ask(&mut stream, &["BGREWRITEAOF"], started);
        ask(&mut stream, &["APPEND", "k", "!"], &format!(":{}\r\n", LARGE + 1));
        eventually("the log is rewritten", || {
            !server.core().engine().host_info().aof_rewrite_in_progress
        });
        ask(&mut stream, &["SETRANGE", "k", "0", "?"], &format!(":{}\r\n", LARGE + 1));
        expect_large(&mut lazy, &bulk(&value));
    }
    let server = Server::start(config).expect("a server starts");
    let mut stream = client(&server);
    stream.write_all(&request(&["GET", "k"])).expect("the server reads");
    expect_large(&mut stream, &bulk(&format!("?{}!", &value[1..])));
}

#[test]
fn an_argument_that_arrives_counts_and_is_bounded() {
    let server = serve();
    let mut stream = client(&server);
    let mut slow = client(&server);
    let before = server.core().engine().used_bytes();
    let half = pattern(LARGE / 2);
    let head = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${LARGE}\r\n");
    slow.write_all(head.as_bytes()).expect("the server reads");
    slow.write_all(half.as_bytes()).expect("the server reads");
    let counted = || server.core().engine().used_bytes() - before;
    eventually("it counts as the client's", || counted() >= (LARGE / 2) as u64);
    assert!(counted() <= (LARGE * 3 / 2) as u64, "{} bytes", counted());
    slow.write_all(half.as_bytes()).expect("the server reads");
    slow.write_all(b"\r\n").expect("the server reads");
    expect(&mut slow, "+OK\r\n");
    ask(&mut stream, &["PING"], "+PONG\r\n");
    eventually("it counts once", || counted() < (LARGE * 5 / 4) as u64);
    ask(&mut stream, &["STRLEN", "k"], &format!(":{LARGE}\r\n"));
    ask(&mut stream, &["CONFIG", "SET", "client-query-buffer-limit", "1mb"], "+OK\r\n");
    let mut greedy = client(&server);
    // The server may close before it has all.
    let _ = greedy.write_all(&request(&["SET", "k", &half]));
    assert!(crate::support::read_to_end(&mut greedy).is_empty());
    ask(&mut stream, &["STRLEN", "k"], &format!(":{LARGE}\r\n"));
}

#[tokio::test]
async fn streams_in_the_process_share_too() {
    let server = serve();
    let (mut writer, mut reader) = (server.connect(), server.connect());
    let value = pattern(LARGE);
    let set = request(&["SET", "k", &value]);
    for piece in set.chunks(100_000) {
        writer.write_all(piece).await.expect("it is taken");
    }
    let mut ok = [0; 5];
    writer.read_exact(&mut ok).await.expect("an answer");
    assert_eq!(&ok, b"+OK\r\n");
    reader.write_all(&request(&["GET", "k"])).await.expect("it is taken");
    writer.write_all(&request(&["SETRANGE", "k", "0", "?"])).await.expect("it is taken");
    let mut got = vec![0; bulk(&value).len()];
    reader.read_exact(&mut got).await.expect("an answer");
    assert!(got == bulk(&value).into_bytes());
}
