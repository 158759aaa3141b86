//! The tools against a real `redis-server`: a checker is proven by a planted mistake.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use seawall_testkit::transcript::{Script, play, record};
use seawall_testkit::{Address, Client, Reply, ServerBuilder, ServerProcess};

#[test]
fn a_private_server_answers_and_ends() {
    let mut server = ServerProcess::redis().unwrap();
    let mut client = server.connect().unwrap();
    assert_eq!(client.call(&["PING"]).unwrap(), Reply::Simple(b"PONG".to_vec()));
    assert_eq!(client.call(&["GET", "missing"]).unwrap(), Reply::NilBulk);
    client.call(&["HELLO", "3"]).unwrap();
    assert_eq!(client.call(&["GET", "missing"]).unwrap(), Reply::Null);
    assert!(server.terminate(Duration::from_secs(5)).unwrap().success());
    assert!(client.read().is_err());
}

#[test]
fn a_server_with_a_password_counts_as_ready() {
    let server = ServerBuilder::redis().args(["--requirepass", "secret"]).start().unwrap();
    let mut client = server.connect().unwrap();
    assert!(client.call(&["PING"]).unwrap().text().starts_with("NOAUTH"));
}

#[test]
fn a_known_password_is_given_and_users_are_kept_to_their_rules() {
    let builder = ServerBuilder::redis().password("secret").user("app", "pass", "~app:* +@all");
    let server = builder.start().unwrap();
    assert_eq!(server.connect().unwrap().call(&["PING"]).unwrap().text(), "PONG");
    let mut stranger = Client::connect(&server.address()).unwrap();
    assert!(stranger.call(&["PING"]).unwrap().text().starts_with("NOAUTH"));
    assert_eq!(stranger.call(&["AUTH", "app", "pass"]).unwrap().text(), "OK");
    assert_eq!(stranger.call(&["SET", "app:k", "v"]).unwrap().text(), "OK");
    assert!(stranger.call(&["SET", "k", "v"]).unwrap().text().starts_with("NOPERM"));
}

#[test]
fn a_unix_socket_is_spoken_to_as_well() {
    let server = ServerBuilder::redis().unix_socket().start().unwrap();
    let path = server.socket().unwrap().to_owned();
    let mut client = Client::connect(&Address::Unix(path)).unwrap();
    assert_eq!(client.call(&["PING"]).unwrap().text(), "PONG");
}

#[test]
fn a_server_with_tls_is_trusted_by_its_authority_alone() {
    let server = ServerBuilder::redis().tls().start().unwrap();
    let other = ServerBuilder::redis().tls().start().unwrap();
    let tls = server.tls().unwrap();
    assert_eq!(tls.url(), format!("rediss://127.0.0.1:{}", tls.port()));
    let ping = |authority: &Path| {
        let mut client = Command::new("redis-cli");
        client.args(["-p", &tls.port().to_string(), "--tls", "--cacert"]).arg(authority);
        let output = client.arg("PING").output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(ping(tls.ca_path()), "PONG");
    assert_ne!(ping(other.tls().unwrap().ca_path()), "PONG");
}

#[test]
fn valkey_answers_like_redis() {
    let server = ServerProcess::valkey().unwrap();
    let mut client = server.connect().unwrap();
    assert_eq!(client.call(&["PING"]).unwrap().text(), "PONG");
    let info = client.call(&["INFO", "server"]).unwrap().text();
    assert!(info.contains("valkey_version:9."), "{info}");
}

#[test]
fn a_server_that_is_started_again_keeps_its_port_and_its_files() {
    let builder = ServerBuilder::redis().args(["--appendonly", "yes", "--appendfsync", "always"]);
    let mut server = builder.start().unwrap();
    let (port, pid) = (server.port(), server.pid());
    server.connect().unwrap().call(&["SET", "k", "v"]).unwrap();
    server.restart().unwrap();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    assert_eq!(server.connect().unwrap().call(&["GET", "k"]).unwrap().text(), "v");
}

#[test]
fn a_program_that_cannot_start_says_why() {
    let error = ServerBuilder::redis().args(["--no-such-option", "x"]).start().unwrap_err();
    assert!(error.to_string().contains("no-such-option"), "{error}");
}

const DIALOGUE: &str = r#"
# Two clients, raw bytes, and a reply whose order is free.
== a blocked client is served by a push
> @2 BLPOP queue 0
< @2 silent
> RPUSH queue "\x00\xff"
< :1
< @2 ["queue", "\x00\xff"]
>> "PING\r\n"
< +PONG
> SADD s {1..3}
< :3
> SMEMBERS s
< unordered ["3", "2", "1"]

== sections start empty
> EXISTS s
< :0
> QUIT
< +OK
< closed
"#;

#[test]
fn a_right_transcript_passes_and_each_planted_mistake_fails() {
    let server = ServerProcess::redis().unwrap();
    let check = |source: &str| {
        let script = Script::parse(source).unwrap();
        play(&script, source, &server.address()).unwrap()
    };
    let summary = check(DIALOGUE);
    assert!(summary.failures.is_empty(), "{}", summary.failures[0]);
    assert_eq!(summary.sections, 2);

    for (right, wrong) in [
        ("< +PONG", "< \"PONG\""),
        ("< :1\n", "< :2\n"),
        ("< @2 [\"queue\", \"\\x00\\xff\"]\n", ""),
        ("\"2\", \"1\"]", "\"2\", \"4\"]"),
        ("< @2 silent", "< @2 *"),
        ("== sections start empty\n", ""),
    ] {
        let planted = DIALOGUE.replacen(right, wrong, 1);
        assert_ne!(planted, DIALOGUE);
        assert_eq!(check(&planted).failures.len(), 1, "not noticed: {wrong}");
    }
}

#[test]
fn recording_fills_in_what_is_missing() {
    let server = ServerProcess::redis().unwrap();
    let bare: String = DIALOGUE
        .lines()
        .filter(|line| !line.starts_with("< ") || line.contains("silent"))
        .map(|line| format!("{line}\n"))
        .collect();
    let bare = bare.replace("> SMEMBERS s\n", "> SMEMBERS s\n< unordered\n");
    let recorded = record(&bare, &server.address()).unwrap();
    let script = Script::parse(&recorded).unwrap();
    let summary = play(&script, &recorded, &server.address()).unwrap();
    assert!(summary.failures.is_empty(), "{}\n{recorded}", summary.failures[0]);
    assert!(recorded.contains("< @2 [\"queue\", \"\\x00\\xff\"]"), "{recorded}");
    assert!(recorded.contains("< unordered ["), "{recorded}");
}
