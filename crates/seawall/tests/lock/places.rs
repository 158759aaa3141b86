//! Places that others must not take away: in a fair line, and among several locks at once.

use std::time::{Duration, Instant};

use seawall::{Seawall, cmd, lock::Release};
use tokio::sync::mpsc;

use crate::ground::{Ground, PATIENCE, eventually, on_each_backend, take, wait_for};

on_each_backend! {
    a_place_in_a_fair_line_outlives_those_who_look_more_often
    several_that_are_said_to_be_held_are_held
    several_do_not_answer_with_one_that_was_lost
}

async fn queue_length(handle: &Seawall, key: &[u8]) -> usize {
    handle.client().query(key, cmd("ZCARD").arg(key)).await.expect("answered")
}

/// A patient waiter, then one that looks often and goes away: the patient one keeps its place, is
/// not overtaken, and the lock does not lie idle until it looks again.
async fn a_place_in_a_fair_line_outlives_those_who_look_more_often(ground: Ground) {
    let (a, b) = (ground.connect().await, ground.connect().await);
    let queue = [ground.key("fair", "x"), b":queue".to_vec()].concat();
    let held = take(&a.fair_lock("x")).await;
    let (order, mut served) = mpsc::unbounded_channel();
    let patient = Duration::from_secs(20);
    let often = Duration::from_millis(100);
    let queue_up = |handle: &Seawall, name: &'static str, poll_interval| {
        let (lock, order) = (handle.fair_lock("x").poll_interval(poll_interval), order.clone());
        tokio::spawn(async move {
            let guard = wait_for(&lock).await;
            order.send(name).expect("the test listens");
            assert_eq!(guard.release().await.expect("answered"), Release::Released);
        })
    };
    let first = queue_up(&b, "patient", patient);
    eventually("first in line", async || queue_length(&a, &queue).await == 1).await;
    let gave_up = a.fair_lock("x").poll_interval(often).acquire(often * 2).await.expect("answered");
    assert!(gave_up.acquired().is_none());
    eventually("it left the line", async || queue_length(&a, &queue).await <= 1).await;
    // Longer than the place of the one that looks often would have been kept.
    tokio::time::sleep(often * 5).await;
    assert_eq!(queue_length(&a, &queue).await, 1, "the patient one has its place");
    let second = queue_up(&a, "newcomer", often);
    eventually("second in line", async || queue_length(&a, &queue).await == 2).await;
    let began = Instant::now();
    assert_eq!(held.release().await.expect("answered"), Release::Released);
    assert_eq!((served.recv().await, served.recv().await), (Some("patient"), Some("newcomer")));
    assert!(began.elapsed() < patient / 2, "it was told, not idle: {:?}", began.elapsed());
    first.await.expect("served");
    second.await.expect("served");
    ground.end([a, b]).await;
}

const LEASE: Duration = Duration::from_millis(600);

/// While the second is waited for, the first gets lost and is taken by another.
async fn several_that_are_said_to_be_held_are_held(ground: Ground) {
    let (a, b) = (ground.connect().await, ground.connect().await);
    let second = take(&b.lock("2")).await;
    let mut waiting = tokio::spawn({
        let several = a.multi_lock(["1", "2"]).lease_ttl(LEASE).poll_interval(LEASE / 10);
        async move { several.acquire(PATIENCE).await.expect("answered").acquired() }
    });
    let first_key = ground.key("lock", "1");
    let exists = cmd("EXISTS").arg(&first_key).clone();
    eventually("the first is held", async || {
        a.client().query::<i64>(&first_key, &exists).await.expect("answered") == 1
    })
    .await;
    eventually("the second is waited for", async || a.client().pubsub().channels() == 1).await;
    a.client().send(&first_key, cmd("DEL").arg(&first_key)).await.expect("answered");
    let thief = take(&b.lock("1")).await;
    // Its renewals have noticed.
    eventually("the loss is known", async || a.renewed_locks() == 0).await;
    assert_eq!(second.release().await.expect("answered"), Release::Released);
    let early = tokio::time::timeout(LEASE * 2, &mut waiting).await;
    assert!(early.is_err(), "the first is another's: {early:?}");
    assert!(!thief.is_lost());
    assert_eq!(thief.release().await.expect("answered"), Release::Released);
    let all = waiting.await.expect("it waited").expect("both came free");
    assert!(!all.is_lost());
    assert_eq!(all.release().await.expect("answered"), Release::Released);
    ground.end([a, b]).await;
}

/// The same, but time is over: nothing is held, and that is said.
async fn several_do_not_answer_with_one_that_was_lost(ground: Ground) {
    let (a, b) = (ground.connect().await, ground.connect().await);
    let second = take(&b.lock("2")).await;
    let waiting = tokio::spawn({
        let several = a.multi_lock(["1", "2"]).lease_ttl(LEASE).poll_interval(LEASE / 10);
        async move { several.acquire(LEASE * 5).await.expect("answered").acquired() }
    });
    let first_key = ground.key("lock", "1");
    eventually("the second is waited for", async || a.client().pubsub().channels() == 1).await;
    a.client().send(&first_key, cmd("DEL").arg(&first_key)).await.expect("answered");
    let thief = take(&b.lock("1")).await;
    eventually("the loss is known", async || a.renewed_locks() == 0).await;
    assert_eq!(second.release().await.expect("answered"), Release::Released);
    assert!(waiting.await.expect("it waited").is_none(), "the first was another's to the end");
    let _second = wait_for(&b.lock("2")).await;
    assert!(!thief.is_lost());
    drop(thief);
    ground.end([a, b]).await;
}
