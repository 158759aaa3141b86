//! What a cache sends while its breaker is open: nothing but probes, except what must be tried.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use seawall::{
    Error, Seawall,
    cache::{Cache, CacheBuilder, Freshness, Loaded},
    hotkey::HotRules,
};
use seawall_testkit::{
    Cluster, Node, ServerProcess,
    proxy::{FaultProxy, On},
};

use crate::eventually::PATIENCE;

/// How often each operation is tried; far more than there are probes meanwhile.
const TIMES: u64 = 60;
const BIG: usize = 100_000;
/// What caches send for their users.
const OURS: [&str; 7] = ["GET", "MGET", "GETRANGE", "SET", "EVALSHA", "EVAL", "UNLINK"];

type Texts = Cache<u64, String>;

/// A cache that talks for its users alone: nothing listens, nothing is polled.
fn builder(seawall: &Seawall, name: &str) -> CacheBuilder<u64, String> {
    let builder = seawall.cache(name).local_max_bytes(0).hot_keys(HotRules::off());
    let builder = builder.split_above_bytes(BIG / 10);
    builder.loader_timeout(PATIENCE).lease_ttl(PATIENCE * 2).read_timeout(PATIENCE * 4)
}

async fn load() -> io::Result<Loaded<String>> {
    Ok(Loaded::Found("x".to_owned()))
}

/// What is asked of the servers, and how many of them there are.
struct Watched {
    servers: u64,
    asked: Arc<AtomicU64>,
}

impl Watched {
    fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    /// Does something often, and sees that only probes were sent: one a second and server, which is the
    /// first step of an operation, of at most so many commands. One of them reads the generation, which
    /// may lie on another server.
    async fn only_probes(&self, what: &str, step: u64, mut work: impl AsyncFnMut(u64)) {
        let (began, before) = (Instant::now(), self.asked());
        for number in 0..TIMES {
            work(number).await;
        }
        let sent = self.asked() - before;
        // Two more than there are whole seconds: one at the beginning and one at the end.
        let probes = (began.elapsed().as_secs() + 2) * self.servers * step;
        assert!(sent <= probes, "{what}: {sent} commands of {TIMES} calls, {probes} may be probes");
    }

    /// Every operation of a cache that readers and writers of entries wait for.
    async fn refused_operations(&self, cache: &Texts) {
        self.only_probes("get", 2, async |key| drop(cache.get(&key).await)).await;
        let strong = async |key| drop(cache.get_as(Freshness::Strong, &key).await);
        self.only_probes("strong get", 2, strong).await;
        let read = async |key| drop(cache.get_or_load(&key, load).await);
        self.only_probes("get_or_load", 2, read).await;
        let many = async |key| {
            let load = async |_: Vec<u64>| Ok::<_, io::Error>(HashMap::<u64, String>::new());
            drop(cache.get_many(&[key, key + 1, key + 2, key + 3], load).await);
        };
        self.only_probes("get_many", 5, many).await;
        let put = async |key| drop(cache.put(&key, &"x".to_owned()).await);
        self.only_probes("put", 3, put).await;
        let newer =
            async |key| drop(cache.put_if_newer(&key, key + 1, Some(&"x".to_owned())).await);
        self.only_probes("put_if_newer", 2, newer).await;
        let big = "0123456789".repeat(BIG / 10);
        let put = async |key| drop(cache.put_if_newer(&key, key + 1, Some(&big)).await);
        self.only_probes("a big put", 2, put).await;
    }

    /// What is sent all the same.
    async fn urgent_operations(&self, cache: &Texts) {
        let mut before = self.asked();
        let mut sent = |operation: &str| {
            let now = self.asked();
            assert!(now > before, "{operation}: nothing was sent");
            before = now;
        };
        let _ = cache.invalidate(&1).await;
        sent("invalidate");
        let _ = cache.invalidate_many(&[1, 2]).await;
        sent("invalidate_many");
        let _ = cache.write(&1, async { Ok::<_, Error>(()) }).await;
        sent("write");
        let _ = cache.clear().await;
        sent("clear");
        let _ = cache.explain(&1).await;
        sent("explain");
    }
}

/// Every one of these servers refuses whatever a cache asks of it from now on, and stays where it is.
/// What was asked is counted.
fn refuse(proxies: &[&FaultProxy]) -> Arc<AtomicU64> {
    let asked = Arc::new(AtomicU64::new(0));
    for proxy in proxies {
        let asked = Arc::clone(&asked);
        let ours = move |request: &[Vec<u8>]| {
            let name = request.first().map(|name| name.to_ascii_uppercase());
            let ours = name.is_some_and(|name| OURS.iter().any(|ours| name == ours.as_bytes()));
            asked.fetch_add(u64::from(ours), Ordering::SeqCst);
            ours
        };
        proxy.fail_with(On::any().when(ours), "MISCONF it takes nothing");
    }
    asked
}

/// Fails often enough for the breakers of all servers to open.
async fn open_breakers(cache: &Texts) {
    for key in 1000..1100 {
        let _ = cache.get_or_load(&key, load).await;
    }
    for key in 0..TIMES {
        assert_ne!(cache.explain(&key).await.expect("answered").breaker, "closed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_breaker_is_passed_by_what_must_be_tried_alone() {
    let server = ServerProcess::redis().expect("redis-server starts");
    let proxy = FaultProxy::start(server.port()).expect("a free port");
    let seawall = Seawall::connect(&proxy.url()).await.expect("connected");
    let plain: Texts = builder(&seawall, "plain").build().expect("options agree");
    let tagged = builder(&seawall, "tagged").clearable().tags(|key| vec![format!("t{key}")]);
    let tagged: Texts = tagged.build().expect("options agree");
    let watched = Watched { servers: 1, asked: refuse(&[&proxy]) };
    for cache in [&plain, &tagged] {
        open_breakers(cache).await;
        watched.refused_operations(cache).await;
    }
    watched.urgent_operations(&tagged).await;
    seawall.shutdown().await;
}

/// On a Cluster each server has a breaker of its own, and a batch meets several.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_breaker_of_a_cluster_is_passed_by_what_must_be_tried_alone() {
    let cluster = Cluster::builder().proxied().start().expect("a Cluster starts");
    let seawall = Seawall::connect(&cluster.url()).await.expect("connected");
    let plain: Texts = builder(&seawall, "plain").build().expect("options agree");
    let cleared: Texts = builder(&seawall, "cleared").clearable().build().expect("options agree");
    let proxies: Vec<_> = cluster.nodes().iter().filter_map(Node::proxy).collect();
    let servers = cluster.primaries().expect("they answer").len() as u64;
    let watched = Watched { servers, asked: refuse(&proxies) };
    for cache in [&plain, &cleared] {
        open_breakers(cache).await;
        watched.refused_operations(cache).await;
    }
    watched.urgent_operations(&cleared).await;
    seawall.shutdown().await;
}
