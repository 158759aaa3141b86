//! Round trips saved, outages bridged, lost replies, bad settings.

use std::time::Duration;

use seawall::{
    Error, Seawall,
    id::{Id, Snowflake},
    testing::TestServer,
};
use seawall_testkit::{ServerProcess, proxy::FaultProxy};

use super::record::{Process, judge};

#[tokio::test(flavor = "multi_thread")]
async fn most_ids_cost_no_round_trip() {
    let server = ServerProcess::redis().expect("it starts");
    let proxy = FaultProxy::start(server.port()).expect("it starts");
    let seawall = Seawall::connect(&proxy.url()).await.expect("it answers");
    let ids = seawall.ids("order").build().expect("valid");
    let process = Process::default();
    process.take_many(&ids, 20_000).await;
    let asked = proxy.count("EVALSHA") + proxy.count("EVAL");
    assert!(asked <= 40, "{asked} questions for 20,000 ids");
    assert_eq!(judge([&process]), Ok(20_000));
    seawall.shutdown().await;
}

#[tokio::test]
async fn an_outage_is_bridged_by_what_is_in_hand() {
    let test_server = TestServer::start().await.expect("it starts");
    let ids = test_server.seawall().ids("order").min_segment(100).build().expect("valid");
    let process = Process::default();
    process.take(&ids).await.expect("an id");
    test_server.faults().begin_outage();
    // However old: 99 are left.
    test_server.advance(Duration::from_secs(3_600)).await;
    process.take_many(&ids, 99).await;
    for _ in 0..3 {
        assert!(matches!(process.take(&ids).await, Err(Error::Unavailable(_))));
    }
    test_server.faults().end_outage();
    let id = process.take(&ids).await.expect("at once");
    let behind = id.decode().time.duration_since(std::time::SystemTime::now());
    assert!(behind.expect("the test_server is an hour ahead").as_secs() > 3_500);
    assert_eq!(judge([&process]), Ok(101));
    test_server.shutdown().await;
}

#[tokio::test]
async fn lost_replies_leave_gaps_and_nothing_else() {
    let test_server = TestServer::start().await.expect("it starts");
    let make = || test_server.seawall().ids("order").min_segment(2).max_segment(4).build();
    let ids = [make().expect("valid"), make().expect("valid")];
    let processes = [Process::default(), Process::default()];
    for round in 0..200 {
        if round % 3 == 0 {
            test_server.faults().lose_replies(1);
        }
        for (ids, process) in ids.iter().zip(&processes) {
            process.take_many(ids, 3).await;
        }
    }
    assert_eq!(judge(&processes), Ok(1_200));
    // More than are tried: an error, and the next call goes on.
    test_server.faults().lose_replies(1_000);
    let mut failed = None;
    for _ in 0..20 {
        if let Err(error) = processes[0].take(&ids[0]).await {
            failed = Some(error);
        }
    }
    assert!(matches!(failed, Some(Error::Unavailable(_))), "{failed:?}");
    test_server.faults().lose_replies(0);
    processes[0].take_many(&ids[0], 10).await;
    judge(&processes).expect("unique and rising");
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_segment_that_is_too_old_is_put_aside() {
    let test_server = TestServer::start().await.expect("it starts");
    let builder = test_server.seawall().ids("order").max_age(Duration::from_secs(5));
    let ids = builder.build().expect("valid");
    let second = |id: Id| id.as_u64() >> 32;
    let first = ids.next().await.expect("an id");
    test_server.advance(Duration::from_secs(4)).await;
    assert_eq!(second(ids.next().await.expect("an id")), second(first));
    test_server.advance(Duration::from_secs(4)).await;
    assert_eq!(second(ids.next().await.expect("an id")), second(first) + 8);
    test_server.shutdown().await;
    // What is in hand is still good; then it is said why there are no more.
    let mut last = Ok(first);
    for _ in 0..1_000 {
        last = ids.next().await;
    }
    assert!(matches!(last, Err(Error::Closed)), "{last:?}");
}

#[tokio::test]
async fn dropping_a_call_loses_nothing_and_blocks_nobody() {
    let test_server = TestServer::start().await.expect("it starts");
    let ids = test_server.seawall().ids("order").min_segment(1).build().expect("valid");
    let process = Process::default();
    for _ in 0..200 {
        let dropped = tokio::time::timeout(Duration::ZERO, ids.next()).await;
        drop(dropped);
        process.take(&ids).await.expect("an id");
    }
    assert_eq!(judge([&process]), Ok(200));
    test_server.shutdown().await;
}

#[tokio::test]
async fn contradictions_are_named_when_building() {
    let test_server = TestServer::start().await.expect("it starts");
    let ids = || test_server.seawall().ids("order");
    for (builder, word) in [
        (ids().min_segment(0), "min_segment"),
        (ids().min_segment(10).max_segment(9), "max_segment"),
        (ids().max_segment(u64::MAX), "max_segment"),
        (ids().max_age(Duration::ZERO), "max_age"),
        (test_server.seawall().ids(""), "empty"),
        (test_server.seawall().ids("x".repeat(10_000)), "longer"),
    ] {
        let error = builder.build().expect_err("makes no sense");
        assert!(matches!(error, Error::Invalid(_)) && error.to_string().contains(word), "{error}");
    }
    test_server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn snowflakes_are_unique_and_rise() {
    let mut tasks = Vec::new();
    for worker in [0, 1, 1023] {
        let flakes = Snowflake::new(worker).expect("in range");
        for _ in 0..4 {
            let flakes = flakes.clone();
            tasks.push(tokio::spawn(async move {
                let mut ids = Vec::new();
                for _ in 0..20_000 {
                    ids.push(flakes.next().await.expect("in range"));
                }
                assert!(ids.is_sorted_by(|a, b| a < b), "rising");
                assert!(ids.iter().all(|id| Snowflake::decode(*id).worker == worker));
                ids
            }));
        }
    }
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.expect("no panic"));
    }
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!((count, all.len()), (240_000, 240_000));
}

/// Segments of a single id, and far more callers than that, all of them always in a hurry: everybody
/// gets his, and nobody is told that others were quicker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_overtaken_for_ever() {
    let seawall = Seawall::connect("embedded:").await.expect("it starts");
    let ids = seawall.ids("order").min_segment(1).max_segment(1).build().expect("valid");
    let process = std::sync::Arc::new(Process::default());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let (ids, process) = (ids.clone(), std::sync::Arc::clone(&process));
        tasks.spawn(async move { process.take_many(&ids, 40).await });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("no panic, and no error");
    }
    assert_eq!(judge([&*process]), Ok(64 * 40));
    seawall.shutdown().await;
}
