//! A test server whose time passes by itself: nothing waits for an advance that does not come.

use std::time::Duration;

use seawall::testing::TestServer;

use crate::ground::{PATIENCE, take};

const LEASE: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_in_an_outage_is_told_without_an_advance() {
    let test_server = TestServer::start_ticking(10_000).await.expect("it starts");
    let guard = take(&test_server.seawall().lock("x").lease_ttl(LEASE)).await;
    test_server.faults().begin_outage();
    // On the wall the lease would last for five minutes.
    tokio::time::timeout(PATIENCE, guard.lost()).await.expect("it is told");
    assert!(guard.is_lost());
    test_server.faults().end_outage();
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_speed_out_of_range_is_refused() {
    for speed in [0, 10_001] {
        let error = TestServer::start_ticking(speed).await.expect_err("out of range");
        assert!(error.to_string().contains("speed must be from 1 to 10000"), "{error}");
    }
}
