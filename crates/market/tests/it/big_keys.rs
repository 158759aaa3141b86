//! The nightly survey of big keys, on a clock held by the test.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::Duration,
};

use seawall::testing::TestServer;
use serde_json::Value;

use crate::market::{Market, PATIENCE};

const DAY: Duration = Duration::from_secs(86_400);

async fn plant(market: &Market, key: &str, members: u32) {
    let fields: Vec<_> = (0..members).collect();
    for some in fields.chunks(500) {
        let mut command = seawall::cmd("HSET");
        command.arg(key);
        for field in some {
            command.arg(field).arg(field);
        }
        market.seawall.client().send(key.as_bytes(), &command).await.expect("it is written");
    }
}

/// The day of the last survey.
async fn day(market: &Market) -> Option<String> {
    market.redis(&["GET", "big-keys:{survey}:day"]).await
}

/// Lets a day pass, and waits until its survey is done and the log has this many rows.
async fn night(test_server: &TestServer, market: &Market, rows: i64) {
    let before = day(market).await;
    test_server.advance(DAY).await;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while day(market).await == before {
        assert!(tokio::time::Instant::now() < deadline, "no survey after {before:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(market.sql("SELECT COUNT(*) FROM big_key_log").await, rows);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_night_once_however_many_processes() {
    let test_server = TestServer::start().await.expect("it starts");
    let market = Market::on_test_server(&test_server).await;
    let colleague = market.colleague().await;
    plant(&market, "planted:critical", 12_000).await;
    plant(&market, "planted:fine", 12).await;
    for rows in 1..=3 {
        night(&test_server, &market, rows).await;
    }
    let key = market
        .sql("SELECT COUNT(*) FROM big_key_log WHERE `key` = 'planted:critical' AND type = 'hash' AND members = 12000 AND bytes > 100000 AND node = 'embedded'")
        .await;
    assert_eq!(key, 3);
    assert_eq!(market.sql("SELECT COUNT(DISTINCT found_at) FROM big_key_log").await, 3);
    assert_eq!(market.sql("SELECT COUNT(DISTINCT id) FROM big_key_log").await, 3);
    colleague.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_can_be_off() {
    let test_server = TestServer::start().await.expect("it starts");
    let market = Market::on_stage_with(&test_server, &[("big-keys-at", "off")]).await;
    plant(&market, "planted:critical", 12_000).await;
    test_server.advance(DAY * 2).await;
    assert_eq!(day(&market).await, None);
    market.shutdown().await;
}

/// Reads one request; its body.
fn request(stream: &mut TcpStream) -> Value {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).expect("it is sent");
        assert!(read > 0, "a request ends early");
        bytes.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())?.ok()
        });
        if body.len() >= length.expect("it has a length") {
            assert!(head.starts_with("POST /alarm HTTP/1.1"), "{head}");
            return serde_json::from_str(body).expect("JSON");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alarm_reaches_the_hook_also_at_the_second_attempt() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/alarm", listener.local_addr().expect("an address"));
    let (heard, alarms) = mpsc::channel();
    thread::spawn(move || {
        let mut stream = listener.accept().expect("somebody calls").0;
        request(&mut stream);
        stream.write_all(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n").expect("answered");
        drop(stream);
        while let Ok((mut stream, _)) = listener.accept() {
            let alarm = request(&mut stream);
            stream.write_all(b"HTTP/1.1 204 Ok\r\n\r\n").expect("answered");
            if heard.send(alarm).is_err() {
                return;
            }
        }
    });
    let test_server = TestServer::start().await.expect("it starts");
    let market = Market::on_stage_with(&test_server, &[("big-keys-hook", &url)]).await;
    plant(&market, "planted:new", 2_500).await;
    night(&test_server, &market, 1).await;
    let alarm = tokio::task::spawn_blocking(move || {
        let alarm = alarms.recv_timeout(PATIENCE).expect("an alarm");
        (alarm, alarms)
    });
    let (alarm, alarms) = alarm.await.expect("it waits");
    assert_eq!((&alarm["critical"]["count"], &alarm["new"]["count"]), (&0.into(), &1.into()));
    assert_eq!(alarm["new"]["keys"][0]["key"], "planted:new");
    // The next night nothing is new or critical: no alarm. The night after, something is.
    night(&test_server, &market, 2).await;
    plant(&market, "planted:critical", 12_000).await;
    night(&test_server, &market, 4).await;
    let alarm = tokio::task::spawn_blocking(move || alarms.recv_timeout(PATIENCE));
    let alarm = alarm.await.expect("it waits").expect("an alarm");
    assert_eq!(alarm["critical"]["keys"][0]["key"], "planted:critical");
    market.shutdown().await;
}
