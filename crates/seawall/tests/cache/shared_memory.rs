//! One budget of memory for the first levels of all caches of a handle.

use std::io;

use seawall::{
    Seawall,
    cache::{Cache, Loaded},
};

const VALUE_BYTES: usize = 32 << 10;
const BUDGET: usize = 4 << 20;
const KEYS: u64 = 200;

async fn fill(cache: &Cache<u64, Vec<u8>>) {
    for key in 0..KEYS {
        let load = || async { Ok::<_, io::Error>(Loaded::Found(vec![7; VALUE_BYTES])) };
        let _ = cache.get_or_load(&key, load).await.expect("loaded");
    }
}

/// How many copies are in memory.
async fn copies(cache: &Cache<u64, Vec<u8>>) -> usize {
    let mut copies = 0;
    for key in 0..KEYS {
        copies += usize::from(cache.explain(&key).await.expect("an answer").local.is_some());
    }
    copies
}

fn build(seawall: &Seawall, name: &str, weight: u32) -> Cache<u64, Vec<u8>> {
    let builder = seawall.cache(name).local_weight(weight).compress_above_bytes(usize::MAX);
    builder.build().expect("options agree")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_caches_together_stay_within_it() {
    let seawall = Seawall::builder("embedded:").local_max_bytes(BUDGET as u64);
    let seawall = seawall.connect().await.expect("connected");
    let caches: Vec<Cache<u64, Vec<u8>>> =
        (0..6).map(|number| build(&seawall, &format!("c{number}"), 1)).collect();
    for cache in &caches {
        fill(cache).await;
    }
    let mut total = 0;
    for cache in &caches {
        total += copies(cache).await;
    }
    assert!(total * VALUE_BYTES <= BUDGET, "{total} copies of {VALUE_BYTES} bytes");
    assert!(total * VALUE_BYTES >= BUDGET / 4, "only {total} copies: memory is left unused");
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_alone_has_all_of_it_and_weights_decide_otherwise() {
    let seawall = Seawall::builder("embedded:").local_max_bytes(BUDGET as u64);
    let seawall = seawall.connect().await.expect("connected");
    let (light, heavy) = (build(&seawall, "light", 1), build(&seawall, "heavy", 4));
    for _ in 0..3 {
        fill(&light).await;
        tokio::time::sleep(std::time::Duration::from_millis(60)).await;
    }
    let alone = copies(&light).await;
    for _ in 0..5 {
        fill(&light).await;
        fill(&heavy).await;
        tokio::time::sleep(std::time::Duration::from_millis(60)).await;
    }
    let (light_now, heavy_now) = (copies(&light).await, copies(&heavy).await);
    assert!(alone > light_now && heavy_now > light_now, "{alone}, {light_now}, {heavy_now}");
    drop(heavy);
    seawall.shutdown().await;
}
