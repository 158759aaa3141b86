//! The version oracle on every backend, and the planted bugs that it must find.

use std::time::Duration;

use seawall::cache::sabotage::CacheSabotage;

use crate::{
    campaign::{Plan, run},
    faults::Ground,
};

const READS: u64 = 25_000;
/// Between the two steps of an invalidation in the wrong order.
const DELAY: Duration = Duration::from_millis(15);

async fn holds(name: &str, ground: &Ground, level1: bool) {
    run(name, ground, &Plan::new(READS, level1), async |_| {}).await.assert_clean();
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

/// A checker that finds nothing where something is wrong proves nothing.
#[expect(clippy::print_stdout, reason = "figures are there to be quoted")]
async fn is_found(bug: CacheSabotage, ground: &Ground, level1: bool) {
    let plan = Plan {
        reads: 4000,
        sabotage: bug,
        until_violation: true,
        breaks: false,
        // A lost message makes first levels drop everything, also what this bug left in them.
        lost_messages: if bug == CacheSabotage::IgnoreGaps { 0.3 } else { 0.0 },
        delay: if bug == CacheSabotage::AnnounceFirst { DELAY } else { Duration::ZERO },
        ..Plan::new(0, level1)
    };
    let report = run(&format!("planted-{bug:?}"), ground, &plan, async |_| {}).await;
    println!("{report}");
    assert!(report.violations > 0, "the checker missed {bug:?}: {report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fill_without_a_lease_is_found() {
    is_found(CacheSabotage::FillWithoutLease, &Ground::redis(), false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_announcement_before_the_invalidation_is_found() {
    is_found(CacheSabotage::AnnounceFirst, &Ground::redis(), true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ignored_gap_is_found() {
    is_found(CacheSabotage::IgnoreGaps, &Ground::redis(), true).await;
}
