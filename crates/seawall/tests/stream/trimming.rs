//! Trimming drops what every group has settled, and nothing else.

use std::{sync::Arc, time::Duration};

use seawall::{
    Seawall, cmd,
    stream::{Delivery, Outcome, Retention, Stream},
    testing::TestServer,
};
use tokio::sync::Semaphore;

use crate::{
    eventually,
    setup::{Setup, on_every_backend},
};

on_every_backend! {
    nothing_is_dropped_that_a_group_has_not_settled
}

/// Reads and acknowledges so many entries for a group.
async fn settle(seawall: &Seawall, stream: &Stream<u64>, group: &str, count: usize) {
    let (client, key) = (seawall.client(), stream.key());
    let mut read = cmd("XREADGROUP");
    read.arg("GROUP").arg(group).arg("c").arg("COUNT").arg(count).arg("STREAMS").arg(key).arg(">");
    type Entries = Vec<(String, Vec<String>)>;
    let read: Vec<(String, Entries)> = client.query(key, &read).await.expect("read");
    let mut ack = cmd("XACK");
    ack.arg(key).arg(group);
    // The first stays pending.
    for (id, _) in &read[0].1[1..] {
        ack.arg(id);
    }
    if read[0].1.len() > 1 {
        client.send(key, &ack).await.expect("acknowledged");
    }
}

async fn group(seawall: &Seawall, stream: &Stream<u64>, name: &str) {
    let mut create = cmd("XGROUP");
    create.arg("CREATE").arg(stream.key()).arg(name).arg("0").arg("MKSTREAM");
    seawall.client().send(stream.key(), &create).await.expect("made");
}

async fn nothing_is_dropped_that_a_group_has_not_settled(setup: Setup) {
    let seawall = setup.connect().await;
    let stream = seawall.stream::<u64>("trim").expect("a name");
    assert_eq!(stream.trim(Retention::Unsettled).await.expect("answered"), 0, "no stream");
    let appended = stream.append_all(&(0..300).collect::<Vec<_>>()).await.expect("valid");
    assert!(appended.iter().all(Result::is_ok));
    let drop = async |keep| stream.trim(keep).await.expect("answered");
    assert_eq!(drop(Retention::Unsettled).await, 0, "without a group nobody has settled anything");
    group(&seawall, &stream, "a").await;
    settle(&seawall, &stream, "a", 1).await;
    assert_eq!(drop(Retention::Unsettled).await, 0, "the first is pending");
    let mut claim = cmd("XACK");
    claim.arg(stream.key()).arg("a").arg(appended[0].as_ref().expect("appended"));
    seawall.client().send(stream.key(), &claim).await.expect("acknowledged");
    assert_eq!(drop(Retention::Unsettled).await, 1);
    settle(&seawall, &stream, "a", 250).await;
    group(&seawall, &stream, "b").await;
    assert_eq!(drop(Retention::Unsettled).await, 0, "the second group has seen nothing");
    settle(&seawall, &stream, "b", 299).await;
    assert_eq!(drop(Retention::Unsettled).await, 0, "entry 1 is pending in both");
    for name in ["a", "b"] {
        let mut ack = cmd("XACK");
        ack.arg(stream.key()).arg(name).arg(appended[1].as_ref().expect("appended"));
        seawall.client().send(stream.key(), &ack).await.expect("acknowledged");
    }
    assert_eq!(drop(Retention::All).await, 0);
    assert_eq!(drop(Retention::For(Duration::from_secs(3600))).await, 0);
    assert_eq!(drop(Retention::Newest(200)).await, 99);
    assert_eq!(drop(Retention::Newest(200)).await, 0);
    // 1 to 250 are settled by both; 100 to 299 are there.
    assert_eq!(drop(Retention::Newest(0)).await, 151);
    assert_eq!(drop(Retention::Unsettled).await, 0);
    assert_eq!(stream.len().await.expect("answered"), 49);
    seawall.shutdown().await;
}

#[tokio::test]
async fn what_is_kept_for_a_time_goes_when_it_is_over() {
    let test_server = TestServer::start().await.expect("it starts");
    let stream = test_server.seawall().stream::<u64>("timed").expect("a name");
    group(test_server.seawall(), &stream, "g").await;
    for number in 0..10 {
        stream.append(&number).await.expect("appended");
        test_server.advance(Duration::from_secs(1)).await;
    }
    settle(test_server.seawall(), &stream, "g", 10).await;
    let first = stream.status("g").await.expect("answered");
    assert_eq!((first.pending, first.lag, first.length), (1, Some(0), 10));
    let key = stream.key();
    let pending: (u64, String, String, seawall::Value) = test_server
        .seawall()
        .client()
        .query(key, cmd("XPENDING").arg(key).arg("g"))
        .await
        .expect("asked");
    let mut ack = cmd("XACK");
    test_server
        .seawall()
        .client()
        .send(key, ack.arg(key).arg("g").arg(pending.1))
        .await
        .expect("acked");
    let keep = Retention::For(Duration::from_millis(5_500));
    assert_eq!(stream.trim(keep).await.expect("answered"), 5);
    assert_eq!(stream.trim(keep).await.expect("answered"), 0);
    test_server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_trims_nothing_that_has_not_reached_its_handler() {
    const ENTRIES: u64 = 500;
    let seawall = Seawall::connect("embedded:").await.expect("in");
    let stream = seawall.stream::<u64>("lost").expect("a name");
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let trimmed = Arc::clone(&gate);
    let builder =
        stream.worker("g").batch_size(4).concurrency(2).claim_idle(Duration::from_millis(50));
    let worker = builder.spawn(move |delivery: Delivery<u64>| {
        let (tell, trimmed) = (tell.clone(), Arc::clone(&trimmed));
        async move {
            if *delivery.payload() >= ENTRIES / 2 {
                let _ = trimmed.acquire().await.expect("open");
            }
            tell.send(*delivery.payload()).expect("the test listens");
            Outcome::Done
        }
    });
    let appended = stream.append_all(&(0..ENTRIES).collect::<Vec<_>>()).await.expect("valid");
    assert!(appended.iter().all(Result::is_ok));
    let worker = worker.expect("valid");
    // The second half waits for it.
    eventually("the worker trims", async || stream.len().await.expect("answered") < ENTRIES).await;
    gate.add_permits(1);
    eventually("nothing is left to do", async || {
        let status = stream.status("g").await.expect("answered");
        status.pending == 0 && status.length == 0
    })
    .await;
    let _ = worker.shutdown().await;
    seawall.shutdown().await;
    let mut seen = 0;
    while told.try_recv().is_ok() {
        seen += 1;
    }
    assert_eq!(seen, ENTRIES, "entries that were handled");
}
