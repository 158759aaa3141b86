//! Fail-overs and moved slots are followed.

use std::time::{Duration, Instant};

use seawall::{Seawall, cmd};
use seawall_testkit::{Cluster, SentinelSet, slot_of};

/// Writes until it works; how long that took.
async fn writes(seawall: &Seawall, key: &str, limit: Duration) -> Duration {
    let begun = Instant::now();
    while let Err(error) = seawall.client().send(key.as_bytes(), cmd("INCR").arg(key)).await {
        assert!(begun.elapsed() < limit, "no write within {limit:?}: {error}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    begun.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_are_followed_by_order_and_after_a_pause() {
    let set = SentinelSet::start().expect("a set");
    let seawall = Seawall::connect(&set.url()).await.expect("in");
    writes(&seawall, "k", Duration::from_secs(2)).await;
    let heir = tokio::task::block_in_place(|| set.failover()).expect("a fail-over");
    writes(&seawall, "k", Duration::from_secs(2)).await;
    let lost = set.pause_primary().expect("paused");
    assert_eq!(lost.port(), heir.port());
    let _ = seawall.client().send(b"k", cmd("GET").arg("k")).await;
    tokio::task::block_in_place(|| set.await_failover(lost)).expect("taken over");
    writes(&seawall, "k", Duration::from_secs(2)).await;
    lost.resume().expect("resumed");
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moved_and_half_moved_slots_are_followed() {
    let cluster = Cluster::start().expect("a Cluster");
    let seawall = Seawall::connect(&cluster.url()).await.expect("in");
    let client = seawall.client();
    let key = "{moving}a";
    writes(&seawall, key, Duration::from_secs(2)).await;
    let slot = slot_of(key.as_bytes());
    let from = cluster.primary_of_slot(slot).expect("an owner").port();
    let primaries = cluster.primaries().expect("primaries");
    let to = primaries.into_iter().find(|node| node.port() != from).expect("another");
    let moving = cluster.begin_move(slot, to).expect("begun");
    moving.move_key(key.as_bytes()).expect("moved");
    let count: i64 = client.query(key.as_bytes(), cmd("INCR").arg(key)).await.expect("asked");
    assert_eq!(count, 2);
    tokio::task::block_in_place(|| {
        moving.move_keys()?;
        moving.finish()
    })
    .expect("finished");
    let count: i64 = client.query(key.as_bytes(), cmd("INCR").arg(key)).await.expect("followed");
    assert_eq!(count, 3);
    let keys: Vec<String> = (0..300).map(|n| format!("p{n}")).collect();
    let commands = keys.iter().map(|key| {
        let mut command = cmd("ECHO");
        command.arg(key);
        (key.as_bytes().to_vec(), command)
    });
    let replies = client.send_all(commands.collect()).await;
    for (key, reply) in keys.iter().zip(replies) {
        let text: String =
            seawall::FromRedisValue::from_redis_value(reply.expect("answered")).expect("text");
        assert_eq!(&text, key);
    }
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_node_fails_its_own_slots_alone() {
    let cluster = Cluster::start().expect("a Cluster");
    let seawall = Seawall::builder(&cluster.url())
        .response_timeout(Duration::from_millis(300))
        .connect_timeout(Duration::from_millis(500))
        .connect()
        .await
        .expect("in");
    let lost = cluster.primary_of(b"k").expect("an owner");
    let other = (0..).map(|n| format!("o{n}")).find(|key| {
        cluster.primary_of(key.as_bytes()).is_ok_and(|node| node.port() != lost.port())
    });
    let other = other.expect("a key elsewhere");
    writes(&seawall, &other, Duration::from_secs(2)).await;
    lost.pause().expect("paused");
    let begun = Instant::now();
    let error = seawall.client().send(b"k", cmd("GET").arg("k")).await.expect_err("paused");
    assert!(error.is_outage() && begun.elapsed() < Duration::from_secs(2), "{error}");
    let mut worst = Duration::ZERO;
    while begun.elapsed() < Duration::from_secs(1) {
        worst = worst.max(writes(&seawall, &other, Duration::from_millis(250)).await);
    }
    assert!(worst < Duration::from_millis(250), "{worst:?}");
    let slot = slot_of(b"k");
    tokio::task::block_in_place(|| cluster.await_failover(lost, slot)).expect("taken over");
    writes(&seawall, "k", Duration::from_secs(3)).await;
    lost.resume().expect("resumed");
    seawall.shutdown().await;
}
