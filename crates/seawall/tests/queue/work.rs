//! Workers of a delayed queue: thousands of items, each once; failures, and the end.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use seawall::{
    queue::{Changed, Delayed, DelayedWorker, Heard, Job},
    stream::Outcome,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tokio::sync::Semaphore;

use crate::{
    PATIENCE, eventually,
    setup::{Setup, on_every_backend},
};

const ITEMS: u64 = 3_000;
const CONSUMERS: usize = 8;

on_every_backend! {
    thousands_of_items_are_each_done_once_by_eight_consumers
    what_fails_is_tried_again_and_what_fails_too_often_is_dead
    a_worker_that_stops_finishes_what_it_has_in_hand
    a_payload_whose_decoder_panics_is_dead_and_the_others_are_done
    the_longest_pause_after_a_failure_is_a_pause
}

/// How often each number was handled.
type Counts = Arc<Mutex<BTreeMap<u64, u64>>>;

fn run(queue: &Delayed<u64>, counts: &Counts) -> DelayedWorker {
    let counts = Arc::clone(counts);
    let worker = queue.worker().concurrency(8).spawn(move |job: Job<u64>| {
        let counts = Arc::clone(&counts);
        async move {
            tokio::task::yield_now().await;
            *counts.lock().expect("no panic").entry(*job.payload()).or_default() += 1;
            Outcome::Done
        }
    });
    worker.expect("valid")
}

async fn thousands_of_items_are_each_done_once_by_eight_consumers(setup: Setup) {
    let (one, other) = (setup.connect().await, setup.connect().await);
    let queue = |seawall: &seawall::Seawall| {
        seawall.delayed_queue::<u64>("many").shards(2).build().expect("valid")
    };
    let counts = Counts::default();
    let workers: Vec<_> = (0..CONSUMERS)
        .map(|number| run(&queue(if number % 2 == 0 { &one } else { &other }), &counts))
        .collect();
    let list: Vec<_> = (0..ITEMS)
        .map(|number| (format!("n-{number}"), number, Duration::from_millis(number % 50)))
        .collect();
    assert_eq!(queue(&one).add_all(&list).await.expect("answered").len() as u64, ITEMS);
    let is_twice = || counts.lock().expect("no panic").values().any(|times| *times > 1);
    eventually("nothing is left, or something was done twice", async || {
        let status = queue(&one).status().await.expect("answered");
        status.waiting + status.leased == 0 || is_twice()
    })
    .await;
    assert!(!is_twice(), "some were done twice");
    for worker in workers {
        worker.shutdown().await;
    }
    other.shutdown().await;
    one.shutdown().await;
    assert_eq!(counts.lock().expect("no panic").len() as u64, ITEMS);
    assert!(!is_twice(), "some were done twice");
}

async fn what_fails_is_tried_again_and_what_fails_too_often_is_dead(setup: Setup) {
    let seawall = setup.connect().await;
    let queue = seawall.delayed_queue::<u64>("fails").max_attempts(3).build().expect("valid");
    let list: Vec<_> =
        (0..6).map(|number| (format!("f-{number}"), number, Duration::ZERO)).collect();
    let _ = queue.add_all(&list).await.expect("answered");
    let done = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&done);
    let builder = queue.worker().retry_delay(Duration::from_millis(2));
    let worker = builder.spawn(move |job: Job<u64>| {
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
    let mut dead = queue.dead(10).await.expect("answered").items;
    dead.sort_by(|one, other| one.id.cmp(&other.id));
    let ids: Vec<_> = dead.iter().map(|dead| dead.id.as_str()).collect();
    assert_eq!(ids, ["f-0", "f-1", "f-4"]);
    assert!(dead[0].reason.contains("always"), "{dead:?}");
    assert_eq!((dead[0].attempts, dead[1].attempts), (3, 1));
    worker.shutdown().await;
    seawall.shutdown().await;
}

async fn a_worker_that_stops_finishes_what_it_has_in_hand(setup: Setup) {
    let seawall = setup.connect().await;
    let queue = seawall.delayed_queue::<u64>("drain").build().expect("valid");
    let list: Vec<_> = (0..50).map(|n| (format!("d-{n}"), n, Duration::ZERO)).collect();
    let _ = queue.add_all(&list).await.expect("answered");
    let (gate, begun) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU64::new(0)));
    let (held, count) = (Arc::clone(&gate), Arc::clone(&begun));
    let worker = queue.worker().concurrency(4).spawn(move |_: Job<u64>| {
        let held = Arc::clone(&held);
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            held.acquire().await.expect("open").forget();
            Outcome::Done
        }
    });
    let worker = worker.expect("valid");
    eventually("all hands are full", async || begun.load(Ordering::SeqCst) == 4).await;
    // Told before the gate opens: otherwise all of them may be done first.
    let mut stopping = pin!(worker.shutdown());
    assert!(futures_util::poll!(&mut stopping).is_pending(), "some are in hand");
    gate.add_permits(1_000);
    stopping.await;
    let finished = begun.load(Ordering::SeqCst);
    let status = queue.status().await.expect("answered");
    assert_eq!((status.leased, status.waiting), (0, 50 - finished));
    seawall.shutdown().await;
}

/// A number, unless it is 3.
struct NotThree(u64);

impl Serialize for NotThree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for NotThree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(deserializer)?;
        assert_ne!(number, 3, "a three");
        Ok(NotThree(number))
    }
}

async fn a_payload_whose_decoder_panics_is_dead_and_the_others_are_done(setup: Setup) {
    let seawall = setup.connect().await;
    let queue = seawall.delayed_queue::<NotThree>("decoder").build().expect("valid");
    let add = async |number: u64| {
        queue.add(format!("n-{number}"), &NotThree(number), Duration::ZERO).await.expect("answered")
    };
    for number in 0..6 {
        let _ = add(number).await;
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let worker = queue.worker().spawn(move |job: Job<NotThree>| {
        noted.lock().expect("no panic").push(job.payload().0);
        async { Outcome::Done }
    });
    let worker = worker.expect("valid");
    let nothing_is_left = async || {
        let status = queue.status().await.expect("answered");
        (status.waiting, status.leased, status.dead) == (0, 0, 1)
    };
    eventually("the others are done", nothing_is_left).await;
    let _ = add(6).await;
    eventually("it goes on", nothing_is_left).await;
    worker.shutdown().await;
    let mut seen = seen.lock().expect("no panic").clone();
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2, 4, 5, 6]);
    let dead = queue.dead(10).await.expect("answered").items;
    assert_eq!((dead[0].id.as_str(), &dead[0].payload[..]), ("n-3", &b"3"[..]));
    let reason = &dead[0].reason;
    assert!(reason.contains("decoder panicked") && reason.contains("a three"), "{reason}");
    assert_eq!(dead[0].attempts, 0, "no handler was begun");

    // The lesser queues read payloads, too.
    let list = seawall.list_queue::<NotThree>("decoder").expect("a name");
    let talk = seawall.broadcast::<NotThree>("decoder").expect("a name");
    let (mut consumer, mut listener) =
        (list.consumer("c").expect("a name"), talk.listen().await.expect("in"));
    for number in [3, 4] {
        list.push(&NotThree(number)).await.expect("pushed");
        talk.publish(&NotThree(number)).await.expect("said");
    }
    let first = consumer.take(PATIENCE).await;
    assert!(first.is_err_and(|error| error.to_string().contains("a three")));
    let second = consumer.take(PATIENCE).await.expect("answered").expect("there is one");
    assert_eq!(second.payload().0, 4);
    let first = listener.next().await.expect("heard");
    assert!(matches!(first, Heard::Unreadable(why) if why.contains("a three")));
    assert!(matches!(listener.next().await, Some(Heard::Message(NotThree(4)))));
    seawall.shutdown().await;
}

async fn the_longest_pause_after_a_failure_is_a_pause(setup: Setup) {
    let seawall = setup.connect().await;
    let queue = seawall.delayed_queue::<u64>("pause").build().expect("valid");
    let _ = queue.add("fails", &0, Duration::ZERO).await.expect("answered");
    let failures = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&failures);
    let worker = queue.worker().retry_delay(Duration::MAX).spawn(move |job: Job<u64>| {
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
    worker.shutdown().await;
    seawall.shutdown().await;
}
