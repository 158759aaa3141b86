//! A node with a copy goes down: an invalidation is not applied before the copy is gone.

use std::time::Duration;

use seawall::{
    Error, Seawall,
    cache::{Cache, Freshness, Invalidation, Loaded},
    hotkey::{HotRule, HotRules},
};
use seawall_testkit::Cluster;

use crate::finding::until;

async fn value(cache: &Cache<u64, u64>, key: u64, newest: u64) -> u64 {
    let load = move || async move { Ok::<_, Error>(Loaded::Found(newest)) };
    let read = cache.get_or_load_as(Freshness::Cached, &key, load).await.expect("an answer");
    read.value.as_deref().copied().expect("a value")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_copys_node_stands_still_the_invalidation_is_queued() {
    // A node that stands still is not replaced within this test.
    let cluster = Cluster::builder()
        .primaries(3)
        .replicas_each(0)
        .node_timeout(Duration::from_secs(60))
        .start()
        .expect("a Cluster");
    let timeout = Duration::from_millis(300);
    let builder = Seawall::builder(&cluster.url()).response_timeout(timeout);
    let seawall = builder.connect().await.expect("it answers");
    let second = Duration::from_secs(1);
    let rule = HotRule::new(50, 10 * second).cool_for(600 * second).copies_at(50);
    let cache: Cache<u64, u64> = seawall
        .cache("down")
        .local_max_bytes(0)
        .copies(2)
        .hot_keys(HotRules::all(rule))
        .build()
        .expect("settings that agree");
    cache.put(&1, &10).await.expect("stored");
    until("reads are spread", async || {
        for _ in 0..30 {
            value(&cache, 1, 10).await;
        }
        seawall.hot_keys().here().first().is_some_and(|hot| hot.spread)
    })
    .await;
    let home = cluster.primary_of(b"down:1").expect("somebody has it").port();
    let primaries = cluster.primaries().expect("a map");
    let other = primaries.iter().find(|node| node.port() != home).expect("three primaries");
    other.pause().expect("it stops");
    let done = cache.invalidate(&1).await.expect("a good key");
    assert_eq!(done, Invalidation::Queued, "a copy may be left on the node that stands still");
    // The source is asked meanwhile: nothing older is given by whoever invalidated.
    assert_eq!(value(&cache, 1, 11).await, 11);
    other.resume().expect("it goes on");
    until("the repair queue has done it", async || {
        !cache.explain(&1).await.expect("a good key").waits_for_recovery
    })
    .await;
    for _ in 0..200 {
        assert_eq!(value(&cache, 1, 11).await, 11);
    }
    seawall.shutdown().await;
}
