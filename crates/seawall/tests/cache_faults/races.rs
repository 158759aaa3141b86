//! Races that were found by reading the code, each as the history that shows it.

use std::{
    io,
    sync::{Arc, Mutex},
};

use seawall::{
    Seawall,
    cache::{Cache, Freshness, Invalidation, Loaded, PutOutcome, Read, RemoteState},
};
use seawall_testkit::{FaultProxy, ServerProcess, proxy::On};
use tokio::sync::Semaphore;

use crate::eventually::eventually;

fn found(value: u64) -> Result<Loaded<u64>, io::Error> {
    Ok(Loaded::Found(value))
}

/// A read whose loader has read `value` and waits before it returns it.
struct Held {
    began: Arc<Semaphore>,
    gate: Arc<Semaphore>,
    reading: tokio::task::JoinHandle<Result<Read<u64>, seawall::cache::CacheError>>,
}

impl Held {
    async fn start(cache: &Cache<u64, u64>, value: u64) -> Self {
        let (began, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (begins, opens, cache) = (Arc::clone(&began), Arc::clone(&gate), cache.clone());
        let reading = tokio::spawn(async move {
            let load = move || async move {
                begins.add_permits(1);
                opens.acquire().await.expect("never closed").forget();
                found(value)
            };
            cache.get_or_load(&1, load).await
        });
        began.acquire().await.expect("never closed").forget();
        Held { began, gate, reading }
    }

    async fn finish(self) -> Read<u64> {
        self.gate.add_permits(1);
        let read = self.reading.await.expect("no panic").expect("an answer");
        drop(self.began);
        read
    }
}

async fn seen(cache: &Cache<u64, u64>, freshness: Freshness, newest: u64) -> Option<u64> {
    let load = move || async move { found(newest) };
    let read = cache.get_or_load_as(freshness, &1, load).await.expect("an answer");
    read.value.as_deref().copied()
}

/// The first request for a lease hangs in the network while its caller asks again, is granted the
/// lease and loads; a write invalidates; then the first request arrives after all. It must not bring
/// the lease back to life with which the old value is stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_for_a_lease_that_comes_late_revives_nothing() {
    let server = ServerProcess::redis().expect("redis-server starts");
    let proxy = FaultProxy::start(server.port()).expect("a free port");
    let seawall = Seawall::connect(&proxy.url()).await.expect("connected");
    let cache: Cache<u64, u64> = seawall.cache("late").local_max_bytes(0).build().expect("agree");
    // So that the server knows the scripts.
    let _ = cache.invalidate(&1).await.expect("a good key");
    assert_eq!(seen(&cache, Freshness::Cached, 0).await, Some(0));
    let _ = cache.invalidate(&1).await.expect("a good key");

    let lost = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&lost);
    let first = On::command("EVALSHA").when(move |command| {
        kept.lock().expect("no panic").get_or_insert_with(|| command.to_vec());
        true
    });
    proxy.drop_request(first.once());
    let held = Held::start(&cache, 1).await;
    assert!(matches!(cache.invalidate(&1).await, Ok(Invalidation::Applied(_))));
    let late = lost.lock().expect("no panic").take().expect("a request was lost");
    server.connect().expect("a connection").call(&late).expect("an answer");
    assert_eq!(held.finish().await.value.as_deref(), Some(&1), "it began before the write");
    assert_ne!(
        cache.get(&1).await.expect("an answer").and_then(|read| read.value.as_deref().copied()),
        Some(1),
        "the old value was stored after its invalidation"
    );
    seawall.shutdown().await;
}

/// Clearing a namespace or a tag leaves leases alone: neither those who come after it nor the first
/// level may get what was loaded before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_from_before_a_clear_is_for_nobody_after_it() {
    let seawall = Seawall::connect("embedded:").await.expect("the engine starts");
    let cache: Cache<u64, u64> = seawall.cache("clear").clearable().build().expect("agree");
    let held = Held::start(&cache, 1).await;
    cache.clear().await.expect("cleared");
    let late = tokio::spawn({
        let cache = cache.clone();
        async move { seen(&cache, Freshness::Strong, 2).await }
    });
    eventually("it waits for the load that could deceive it", async || {
        let said = cache.explain(&1).await.expect("an answer");
        matches!(said.remote, RemoteState::Entry(entry) if entry.awaited)
    })
    .await;
    assert_eq!(held.finish().await.value.as_deref(), Some(&1), "it began before");
    assert_eq!(late.await.expect("no panic"), Some(2), "it began after the clear");
    for freshness in [Freshness::Cached, Freshness::Strong] {
        assert_eq!(seen(&cache, freshness, 3).await, Some(2), "{freshness:?}");
    }
    seawall.shutdown().await;
}

/// The same without anybody who comes after: the first level alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_from_before_a_clear_stays_out_of_the_first_level() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("s");
    let builder = Seawall::builder("embedded:").engine_socket(&socket);
    let seawall = builder.connect().await.expect("the engine starts");
    let other = Seawall::connect(&format!("unix:{}", socket.display())).await.expect("connected");
    let build = |seawall: &Seawall| -> Cache<u64, u64> {
        seawall.cache("clear").clearable().build().expect("agree")
    };
    let (cache, teller) = (build(&seawall), build(&other));
    let held = Held::start(&cache, 1).await;
    cache.clear().await.expect("cleared");
    // Messages come one after the other: when a later one has arrived, so has that of the clear.
    let copied = async || cache.explain(&2).await.expect("an answer").local.is_some();
    eventually("another key is copied", async || {
        let load = || async { found(0) };
        let _ = cache.get_or_load(&2, load).await.expect("an answer");
        copied().await
    })
    .await;
    let _ = teller.invalidate(&2).await.expect("a good key");
    eventually("the message arrives", async || !copied().await).await;
    assert_eq!(held.finish().await.value.as_deref(), Some(&1), "it began before");
    assert_eq!(seen(&cache, Freshness::Cached, 2).await, Some(2));
    other.shutdown().await;
    seawall.shutdown().await;
}

/// A source deleted its row; a load fails; then a late event about the row comes. The failed load
/// must not have taken away what remembers the deletion.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_load_forgets_no_version() {
    let seawall = Seawall::connect("embedded:").await.expect("the engine starts");
    let cache: Cache<u64, u64> = seawall.cache("grave").build().expect("defaults");
    assert!(matches!(cache.put_if_newer(&1, 10, None).await, Ok(PutOutcome::Stored(_))));
    let down = || async { Err::<u64, _>(io::Error::other("down")) };
    assert!(cache.get_or_load(&1, down).await.is_err());
    let late = cache.put_if_newer(&1, 9, Some(&9)).await.expect("an answer");
    assert_eq!(late, PutOutcome::Older);
    seawall.shutdown().await;
}
