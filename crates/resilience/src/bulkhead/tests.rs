//! Tests the bulkhead with many tasks, at its bounds, and under cancellation.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    task::Poll,
};

use futures_util::poll;

use super::*;
use crate::clock::ManualTime;

const FAR: Moment = Moment::from_nanos(u64::MAX);
const MS: Duration = Duration::from_millis(1);

fn bulkhead(limit: usize, queue: usize) -> (Bulkhead, ManualTime) {
    let (clock, time) = Clock::manual();
    (Bulkhead::builder("test", limit).max_queue(queue).clock(clock).build().unwrap(), time)
}

#[tokio::test]
async fn slots_and_places_are_bounded() {
    let (bulkhead, _time) = bulkhead(2, 1);
    let first = bulkhead.enter(FAR).await.unwrap();
    let _second = bulkhead.enter(FAR).await.unwrap();
    let mut third = Box::pin(bulkhead.enter(FAR));
    assert!(poll!(&mut third).is_pending());
    assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (2, 1));
    assert_eq!(bulkhead.enter(FAR).await.unwrap_err(), Full::Queue);
    assert_eq!(bulkhead.try_enter().unwrap_err(), Full::Queue);
    drop(first);
    assert!(bulkhead.try_enter().is_err(), "it belongs to the one who waits");
    let third = third.await.unwrap();
    assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (2, 0));
    drop(third);
    assert_eq!(bulkhead.in_flight(), 1);
}

#[tokio::test]
async fn waiting_is_bounded_by_the_setting_and_by_the_deadline() {
    let (bulkhead, time) = bulkhead(1, 2);
    let _slot = bulkhead.enter(FAR).await.unwrap();
    let mut patient = Box::pin(bulkhead.enter(FAR));
    let mut hasty = Box::pin(bulkhead.enter(time.now() + MS * 10));
    assert!(poll!(&mut patient).is_pending());
    assert!(poll!(&mut hasty).is_pending());
    time.advance(MS * 10);
    assert_eq!(hasty.await.unwrap_err(), Full::Waited { waited: MS * 10 });
    assert!(poll!(&mut patient).is_pending());
    time.advance(MS * 990);
    assert_eq!(patient.await.unwrap_err(), Full::Waited { waited: MS * 1000 });
    assert_eq!(bulkhead.waiting(), 0);
}

#[tokio::test]
async fn cancelling_leaves_nothing_behind() {
    let (bulkhead, _time) = bulkhead(1, 4);
    let slot = bulkhead.enter(FAR).await.unwrap();
    let mut waiters: Vec<_> = (0..3).map(|_| Box::pin(bulkhead.enter(FAR))).collect();
    for waiter in &mut waiters {
        assert!(poll!(waiter).is_pending());
    }
    // The middle waiter is dropped while it waits, the first after it was already given the slot.
    drop(waiters.remove(1));
    assert_eq!(bulkhead.waiting(), 2);
    drop(slot);
    drop(waiters.remove(0));
    assert!(matches!(poll!(&mut waiters[0]), Poll::Ready(Ok(_))));
    drop(waiters);
    assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_never_exceed_the_limit() {
    let bulkhead = Bulkhead::builder("test", 5).max_queue(1000).build().unwrap();
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..500)
        .map(|_| {
            let (bulkhead, running, most) = (bulkhead.clone(), running.clone(), most.clone());
            tokio::spawn(async move {
                let slot = bulkhead.enter(FAR).await;
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                running.fetch_sub(1, Ordering::SeqCst);
                slot.map(drop)
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().expect("all have a place");
    }
    assert_eq!(most.load(Ordering::SeqCst), 5, "and the limit is used");
    assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0));
}

#[tokio::test]
async fn a_slow_backend_gets_fewer_calls_and_a_quick_one_more() {
    let (clock, time) = Clock::manual();
    let bulkhead = Bulkhead::builder("test", 20).target_latency(MS * 50).min_limit(2).clock(clock);
    let bulkhead = bulkhead.build().unwrap();
    let full = || {
        let mut slots = Vec::new();
        while let Ok(slot) = bulkhead.try_enter() {
            slots.push(slot);
        }
        slots
    };
    assert_eq!(full().len(), 20);
    for _ in 0..100 {
        let slots = full();
        assert_eq!(slots.len(), bulkhead.limit(), "the limit is what can be had");
        time.advance(MS * 100);
        drop(slots);
    }
    assert_eq!(bulkhead.limit(), 2);
    for _ in 0..2000 {
        let slots = full();
        assert_eq!(slots.len(), bulkhead.limit());
        time.advance(MS);
        drop(slots);
    }
    assert_eq!(bulkhead.limit(), 20);
    assert_eq!(bulkhead.in_flight(), 0);
}

#[test]
fn contradictory_settings_are_named() {
    let new = || Bulkhead::builder("b", 4);
    let cases = [
        (Bulkhead::builder("b", 0), "limit is 0, not 1 to 1048576"),
        (new().max_queue(0).max_wait(MS), "max_wait is 1ms, but max_queue is 0: nobody can wait"),
        (
            new().max_queue(2).max_wait(Duration::ZERO),
            "max_queue has places, but max_wait is zero: nobody can wait",
        ),
        (new().max_queue(usize::MAX), "max_queue is 18446744073709551615, more than 1048576"),
        (new().min_limit(2), "min_limit is set, but target_latency is not: the limit is fixed"),
        (new().target_latency(Duration::ZERO), "target_latency is zero"),
        (new().target_latency(MS).min_limit(5), "min_limit is 5, not 1 to the limit (4)"),
    ];
    for (builder, sentence) in cases {
        assert_eq!(builder.build().unwrap_err().to_string(), format!("bulkhead `b`: {sentence}"));
    }
    let nobody = new().max_wait(Duration::ZERO).build().unwrap();
    assert_eq!(nobody.shared.queue, 0);
}
