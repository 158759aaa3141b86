//! A plain write whose request comes late, or between whose two steps something happens.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use seawall::{
    Seawall,
    cache::{Cache, Freshness, Invalidation, Loaded, RemoteState},
};
use seawall_testkit::{
    ServerProcess,
    proxy::{FaultProxy, On},
};

use crate::eventually::{PATIENCE, eventually};

/// The steps of a write, by what they look like on the wire: `EVALSHA`, digest, count, then the key and
/// two arguments, or key and counter and ten arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Reserve = 6,
    Fill = 15,
}

impl Step {
    fn is(self, command: &[Vec<u8>]) -> bool {
        command.len() == self as usize
    }
}

struct Scene {
    server: ServerProcess,
    proxy: FaultProxy,
    seawall: Seawall,
    cache: Cache<u64, u64>,
}

impl Scene {
    /// A cache whose scripts the server knows, and which holds 0.
    async fn open() -> Self {
        let server = ServerProcess::redis().expect("redis-server starts");
        let proxy = FaultProxy::start(server.port()).expect("a free port");
        let seawall = Seawall::connect(&proxy.url()).await.expect("connected");
        let cache: Cache<u64, u64> =
            seawall.cache("put").local_max_bytes(0).build().expect("agree");
        cache.put(&1, &0).await.expect("stored");
        let _ = cache.invalidate(&1).await.expect("a good key");
        cache.put(&1, &0).await.expect("stored");
        Scene { server, proxy, seawall, cache }
    }

    async fn read(&self, newest: u64) -> Option<u64> {
        let load = move || async move { Ok::<_, io::Error>(Loaded::Found(newest)) };
        let read = self.cache.get_or_load_as(Freshness::Strong, &1, load).await;
        read.expect("an answer").value.as_deref().copied()
    }
}

/// Writes 1, whose request hangs; then 2 becomes true and is invalidated; then the request arrives.
/// What is read after that.
async fn deliver_late(step: Step) -> Option<u64> {
    let scene = Scene::open().await;
    let lost = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&lost);
    let hangs = On::command("EVALSHA").when(move |command| {
        let it = step.is(command);
        if it {
            *kept.lock().expect("no panic") = Some(command.to_vec());
        }
        it
    });
    scene.proxy.drop_request(hangs.once());
    assert!(scene.cache.put(&1, &1).await.is_err(), "nobody knows what became of it");
    assert!(matches!(scene.cache.invalidate(&1).await, Ok(Invalidation::Applied(_))));
    // The write that failed is invalidated once more by the repair queue: not after what comes late.
    eventually("nothing is left to repair", async || {
        let explained = scene.cache.explain(&1).await.expect("a good key");
        explained.recovery_queue == 0
    })
    .await;
    let late = lost.lock().expect("no panic").take().expect("a request was lost");
    scene.server.connect().expect("a connection").call(&late).expect("an answer");
    let seen = scene.read(2).await;
    scene.seawall.shutdown().await;
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_comes_late_stores_nothing() {
    assert_eq!(deliver_late(Step::Fill).await, Some(2));
}

/// Readers wait for it for a while, and load themselves in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reservation_that_comes_late_stores_nothing() {
    assert_eq!(deliver_late(Step::Reserve).await, Some(2));
}

/// The lease was taken and the value refused: readers do not wait for the lease to end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_is_refused_leaves_no_lease() {
    let server = ServerProcess::redis().expect("redis-server starts");
    let proxy = FaultProxy::start(server.port()).expect("a free port");
    // A write's lease lives for two of these.
    let builder = Seawall::builder(&proxy.url()).response_timeout(PATIENCE * 2);
    let seawall = builder.connect().await.expect("connected");
    let cache: Cache<u64, u64> = seawall.cache("put").local_max_bytes(0).build().expect("agree");
    cache.put(&1, &0).await.expect("stored");
    let fill = On::command("EVALSHA").when(|command| Step::Fill.is(command));
    proxy.fail_with(fill.once(), "OOM command not allowed");
    let error = cache.put(&1, &1).await.expect_err("refused");
    assert!(error.is_code("OOM"), "{error}");
    eventually("no lease is left", async || {
        let explained = cache.explain(&1).await.expect("a good key");
        !matches!(explained.remote, RemoteState::Entry(entry) if entry.lease_millis.is_some())
    })
    .await;
    seawall.shutdown().await;
}

/// Somebody else's invalidation comes between the two steps: it is later than the write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_between_wins() {
    let scene = Scene::open().await;
    let other = Seawall::connect(&scene.server.url()).await.expect("connected");
    let writer: Cache<u64, u64> = other.cache("put").local_max_bytes(0).build().expect("agree");
    let (runtime, between) = (tokio::runtime::Handle::current(), Mutex::new(Some(writer)));
    // The proxy holds the request until this has looked at it.
    let rule = scene.proxy.watch(On::command("EVALSHA").when(move |command| {
        let next = Step::Fill.is(command).then(|| between.lock().expect("no panic").take());
        if let Some(writer) = next.flatten() {
            let done = runtime.block_on(async { writer.invalidate(&1).await });
            assert!(matches!(done, Ok(Invalidation::Applied(_))));
        }
        false
    }));
    let version = scene.cache.put(&1, &1).await.expect("it was carried out, and overtaken");
    assert_eq!(scene.read(2).await, Some(2));
    let mine = scene.cache.get_as(Freshness::After(version), &1).await.expect("an answer");
    assert_eq!(mine.and_then(|read| read.value).as_deref(), Some(&2));
    drop(rule);
    other.shutdown().await;
    scene.seawall.shutdown().await;
}

/// The first step took the lease, for two time-outs; the second is refused. Nobody waits for the lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_is_refused_leaves_no_reader_waiting() {
    let scene = Scene::open().await;
    let builder = Seawall::builder(&scene.proxy.url()).response_timeout(Duration::from_secs(60));
    let patient = builder.connect().await.expect("connected");
    let cache: Cache<u64, u64> = patient.cache("put").local_max_bytes(0).build().expect("agree");
    assert!(matches!(cache.invalidate(&1).await, Ok(Invalidation::Applied(_))));
    let fills = On::command("EVALSHA").when(|command| Step::Fill.is(command));
    scene.proxy.fail_with(fills.once(), "OOM command not allowed when used memory > 'maxmemory'");
    let error = cache.put(&1, &1).await.expect_err("there is no room");
    assert!(error.is_code("OOM"), "{error}");
    assert_eq!(scene.read(2).await, Some(2));
    patient.shutdown().await;
    scene.seawall.shutdown().await;
}

/// A load that was under way when a write began must not be stored over it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_from_before_a_write_is_not_stored_after_it() {
    let seawall = Seawall::connect("embedded:").await.expect("the engine starts");
    let cache: Cache<u64, u64> = seawall.cache("put").local_max_bytes(0).build().expect("agree");
    let writer = cache.clone();
    let load = move || async move {
        writer.put(&1, &2).await.expect("stored");
        Ok::<_, io::Error>(Loaded::Found(1))
    };
    let _ = cache.get_or_load(&1, load).await.expect("an answer");
    let after = cache.get(&1).await.expect("an answer").and_then(|read| read.value);
    assert_eq!(after.as_deref(), Some(&2));
    seawall.shutdown().await;
}
