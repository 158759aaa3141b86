//! What a market that nobody uses asks of Redis, besides what its stream workers do.

use std::time::Duration;

use seawall_testkit::proxy::On;

use crate::market::Market;

const IDLE: Duration = Duration::from_secs(8);

/// Workers go on; caches that nobody reads and jobs that have nothing to do cost next to nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_market_asks_for_next_to_nothing() {
    let (_market, proxy) = Market::behind_proxy().await;
    // What was begun ends first.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let locks = proxy.watch(On::command("EVALSHA").key_prefix("lock:"));
    proxy.reset_counts();
    tokio::time::sleep(IDLE).await;
    let seconds = IDLE.as_secs();
    let looks = proxy.count("GET") + proxy.count("MGET");
    assert!(looks <= seconds, "{looks} reads in {IDLE:?}: {:?}", proxy.counts());
    assert!(locks.count() <= seconds, "{} commands for locks in {IDLE:?}", locks.count());
}
