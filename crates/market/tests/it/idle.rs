//! What a market that nobody uses asks of Redis for its caches.

use std::time::Duration;

use crate::market::Market;

const IDLE: Duration = Duration::from_secs(8);

/// Workers and jobs go on; caches and inventories that nobody reads cost nothing to speak of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_market_reads_no_message_counters() {
    let (_market, proxy) = Market::behind_proxy().await;
    // What was begun ends first.
    tokio::time::sleep(Duration::from_secs(4)).await;
    proxy.reset_counts();
    tokio::time::sleep(IDLE).await;
    let looks = proxy.count("GET") + proxy.count("MGET");
    assert!(looks <= IDLE.as_secs(), "{looks} reads in {IDLE:?}: {:?}", proxy.counts());
}
