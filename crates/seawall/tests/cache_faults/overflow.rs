//! More invalidations wait for Redis than are kept one by one.

use std::{io, time::Duration};

use seawall::{
    Seawall,
    cache::{Cache, CacheBuilder, Freshness, Invalidation, Loaded},
    cmd,
};

use crate::{eventually::eventually, faults::Ground};

const KEYS: u64 = 30;

async fn read(cache: &Cache<u64, u64>, freshness: Freshness, key: u64, newest: u64) -> Option<u64> {
    let load = move || async move { Ok::<_, io::Error>(Loaded::Found(newest)) };
    let read = cache.get_or_load_as(freshness, &key, load).await.ok()?;
    read.value.as_deref().copied()
}

async fn collapses(
    ground: &Ground,
    set: impl Fn(CacheBuilder<u64, u64>) -> CacheBuilder<u64, u64>,
) {
    let connect = async || {
        let quick = Seawall::builder(&ground.url()).response_timeout(Duration::from_millis(500));
        quick.prefix("much[*]:").connect().await.expect("connected")
    };
    let (writer, reader) = (connect().await, connect().await);
    let build = |handle: &Seawall| {
        let builder = handle.cache("shop").recovery_limit(10).ttl(Duration::from_secs(600));
        set(builder).build().expect("options agree")
    };
    let (writes, reads) = (build(&writer), build(&reader));
    for key in 0..KEYS {
        assert_eq!(read(&writes, Freshness::Cached, key, 1).await, Some(1));
        assert_eq!(read(&reads, Freshness::Cached, key, 1).await, Some(1));
    }
    // Look like entries, and are none.
    let set = cmd("SET").arg("much[*]:shop:note").arg("mine").to_owned();
    writer.client().send(b"much[*]:shop:note", &set).await.expect("stored");
    let push = cmd("RPUSH").arg("much[*]:shop:list").arg("mine").to_owned();
    writer.client().send(b"much[*]:shop:list", &push).await.expect("stored");

    ground.proxies().iter().for_each(|proxy| proxy.down());
    let changed: Vec<u64> = (0..KEYS - 5).collect();
    assert_eq!(writes.invalidate_many(&changed).await.expect("good keys"), Invalidation::Queued);
    // This process reads past the cache at once, whatever the key.
    assert_eq!(read(&writes, Freshness::Cached, KEYS - 1, 2).await, Some(2));
    ground.heal();
    for key in 0..KEYS - 5 {
        for cache in [&writes, &reads] {
            eventually("Redis has nothing old", async || {
                read(cache, Freshness::Strong, key, 2).await == Some(2)
            })
            .await;
        }
    }
    eventually("the queue is done", async || {
        writes.explain(&0).await.expect("an answer").recovery_queue == 0
    })
    .await;
    eventually("first levels follow, also for what others changed", async || {
        read(&reads, Freshness::Cached, 0, 2).await == Some(2)
    })
    .await;
    for (key, kind) in [("much[*]:shop:note", "string"), ("much[*]:shop:list", "list")] {
        let mut found: Option<String> = None;
        // Its reads may have gone past Redis so far: it may not be connected again.
        eventually("an answer", async || {
            found = reader.client().query(key.as_bytes(), cmd("TYPE").arg(key)).await.ok();
            found.is_some()
        })
        .await;
        assert_eq!(found.as_deref(), Some(kind), "{key} is left alone");
    }
    writer.shutdown().await;
    reader.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_entries_are_searched_for() {
    collapses(&Ground::redis(), |builder| builder).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_entries_are_searched_for_on_a_cluster() {
    collapses(&Ground::cluster(), |builder| builder).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generation_ends_all_entries() {
    collapses(&Ground::redis(), CacheBuilder::clearable).await;
}
