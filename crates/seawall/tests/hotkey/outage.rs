//! Redis away, and a process that stood still.

use std::time::Duration;

use seawall::{
    cache::{Cache, Loaded},
    hotkey::{HotRule, HotRules},
    testing::TestServer,
};

const TICK: Duration = Duration::from_millis(100);

fn cache(test_server: &TestServer) -> Cache<u64, u64> {
    let rule = HotRule::new(1000, Duration::from_secs(1)).cool_for(Duration::from_secs(10));
    let builder = test_server.seawall().cache("hot").local_ttl(Duration::from_secs(3600));
    builder.hot_keys(HotRules::all(rule)).build().expect("settings that agree")
}

/// Loads where there is no copy in memory: the first level is dropped when its listener first finds out
/// where it stands, and that may fall into the outage.
async fn read(cache: &Cache<u64, u64>, times: u32) {
    for _ in 0..times {
        let load = || async { Ok::<_, seawall::Error>(Loaded::Found(10)) };
        assert!(cache.get_or_load(&1, load).await.expect("an answer").value.is_some());
    }
}

/// Ticks until something holds; the process' own tick needs a moment of real time for each.
async fn ticks(test_server: &TestServer, most: u32, mut holds: impl AsyncFnMut() -> bool) -> bool {
    for _ in 0..most {
        if holds().await {
            return true;
        }
        test_server.advance(TICK).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    holds().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_a_process_decides_by_itself_and_with_it_the_fleet_does_again() {
    let test_server = TestServer::start().await.expect("the engine starts");
    let cache = cache(&test_server);
    let hot = test_server.seawall().hot_keys();
    test_server.faults().begin_outage();
    let found = ticks(&test_server, 60, async || {
        read(&cache, 500).await;
        !hot.here().is_empty()
    })
    .await;
    assert!(found, "its own reads are enough");
    assert!(!hot.status().fleet, "and nobody else's were known");
    test_server.faults().end_outage();
    let back = ticks(&test_server, 100, async || {
        read(&cache, 500).await;
        hot.status().fleet && !hot.fleet().await.expect("Redis is back").is_empty()
    })
    .await;
    assert!(back, "the fleet knows it");
    test_server.shutdown().await;
}

/// What was read before a long pause is no news after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_stood_still_does_not_report_its_past() {
    let test_server = TestServer::start().await.expect("the engine starts");
    let cache = cache(&test_server);
    // The first tick is over, and nothing was read since.
    assert!(
        ticks(&test_server, 20, async || false).await
            || test_server.seawall().hot_keys().here().is_empty()
    );
    read(&cache, 50_000).await;
    test_server.advance(Duration::from_secs(3600)).await;
    for _ in 0..20 {
        test_server.advance(TICK).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let hot = test_server.seawall().hot_keys();
    assert!(hot.here().is_empty() && hot.fleet().await.expect("a list").is_empty());
    test_server.shutdown().await;
}
