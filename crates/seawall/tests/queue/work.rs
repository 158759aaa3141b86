//! Workers of a delayed queue: thousands of items, each once; failures, and the end.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use seawall::{
    queue::{Bug, Changed, Delayed, DelayedWorkerBuilder, Job},
    stream::Outcome,
};
use tokio::sync::Semaphore;

use crate::{
    eventually,
    setup::{Setup, on_every_backend},
};

const ITEMS: u64 = 3_000;
const CONSUMERS: usize = 8;

on_every_backend! {
    thousands_of_items_are_each_done_once_by_eight_consumers
    what_fails_is_tried_again_and_what_fails_too_often_is_dead
    a_worker_that_stops_finishes_what_it_has_in_hand
    the_longest_pause_after_a_failure_is_a_pause
}

/// How often each number was handled.
type Counts = Arc<Mutex<BTreeMap<u64, u64>>>;

fn run(
    queue: &Delayed<u64>,
    counts: &Counts,
    plant: impl Fn(DelayedWorkerBuilder<u64>) -> DelayedWorkerBuilder<u64>,
) -> seawall::queue::DelayedWorker {
    let counts = Arc::clone(counts);
    let builder = plant(queue.worker().concurrency(8));
    let worker = builder.run(move |job: Job<u64>| {
        let counts = Arc::clone(&counts);
        async move {
            tokio::task::yield_now().await;
            *counts.lock().expect("no panic").entry(*job.payload()).or_default() += 1;
            Outcome::Done
        }
    });
    worker.expect("valid")
}

/// Adds items that are due soon, and lets consumers handle them.
async fn handle_all(
    setup: &Setup,
    items: u64,
    plant: impl Fn(DelayedWorkerBuilder<u64>) -> DelayedWorkerBuilder<u64>,
) -> BTreeMap<u64, u64> {
    let (one, other) = (setup.connect().await, setup.connect().await);
    let queue = |seawall: &seawall::Seawall| {
        seawall.delayed_queue::<u64>("many").shards(2).build().expect("valid")
    };
    let counts = Counts::default();
    let workers: Vec<_> = (0..CONSUMERS)
        .map(|number| run(&queue(if number % 2 == 0 { &one } else { &other }), &counts, &plant))
        .collect();
    let list: Vec<_> = (0..items)
        .map(|number| (format!("n-{number}"), number, Duration::from_millis(number % 50)))
        .collect();
    assert_eq!(queue(&one).add_all(&list).await.expect("answered").len() as u64, items);
    eventually("nothing is left", async || {
        let status = queue(&one).status().await.expect("answered");
        status.waiting + status.leased == 0
    })
    .await;
    for worker in workers {
        worker.stop().await;
    }
    other.shutdown().await;
    one.shutdown().await;
    let counts = counts.lock().expect("no panic");
    counts.clone()
}

async fn thousands_of_items_are_each_done_once_by_eight_consumers(setup: Setup) {
    let counts = handle_all(&setup, ITEMS, |builder| builder).await;
    assert_eq!(counts.len() as u64, ITEMS);
    assert!(counts.values().all(|times| *times == 1), "some were done twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_checker_notices_items_without_a_lease() {
    let setup = Setup::new(seawall_testkit::backend::Backend::Embedded, "no-lease");
    let counts = handle_all(&setup, 500, |builder| builder.sabotage(Bug::NoLease)).await;
    assert!(counts.values().any(|times| *times > 1), "nothing was done twice");
}

async fn what_fails_is_tried_again_and_what_fails_too_often_is_dead(setup: Setup) {
    let seawall = setup.connect().await;
    let queue = seawall.delayed_queue::<u64>("fails").attempts(3).build().expect("valid");
    let list: Vec<_> =
        (0..6).map(|number| (format!("f-{number}"), number, Duration::ZERO)).collect();
    let _ = queue.add_all(&list).await.expect("answered");
    let done = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&done);
    let builder = queue.worker().retry_after(Duration::from_millis(2));
    let worker = builder.run(move |job: Job<u64>| {
        let count = Arc::clone(&count);
        async move {
            match (*job.payload(), job.attempt()) {
                (0, _) => panic!("always"),
                (1, _) => return Outcome::Park("never".to_owned()),
                (2, 1 | 2) => return Outcome::Failed("not yet".to_owned()),
                (3, 1) if count.fetch_add(100, Ordering::SeqCst) < 300 => {
                    return Outcome::Postpone(Duration::from_millis(1));
                }
                (4, _) => return Outcome::Retry(Duration::from_millis(1)),
                _ => {}
            }
            count.fetch_add(1, Ordering::SeqCst);
            Outcome::Done
        }
    });
    let worker = worker.expect("valid");
    eventually("three are done, three are dead", async || {
        let status = queue.status().await.expect("answered");
        status.waiting + status.leased == 0 && status.dead == 3
    })
    .await;
    assert_eq!(done.load(Ordering::SeqCst) % 100, 3);
    let mut dead = queue.dead(10).await.expect("answered");
    dead.sort_by(|one, other| one.id.cmp(&other.id));
    let ids: Vec<_> = dead.iter().map(|dead| dead.id.as_str()).collect();
    assert_eq!(ids, ["f-0", "f-1", "f-4"]);
    assert!(dead[0].reason.contains("always"), "{dead:?}");
    assert_eq!((dead[0].attempts, dead[1].attempts), (3, 1));
    worker.stop().await;
    seawall.shutdown().await;
}

async fn a_worker_that_stops_finishes_what_it_has_in_hand(setup: Setup) {
    let seawall = setup.connect().await;
    let queue = seawall.delayed_queue::<u64>("drain").build().expect("valid");
    let list: Vec<_> = (0..50).map(|n| (format!("d-{n}"), n, Duration::ZERO)).collect();
    let _ = queue.add_all(&list).await.expect("answered");
    let (gate, begun) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU64::new(0)));
    let (held, count) = (Arc::clone(&gate), Arc::clone(&begun));
    let worker = queue.worker().concurrency(4).run(move |_: Job<u64>| {
        let held = Arc::clone(&held);
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            held.acquire().await.expect("open").forget();
            Outcome::Done
        }
    });
    let worker = worker.expect("valid");
    eventually("all hands are full", async || begun.load(Ordering::SeqCst) == 4).await;
    let stopping = tokio::spawn(worker.stop());
    gate.add_permits(1_000);
    stopping.await.expect("no panic");
    let finished = begun.load(Ordering::SeqCst);
    let status = queue.status().await.expect("answered");
    assert_eq!((status.leased, status.waiting), (0, 50 - finished));
    seawall.shutdown().await;
}

async fn the_longest_pause_after_a_failure_is_a_pause(setup: Setup) {
    let seawall = setup.connect().await;
    let queue = seawall.delayed_queue::<u64>("pause").build().expect("valid");
    let _ = queue.add("fails", &0, Duration::ZERO).await.expect("answered");
    let failures = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&failures);
    let worker = queue.worker().retry_after(Duration::MAX).run(move |job: Job<u64>| {
        let count = Arc::clone(&count);
        async move {
            if *job.payload() == 0 {
                count.fetch_add(1, Ordering::SeqCst);
                return Outcome::Failed("always".to_owned());
            }
            Outcome::Done
        }
    });
    let worker = worker.expect("valid");
    for failure in 1..=4 {
        eventually("it has failed and waits", async || {
            // In this order: what waits after that failure is what failed.
            let failed = failures.load(Ordering::SeqCst) == failure;
            failed && queue.status().await.expect("answered").waiting == 1
        })
        .await;
        let moved = queue.reschedule("fails", Duration::ZERO).await.expect("answered");
        assert_eq!(moved, Changed::Done);
    }
    let _ = queue.add("works", &1, Duration::ZERO).await.expect("answered");
    eventually("it goes on", async || {
        let status = queue.status().await.expect("answered");
        (status.waiting, status.leased, status.dead) == (0, 0, 1)
    })
    .await;
    worker.stop().await;
    seawall.shutdown().await;
}
