//! How long what a cache runs in the background lives, and what it costs while nobody uses it.

use std::{io, time::Duration};

use seawall::{
    Seawall,
    cache::{Cache, Loaded},
};
use seawall_testkit::{Cluster, ServerProcess, proxy::FaultProxy};

/// Long enough that single commands (a ping, a look at the clock) do not decide.
const IDLE: Duration = Duration::from_secs(5);
/// Commands a second to one primary that an idle process may send.
const MOST_A_SECOND: f64 = 2.0;

async fn fill(cache: &Cache<u64, u64>) {
    for key in 0..3 {
        let load = || async { Ok::<_, io::Error>(Loaded::Found(1)) };
        let _ = cache.get_or_load(&key, load).await.expect("loaded");
    }
}

fn alive() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_cache_leaves_nothing_running() {
    let server = ServerProcess::redis().expect("it starts");
    let proxy = FaultProxy::start(server.port()).expect("a free port");
    let seawall = Seawall::connect(&proxy.url()).await.expect("it answers");
    let first: Cache<u64, u64> = seawall.cache("first").build().expect("defaults");
    fill(&first).await;
    let before = alive();
    for number in 0..200 {
        let cache: Cache<u64, u64> =
            seawall.cache(&format!("c{number}")).build().expect("defaults");
        if number % 10 == 0 {
            fill(&cache).await;
        }
    }
    let mut left = alive();
    for _ in 0..1000 {
        left = alive();
        if left <= before + 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(left <= before + 2, "{left} tasks are left of {before}");
    seawall.shutdown().await;
}

/// Commands a second that each of these proxies sees while nobody does anything.
async fn idle_rates(proxies: &[&FaultProxy]) -> Vec<f64> {
    // What was begun ends first.
    tokio::time::sleep(Duration::from_secs(3)).await;
    proxies.iter().for_each(|proxy| proxy.reset_counts());
    tokio::time::sleep(IDLE).await;
    let rate =
        |proxy: &&FaultProxy| proxy.counts().values().sum::<u64>() as f64 / IDLE.as_secs_f64();
    proxies.iter().map(rate).collect()
}

async fn fifty_caches(seawall: &Seawall) -> Vec<Cache<u64, u64>> {
    let mut caches = Vec::new();
    for number in 0..50 {
        let cache = seawall.cache(&format!("c{number}")).build().expect("defaults");
        fill(&cache).await;
        caches.push(cache);
    }
    caches
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_idle_caches_cost_next_to_nothing_on_redis() {
    let server = ServerProcess::redis().expect("it starts");
    let proxy = FaultProxy::start(server.port()).expect("a free port");
    let seawall = Seawall::connect(&proxy.url()).await.expect("it answers");
    let caches = fifty_caches(&seawall).await;
    let rates = idle_rates(&[&proxy]).await;
    assert!(rates.iter().all(|rate| *rate <= MOST_A_SECOND), "{rates:?} commands a second");
    drop(caches);
    seawall.shutdown().await;
}

/// A new connection makes all of them compare once, and no more than that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unused_caches_rest_again_after_a_reconnect() {
    let server = ServerProcess::redis().expect("it starts");
    let proxy = FaultProxy::start(server.port()).expect("a free port");
    let seawall = Seawall::connect(&proxy.url()).await.expect("it answers");
    let build = |number: u64| seawall.cache(&format!("c{number}")).build().expect("defaults");
    let caches: Vec<Cache<u64, u64>> = (0..50).map(build).collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    proxy.cut_all();
    let rates = idle_rates(&[&proxy]).await;
    assert!(rates.iter().all(|rate| *rate <= MOST_A_SECOND), "{rates:?} commands a second");
    drop(caches);
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_idle_caches_cost_next_to_nothing_on_a_cluster() {
    let cluster = Cluster::builder().proxied().start().expect("a Cluster starts");
    let seawall = Seawall::connect(&cluster.url()).await.expect("it answers");
    let caches = fifty_caches(&seawall).await;
    let proxies: Vec<&FaultProxy> =
        cluster.nodes().iter().filter_map(|node| node.proxy()).collect();
    let rates = idle_rates(&proxies).await;
    assert!(rates.iter().all(|rate| *rate <= MOST_A_SECOND), "{rates:?} commands a second");
    drop(caches);
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_idle_inventories_cost_next_to_nothing() {
    let server = ServerProcess::redis().expect("it starts");
    let proxy = FaultProxy::start(server.port()).expect("a free port");
    let seawall = Seawall::connect(&proxy.url()).await.expect("it answers");
    let mut inventories = Vec::new();
    for number in 0..50_u64 {
        let stock = seawall.inventory(&("sku", number)).shards(4).open().await.expect("opened");
        let _ = stock.receive("first", 10).await.expect("received");
        inventories.push(stock);
    }
    let rates = idle_rates(&[&proxy]).await;
    assert!(rates.iter().all(|rate| *rate <= MOST_A_SECOND), "{rates:?} commands a second");
    drop(inventories);
    seawall.shutdown().await;
}
