//! Scripts that never end: everybody else is told, and anybody can end them.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Instant,
};

use crate::support::{PATIENCE, ask, client, eventually, expect, read_to_end, request};
use seawall_server::{Config, Handle, LocalStream, Server};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    runtime::Builder,
};

const BUSY: &str = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or \
                    SHUTDOWN NOSAVE.\r\n";
const FOREVER: [&str; 3] = ["EVAL", "while true do end", "0"];

fn serve() -> Handle {
    let mut config = Config::loopback(0);
    config.engine.settings.lua_time_limit = 20;
    Server::start(config).expect("a server starts on a free port")
}

/// Sends a script without end and waits until others are told.
fn hang(server: &Handle) -> TcpStream {
    let mut stream = client(server);
    stream.write_all(&request(&FOREVER)).expect("the server reads");
    wait_until_busy(server);
    stream
}

fn wait_until_busy(server: &Handle) {
    let mut other = client(server);
    eventually("the script is past its time", || {
        other.write_all(b"PING\r\n").expect("the server reads");
        let mut first = [0];
        other.read_exact(&mut first).expect("the server answers");
        let busy = first == *b"-";
        expect(&mut other, if busy { &BUSY[1..] } else { "PONG\r\n" });
        busy
    });
}

#[test]
fn a_script_on_a_socket_is_killed_from_a_socket() {
    let server = serve();
    let mut hanging = hang(&server);
    // New clients are taken meanwhile, and broken ones are noticed.
    drop(client(&server));
    let mut killer = client(&server);
    ask(&mut killer, &["GET", "key"], BUSY);
    ask(&mut killer, &["SCRIPT", "KILL"], "+OK\r\n");
    expect(&mut hanging, "-ERR Script killed by user with SCRIPT KILL...");
    ask(&mut killer, &["PING"], "+PONG\r\n");
}

#[test]
fn a_script_goes_on_when_its_client_leaves() {
    let server = serve();
    drop(hang(&server));
    let mut killer = client(&server);
    ask(&mut killer, &["SCRIPT", "KILL"], "+OK\r\n");
    eventually("only the killer is left", || server.core().engine().session_count() == 1);
    ask(&mut killer, &["PING"], "+PONG\r\n");
}

async fn eval_forever(mut stream: LocalStream) -> Vec<u8> {
    stream.write_all(&request(&FOREVER)).await.expect("the engine takes input");
    let mut reply = vec![0; 10];
    stream.read_exact(&mut reply).await.expect("the engine answers");
    reply
}

#[test]
fn a_script_in_process_is_killed_from_a_socket() {
    let server = serve();
    let stream = server.connect();
    let hanging = std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().build().expect("a runtime starts");
        runtime.block_on(eval_forever(stream))
    });
    wait_until_busy(&server);
    ask(&mut client(&server), &["SCRIPT", "KILL"], "+OK\r\n");
    assert_eq!(hanging.join().expect("no panic"), b"-ERR Scrip");
}

#[test]
fn a_script_on_a_socket_is_killed_in_process() {
    let server = serve();
    let mut hanging = hang(&server);
    let mut killer = server.connect();
    let runtime = Builder::new_current_thread().build().expect("a runtime starts");
    let reply = runtime.block_on(async {
        killer.write_all(&request(&["SCRIPT", "KILL"])).await.expect("the engine takes input");
        let mut reply = [0; 5];
        killer.read_exact(&mut reply).await.expect("the engine answers");
        reply
    });
    assert_eq!(&reply, b"+OK\r\n");
    expect(&mut hanging, "-ERR Script killed by user");
}

#[test]
fn a_server_ends_although_a_script_does_not() {
    for nosave in [false, true] {
        let server = serve();
        let mut hanging = hang(&server);
        let start = Instant::now();
        if nosave {
            let mut other = client(&server);
            other.write_all(&request(&["SHUTDOWN", "NOSAVE"])).expect("the server reads");
            server.wait().expect("a clean end");
        } else {
            server.shutdown().expect("a clean end");
        }
        assert!(start.elapsed() < PATIENCE / 10, "took {:?}", start.elapsed());
        read_to_end(&mut hanging);
    }
}
