//! Who holds a lease is killed, is slow, or is overtaken: what those who wait for it see.

use std::{
    collections::HashMap,
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::process::Signal;
use seawall::{
    Seawall,
    cache::{Cache, Freshness, Invalidation, Loaded},
};
use seawall_testkit::{Cluster, FaultProxy, ServerProcess, proxy::On};

use crate::process::{Worker, task};

const VARIABLE: &str = "SEAWALL_CACHE_HOLDER";
const KEY: u64 = 1;
const CALLERS: u64 = 2500;
const PATIENCE: Duration = Duration::from_secs(60);
/// Short for a load, long for a machine that is busy.
const LEASE: Duration = Duration::from_secs(3);

/// A process that holds a lease for ever; as a test without the variable it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holder() {
    let Some(words) = task(VARIABLE) else { return };
    let (url, sign) = words.split_once(' ').expect("two words");
    let seawall = Seawall::connect(url).await.expect("connected");
    let cache: Cache<u64, u64> = seawall
        .cache("held")
        .loader_timeout(PATIENCE * 2)
        .read_timeout(PATIENCE * 3)
        .build()
        .expect("options agree");
    let sign = Path::new(sign).to_owned();
    let load = move || async move {
        std::fs::write(sign, "loading").expect("an own folder");
        std::future::pending::<io::Result<Loaded<u64>>>().await
    };
    let _ = cache.get_or_load(&KEY, load).await;
}

/// Waits for a holder that is killed while 2,500 callers wait for it.
#[expect(clippy::print_stdout, reason = "figures are there to be quoted")]
async fn kill_the_holder(url: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sign = folder.path().join("sign");
    let words = [url.to_owned(), sign.display().to_string()];
    let holder = Worker::start("holders::holder", VARIABLE, &words);
    let patience = Instant::now();
    while !sign.exists() {
        assert!(patience.elapsed() < PATIENCE, "the holder does not load");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let seawall = Seawall::connect(url).await.expect("connected");
    // The defaults.
    let cache: Cache<u64, u64> = seawall.cache("held").build().expect("defaults");
    let loads = Arc::new(AtomicU64::new(0));
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..CALLERS {
        let (cache, loads) = (cache.clone(), Arc::clone(&loads));
        callers.spawn(async move {
            let load = move || async move {
                loads.fetch_add(1, Ordering::SeqCst);
                Ok::<_, io::Error>(Loaded::Found(7))
            };
            cache.get_or_load(&KEY, load).await
        });
    }
    // Longer than a lease lives: the holder is alive, and nobody takes it away.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(loads.load(Ordering::SeqCst), 0, "a lease was taken from a living holder");
    holder.signal(Signal::KILL);
    let killed = Instant::now();
    let mut errors = Vec::new();
    while let Some(caller) = callers.join_next().await {
        errors.extend(caller.expect("no panic").err());
    }
    let took = killed.elapsed();
    println!("{} of {CALLERS} failed, all answered {took:?} after the kill", errors.len());
    assert!(errors.is_empty(), "{} failed: {}", errors.len(), errors[0]);
    assert_eq!(loads.load(Ordering::SeqCst), 1);
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_holder_is_noticed_on_redis() {
    let server = ServerProcess::redis().expect("redis-server starts");
    kill_the_holder(&server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_holder_is_noticed_on_a_cluster() {
    let cluster = Cluster::builder().start().expect("a Cluster starts");
    kill_the_holder(&cluster.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_holder_is_noticed_on_the_engine() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("engine.sock");
    let engine = Seawall::builder("embedded:").engine_socket(&socket).connect().await;
    let engine = engine.expect("the engine starts");
    kill_the_holder(&format!("unix:{}", socket.display())).await;
    engine.shutdown().await;
}

fn short(seawall: &Seawall, lease: Duration) -> Cache<u64, u64> {
    seawall
        .cache("short")
        .local_max_bytes(0)
        .lease_ttl(lease)
        .loader_timeout(PATIENCE)
        .read_timeout(PATIENCE * 2)
        .build()
        .expect("options agree")
}

/// Loads that take several leases, in two processes and with a lost renewal: one load, stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_outlives_its_first_lease() {
    let server = ServerProcess::redis().expect("redis-server starts");
    let proxy = FaultProxy::start(server.port()).expect("a free port");
    let one = Seawall::builder(&proxy.url()).response_timeout(LEASE / 6);
    let one = one.connect().await.expect("connected");
    let two = Seawall::connect(&server.url()).await.expect("connected");
    let loads = Arc::new(AtomicU64::new(0));
    let load = |loads: &Arc<AtomicU64>| {
        let loads = Arc::clone(loads);
        move || async move {
            loads.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(LEASE * 3).await;
            Ok::<_, io::Error>(Loaded::Found(7))
        }
    };
    let (first, second) = (short(&one, LEASE), short(&two, LEASE));
    let holder = tokio::spawn({
        let (cache, load) = (first.clone(), load(&loads));
        async move { cache.get_or_load(&KEY, load).await }
    });
    while loads.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    proxy.drop_request(On::command("EVALSHA").once());
    let waiter = second.get_or_load(&KEY, load(&loads)).await.expect("a value");
    assert_eq!(waiter.value.as_deref(), Some(&7));
    assert!(holder.await.expect("no panic").is_ok());
    assert_eq!(loads.load(Ordering::SeqCst), 1);
    let stored = second.get_as(Freshness::Strong, &KEY).await.expect("Redis answers");
    assert_eq!(stored.expect("stored").value.as_deref(), Some(&7));
}

/// An invalidation in the middle of such a load kills the lease, and no renewal brings it back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_lease_stays_dead() {
    let server = ServerProcess::redis().expect("redis-server starts");
    let seawall = Seawall::connect(&server.url()).await.expect("connected");
    let cache = short(&seawall, LEASE);
    let holder = tokio::spawn({
        let cache = cache.clone();
        async move {
            let load = || async {
                tokio::time::sleep(LEASE * 2).await;
                Ok::<_, io::Error>(Loaded::Found(1))
            };
            cache.get_or_load(&KEY, load).await
        }
    });
    tokio::time::sleep(LEASE * 3 / 2).await;
    let applied = cache.invalidate(&KEY).await.expect("a key");
    assert!(matches!(applied, Invalidation::Applied(_)));
    assert!(holder.await.expect("no panic").is_ok());
    let read = cache.get_as(Freshness::Strong, &KEY).await.expect("Redis answers");
    assert!(read.is_none(), "an older value was stored: {read:?}");
}

/// Renewals of a batch: none for short loads, a few commands for long ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_of_a_batch_are_few() {
    const KEYS: u64 = 100;
    let server = ServerProcess::redis().expect("redis-server starts");
    let proxy = FaultProxy::start(server.port()).expect("a free port");
    let seawall = Seawall::connect(&proxy.url()).await.expect("connected");
    let long: Cache<u64, u64> = seawall
        .cache("long")
        .local_max_bytes(0)
        .lease_ttl(Duration::from_secs(60))
        .read_timeout(Duration::from_secs(90))
        .build()
        .expect("options agree");
    // Only a renewal has the lease's time, in milliseconds, right behind its keys.
    let renewals = proxy.watch(On::command("EVALSHA").when(|words| {
        let keys = words.get(2).and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
        let behind = keys.and_then(|keys: usize| words.get(3 + keys));
        behind.is_some_and(|word| word == b"600" || word == b"60000")
    }));
    for (cache, takes) in [(long, 300), (short(&seawall, Duration::from_millis(600)), 1500)] {
        let keys: Vec<u64> = (0..KEYS).collect();
        let load = move |keys: Vec<u64>| async move {
            tokio::time::sleep(Duration::from_millis(takes)).await;
            Ok::<_, io::Error>(keys.into_iter().map(|key| (key, key)).collect::<HashMap<_, _>>())
        };
        let began = Instant::now();
        assert!(cache.get_many(&keys, load).await.iter().all(Result::is_ok));
        if takes == 300 {
            assert_eq!(renewals.count(), 0, "a third of the lease had not passed");
        } else {
            // Two commands in each turn of 200 ms, for 100 entries.
            let most = 2 * (began.elapsed().as_millis() as u64 / 200 + 1);
            assert!((2..=most).contains(&renewals.count()), "{} renewals", renewals.count());
        }
    }
}
