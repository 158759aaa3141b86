//! Not sent, unknown, refused: which is which, and that the next command works again.

use std::time::{Duration, Instant};

use seawall::{Error, Script, Seawall, cmd};
use seawall_testkit::{
    FaultProxy, ServerProcess,
    proxy::{Direction, On},
};

static ADD: Script = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");

async fn behind_a_proxy() -> (ServerProcess, FaultProxy, Seawall) {
    let server = ServerProcess::redis().expect("a server");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let seawall = Seawall::builder(&proxy.url())
        .response_timeout(Duration::from_millis(300))
        .connect_timeout(Duration::from_millis(500))
        .connect()
        .await
        .expect("in");
    (server, proxy, seawall)
}

/// Sends until it works; nothing that must be awaited happens here.
async fn recovers(seawall: &Seawall, limit: Duration) -> Duration {
    let begun = Instant::now();
    while let Err(error) = seawall.client().send(b"k", &cmd("PING")).await {
        assert!(begun.elapsed() < limit, "not recovered after {limit:?}: {error}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    begun.elapsed()
}

#[tokio::test]
async fn a_lost_reply_is_unknown_and_a_closed_door_is_not_sent() {
    let (_server, proxy, seawall) = behind_a_proxy().await;
    let client = seawall.client();
    proxy.drop_reply(On::command("INCR").once());
    let error = client.send(b"n", cmd("INCR").arg("n")).await.expect_err("its reply is lost");
    assert!(error.is_indeterminate(), "{error}");
    recovers(&seawall, Duration::from_secs(5)).await;
    let count: i64 = client.query(b"n", cmd("GET").arg("n")).await.expect("read");
    assert_eq!(count, 1, "it was carried out once");

    proxy.down();
    let _ = client.send(b"n", &cmd("PING")).await;
    let begun = Instant::now();
    let mut increment = cmd("INCR");
    increment.arg("n");
    let many = (0..1000).map(|_| client.send(b"n", &increment));
    let many = futures_util::future::join_all(many.collect::<Vec<_>>()).await;
    assert!(many.iter().all(|reply| matches!(reply, Err(Error::Unavailable(_)))), "{many:?}");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    proxy.heal();
    recovers(&seawall, Duration::from_secs(5)).await;
    let count: i64 = client.query(b"n", cmd("GET").arg("n")).await.expect("read");
    assert_eq!(count, 1, "nothing was sent");
    seawall.shutdown().await;
}

/// Nothing was sent over a connection that had ended while nobody used it, so it is no reason to fail.
#[tokio::test]
async fn the_first_command_after_a_restart_works() {
    let mut server = ServerProcess::redis().expect("a server");
    let seawall = Seawall::connect(&server.url()).await.expect("in");
    for round in 0..10 {
        server.restart().expect("it starts again");
        // The end of the old connection is noticed meanwhile, or not before the command is sent.
        tokio::time::sleep(Duration::from_millis(50)).await;
        match seawall.client().send(b"k", &cmd("PING")).await {
            Err(error) if !error.is_indeterminate() => panic!("round {round}: {error}"),
            _ => {}
        }
        recovers(&seawall, Duration::from_secs(30)).await;
        server
            .connect()
            .and_then(|mut c| c.call(&["CLIENT", "KILL", "TYPE", "normal"]))
            .expect("ok");
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut pipeline = seawall.client().send_all(vec![(b"k".to_vec(), cmd("PING"))]).await;
        match pipeline.pop().expect("an answer") {
            Err(error) if !error.is_indeterminate() => panic!("round {round}: {error}"),
            _ => {}
        }
        recovers(&seawall, Duration::from_secs(30)).await;
    }
    seawall.shutdown().await;
}

#[tokio::test]
async fn a_black_hole_is_left_and_forgotten() {
    let (_server, proxy, seawall) = behind_a_proxy().await;
    proxy.black_hole();
    let error = seawall.client().send(b"k", &cmd("PING")).await.expect_err("nobody answers");
    assert!(error.is_indeterminate(), "{error}");
    let begun = Instant::now();
    let error = seawall.client().send(b"k", &cmd("PING")).await.expect_err("nobody answers");
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(2));
    proxy.heal();
    recovers(&seawall, Duration::from_secs(5)).await;
    seawall.shutdown().await;
}

#[tokio::test]
async fn refusals_and_odd_pipelines_leave_the_connection_alone() {
    let (_server, proxy, seawall) = behind_a_proxy().await;
    let client = seawall.client();
    let opened = proxy.accepted();
    client.send(b"s", cmd("SET").arg("s").arg("text")).await.expect("written");
    let error = client.send(b"s", cmd("LPUSH").arg("s").arg("x")).await.expect_err("wrong type");
    assert!(error.is_code("WRONGTYPE"), "{error}");
    assert!(client.send_all(Vec::new()).await.is_empty());
    assert!(matches!(client.send(b"", &seawall::Cmd::new()).await, Err(Error::Invalid(_))));
    let command = |name: &str| {
        let mut command = cmd(name);
        command.arg("s");
        (b"s".to_vec(), command)
    };
    let replies = client.send_all(vec![command("GET"), command("LLEN"), command("STRLEN")]).await;
    assert!(replies[0].is_ok() && replies[1].is_err() && replies[2].is_ok(), "{replies:?}");
    client.send(b"", cmd("SCRIPT").arg("FLUSH")).await.expect("flushed");
    let calls: Vec<_> = (0..10).map(|_| ADD.on(&["n"]).arg(1)).collect();
    assert!(client.run_all(&calls).await.iter().all(Result::is_ok));
    assert_eq!(client.eval::<i64>(&ADD.on(&["n"]).arg(1)).await.expect("run"), 11);
    assert_eq!(proxy.accepted(), opened, "one connection did it all");
    seawall.shutdown().await;
}

#[tokio::test]
async fn callers_who_give_up_do_not_take_the_connection_from_others() {
    let server = ServerProcess::redis().expect("a server");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    // Far longer than the delay: a busy machine must not be taken for a connection that is silent.
    let limit = Duration::from_secs(10);
    let builder = Seawall::builder(&proxy.url()).response_timeout(limit).connect_timeout(limit);
    let seawall = builder.connect().await.expect("in");
    proxy.cut_all();
    proxy.delay(Direction::Replies, Duration::from_millis(200));
    let opened = proxy.accepted();
    let ping = cmd("PING");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(1) {
        let patience = Duration::from_millis(20);
        let _ = tokio::time::timeout(patience, seawall.client().send(b"k", &ping)).await;
    }
    proxy.delay(Direction::Replies, Duration::ZERO);
    recovers(&seawall, Duration::from_secs(5)).await;
    assert_eq!(proxy.accepted(), opened + 1, "one attempt was enough for all");
    seawall.shutdown().await;
}
