//! Waiting: in order, over one connection, and not much slower when messages are lost.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use seawall::{Seawall, cmd, lock::Release};
use seawall_testkit::{
    ServerProcess,
    proxy::{FaultProxy, On},
};
use tokio::sync::mpsc;

use crate::ground::{Ground, PATIENCE, eventually, on_each_backend, soak, take, wait_for};

on_each_backend! { waiters_are_served_in_order_over_one_subscription }

#[expect(clippy::print_stderr, reason = "a soak prints its figures")]
async fn waiters_are_served_in_order_over_one_subscription(ground: Ground) {
    let (a, b) = (ground.connect().await, ground.connect().await);
    let count = 500 * soak();
    let held = take(&a.lock("x")).await;
    let (order, mut served) = mpsc::unbounded_channel();
    let lock = Arc::new(b.lock("x"));
    let mut waiting = Vec::new();
    for name in 0..count {
        let (lock, order) = (Arc::clone(&lock), order.clone());
        let mut waiter = Box::pin(async move {
            let within = PATIENCE * u32::try_from(soak()).expect("small");
            let guard = lock.acquire(within).await.expect("answered").acquired().expect("in time");
            order.send(name).expect("the test listens");
            assert_eq!(guard.release().await.expect("answered"), Release::Released);
        });
        // The first poll takes it into the line; from then on any thread may run it.
        assert!(waiter.as_mut().now_or_never().is_none(), "it is held");
        waiting.push(tokio::spawn(waiter));
    }
    eventually("the first listens", async || b.client().pubsub().channels() == 1).await;
    let began = Instant::now();
    assert_eq!(held.release().await.expect("answered"), Release::Released);
    for name in 0..count {
        assert_eq!(served.recv().await, Some(name), "first come, first served");
    }
    eprintln!("{count} hand-overs in {:?}", began.elapsed());
    for task in waiting {
        task.await.expect("served");
    }
    assert_eq!(b.client().pubsub().channels(), 1);
    ground.end([a, b]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_message_costs_at_most_the_cap() {
    let server = ServerProcess::redis().expect("a server starts");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let a = Seawall::connect(&server.url()).await.expect("connected");
    let b = Seawall::connect(&proxy.url()).await.expect("connected");
    let lease = Duration::from_secs(600);
    let mut held = Vec::new();
    for name in ["soon", "late"] {
        held.push(take(&a.lock(name).lease_ttl(lease)).await);
    }
    proxy.drop_pushes(1.0);
    let wait = |name: &str, cap: Duration| {
        let lock = b.lock(name).poll_interval(cap);
        tokio::spawn(async move { wait_for(&lock).await })
    };
    let script = |words: &[Vec<u8>]| words[0].to_ascii_uppercase().starts_with(b"EVAL");
    let tries = proxy.watch(On::any().when(script).key_prefix("lock:{late}"));
    // One looks soon, and one not before the test is over.
    let (soon, late) = (wait("soon", Duration::from_millis(200)), wait("late", lease));
    // It looks once more when it is subscribed; what is sent after that is answered after it.
    eventually("the late one listens", async || tries.count() >= 2).await;
    b.client().send(b"lock:{late}", &cmd("PING")).await.expect("answered");
    for held in held {
        assert_eq!(held.release().await.expect("answered"), Release::Released);
    }
    let guard = tokio::time::timeout(PATIENCE, soon).await.expect("it looks").expect("it waited");
    eventually("a message was lost", async || proxy.lost_pushes() > 0).await;
    assert!(!late.is_finished(), "nobody has told it");
    late.abort();
    // With messages it is a matter of two round trips.
    proxy.heal();
    drop(guard);
    a.shutdown().await;
    b.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_ends_when_time_is_over_and_when_the_handle_is_shut_down() {
    let handle = Seawall::connect("embedded:").await.expect("connected");
    let held = take(&handle.lock("x")).await;
    let began = Instant::now();
    let late = handle.lock("x").acquire(Duration::from_millis(100)).await.expect("answered");
    assert!(late.acquired().is_none());
    assert!(began.elapsed() >= Duration::from_millis(100));
    let waiting = tokio::spawn({
        let lock = handle.lock("x");
        async move { lock.acquire(PATIENCE).await }
    });
    eventually("it waits", async || handle.client().pubsub().channels() == 1).await;
    drop(held);
    let guard = waiting.await.expect("it waited").expect("answered").acquired().expect("free");
    let waiting = tokio::spawn({
        let lock = handle.lock("x");
        async move { lock.acquire(PATIENCE).await }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    handle.shutdown().await;
    let ended = waiting.await.expect("it waited");
    assert!(ended.is_err(), "{ended:?}");
    drop(guard);
}
