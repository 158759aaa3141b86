//! Servers of a Cluster whose clocks differ: freshness is judged by the clock of the entry's server.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use seawall::{
    Seawall,
    cache::{Cache, Freshness, Invalidation, Loaded, Source},
};
use seawall_testkit::{Cluster, slot_of};

const KEYS: u64 = 30;
const ROUNDS: u64 = 5;

async fn hits_on_every_node(seconds: i64) {
    let cluster = Cluster::builder().replicas_each(0).skewed(1, seconds).start();
    let cluster = cluster.expect("a Cluster starts");
    let seawall = Seawall::connect(&cluster.url()).await.expect("connected");
    let cache: Cache<u64, u64> = seawall
        .cache("clock")
        .local_max_bytes(0)
        .ttl(Duration::from_secs(120))
        .max_stale(Duration::ZERO)
        .build()
        .expect("options agree");
    let loads = Arc::new(AtomicU64::new(0));
    for round in 0..ROUNDS {
        for key in 0..KEYS {
            let count = Arc::clone(&loads);
            let load = move || async move {
                count.fetch_add(1, Ordering::SeqCst);
                Ok::<_, io::Error>(Loaded::Found(key))
            };
            let freshness = if round % 2 == 0 { Freshness::Cached } else { Freshness::Strong };
            let read = cache.get_or_load_as(freshness, &key, load).await.expect("a value");
            assert!(read.age < Duration::from_secs(60), "key {key} is {:?} old", read.age);
            if round > 0 {
                assert_eq!(read.source, Source::Remote, "key {key}, {seconds} s off");
            }
        }
    }
    assert_eq!(loads.load(Ordering::SeqCst), KEYS, "{seconds} s off");
    // Neither does a value live longer than it should.
    let brief: Cache<u64, u64> = seawall
        .cache("brief")
        .local_max_bytes(0)
        .jitter(0.0)
        .ttl(Duration::from_millis(300))
        .max_stale(Duration::from_secs(3600))
        .build()
        .expect("options agree");
    for key in 0..KEYS {
        brief.put(&key, &key).await.expect("stored");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    for key in 0..KEYS {
        let read = brief.get(&key).await.expect("an answer").expect("a value");
        assert_eq!(read.source, Source::Stale, "key {key}, {seconds} s off");
    }
    seawall.shutdown().await;
}

/// Versions are times of the key's server. A slot moves to one whose clock is behind, which evicts the
/// entry: the next write gets a version below that of copies in memory, which are older all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_after_a_write_sees_it_though_the_clock_went_back() {
    let cluster = Cluster::builder().replicas_each(0).skewed(1, -20).proxied().start();
    let cluster = cluster.expect("a Cluster starts");
    let behind = &cluster.nodes()[1];
    let handles = [
        Seawall::connect(&cluster.url()).await.expect("connected"),
        Seawall::connect(&cluster.url()).await.expect("connected"),
    ];
    let [writer, reader]: [Cache<u64, u64>; 2] =
        handles.each_ref().map(|handle| handle.cache("after").build().expect("defaults"));
    let entry = |key: u64| writer.entry_name(&key).expect("a good key");
    let elsewhere = |key: &u64| {
        let owner = cluster.primary_of(&entry(*key)).expect("it has one");
        owner.port() != behind.port()
    };
    for key in (0..).filter(elsewhere).take(4) {
        writer.put(&key, &1).await.expect("stored");
        let copy = reader.get(&key).await.expect("an answer").expect("stored");
        assert_eq!(copy.value.as_deref(), Some(&1));
        cluster.move_slot(slot_of(&entry(key)), behind).expect("moved");
        for node in cluster.nodes() {
            node.proxy().expect("proxied").drop_pushes(1.0);
        }
        let name = entry(key);
        let evict = handles[0].client().send(&name, seawall::cmd("DEL").arg(&name)).await;
        evict.expect("evicted");
        let written = writer.write(&key, async { Ok::<_, io::Error>(()) }).await.expect("written");
        let Invalidation::Applied(version) = written.1 else { panic!("{written:?}") };
        assert!(version < copy.version, "the clock is behind");
        let load = || async { Ok::<_, io::Error>(Loaded::Found(2)) };
        let after = Freshness::After(version);
        let read = reader.get_or_load_as(after, &key, load).await.expect("an answer");
        assert_eq!(read.value.as_deref(), Some(&2), "from {:?}", read.source);
        for node in cluster.nodes() {
            node.proxy().expect("proxied").heal();
        }
    }
    for handle in handles {
        handle.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_ahead() {
    hits_on_every_node(400).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_behind() {
    hits_on_every_node(-400).await;
}
