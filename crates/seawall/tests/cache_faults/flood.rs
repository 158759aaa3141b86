//! Redis goes away under 2,500 callers of one key: how often the source is asked.
//!
//! The loader counts its runs and ends when the test says so, so that every caller has begun before
//! the first load ends: whoever is not answered by that load is answered by the next one.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use seawall::{
    Seawall,
    cache::{Cache, CacheBuilder, CacheError, Freshness, Invalidation, Loaded, Version},
    guard::{Bulkhead, ResiliencePipeline},
};
use seawall_testkit::proxy::{Direction, On};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::faults::Ground;

const CALLERS: u64 = 2500;
const KEY: u64 = 1;
/// Far longer than any of these tests.
const LONG: Duration = Duration::from_secs(600);
const PATIENCE: Duration = Duration::from_secs(60);

/// A source that counts who asks.
struct Source {
    loads: AtomicU64,
    running: AtomicU64,
    most: AtomicU64,
    value: AtomicU64,
    /// Closed when loads may end.
    gate: Semaphore,
}

impl Source {
    fn new() -> Arc<Self> {
        Arc::new(Source {
            loads: AtomicU64::new(0),
            running: AtomicU64::new(0),
            most: AtomicU64::new(0),
            value: AtomicU64::new(1),
            gate: Semaphore::new(0),
        })
    }

    async fn load(self: Arc<Self>) -> io::Result<Loaded<u64>> {
        self.loads.fetch_add(1, Ordering::SeqCst);
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        let value = self.value.load(Ordering::SeqCst);
        // An error says that the gate is open.
        let _ = self.gate.acquire().await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        Ok(Loaded::Found(value))
    }

    fn loads(&self) -> u64 {
        self.loads.load(Ordering::SeqCst)
    }
}

/// How Redis is taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Away {
    Refused,
    Hung,
    /// While the first load runs.
    CutMidWay,
    /// While the first load runs, and silently.
    HungMidWay,
    /// It answers, and an invalidation of the key waits.
    Queued,
    Says(&'static str),
}

const WAYS: [Away; 8] = [
    Away::Refused,
    Away::Hung,
    Away::CutMidWay,
    Away::HungMidWay,
    Away::Queued,
    Away::Says("OOM command not allowed when used memory > 'maxmemory'."),
    Away::Says("MISCONF Redis is configured to save RDB snapshots"),
    Away::Says("NOPERM this user has no permissions to run the command"),
];

async fn connect(ground: &Ground) -> Seawall {
    Seawall::builder(&ground.url())
        .response_timeout(Duration::from_millis(400))
        .connect_timeout(Duration::from_millis(400))
        .connect()
        .await
        .expect("connected")
}

async fn take_away(ground: &Ground, away: Away, cache: &Cache<u64, u64>) {
    match away {
        Away::CutMidWay | Away::HungMidWay => {}
        Away::Refused => ground.proxies().iter().for_each(|proxy| proxy.down()),
        Away::Hung => ground.proxies().iter().for_each(|proxy| proxy.black_hole()),
        Away::Says(error) => {
            for proxy in ground.proxies() {
                let denied = ["EVALSHA", "EVAL"].into_iter();
                let reads = error.starts_with("NOPERM").then_some(["GET", "MGET"]);
                for command in denied.chain(reads.into_iter().flatten()) {
                    proxy.fail_with(On::command(command), error);
                }
            }
        }
        Away::Queued => {
            for proxy in ground.proxies() {
                let drops = |words: &[Vec<u8>]| words.iter().any(|word| word == b"drop");
                for command in ["EVALSHA", "EVAL"] {
                    proxy.fail_with(On::command(command).when(drops), "OOM no");
                }
            }
            let queued = cache.invalidate(&KEY).await.expect("a key");
            assert_eq!(queued, Invalidation::Queued);
        }
    }
}

/// A first level begins empty once more when it has found its place among the messages: not in the
/// middle of a flood.
async fn settle(cache: &Cache<u64, u64>) {
    let patience = Instant::now();
    while patience.elapsed() < Duration::from_millis(500) {
        let load = || async { Ok::<_, io::Error>(Loaded::Found(0)) };
        let read = cache.get_or_load(&99, load).await.expect("loaded");
        if read.source == seawall::cache::Source::Local {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
}

/// What a flood came to: errors, and how long the slowest caller took.
struct Flood {
    errors: Vec<CacheError>,
    slowest: Duration,
}

/// All callers at once; loads end when all of them have begun.
async fn flood(ground: &Ground, away: Away, source: &Arc<Source>, read: impl AsyncRead) -> Flood {
    let begun = Arc::new(AtomicU64::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (read, begun, source) = (read.clone(), Arc::clone(&begun), Arc::clone(source));
        callers.spawn(async move {
            let began = Instant::now();
            begun.fetch_add(1, Ordering::SeqCst);
            let answer = read.read(source).await;
            (began.elapsed(), answer)
        });
    }
    let patience = Instant::now();
    while begun.load(Ordering::SeqCst) < CALLERS || source.loads() == 0 {
        assert!(patience.elapsed() < PATIENCE, "{away:?}: nobody loads");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    match away {
        Away::CutMidWay => ground.proxies().iter().for_each(|proxy| proxy.down()),
        Away::HungMidWay => {
            ground.proxies().iter().for_each(|proxy| proxy.stall(Direction::Replies));
        }
        _ => {}
    }
    // Whoever finds out about Redis by a time-out has by then.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    source.gate.close();
    let mut flood = Flood { errors: Vec::new(), slowest: Duration::ZERO };
    while let Some(caller) = callers.join_next().await {
        let (took, answer) = caller.expect("no panic");
        flood.slowest = flood.slowest.max(took);
        flood.errors.extend(answer.err());
    }
    flood
}

/// One caller's way of reading.
trait AsyncRead: Clone + Send + 'static {
    fn read(
        self,
        source: Arc<Source>,
    ) -> impl Future<Output = Result<(), CacheError>> + Send + 'static;
}

#[derive(Clone)]
struct One(Cache<u64, u64>, Freshness);

impl AsyncRead for One {
    async fn read(self, source: Arc<Source>) -> Result<(), CacheError> {
        self.0.get_or_load_as(self.1, &KEY, move || source.load()).await.map(drop)
    }
}

/// A batch of keys, of which one is counted: who loads the others is a matter of who came first.
#[derive(Clone)]
struct Many(Cache<u64, u64>);

impl AsyncRead for Many {
    async fn read(self, source: Arc<Source>) -> Result<(), CacheError> {
        let keys = [KEY, 2, 3, 4, 5];
        let load = move |keys: Vec<u64>| {
            let source = Arc::clone(&source);
            async move {
                if keys.contains(&KEY) {
                    source.load().await?;
                }
                Ok::<_, io::Error>(
                    keys.into_iter().map(|key| (key, key)).collect::<HashMap<_, _>>(),
                )
            }
        };
        self.0.get_many(&keys, load).await.into_iter().try_for_each(|answer| answer.map(drop))
    }
}

type Build = CacheBuilder<u64, u64>;

/// Floods a cache as `build` makes it in every way; checks by `expect` what the source saw.
#[expect(clippy::print_stdout, reason = "figures are there to be quoted")]
async fn floods<R: AsyncRead>(
    name: &str,
    ways: &[Away],
    build: impl Fn(Build) -> Build,
    read: impl Fn(Cache<u64, u64>) -> R,
    expect: impl Fn(Away, u64, u64),
) {
    for away in ways {
        let ground = Ground::redis();
        let seawall = connect(&ground).await;
        let cache = build(seawall.cache(name)).build().expect("options agree");
        settle(&cache).await;
        let source = Source::new();
        take_away(&ground, *away, &cache).await;
        let flood = flood(&ground, *away, &source, read(cache.clone())).await;
        let (loads, most) = (source.loads(), source.most.load(Ordering::SeqCst));
        println!("{name}, {away:?}: {loads} loads, {most} at a time, slowest {:?}", flood.slowest);
        assert!(flood.errors.is_empty(), "{name}, {away:?}: {:?}", &flood.errors[..1]);
        expect(*away, loads, most);
        assert!(flood.slowest < Duration::from_secs(8), "{name}, {away:?}: {:?}", flood.slowest);
        ground.heal();
        seawall.shutdown().await;
    }
}

/// Copies live on: one load for this flood and the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn default_reads_cause_one_load() {
    let one = |away, loads, _| assert_eq!(loads, 1, "{away:?}");
    let build = |builder: Build| builder.outage_ttl(LONG);
    floods("flood", &WAYS, build, |cache| One(cache, Freshness::Cached), one).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_first_level_one_load_runs_at_a_time() {
    let build = |builder: Build| builder.local_max_bytes(0);
    floods("flood-l2", &WAYS, build, |cache| One(cache, Freshness::Cached), running_and_next).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strong_reads_cause_one_load_and_one_next() {
    let build = |builder: Build| builder;
    floods("flood-strong", &WAYS, build, |cache| One(cache, Freshness::Strong), running_and_next)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_after_a_write_cause_one_load_and_one_next() {
    let build = |builder: Build| builder;
    let mine = Freshness::After(Version(1));
    floods("flood-after", &WAYS, build, |cache| One(cache, mine), running_and_next).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_cause_one_load() {
    let one = |away, loads, _| assert_eq!(loads, 1, "{away:?}");
    let build = |builder: Build| builder.outage_ttl(LONG);
    floods("flood-many", &WAYS, build, Many, one).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_of_one_key_do_not_fill_a_bulkhead() {
    let build = |builder: Build| {
        let bulkhead = Bulkhead::builder("source", 4).max_queue(16).build().expect("agree");
        builder.pipeline(
            ResiliencePipeline::builder("source").bulkhead(bulkhead).build().expect("agree"),
        )
    };
    let ways = [Away::Refused, Away::Hung, Away::CutMidWay, Away::Queued];
    floods("flood-bulkhead", &ways, build, |cache| One(cache, Freshness::Strong), running_and_next)
        .await;
}

fn running_and_next(away: Away, loads: u64, most: u64) {
    assert!(loads <= 2, "{away:?}: {loads} loads");
    assert_eq!(most, 1, "{away:?}: loads at a time");
}

/// A server of a Cluster goes away: the same, for its keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster_the_same() {
    let ground = Ground::cluster();
    let seawall = connect(&ground).await;
    let cache: Cache<u64, u64> =
        seawall.cache("flood").outage_ttl(LONG).build().expect("options agree");
    settle(&cache).await;
    let source = Source::new();
    take_away(&ground, Away::Refused, &cache).await;
    let flood = flood(&ground, Away::Refused, &source, One(cache, Freshness::Cached)).await;
    assert!(flood.errors.is_empty(), "{:?}", &flood.errors[..1]);
    assert_eq!(source.loads(), 1);
    ground.heal();
    seawall.shutdown().await;
}

/// `maxmemory` is reached: reads answer, nothing can be stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_full_causes_one_load() {
    let ground = Ground::redis();
    let seawall = connect(&ground).await;
    let cache: Cache<u64, u64> =
        seawall.cache("full").outage_ttl(LONG).build().expect("options agree");
    settle(&cache).await;
    let Ground::Redis(server, _) = &ground else { unreachable!("it is one") };
    let mut client = server.connect().expect("it answers");
    client.call(&["CONFIG", "SET", "maxmemory", "1"]).expect("it takes it");
    let source = Source::new();
    let full = Away::Says("OOM");
    let flood = flood(&ground, full, &source, One(cache.clone(), Freshness::Cached)).await;
    assert!(flood.errors.is_empty(), "{:?}", &flood.errors[..1]);
    assert_eq!(source.loads(), 1);
    seawall.shutdown().await;
}

/// A load through Redis that began before a write answers nobody who reads after it, although the
/// write's invalidation waits and Redis takes the old value.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strong_read_after_a_queued_invalidation_sees_the_write() {
    for (local, batch) in [(0, false), (1 << 20, false), (0, true)] {
        let ground = Ground::redis();
        let seawall = connect(&ground).await;
        let cache: Cache<u64, u64> =
            seawall.cache("queued").local_max_bytes(local).build().expect("options agree");
        let source = Source::new();
        let early = tokio::spawn({
            let (cache, source) = (cache.clone(), Arc::clone(&source));
            async move { cache.get_or_load(&KEY, move || source.load()).await }
        });
        let patience = Instant::now();
        while source.loads() == 0 {
            assert!(patience.elapsed() < PATIENCE, "nobody loads");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        source.value.store(2, Ordering::SeqCst);
        take_away(&ground, Away::Queued, &cache).await;
        let late = tokio::spawn({
            let cache = cache.clone();
            async move {
                if batch {
                    let load = |_| async { Ok::<_, io::Error>(HashMap::from([(KEY, 2)])) };
                    return cache.get_many(&[KEY], load).await.remove(0);
                }
                let load = || async { Ok::<_, io::Error>(Loaded::Found(2)) };
                cache.get_or_load_as(Freshness::Strong, &KEY, load).await
            }
        });
        tokio::time::sleep(Duration::from_millis(300)).await;
        source.gate.close();
        assert!(early.await.expect("no panic").is_ok());
        let read = late.await.expect("no panic").expect("an answer");
        assert_eq!(read.value.as_deref(), Some(&2), "local {local}, batch {batch}");
        ground.heal();
        seawall.shutdown().await;
    }
}
