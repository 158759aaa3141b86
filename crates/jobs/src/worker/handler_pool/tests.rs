//! Handlers begin in order, no more of them than there are places, and none after the pool was abandoned.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::future;
use tokio::sync::mpsc;

use super::*;

type Told = (Vec<usize>, Outcome);

/// A callback for jobs by number, and the channel that receives what it is called with.
fn told() -> (impl Fn(Vec<usize>, Outcome) + Clone, mpsc::UnboundedReceiver<Told>) {
    let (sender, told) = mpsc::unbounded_channel();
    let then = move |jobs, outcome| sender.send((jobs, outcome)).expect("somebody listens");
    (then, told)
}

fn jobs(numbers: std::ops::Range<usize>) -> Vec<(usize, usize)> {
    numbers.map(|number| (number, number)).collect()
}

#[tokio::test]
async fn what_does_not_wait_needs_one_place_and_is_told_together() {
    let pool = HandlerPool::new(1);
    let (then, mut told) = told();
    let begin = |number| match number {
        3 => panic!("the third"),
        5 => future::ready(Outcome::Park("the fifth".to_owned())).boxed(),
        _ => future::ready(Outcome::Done).boxed(),
    };
    let begin = move |number| async move { begin(number).await }.boxed();
    let permit = pool.permit().await.expect("free");
    pool.work_through(permit, jobs(0..8), begin, then);
    let panicked = Outcome::Failed("the handler panicked: the third".to_owned());
    assert_eq!(told.recv().await, Some((vec![3], panicked)));
    assert_eq!(told.recv().await, Some((vec![5], Outcome::Park("the fifth".to_owned()))));
    assert_eq!(told.recv().await, Some((vec![0, 1, 2, 4, 6, 7], Outcome::Done)));
    assert!(pool.permit().await.is_some(), "its place is free again");
}

#[tokio::test]
async fn those_that_wait_are_no_more_at_once_than_there_are_places() {
    const PLACES: usize = 3;
    let pool = HandlerPool::new(PLACES);
    let (then, mut told) = told();
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for share in 0..2 {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        let begin = move |_| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                }
                now.fetch_sub(1, Ordering::Relaxed);
                Outcome::Done
            }
            .boxed()
        };
        let permit = pool.permit().await.expect("free");
        pool.work_through(permit, jobs(share * 20..share * 20 + 20), begin, then.clone());
    }
    let mut seen = BTreeSet::new();
    while seen.len() < 40 {
        let (jobs, outcome) = told.recv().await.expect("all are told");
        assert_eq!((jobs.len(), outcome), (1, Outcome::Done));
        seen.extend(jobs);
    }
    assert_eq!(most.load(Ordering::Relaxed), PLACES);
}

#[tokio::test]
async fn with_one_place_all_begin_in_their_order() {
    let pool = HandlerPool::new(1);
    let (then, mut told) = told();
    let begun = Arc::new(Mutex::new(Vec::new()));
    for share in 0..3 {
        let begun = Arc::clone(&begun);
        let begin = move |number: usize| {
            begun.lock().expect("whole").push(number);
            // Every second one waits.
            async move {
                if number.is_multiple_of(2) {
                    tokio::task::yield_now().await;
                }
                Outcome::Done
            }
            .boxed()
        };
        let permit = pool.permit().await.expect("there is one");
        pool.work_through(permit, jobs(share * 5..share * 5 + 5), begin, then.clone());
    }
    let mut ended = 0;
    while ended < 15 {
        ended += told.recv().await.expect("all are told").0.len();
    }
    assert_eq!(*begun.lock().expect("whole"), (0..15).collect::<Vec<_>>());
}

#[tokio::test]
async fn who_is_let_go_begins_nothing_more() {
    let pool = HandlerPool::new(1);
    let (then, mut told) = told();
    let ends = pool.clone();
    let begin = move |number: usize| {
        if number == 2 {
            ends.abandon();
        }
        future::ready(Outcome::Failed(number.to_string())).boxed()
    };
    let permit = pool.permit().await.expect("free");
    pool.work_through(permit, jobs(0..8), begin, then);
    for number in 0..3_usize {
        let failed = Outcome::Failed(number.to_string());
        assert_eq!(told.recv().await, Some((vec![number], failed)));
    }
    assert_eq!(told.recv().await, None);
}
