//! A machine that is suspended while it holds a lock: the server's lease goes on.

use std::time::Duration;

use seawall::{lock::Release, testing::TestServer};

use crate::ground::{PATIENCE, eventually, take};

const LEASE: Duration = Duration::from_secs(30);
/// How late a loss may be told after the machine woke up.
const STEP: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_holder_that_was_suspended_beyond_its_lease_knows_it_when_it_wakes() {
    let test_server = TestServer::start().await.expect("a test_server");
    let lock = test_server.seawall().lock("x").lease_ttl(LEASE);
    let guard = take(&lock).await;
    let told = tokio::spawn({
        let guard = guard.reenter();
        async move { guard.lost().await }
    });
    tokio::task::yield_now().await;
    test_server.suspend(LEASE * 2);
    assert!(guard.is_lost(), "at the first look");
    assert_eq!(guard.valid_for(), Duration::ZERO);
    test_server.advance(STEP).await;
    tokio::time::timeout(PATIENCE, told).await.expect("it is told").expect("it only waited");
    let next = take(&lock).await;
    assert!(next.token() > guard.token());
    assert_eq!(guard.release().await.expect("known"), Release::AlreadyLost);
    assert!(!next.is_lost());
    drop(next);
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_loss_during_a_suspension_is_told_to_who_waits_for_it() {
    let test_server = TestServer::start().await.expect("a test_server");
    let guard = take(&test_server.seawall().lock("x").lease_ttl(LEASE).fixed()).await;
    let told = tokio::spawn(async move { guard.lost().await });
    tokio::task::yield_now().await;
    test_server.suspend(LEASE);
    test_server.advance(STEP).await;
    tokio::time::timeout(PATIENCE, told).await.expect("it is told").expect("it only waited");
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_lease_that_outlives_a_suspension_is_renewed_at_once() {
    let test_server = TestServer::start().await.expect("a test_server");
    let guard = take(&test_server.seawall().lock("x").lease_ttl(LEASE)).await;
    // Let the renewals fall asleep first.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    test_server.suspend(LEASE * 2 / 3);
    assert!(!guard.is_lost() && guard.valid_for() < LEASE / 3);
    test_server.advance(STEP).await;
    eventually("renewed within a step", async || guard.valid_for() > LEASE * 2 / 3).await;
    drop(guard);
    test_server.shutdown().await;
}

/// An attempt whose reply waited while the machine was suspended counts from before that.
#[tokio::test]
async fn a_machine_that_is_suspended_between_two_renewals_loses_nothing_else() {
    let test_server = TestServer::start().await.expect("a test_server");
    let (short, long) = (test_server.seawall().lock("short"), test_server.seawall().lock("long"));
    let short = take(&short.lease_ttl(LEASE)).await;
    let long = take(&long.lease_ttl(LEASE * 10)).await;
    test_server.suspend(LEASE * 2);
    test_server.advance(STEP).await;
    assert!(short.is_lost() && !long.is_lost());
    test_server.shutdown().await;
}
