//! A server that comes back with an older state has forgotten that a tag or the whole cache was
//! cleared.

use std::{
    io,
    time::{Duration, Instant},
};

use seawall::{
    Seawall,
    cache::{Cache, Freshness, Loaded},
    cmd,
};
use seawall_testkit::{Node, SentinelSet, ServerBuilder, ServerProcess, free_port};

use crate::eventually::eventually;

const KEYS: u64 = 20;
const OLD: u64 = 1;
const NEW: u64 = 2;

/// What is cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Everything,
    TagsOfKeys,
    TagsOfValues,
}

fn build(seawall: &Seawall, what: What) -> Cache<u64, u64> {
    let builder = seawall.cache("era").ttl(Duration::from_secs(600)).local_max_bytes(0);
    let builder = match what {
        What::Everything => builder.clearable(),
        What::TagsOfKeys => builder.tags(|key| vec![format!("t{}", key % 2)]),
        What::TagsOfValues => builder.value_tags(|value| vec![format!("t{}", value % 2)]),
    };
    builder.build().expect("options agree")
}

async fn read(cache: &Cache<u64, u64>, key: u64, newest: u64) -> Option<u64> {
    let load = move || async move { Ok::<_, io::Error>(Loaded::Found(newest)) };
    let read = cache.get_or_load_as(Freshness::Strong, &key, load).await.ok()?;
    read.value.as_deref().copied()
}

async fn clear(cache: &Cache<u64, u64>, what: What) {
    if what == What::Everything {
        cache.clear().await.expect("acknowledged");
    } else {
        for tag in ["t0", "t1"] {
            cache.clear_tag(tag).await.expect("acknowledged");
        }
    }
}

async fn nothing_old_is_left(caches: &[&Cache<u64, u64>]) {
    for cache in caches {
        for key in 0..KEYS {
            eventually("nothing old is served", async || read(cache, key, NEW).await == Some(NEW))
                .await;
        }
    }
}

async fn restarts_older(mut server: ServerProcess, what: What, save: &str) {
    let seawall = Seawall::connect(&server.url()).await.expect("it answers");
    let cache = build(&seawall, what);
    for key in 0..KEYS {
        assert_eq!(read(&cache, key, OLD).await, Some(OLD));
    }
    // What a server finds when it starts again: a copy of its files from before the clearing.
    let kept = tempfile::tempdir().expect("a folder");
    if save == "SAVE" {
        seawall.client().send(b"", &cmd("SAVE")).await.expect("a snapshot with the old values");
    } else {
        copy_folder(&server.dir().join("appendonlydir"), kept.path());
    }
    clear(&cache, what).await;
    if save != "SAVE" {
        server.kill().expect("it runs");
        copy_folder(kept.path(), &server.dir().join("appendonlydir"));
    }
    server.restart().expect("it starts with the older state");
    nothing_old_is_left(&[&cache]).await;
    seawall.shutdown().await;
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    for file in std::fs::read_dir(from).expect("a folder") {
        let file = file.expect("a file");
        std::fs::copy(file.path(), to.join(file.file_name())).expect("copied");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clear_that_the_server_forgot_is_done_again() {
    restarts_older(ServerProcess::redis().expect("it starts"), What::Everything, "SAVE").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cleared_tag_that_the_server_forgot_is_cleared_again() {
    restarts_older(ServerProcess::redis().expect("it starts"), What::TagsOfKeys, "SAVE").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cleared_tag_of_values_that_the_server_forgot_is_cleared_again() {
    restarts_older(ServerProcess::redis().expect("it starts"), What::TagsOfValues, "SAVE").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clear_that_an_older_log_lacks_is_done_again() {
    let builder = ServerBuilder::redis().args(["--appendonly", "yes", "--appendfsync", "always"]);
    restarts_older(builder.start().expect("it starts"), What::Everything, "log").await;
}

/// Whether this server has all entries.
fn has_all(node: &Node) -> bool {
    let mut client = node.connect().expect("it answers");
    let has = |key| client.call(&["EXISTS", &format!("era:{key}")]).expect("answered").as_int();
    (0..KEYS).map(has).all(|count| count == Some(1))
}

/// The replicas are cut off, the cache is cleared, which the primary acknowledges, and it is gone: a
/// replica takes over that never heard of it.
async fn fails_over(what: What) {
    let set = SentinelSet::start().expect("a Sentinel set starts");
    let connect = async || Seawall::connect(&set.url()).await.expect("it answers");
    let (writer, reader) = (connect().await, connect().await);
    let (writes, reads) = (build(&writer, what), build(&reader, what));
    for key in 0..KEYS {
        assert_eq!(read(&writes, key, OLD).await, Some(OLD));
    }
    let lost = tokio::task::block_in_place(|| {
        let nobody = free_port().expect("a free port").to_string();
        let deadline = Instant::now() + Duration::from_secs(30);
        for replica in set.replicas().expect("the sentinels answer") {
            while !has_all(replica) {
                assert!(Instant::now() < deadline, "the replica does not follow");
                std::thread::sleep(Duration::from_millis(5));
            }
            let mut client = replica.connect().expect("it answers");
            client.call(&["REPLICAOF", "127.0.0.1", &nobody]).expect("answered");
        }
        set.primary().expect("the sentinels answer")
    });
    clear(&writes, what).await;
    tokio::task::block_in_place(|| {
        lost.pause().expect("it runs");
        set.await_failover(lost).expect("another takes over");
    });
    nothing_old_is_left(&[&writes, &reads]).await;
    writer.shutdown().await;
    reader.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fail_over_that_loses_a_clear_serves_nothing_old_for_long() {
    fails_over(What::Everything).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fail_over_that_loses_a_cleared_tag_serves_nothing_old_for_long() {
    fails_over(What::TagsOfKeys).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fail_over_that_loses_a_cleared_tag_of_values_serves_nothing_old_for_long() {
    fails_over(What::TagsOfValues).await;
}
