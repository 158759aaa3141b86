//! Connections of one's own: they hold up nobody, and nobody mixes with them.

use std::time::{Duration, Instant};

use seawall::{Error, Seawall, Value, cmd};
use seawall_testkit::ServerProcess;

use crate::setup::{Setup, on_every_backend};

const LIMIT: Duration = Duration::from_secs(10);

on_every_backend! {
    a_blocking_command_holds_up_its_lane_alone
    a_watched_key_stops_the_transaction_that_is_late
}

async fn a_blocking_command_holds_up_its_lane_alone(setup: Setup) {
    let seawall = setup.connect().await;
    let (client, key) = (seawall.client(), setup.entry("{list}"));
    let mut connection = client.dedicated(key.as_bytes()).await.expect("a connection");
    let pop = cmd("BLPOP").arg(&key).arg(0).to_owned();
    let popped =
        tokio::spawn(async move { connection.send::<(String, String)>(&pop, LIMIT).await });
    for _ in 0..100 {
        let length: i64 = client.query(key.as_bytes(), cmd("LLEN").arg(&key)).await.expect("asked");
        assert_eq!(length, 0);
    }
    assert!(!popped.is_finished());
    client.send(key.as_bytes(), cmd("LPUSH").arg(&key).arg("x")).await.expect("pushed");
    let (_, value) = popped.await.expect("no panic").expect("popped");
    assert_eq!(value, "x");
    seawall.shutdown().await;
}

async fn a_watched_key_stops_the_transaction_that_is_late(setup: Setup) {
    let seawall = setup.connect().await;
    let (client, key) = (seawall.client(), setup.entry("{watched}"));
    let mut connection = client.dedicated(key.as_bytes()).await.expect("a connection");
    for (others, expected) in [("write", "theirs"), ("read", "ours")] {
        connection.send::<()>(cmd("WATCH").arg(&key), LIMIT).await.expect("watched");
        let theirs = match others {
            "write" => cmd("SET").arg(&key).arg("theirs").to_owned(),
            _ => cmd("GET").arg(&key).to_owned(),
        };
        client.send(key.as_bytes(), &theirs).await.expect("done");
        connection.send::<()>(&cmd("MULTI"), LIMIT).await.expect("begun");
        connection.send::<()>(cmd("SET").arg(&key).arg("ours"), LIMIT).await.expect("queued");
        let outcome: Value = connection.send(&cmd("EXEC"), LIMIT).await.expect("ended");
        assert_eq!(outcome == Value::Nil, others == "write", "{outcome:?}");
        let value: String = client.query(key.as_bytes(), cmd("GET").arg(&key)).await.expect("read");
        assert_eq!(value, expected);
    }
    seawall.shutdown().await;
}

#[tokio::test]
async fn a_lane_that_waited_too_long_leaves_nothing_on_the_server() {
    let server = ServerProcess::redis().expect("a server");
    let seawall = Seawall::connect(&server.url()).await.expect("in");
    let mut connection = seawall.client().dedicated(b"list").await.expect("a connection");
    let pop = cmd("BLPOP").arg("list").arg(0).to_owned();
    let error =
        connection.send::<Value>(&pop, Duration::from_millis(100)).await.expect_err("empty");
    assert!(error.is_indeterminate(), "{error}");
    assert!(matches!(
        connection.send::<Value>(&seawall::Cmd::new(), LIMIT).await,
        Err(Error::Invalid(_))
    ));
    drop(connection);
    let begun = Instant::now();
    loop {
        let info: String =
            seawall.client().query(b"", cmd("INFO").arg("clients")).await.expect("asked");
        if info.contains("blocked_clients:0") {
            break;
        }
        assert!(begun.elapsed() < LIMIT, "the server still waits: {info}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    seawall.shutdown().await;
}
