//! What a cache sends while its breaker is open: nothing but probes, except what must be tried.

use std::{collections::HashMap, io, time::Instant};

use seawall::{
    Error, Seawall,
    cache::{Cache, CacheBuilder, Freshness, Loaded},
};
use seawall_testkit::{Cluster, Node, ServerProcess, proxy::FaultProxy};

use crate::eventually::PATIENCE;

/// How often each operation is tried; far more than there are probes meanwhile.
const TIMES: u64 = 60;
const BIG: usize = 100_000;

type Texts = Cache<u64, String>;

/// A cache that talks for its users alone: nothing listens, nothing is polled.
fn builder(seawall: &Seawall, name: &str) -> CacheBuilder<u64, String> {
    let builder = seawall.cache(name).level1_bytes(0).split_above_bytes(BIG / 10);
    builder.load_within(PATIENCE).lease_for(PATIENCE * 2).deadline(PATIENCE * 4)
}

async fn load() -> io::Result<Loaded<String>> {
    Ok(Loaded::Found("x".to_owned()))
}

/// Does something often; how many commands came of it beyond one probe a second.
async fn beyond_probes(count: impl Fn() -> u64, mut work: impl AsyncFnMut(u64)) -> u64 {
    let (began, before) = (Instant::now(), count());
    for number in 0..TIMES {
        work(number).await;
    }
    // Twice a second and two more: a probe that ends at once is followed by the next a second later.
    (count() - before).saturating_sub(began.elapsed().as_secs() * 2 + 2)
}

/// Every operation of a cache that readers and writers of entries wait for.
async fn refused_operations(what: &str, cache: &Texts, count: impl Fn() -> u64) {
    let check = |operation: &str, beyond: u64| {
        assert!(beyond < TIMES / 4, "{what}, {operation}: {beyond} commands of {TIMES} calls");
    };
    check("get", beyond_probes(&count, async |key| drop(cache.get(&key).await)).await);
    let strong = async |key| drop(cache.get_as(Freshness::Strong, &key).await);
    check("strong get", beyond_probes(&count, strong).await);
    let read = async |key| drop(cache.get_or_load(&key, load).await);
    check("get_or_load", beyond_probes(&count, read).await);
    let many = async |key| {
        let load = async |_: Vec<u64>| Ok::<_, io::Error>(HashMap::<u64, String>::new());
        drop(cache.get_many(&[key, key + 1, key + 2, key + 3], load).await);
    };
    check("get_many", beyond_probes(&count, many).await);
    let put = async |key| drop(cache.put(&key, &"x".to_owned()).await);
    check("put", beyond_probes(&count, put).await);
    let newer = async |key| drop(cache.put_if_newer(&key, key + 1, Some(&"x".to_owned())).await);
    check("put_if_newer", beyond_probes(&count, newer).await);
    let big = "0123456789".repeat(BIG / 10);
    let put = async |key| drop(cache.put_if_newer(&key, key + 1, Some(&big)).await);
    check("a big put", beyond_probes(&count, put).await);
}

/// What is sent all the same.
async fn urgent_operations(cache: &Texts, count: impl Fn() -> u64) {
    let mut before = count();
    let mut sent = |operation: &str| {
        let now = count();
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_breaker_is_passed_by_what_must_be_tried_alone() {
    let server = ServerProcess::redis().expect("redis-server starts");
    let proxy = FaultProxy::start(server.port()).expect("a free port");
    let seawall = Seawall::connect(&proxy.url()).await.expect("connected");
    let plain: Texts = builder(&seawall, "plain").build().expect("options agree");
    let tagged = builder(&seawall, "tagged").clearable().tags(|key| vec![format!("t{key}")]);
    let tagged: Texts = tagged.build().expect("options agree");
    for cache in [&plain, &tagged] {
        // The server knows the scripts, and has something to read.
        for key in 0..3 {
            let _ = cache.get_or_load(&key, load).await.expect("loaded");
            cache.put(&key, &"x".to_owned()).await.expect("stored");
        }
    }
    // It refuses to write. Reads of what is there go on; loads need a lease, which nobody gives.
    let mut client = server.connect().expect("connected");
    client.call(&["CONFIG", "SET", "min-replicas-to-write", "100"]).expect("answered");
    let count = || proxy.counts().values().sum::<u64>();
    for (what, cache) in [("plain", &plain), ("with generations", &tagged)] {
        for key in 1000..1010 {
            let _ = cache.get_or_load(&key, load).await;
        }
        assert_ne!(cache.explain(&1).await.expect("answered").breaker, "closed");
        refused_operations(what, cache, count).await;
    }
    urgent_operations(&tagged, count).await;
    seawall.shutdown().await;
}

/// On a Cluster, by the servers' own counts: each refuses to write, and stays in the map.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_breaker_of_a_cluster_is_passed_by_what_must_be_tried_alone() {
    let servers = Cluster::start().expect("a Cluster starts");
    let seawall = Seawall::connect(&servers.url()).await.expect("connected");
    let plain: Texts = builder(&seawall, "plain").build().expect("options agree");
    let cleared: Texts = builder(&seawall, "cleared").clearable().build().expect("options agree");
    for key in 0..200 {
        let _ = plain.get_or_load(&key, load).await.expect("loaded");
        let _ = cleared.get_or_load(&key, load).await.expect("loaded");
    }
    let primaries = servers.primaries().expect("primaries");
    let on_each = |command: &[&str]| -> Vec<String> {
        let ask = |node: &&Node| {
            let mut client = node.connect().expect("connected");
            client.call(command).expect("answered").text()
        };
        primaries.iter().map(ask).collect()
    };
    on_each(&["CONFIG", "SET", "min-replicas-to-write", "100"]);
    // Reads of what is there go on; loads need a lease, which nobody gives.
    for key in 1000..1100 {
        let _ = plain.get_or_load(&key, load).await;
        let _ = cleared.get_or_load(&key, load).await;
    }
    let count = || {
        let calls = |line: &str| {
            let (name, fields) = line.split_once(":calls=")?;
            let ours = ["get", "mget", "set", "evalsha", "eval"]
                .iter()
                .any(|ours| name == format!("cmdstat_{ours}"));
            let field = |name: &str| {
                let at = fields.split(',').find_map(|field| field.strip_prefix(name))?;
                at.trim().parse::<u64>().ok()
            };
            let calls = fields.split(',').next()?.parse::<u64>().ok()?;
            ours.then(|| calls + field("rejected_calls=").unwrap_or(0))
        };
        let stats = on_each(&["INFO", "commandstats"]);
        stats.iter().flat_map(|text| text.lines()).filter_map(calls).sum::<u64>()
    };
    refused_operations("plain, on a Cluster", &plain, count).await;
    refused_operations("with a generation, on a Cluster", &cleared, count).await;
    urgent_operations(&cleared, count).await;
    on_each(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    seawall.shutdown().await;
}
