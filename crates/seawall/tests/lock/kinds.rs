//! What is not a plain mutex: fair, read-write, semaphore, several at once, latch, optimistic.

use std::time::Duration;

use seawall::{
    Seawall, cmd,
    lock::{LatchState, Lock, Optimistic, Release, Waited},
};
use tokio::task::JoinHandle;

use crate::ground::{Ground, PATIENCE, assert_busy, eventually, on_each_backend, take, wait_for};

on_each_backend! {
    a_fair_lock_is_handed_over_in_order
    who_leaves_a_fair_queue_does_not_hold_it_up
    readers_go_together_and_writers_alone
    a_waiting_writer_keeps_new_readers_out
    a_semaphore_has_its_permits_and_no_more
    several_are_held_together_or_not_at_all
    several_in_any_order_never_deadlock
    a_latch_opens_when_all_have_arrived
    an_optimistic_counter_loses_nothing
}

const SHORT: Duration = Duration::from_millis(600);

/// Waits in the background and reports its name once it holds.
fn queue_up(
    lock: Lock,
    name: usize,
    order: &tokio::sync::mpsc::UnboundedSender<usize>,
) -> JoinHandle<()> {
    let order = order.clone();
    tokio::spawn(async move {
        let guard = wait_for(&lock).await;
        order.send(name).expect("the test listens");
        assert_eq!(guard.release().await.expect("answered"), Release::Released);
    })
}

async fn queue_length(handle: &Seawall, key: &[u8]) -> usize {
    handle.client().query(key, cmd("ZCARD").arg(key)).await.expect("answered")
}

async fn a_fair_lock_is_handed_over_in_order(ground: Ground) {
    let handles = [ground.connect().await, ground.connect().await, ground.connect().await];
    let held = take(&handles[0].fair_lock("x")).await;
    let queue = [ground.key("fair", "x"), b":queue".to_vec()].concat();
    let (order, mut served) = tokio::sync::mpsc::unbounded_channel();
    let mut waiting = Vec::new();
    for name in 0..9 {
        waiting.push(queue_up(handles[name % 3].fair_lock("x"), name, &order));
        eventually("it has its place", async || {
            queue_length(&handles[0], &queue).await == name + 1
        })
        .await;
    }
    assert_busy(&handles[1].fair_lock("x")).await;
    assert_eq!(held.release().await.expect("answered"), Release::Released);
    for name in 0..9 {
        assert_eq!(served.recv().await, Some(name));
    }
    for task in waiting {
        task.await.expect("served");
    }
    assert_eq!(queue_length(&handles[0], &queue).await, 0);
    ground.end(handles).await;
}

async fn who_leaves_a_fair_queue_does_not_hold_it_up(ground: Ground) {
    let (a, b) = (ground.connect().await, ground.connect().await);
    let queue = [ground.key("fair", "x"), b":queue".to_vec()].concat();
    let held = take(&a.fair_lock("x")).await;
    let (order, mut served) = tokio::sync::mpsc::unbounded_channel();
    let leaves = queue_up(b.fair_lock("x"), 1, &order);
    eventually("first in line", async || queue_length(&a, &queue).await == 1).await;
    let stays = queue_up(a.fair_lock("x"), 2, &order);
    eventually("second in line", async || queue_length(&a, &queue).await == 2).await;
    leaves.abort();
    assert!(leaves.await.expect_err("aborted").is_cancelled());
    eventually("it gave its place up", async || queue_length(&a, &queue).await == 1).await;
    assert_eq!(held.release().await.expect("answered"), Release::Released);
    assert_eq!(served.recv().await, Some(2));
    stays.await.expect("served");
    ground.end([a, b]).await;
}

async fn readers_go_together_and_writers_alone(ground: Ground) {
    let (a, b) = (ground.connect().await, ground.connect().await);
    let lock = |handle: &Seawall| handle.rw_lock("x");
    let one = take(&lock(&a).read().lease_ttl(SHORT)).await;
    let other = take(&lock(&b).read().lease_ttl(SHORT)).await;
    assert_busy(&lock(&a).write()).await;
    tokio::time::sleep(SHORT * 2).await;
    assert!(!one.is_lost() && !other.is_lost(), "both are renewed");
    assert_eq!(one.release().await.expect("answered"), Release::Released);
    assert_busy(&lock(&a).write()).await;
    assert_eq!(other.release().await.expect("answered"), Release::Released);
    let writer = take(&lock(&a).write().lease_ttl(SHORT)).await;
    assert_busy(&lock(&b).read()).await;
    assert_busy(&lock(&b).write()).await;
    tokio::time::sleep(SHORT * 2).await;
    let token = writer.token();
    assert_eq!(writer.release().await.expect("answered"), Release::Released);
    let reader = take(&lock(&b).read()).await;
    assert!(reader.token() > token);
    drop(reader);
    ground.end([a, b]).await;
}

async fn a_waiting_writer_keeps_new_readers_out(ground: Ground) {
    let (a, b) = (ground.connect().await, ground.connect().await);
    let reading = take(&a.rw_lock("x").read()).await;
    let (order, mut served) = tokio::sync::mpsc::unbounded_channel();
    let writer = queue_up(b.rw_lock("x").write(), 1, &order);
    let waiting = [ground.key("rw", "x"), b":waiting".to_vec()].concat();
    eventually("the writer waits", async || queue_length(&a, &waiting).await == 1).await;
    assert_busy(&a.rw_lock("x").read()).await;
    let late = queue_up(a.rw_lock("x").read(), 2, &order);
    assert_eq!(reading.release().await.expect("answered"), Release::Released);
    assert_eq!((served.recv().await, served.recv().await), (Some(1), Some(2)));
    writer.await.expect("served");
    late.await.expect("served");
    // A writer that gives up lets the readers in again.
    let reading = take(&a.rw_lock("x").read()).await;
    let writer = queue_up(b.rw_lock("x").write(), 3, &order);
    eventually("the writer waits", async || queue_length(&a, &waiting).await == 1).await;
    writer.abort();
    let another = wait_for(&a.rw_lock("x").read()).await;
    drop((reading, another));
    ground.end([a, b]).await;
}

async fn a_semaphore_has_its_permits_and_no_more(ground: Ground) {
    let (a, b) = (ground.connect().await, ground.connect().await);
    let permits = |handle: &Seawall| handle.semaphore("x", 3).lease_ttl(SHORT);
    let one = take(&permits(&a)).await;
    let two = take(&permits(&a)).await;
    // A crash: nobody renews this one.
    let crashed = take(&permits(&b).fixed()).await;
    assert_busy(&permits(&a)).await;
    crashed.lost().await;
    let three = wait_for(&permits(&a)).await;
    assert!(!one.is_lost() && !two.is_lost(), "these are renewed");
    assert_busy(&permits(&b)).await;
    let (order, mut served) = tokio::sync::mpsc::unbounded_channel();
    let waiting = queue_up(permits(&b), 4, &order);
    assert_eq!(two.release().await.expect("answered"), Release::Released);
    assert_eq!(served.recv().await, Some(4));
    waiting.await.expect("served");
    assert_eq!(crashed.release().await.expect("answered"), Release::AlreadyLost);
    drop((one, three));
    let error = a.semaphore("x", 0).try_acquire().await.expect_err("refused");
    assert!(error.to_string().contains("permits"), "{error}");
    ground.end([a, b]).await;
}

async fn several_are_held_together_or_not_at_all(ground: Ground) {
    let (a, b) = (ground.connect().await, ground.connect().await);
    let names = [("account", 3), ("account", 1), ("account", 2), ("account", 1)];
    let all = a.multi_lock(names).try_acquire().await.expect("answered");
    let all = all.acquired().expect("all are free");
    assert_eq!(all.tokens().len(), 3, "a name given twice is one lock");
    for account in 1..=3 {
        assert_busy(&b.lock(("account", account))).await;
    }
    assert_eq!(all.release().await.expect("answered"), Release::Released);
    let middle = take(&b.lock(("account", 2))).await;
    let refused = a.multi_lock(names).try_acquire().await.expect("answered");
    assert!(refused.acquired().is_none());
    for account in [1, 3] {
        let free = wait_for(&b.lock(("account", account))).await;
        assert_eq!(free.release().await.expect("answered"), Release::Released);
    }
    let waiting = tokio::spawn({
        let several = a.multi_lock(names);
        async move { several.acquire(PATIENCE).await.expect("answered").acquired() }
    });
    eventually("the waiter listens", async || a.client().pubsub().channels() == 1).await;
    assert_eq!(middle.release().await.expect("answered"), Release::Released);
    let all = waiting.await.expect("it waited").expect("it came free");
    assert!(!all.is_lost() && all.valid_for() > Duration::from_secs(10));
    drop(all);
    let none: [&str; 0] = [];
    assert!(a.multi_lock(none).try_acquire().await.is_err());
    ground.end([a, b]).await;
}

async fn several_in_any_order_never_deadlock(ground: Ground) {
    let handles = [ground.connect().await, ground.connect().await];
    let mut workers = Vec::new();
    for worker in 0..4_usize {
        let handle = handles[worker % 2].clone();
        workers.push(tokio::spawn(async move {
            for round in 0..10 {
                let one = (worker + round) % 3;
                let several = handle.multi_lock([one, (one + 1 + worker % 2) % 3]);
                let several = several.poll_interval(Duration::from_millis(50));
                let guard = several.acquire(PATIENCE).await.expect("answered").acquired();
                let released = guard.expect("no deadlock").release().await;
                assert_eq!(released.expect("answered"), Release::Released);
            }
        }));
    }
    for worker in workers {
        worker.await.expect("it got all its locks");
    }
    ground.end(handles).await;
}

async fn a_latch_opens_when_all_have_arrived(ground: Ground) {
    let (a, b) = (ground.connect().await, ground.connect().await);
    let latch = |handle: &Seawall| handle.latch("x", 3).lease_ttl(SHORT);
    let waiting = tokio::spawn({
        let latch = latch(&a);
        async move { latch.wait(PATIENCE).await.expect("answered") }
    });
    let working = latch(&b).join("one").await.expect("answered");
    let gives_up = latch(&b).join("two").await.expect("answered");
    let state = latch(&a).state().await.expect("answered");
    assert_eq!(state, LatchState { arrived: 0, working: 2, missing: 3 });
    drop(gives_up);
    assert_eq!(working.arrive().await.expect("answered"), 2);
    assert_eq!(latch(&b).arrive("one").await.expect("answered"), 2, "counts once");
    eventually("nobody is at work any more", async || {
        latch(&a).state().await.expect("answered")
            == LatchState { arrived: 1, working: 0, missing: 2 }
    })
    .await;
    let early = latch(&a).wait(Duration::from_millis(20)).await.expect("answered");
    assert!(matches!(early, Waited::TimedOut(state) if state.missing == 2), "{early:?}");
    assert_eq!(latch(&a).arrive("two").await.expect("answered"), 1);
    assert_eq!(latch(&a).arrive("three").await.expect("answered"), 0);
    assert_eq!(waiting.await.expect("it waited"), Waited::Open);
    ground.end([a, b]).await;
}

async fn an_optimistic_counter_loses_nothing(ground: Ground) {
    let a = ground.connect().await;
    let key = ground.key("counter", "x");
    let mut workers = Vec::new();
    for _ in 0..4 {
        let (handle, key) = (a.clone(), key.clone());
        workers.push(tokio::spawn(async move {
            let mut done = 0;
            while done < 5 {
                let keys = [&key];
                let outcome = handle.optimistic(&keys, |transaction| async {
                    let transaction = transaction;
                    let count: Option<i64> = transaction.read(cmd("GET").arg(&key)).await?;
                    transaction.write(cmd("SET").arg(&key).arg(count.unwrap_or(0) + 1));
                    Ok(())
                });
                match outcome.await.expect("answered") {
                    Optimistic::Committed { replies, .. } => {
                        assert_eq!(replies.len(), 1);
                        done += 1;
                    }
                    Optimistic::Conflict { attempts } => assert!(attempts > 1),
                }
            }
        }));
    }
    for worker in workers {
        worker.await.expect("all were counted");
    }
    let count: i64 = a.client().query(&key, cmd("GET").arg(&key)).await.expect("answered");
    assert_eq!(count, 20);
    let strays = a.optimistic(&["a", "b"], |_| async { Ok(()) }).await.expect_err("two slots");
    assert!(strays.to_string().contains("{tag}"), "{strays}");
    ground.end([a]).await;
}
