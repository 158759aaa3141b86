//! Connections that break, replies that are lost, servers that restart or are replaced: every entry
//! is handled all the same.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use seawall::{
    Seawall,
    stream::{Appended, Delivery, Outcome, Stream, Worker},
};
use seawall_testkit::{
    Cluster, SentinelSet, ServerBuilder, ServerProcess,
    proxy::{FaultProxy, On},
};

use crate::{PATIENCE, eventually};

/// What was handled at least once.
type Seen = Arc<Mutex<BTreeSet<u64>>>;

fn run(stream: &Stream<u64>) -> (Worker, Seen) {
    let seen = Seen::default();
    let noted = Arc::clone(&seen);
    let builder =
        stream.worker("g").consumer("c").batch_size(8).claim_idle(Duration::from_millis(800));
    let worker = builder.max_attempts(100).spawn(move |delivery: Delivery<u64>| {
        noted.lock().expect("no panic").insert(*delivery.payload());
        async { Outcome::Done }
    });
    (worker.expect("valid"), seen)
}

/// Appends, again and again under one reference, until somebody answers.
async fn append(stream: &Stream<u64>, number: u64) {
    let mut appended = None;
    eventually("it is appended", async || {
        appended = stream.append_once(&number, &number).await.ok();
        appended.is_some()
    })
    .await;
    assert!(matches!(appended, Some(Appended::Now(_) | Appended::Before(_))));
}

async fn all_handled(seen: &Seen, count: u64, stream: &Stream<u64>) {
    eventually("all are handled", async || seen.lock().expect("no panic").len() as u64 == count)
        .await;
    eventually("all are settled", async || {
        stream.status("g").await.is_ok_and(|status| status.pending == 0)
    })
    .await;
}

/// Workers make room, so they must not wait for it: neither those that begin nor those that come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_redis_stops_no_worker() {
    let server = ServerProcess::redis().expect("a server");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let seawall = Seawall::connect(&proxy.url()).await.expect("in");
    let stream = seawall.stream::<u64>("full").expect("a name");
    let (first, seen) = run(&stream);
    append(&stream, 0).await;
    all_handled(&seen, 1, &stream).await;
    let _ = first.shutdown().await;
    for number in 1..100 {
        append(&stream, number).await;
    }
    let mut operator = server.connect().expect("connected");
    operator.call(&["CONFIG", "SET", "maxmemory", "1"]).expect("answered");
    let (second, seen) = run(&stream);
    all_handled(&seen, 99, &stream).await;
    operator.call(&["CONFIG", "SET", "maxmemory", "0"]).expect("answered");
    proxy.cut_all();
    proxy.refuse();
    let beside = Seawall::connect(&server.url()).await.expect("in");
    let same = beside.stream::<u64>("full").expect("a name");
    for number in 100..120 {
        append(&same, number).await;
    }
    operator.call(&["CONFIG", "SET", "maxmemory", "1"]).expect("answered");
    proxy.heal();
    all_handled(&seen, 119, &stream).await;
    beside.shutdown().await;
    operator.call(&["CONFIG", "SET", "maxmemory", "0"]).expect("answered");
    let _ = second.shutdown().await;
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_replies_and_cuts_lose_nothing() {
    let server = ServerProcess::redis().expect("a server");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let builder = Seawall::builder(&proxy.url()).response_timeout(Duration::from_millis(200));
    let seawall = builder.connect().await.expect("in");
    let stream = seawall.stream::<u64>("lossy").expect("a name");
    let (worker, seen) = run(&stream);
    for command in ["XREADGROUP", "XACK", "EVALSHA"] {
        proxy.drop_reply(On::command(command).probability(0.1));
    }
    for number in 0..150 {
        append(&stream, number).await;
        if number % 30 == 29 {
            proxy.cut_all();
        }
    }
    proxy.heal();
    all_handled(&seen, 150, &stream).await;
    assert_eq!(stream.dead_letter_count().await.expect("answered"), 0);
    let _ = worker.shutdown().await;
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_restarts_with_its_log_loses_nothing() {
    let server = ServerBuilder::redis().args(["--appendonly", "yes", "--appendfsync", "always"]);
    let mut server = server.start().expect("a server");
    let seawall = Seawall::connect(&server.url()).await.expect("in");
    let stream = seawall.stream::<u64>("restart").expect("a name");
    let (worker, seen) = run(&stream);
    for number in 0..60 {
        append(&stream, number).await;
        if number % 20 == 10 {
            server.restart().expect("it starts again");
        }
    }
    all_handled(&seen, 60, &stream).await;
    let _ = worker.shutdown().await;
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fail_over_is_followed() {
    let set = SentinelSet::start().expect("a set");
    let seawall = Seawall::connect(&set.url()).await.expect("in");
    let stream = seawall.stream::<u64>("fail-over").expect("a name");
    let (worker, seen) = run(&stream);
    for number in 0..20 {
        append(&stream, number).await;
    }
    eventually("the first are handled", async || seen.lock().expect("no panic").len() == 20).await;
    let lost = set.kill_primary().expect("there is one");
    set.await_failover(lost).expect("another takes over");
    // What the lost primary took last may be gone with it; what the new one takes is handled.
    for number in 20..40 {
        append(&stream, number).await;
    }
    eventually("the others are handled", async || {
        (20..40).all(|number| seen.lock().expect("no panic").contains(&number))
    })
    .await;
    let _ = worker.shutdown().await;
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_is_followed() {
    let cluster = Cluster::start().expect("a cluster");
    let seawall = Seawall::connect(&cluster.url()).await.expect("in");
    let stream = seawall.stream::<u64>("moving").expect("a name");
    let (worker, seen) = run(&stream);
    let slot = seawall_testkit::slot_of(stream.key());
    for number in 0..30 {
        append(&stream, number).await;
        if number % 10 == 5 {
            let owner = cluster.primary_of_slot(slot).expect("an owner").port();
            let primaries = cluster.primaries().expect("three");
            let other = primaries.iter().find(|node| node.port() != owner).expect("another");
            cluster.move_slot(slot, other).expect("it moves");
        }
    }
    all_handled(&seen, 30, &stream).await;
    let _ = worker.shutdown().await;
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_starts_before_redis_waits_for_it() {
    let server = ServerProcess::redis().expect("a server");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let seawall = Seawall::connect(&proxy.url()).await.expect("in");
    let stream = seawall.stream::<u64>("late").expect("a name");
    proxy.down();
    let (worker, seen) = run(&stream);
    assert!(stream.append(&1).await.is_err());
    proxy.heal();
    append(&stream, 0).await;
    all_handled(&seen, 1, &stream).await;
    let stopped = tokio::time::timeout(PATIENCE, worker.shutdown()).await;
    assert!(stopped.is_ok());
    seawall.shutdown().await;
}
