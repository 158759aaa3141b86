//! The version oracle on every backend.

use crate::{
    campaign::{Plan, run},
    faults::Ground,
};

const READS: u64 = 25_000;

async fn holds(name: &str, ground: &Ground, local: bool) {
    run(name, ground, &Plan::new(READS, local), async |_| {}).await.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_first_level_on_the_engine() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    holds("engine-l2", &Ground::embedded(folder.path()).await, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_first_level_on_the_engine() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    holds("engine-l1", &Ground::embedded(folder.path()).await, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_first_level_on_redis() {
    holds("redis-l2", &Ground::redis(), false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_first_level_on_redis() {
    holds("redis-l1", &Ground::redis(), true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_first_level_on_sentinel() {
    holds("sentinel-l2", &Ground::sentinel(), false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_first_level_on_sentinel() {
    holds("sentinel-l1", &Ground::sentinel(), true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_first_level_on_a_cluster() {
    holds("cluster-l2", &Ground::cluster(), false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_first_level_on_a_cluster() {
    holds("cluster-l1", &Ground::cluster(), true).await;
}
