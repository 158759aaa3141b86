//! A handle that is used from other runtimes than its own, which end before it does: what they
//! started for it goes on.

use std::{
    future::Future,
    io,
    time::{Duration, Instant},
};

use seawall::{
    Seawall,
    cache::{Cache, Freshness, Loaded, Source},
    cmd,
    stream::{Delivery, Outcome},
};
use seawall_testkit::ServerProcess;
use tokio::runtime::{Builder, Runtime};

use crate::setup::{Setup, on_every_backend};

const LIMIT: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(3600);

/// Does something in a runtime of its own, which then ends.
async fn as_guest<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let visit = move || {
        let guest: Runtime =
            Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        guest.block_on(work)
    };
    tokio::task::spawn_blocking(visit).await.expect("no panic over there")
}

async fn eventually(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !so().await {
        assert!(began.elapsed() < LIMIT, "{what}: not within {LIMIT:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn read(cache: &Cache<u64, u64>, newest: u64) -> (Option<u64>, Source) {
    let load = move || async move { Ok::<_, io::Error>(Loaded::Found(newest)) };
    let read = cache.get_or_load(&1, load).await.expect("an answer");
    (read.value.as_deref().copied(), read.source)
}

fn cache(seawall: &Seawall) -> Cache<u64, u64> {
    let builder = seawall.cache("guest").ttl(LONG).local_ttl(LONG);
    builder.build().expect("options agree")
}

on_every_backend! {
    a_cache_that_a_guest_built_hears_of_invalidations
    a_lock_that_a_guest_took_is_renewed
    a_worker_that_a_guest_started_works
}

async fn a_cache_that_a_guest_built_hears_of_invalidations(setup: Setup) {
    let (hears, tells) = (setup.connect().await, setup.connect().await);
    let handle = hears.clone();
    let hearer = as_guest(async move {
        let cache = cache(&handle);
        read(&cache, 1).await;
        cache
    })
    .await;
    let teller = cache(&tells);
    eventually("a copy", async || read(&hearer, 1).await.1 == Source::Local).await;
    let _ = teller.invalidate(&1).await.expect("a good key");
    eventually("the new value", async || read(&hearer, 2).await.0 == Some(2)).await;
    let strong = hearer.get_as(Freshness::Strong, &1).await.expect("an answer");
    assert_eq!(strong.and_then(|read| read.value).as_deref(), Some(&2));
    hears.shutdown().await;
    tells.shutdown().await;
}

async fn a_lock_that_a_guest_took_is_renewed(setup: Setup) {
    let seawall = setup.connect().await;
    let lock = seawall.lock("x").lease_ttl(Duration::from_secs(4));
    let guard = as_guest(async move { lock.acquire(LIMIT).await }).await.expect("answered");
    let guard = guard.acquired().expect("the lock is free");
    // Until the first lease is over twice.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(8) {
        assert!(!guard.is_lost(), "lost after {:?}", began.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let _ = guard.release().await.expect("answered");
    seawall.shutdown().await;
}

async fn a_worker_that_a_guest_started_works(setup: Setup) {
    let seawall = setup.connect().await;
    let stream = seawall.stream::<u64>("x").expect("a name");
    let builder = stream.worker("g");
    let worker =
        as_guest(async move { builder.spawn(async |_: Delivery<u64>| Outcome::Done) }).await;
    let worker = worker.expect("valid");
    stream.append(&1).await.expect("appended");
    eventually("it is handled", async || worker.counts().handled == 1).await;
    let _ = worker.shutdown().await;
    seawall.shutdown().await;
}

/// A connection that a guest made necessary does not end with the guest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_outlives_the_guest_that_needed_it() {
    let server = ServerProcess::redis().expect("a server");
    let seawall = Seawall::connect(&server.url()).await.expect("connected");
    let mut client = server.connect().expect("connected");
    for _ in 0..3 {
        client.call(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).expect("answered");
        let client = seawall.client().clone();
        // The first may find the connection cut.
        as_guest(async move { while client.send(b"", &cmd("PING")).await.is_err() {} }).await;
        seawall.client().send(b"", &cmd("PING")).await.expect("the connection is there");
    }
    seawall.shutdown().await;
}
