//! A server that comes back with an older state brings back what was invalidated: one that restarts
//! from a snapshot, and a replica that took over without having heard of it.

use std::{
    io,
    time::{Duration, Instant},
};

use seawall::{
    Seawall,
    cache::{Cache, Freshness, Invalidation, Loaded},
    cmd,
};
use seawall_testkit::{Node, SentinelSet, ServerProcess, free_port};

/// Nothing stale is left this long after the server is back.
const HEALED: Duration = Duration::from_secs(5);
const KEYS: u64 = 50;
const OLD: u64 = 1;
const NEW: u64 = 2;

fn build(seawall: &Seawall) -> Cache<u64, u64> {
    let builder = seawall.cache("ghost").ttl(Duration::from_secs(600)).local_max_bytes(0);
    builder.build().expect("options agree")
}

async fn read(cache: &Cache<u64, u64>, key: u64, newest: u64) -> Option<u64> {
    let load = move || async move { Ok::<_, io::Error>(Loaded::Found(newest)) };
    let read = cache.get_or_load_as(Freshness::Strong, &key, load).await.expect("an answer");
    read.value.as_deref().copied()
}

/// How many old values are left when the time for them is over; at most all keys.
async fn left(caches: &[&Cache<u64, u64>], healed: Instant) -> usize {
    loop {
        let mut old = 0;
        for cache in caches {
            for key in 0..KEYS {
                old += usize::from(read(cache, key, NEW).await != Some(NEW));
            }
        }
        if old == 0 || healed.elapsed() > HEALED {
            return old;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn invalidate_all(cache: &Cache<u64, u64>) {
    let keys: Vec<u64> = (0..KEYS).collect();
    let done = cache.invalidate_many(&keys).await.expect("good keys");
    assert!(matches!(done, Invalidation::Applied(_)), "it was acknowledged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledged_invalidation_that_the_server_forgot_is_done_again() {
    let mut server = ServerProcess::redis().expect("it starts");
    let seawall = Seawall::connect(&server.url()).await.expect("it answers");
    let cache = build(&seawall);
    for key in 0..KEYS {
        assert_eq!(read(&cache, key, OLD).await, Some(OLD));
    }
    seawall.client().send(b"", &cmd("SAVE")).await.expect("a snapshot with the old values");
    invalidate_all(&cache).await;
    server.restart().expect("it starts from the snapshot");
    assert_eq!(left(&[&cache], Instant::now()).await, 0, "the old entries were back and are gone");
    seawall.shutdown().await;
}

/// Whether this server has all entries.
fn has_all(node: &Node) -> bool {
    let mut client = node.connect().expect("it answers");
    let has = |key| client.call(&["EXISTS", &format!("ghost:{key}")]).expect("answered").as_int();
    (0..KEYS).map(has).all(|count| count == Some(1))
}

/// The replicas are cut off, all entries are invalidated, which the primary acknowledges, and it is
/// gone: one of the replicas takes over with the old entries. Neither the process that invalidated nor
/// another one serves them when it is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fail_over_that_loses_invalidations_serves_nothing_old_for_long() {
    let set = SentinelSet::start().expect("a Sentinel set starts");
    let connect = async || Seawall::connect(&set.url()).await.expect("it answers");
    let (writer, reader) = (connect().await, connect().await);
    let (writes, reads) = (build(&writer), build(&reader));
    for key in 0..KEYS {
        assert_eq!(read(&writes, key, OLD).await, Some(OLD));
    }
    let lost = tokio::task::block_in_place(|| {
        let replicas = set.replicas().expect("the sentinels answer");
        let nobody = free_port().expect("a free port").to_string();
        let deadline = Instant::now() + HEALED * 4;
        for replica in replicas {
            while !has_all(replica) {
                assert!(Instant::now() < deadline, "the replica does not follow");
                std::thread::sleep(Duration::from_millis(5));
            }
            let mut client = replica.connect().expect("it answers");
            client.call(&["REPLICAOF", "127.0.0.1", &nobody]).expect("answered");
        }
        set.primary().expect("the sentinels answer")
    });
    invalidate_all(&writes).await;
    let healed = tokio::task::block_in_place(|| {
        // Stopped, not killed: its connections stay open, as those of a machine that vanished.
        lost.pause().expect("it runs");
        let heir = set.await_failover(lost).expect("another takes over");
        assert_ne!(heir.port(), lost.port());
        Instant::now()
    });
    assert_eq!(left(&[&writes, &reads], healed).await, 0, "old entries are served");
    writer.shutdown().await;
    reader.shutdown().await;
}
