//! Replies that never come, and a server that is away: nothing is assumed.

use std::time::Duration;

use seawall::{
    cmd,
    lock::{Extension, Release},
    testing::TestServer,
};

use crate::ground::{PATIENCE, assert_busy, eventually, take};

async fn exists(test_server: &TestServer, key: &str) -> bool {
    let client = test_server.seawall().client();
    client.query::<i64>(key.as_bytes(), cmd("EXISTS").arg(key)).await.expect("answered") == 1
}

#[tokio::test]
async fn an_acquisition_whose_reply_is_lost_is_found_again_or_given_back() {
    let test_server = TestServer::start().await.expect("a test_server");
    let lock = test_server.seawall().lock("x");
    // The script is known to the server from here on.
    drop(take(&lock).await);
    eventually("given back", async || !exists(&test_server, "lock:{x}").await).await;

    test_server.faults().lose_replies(1);
    assert!(lock.try_acquire().await.expect_err("no reply").is_indeterminate());
    eventually("what was taken unknowingly is given back", async || {
        !exists(&test_server, "lock:{x}").await
    })
    .await;

    // Who waits asks again under the same ids and finds what it has.
    test_server.faults().lose_replies(1);
    let waiting = lock.acquire(PATIENCE);
    let hand = async {
        loop {
            test_server.advance(Duration::from_millis(100)).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let guard = tokio::select! {
        guard = waiting => guard.expect("answered").acquired().expect("held"),
        () = hand => unreachable!("it never ends"),
    };
    assert_eq!(guard.token().sequence, 3, "taken once by the one call");
    test_server.faults().lose_replies(1);
    assert_eq!(guard.release().await.expect("asked again"), Release::Released);
    assert!(!exists(&test_server, "lock:{x}").await);
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_server_that_is_away_costs_the_lock_only_when_the_lease_is_over() {
    let test_server = TestServer::start().await.expect("a test_server");
    let lock = test_server.seawall().lock("x").lease_ttl(Duration::from_secs(12));
    let guard = take(&lock).await;
    test_server.faults().begin_outage();
    assert!(guard.extend(Duration::from_secs(12)).await.is_err());
    test_server.advance(Duration::from_secs(5)).await;
    assert!(!guard.is_lost(), "a renewal failed, the lease is not over");
    test_server.faults().end_outage();
    test_server.advance(Duration::from_secs(2)).await;
    eventually("renewed after the outage", async || guard.valid_for() > Duration::from_secs(10))
        .await;

    test_server.faults().begin_outage();
    test_server.advance(Duration::from_secs(12)).await;
    tokio::time::timeout(PATIENCE, guard.lost()).await.expect("told by its own clock");
    test_server.faults().end_outage();
    assert_eq!(guard.extend(Duration::from_secs(12)).await.expect("known"), Extension::AlreadyLost);
    let next = take(&lock).await;
    assert_eq!(guard.release().await.expect("known"), Release::AlreadyLost);
    assert_busy(&lock).await;
    assert_eq!(next.release().await.expect("answered"), Release::Released);
    test_server.shutdown().await;
}

/// Waiting for several goes on over an outage, as waiting for one does.
#[tokio::test]
async fn several_are_waited_for_over_an_outage() {
    let test_server = TestServer::start().await.expect("a test_server");
    let several = test_server.seawall().multi_lock(["1", "2"]);
    test_server.faults().begin_outage();
    assert!(several.try_acquire().await.is_err(), "who only tries is told");
    let waiting = tokio::spawn({
        let several = several.clone();
        async move { several.acquire(PATIENCE * 2).await }
    });
    for _ in 0..10 {
        test_server.advance(Duration::from_millis(500)).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(!waiting.is_finished(), "it goes on waiting");
    test_server.faults().end_outage();
    eventually("it is tried again", async || {
        test_server.advance(Duration::from_millis(500)).await;
        waiting.is_finished()
    })
    .await;
    let all = waiting.await.expect("it waited").expect("answered").acquired().expect("free");
    assert_eq!(all.release().await.expect("answered"), Release::Released);
    test_server.faults().begin_outage();
    let late = tokio::spawn(async move { several.acquire(Duration::from_secs(3)).await });
    eventually("its time is over", async || {
        test_server.advance(Duration::from_millis(500)).await;
        late.is_finished()
    })
    .await;
    assert!(late.await.expect("it waited").expect_err("still away").is_outage());
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_release_during_an_outage_is_made_up_for() {
    let test_server = TestServer::start().await.expect("a test_server");
    let lock = test_server.seawall().lock("x");
    let guard = take(&lock).await;
    test_server.faults().begin_outage();
    assert!(guard.release().await.is_err());
    assert_eq!(test_server.seawall().renewed_locks(), 0);
    test_server.faults().end_outage();
    eventually("given back in the background", async || {
        test_server.advance(Duration::from_millis(300)).await;
        !exists(&test_server, "lock:{x}").await
    })
    .await;
    test_server.shutdown().await;
}
