//! Redis goes away while it is read and written: refused, forgetful, or silent.
//!
//! Four seconds in the tests, thirty in the soak.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use seawall::{
    Seawall,
    cache::{Cache, Invalidation, Loaded, Source},
    guard::{Rate, ResiliencePipeline, TokenBucket},
};
use seawall_testkit::{ServerBuilder, ServerProcess};

use crate::{chance::Chance, eventually::eventually};

const KEYS: u64 = 200;
const RATE: u64 = 40;
const BURST: u64 = 20;
const READERS: u64 = 8;
/// Nothing stale is left this long after healing.
const HEALED: Duration = Duration::from_secs(5);

fn outage() -> Duration {
    Duration::from_secs(if std::env::var_os("SEAWALL_SOAK").is_some() { 30 } else { 4 })
}

/// The source, and what its readers and writers saw.
#[derive(Default)]
struct Ledger {
    versions: Vec<AtomicU64>,
    loads: AtomicU64,
    over: AtomicBool,
    writes_end: AtomicBool,
    from_local: AtomicU64,
    stale: AtomicU64,
    loaded: AtomicU64,
    failed: AtomicU64,
    queued: AtomicU64,
}

fn build(seawall: &Seawall) -> Cache<u64, u64> {
    let bucket = TokenBucket::builder("database", Rate::per_second(RATE)).burst(BURST);
    let pipeline = ResiliencePipeline::builder("database").bucket(bucket.build().expect("agree"));
    seawall
        .cache("away")
        .ttl(Duration::from_secs(60))
        .max_stale(Duration::from_secs(60))
        .local_ttl(Duration::from_secs(1))
        .pipeline(pipeline.build().expect("agree"))
        .build()
        .expect("options agree")
}

async fn read(cache: &Cache<u64, u64>, source: &Arc<Ledger>, key: u64) -> Option<(u64, Source)> {
    let from = Arc::clone(source);
    let load = move || async move {
        from.loads.fetch_add(1, Ordering::SeqCst);
        let version = from.versions[usize::try_from(key).expect("few")].load(Ordering::SeqCst);
        Ok::<_, io::Error>(Loaded::Found(version))
    };
    let read = cache.get_or_load(&key, load).await.ok()?;
    Some((read.value.as_deref().copied().unwrap_or(0), read.source))
}

async fn read_on(cache: Cache<u64, u64>, source: Arc<Ledger>, seed: u64) {
    let mut chance = Chance::new(seed);
    while !source.over.load(Ordering::SeqCst) {
        match read(&cache, &source, chance.below(KEYS)).await {
            Some((_, Source::Local)) => &source.from_local,
            Some((_, Source::Stale)) => &source.stale,
            Some(_) => &source.loaded,
            None => &source.failed,
        }
        .fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn write_on(cache: Cache<u64, u64>, source: Arc<Ledger>, seed: u64) {
    let mut chance = Chance::new(seed);
    while !source.writes_end.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(chance.below(100))).await;
        let key = chance.below(KEYS);
        let version = &source.versions[usize::try_from(key).expect("few")];
        let commit = async {
            version.fetch_add(1, Ordering::SeqCst);
            Ok::<_, seawall::Error>(())
        };
        if let Ok(((), Invalidation::Queued)) = cache.write(&key, commit).await {
            source.queued.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// A handle that gives up soon, which on a busy machine takes more than one try.
async fn connect(server: &ServerProcess) -> Seawall {
    let limit = Duration::from_millis(500);
    let mut handle = None;
    eventually("it is connected", async || {
        let builder = Seawall::builder(&server.url()).response_timeout(limit);
        handle = builder.connect_timeout(limit).connect().await.ok();
        handle.is_some()
    })
    .await;
    handle.expect("just looked at")
}

/// Runs the load, lets `away` take Redis away for the given time, and checks.
#[expect(clippy::print_stdout, reason = "figures are there to be quoted")]
async fn survives(
    name: &str,
    mut server: ServerProcess,
    mut away: impl FnMut(&mut ServerProcess, bool),
) {
    let source = Arc::new(Ledger {
        versions: (0..KEYS).map(|_| AtomicU64::new(1)).collect(),
        ..Ledger::default()
    });
    let mut handles = Vec::new();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..2_u64 {
        let handle = connect(&server).await;
        let cache = build(&handle);
        for index in 0..READERS {
            tasks.spawn(read_on(cache.clone(), Arc::clone(&source), number << 8 | index));
        }
        tasks.spawn(write_on(cache.clone(), Arc::clone(&source), number << 8 | 0xff));
        handles.push((handle, cache));
    }
    // The limiter lets the cache fill in its own time.
    let patience = Instant::now();
    while source.loads.load(Ordering::SeqCst) < KEYS {
        assert!(patience.elapsed() < Duration::from_secs(30), "the cache does not fill");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let count = |what: &AtomicU64| what.load(Ordering::SeqCst);
    let (loads_before, queued_before) = (count(&source.loads), count(&source.queued));
    let began = Instant::now();
    tokio::task::block_in_place(|| away(&mut server, true));
    // By then what the first level had is past its time there: only stale copies can stand in.
    tokio::time::sleep(outage() / 2).await;
    let (local_before, stale_before) = (count(&source.from_local), count(&source.stale));
    tokio::time::sleep(outage() / 2).await;
    let local = count(&source.from_local) - local_before;
    let stale = count(&source.stale) - stale_before;
    let loads = count(&source.loads) - loads_before;
    let queued = count(&source.queued) - queued_before;
    let lasted = began.elapsed();
    source.writes_end.store(true, Ordering::SeqCst);
    tokio::task::block_in_place(|| away(&mut server, false));
    let healed = Instant::now();
    tokio::time::sleep(HEALED).await;
    let after = count(&source.loads) - loads_before - loads;
    let recovery = healed.elapsed();
    source.over.store(true, Ordering::SeqCst);
    while let Some(task) = tasks.join_next().await {
        task.expect("no panic");
    }
    let mut left = 0;
    for (_, cache) in &handles {
        for key in 0..KEYS {
            let due = source.versions[usize::try_from(key).expect("few")].load(Ordering::SeqCst);
            // The limiter may shed a read, but not for ever: a key that nobody reads is not checked.
            eventually("every key is read", async || match read(cache, &source, key).await {
                Some((version, _)) => {
                    left += u64::from(version < due);
                    true
                }
                None => false,
            })
            .await;
        }
    }
    println!(
        "{name}: away {lasted:?}; in its second half {local} reads from L1, {stale} stale; {loads} loads, \
         {queued} invalidations queued; {} reads failed in all; {after} loads in the {recovery:?} \
         after; {left} stale entries left",
        count(&source.failed)
    );
    // Each of the two handles has a limiter of its own.
    let allowed = |time: Duration| 2 * (BURST + RATE * (time.as_millis() as u64 + 999) / 1000);
    assert!(stale > 0, "no stale copy stood in for Redis");
    assert!(loads <= allowed(lasted), "{loads} loads in {lasted:?}");
    assert!(after <= allowed(recovery), "{after} loads in {recovery:?}");
    assert!(queued > 0, "no invalidation met the outage");
    assert_eq!(left, 0, "stale entries are left");
    for (handle, _) in handles {
        handle.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_gone_and_comes_back_empty() {
    let server = ServerProcess::redis().expect("redis-server starts");
    survives("gone, data lost", server, |server, away| {
        if away { server.kill().expect("it runs") } else { server.restart().expect("it starts") }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_gone_and_comes_back_with_its_data() {
    let builder = ServerBuilder::redis().args(["--appendonly", "yes", "--appendfsync", "always"]);
    survives("gone, data kept", builder.start().expect("redis-server starts"), |server, away| {
        if away { server.kill().expect("it runs") } else { server.restart().expect("it starts") }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs() {
    let server = ServerProcess::redis().expect("redis-server starts");
    survives("hung", server, |server, away| {
        server.signal(if away { "STOP" } else { "CONT" }).expect("it is there");
    })
    .await;
}
