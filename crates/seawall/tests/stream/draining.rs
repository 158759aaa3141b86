//! The end of a worker: it finishes what it has in hand, and leaves nothing half done.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use seawall::stream::{Delivery, Drained, Outcome};
use tokio::sync::Semaphore;

use crate::{
    eventually,
    setup::{Setup, on_every_backend},
};

on_every_backend! {
    a_worker_that_stops_finishes_what_it_has_in_hand
    what_takes_too_long_stays_pending_and_goes_on_under_the_same_name
    an_abandoned_worker_waits_for_nothing
    a_worker_ends_while_entries_wait_for_its_handlers
}

async fn a_worker_that_stops_finishes_what_it_has_in_hand(setup: Setup) {
    let seawall = setup.connect().await;
    let stream = seawall.stream::<u64>("drain").expect("a name");
    let appended = stream.append_all(&(0..200).collect::<Vec<_>>()).await.expect("valid");
    assert!(appended.iter().all(Result::is_ok));
    let (gate, done) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU64::new(0)));
    let (held, count) = (Arc::clone(&gate), Arc::clone(&done));
    let worker = stream.worker("g").consumer("c").concurrency(4).batch_size(8).spawn(
        move |_: Delivery<u64>| {
            let (held, count) = (Arc::clone(&held), Arc::clone(&count));
            async move {
                held.acquire().await.expect("open").forget();
                count.fetch_add(1, Ordering::SeqCst);
                Outcome::Done
            }
        },
    );
    let worker = worker.expect("valid");
    gate.add_permits(20);
    eventually("some are done", async || done.load(Ordering::SeqCst) == 20).await;
    // Told before the gate opens: otherwise all of them may be done first.
    let mut stopping = pin!(worker.shutdown());
    assert!(futures_util::poll!(&mut stopping).is_pending(), "some are in hand");
    gate.add_permits(1_000);
    assert_eq!(stopping.await, Drained::Clean);
    let finished = done.load(Ordering::SeqCst);
    let status = stream.status("g").await.expect("answered");
    assert_eq!(status.pending, 0, "what was in hand is done and acknowledged");
    assert!(finished < 200, "reading has stopped");
    let lag = status.lag.unwrap_or(200 - finished);
    assert_eq!(lag, 200 - finished, "the rest was never delivered");
    seawall.shutdown().await;
}

async fn what_takes_too_long_stays_pending_and_goes_on_under_the_same_name(setup: Setup) {
    let seawall = setup.connect().await;
    let stream = seawall.stream::<u64>("slow").expect("a name");
    for number in 0..3 {
        stream.append(&number).await.expect("appended");
    }
    let builder = || stream.worker("g").consumer("same").claim_idle(Duration::from_secs(600));
    let begun = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&begun);
    let hangs =
        builder().drain_timeout(Duration::from_millis(50)).spawn(move |_: Delivery<u64>| {
            count.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<Outcome>()
        });
    let hangs = hangs.expect("valid");
    eventually("all are in hand", async || begun.load(Ordering::SeqCst) == 3).await;
    assert_eq!(hangs.shutdown().await, Drained::Pending(3));
    assert_eq!(stream.status("g").await.expect("answered").pending, 3);
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let next = builder().concurrency(1).spawn(move |delivery: Delivery<u64>| {
        tell.send((*delivery.payload(), delivery.attempt())).expect("the test listens");
        async { Outcome::Done }
    });
    let next = next.expect("valid");
    for number in 0..3 {
        assert_eq!(told.recv().await, Some((number, 2)), "in order, and counted");
    }
    // The handle's own end is a worker's, too.
    seawall.shutdown().await;
    assert_eq!(next.shutdown().await, Drained::Clean);
    assert!(told.try_recv().is_err(), "each once");
}

async fn an_abandoned_worker_waits_for_nothing(setup: Setup) {
    let seawall = setup.connect().await;
    let stream = seawall.stream::<u64>("abandoned").expect("a name");
    stream.append(&1).await.expect("appended");
    let (begun, mut told) = tokio::sync::mpsc::unbounded_channel();
    let worker = stream.worker("g").drain_timeout(Duration::from_secs(600));
    let worker = worker.spawn(move |delivery: Delivery<u64>| {
        begun.send(delivery.into_payload()).expect("the test listens");
        std::future::pending::<Outcome>()
    });
    let worker = worker.expect("valid");
    assert_eq!(told.recv().await, Some(1));
    assert_eq!(worker.abandon().await, Drained::Pending(1));
    assert_eq!(stream.status("g").await.expect("answered").pending, 1);
    seawall.shutdown().await;
}

/// Every handler is busy, and more was read: none of them can complete any more when the worker ends.
async fn a_worker_ends_while_entries_wait_for_its_handlers(setup: Setup) {
    let seawall = setup.connect().await;
    for round in 0..6 {
        let stream = seawall.stream::<u64>(&format!("crowd {round}")).expect("a name");
        let appended = stream.append_all(&[1, 2, 3]).await.expect("valid");
        assert!(appended.iter().all(Result::is_ok));
        let (begun, mut told) = tokio::sync::mpsc::unbounded_channel();
        let worker = stream.worker("g").concurrency(1).batch_size(2);
        let worker = worker.drain_timeout(Duration::ZERO).spawn(move |delivery: Delivery<u64>| {
            begun.send(delivery.into_payload()).expect("the test listens");
            std::future::pending::<Outcome>()
        });
        let worker = worker.expect("valid");
        told.recv().await.expect("one begins");
        let left = if round % 2 == 0 { worker.shutdown().await } else { worker.abandon().await };
        assert!(matches!(left, Drained::Pending(1..)), "{left:?}");
    }
    seawall.shutdown().await;
}
