//! Dropping a future at every point at which it can be dropped: nothing stays.

use std::{
    future::poll_fn,
    pin::pin,
    task::{Context, Poll},
    time::Duration,
};

use seawall::{
    Seawall, cmd,
    lock::{Lock, Release},
};

use crate::ground::{Ground, PATIENCE, eventually, on_each_backend, take};

on_each_backend! {
    taking_a_free_lock_can_be_dropped_anywhere
    waiting_can_be_dropped_anywhere
    giving_back_can_be_dropped_anywhere
}

/// More polls than any of these futures takes.
const MOST_POLLS: usize = 12;

/// Polls a future so many times, each time when it asked for it, and drops it; its result if it
/// came to an end before, or within a moment in which nothing happens.
pub(crate) async fn poll_and_drop<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut count = 0;
    let polled = poll_fn(|context: &mut Context<'_>| {
        if count == polls {
            return Poll::Ready(None);
        }
        count += 1;
        match future.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            // The last poll is followed by the drop, not by waiting.
            Poll::Pending if count == polls => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    });
    tokio::time::timeout(Duration::from_millis(30), polled).await.unwrap_or(None)
}

fn kinds(handle: &Seawall) -> Vec<Lock> {
    let rw = handle.rw_lock("x");
    vec![handle.lock("x"), handle.fair_lock("x"), rw.write(), rw.read(), handle.semaphore("x", 1)]
}

/// Every key of the test, fences aside.
async fn keys(ground: &Ground, handle: &Seawall) -> usize {
    let mut found = 0;
    for (family, suffixes) in [
        ("lock", &["", ":holds"][..]),
        ("fair", &["", ":holds", ":queue", ":alive"]),
        ("rw", &["", ":holds", ":readers", ":waiting"]),
        ("semaphore", &[""]),
    ] {
        let key = ground.key(family, "x");
        let mut exists = cmd("EXISTS");
        for suffix in suffixes {
            exists.arg([&key[..], suffix.as_bytes()].concat());
        }
        found += handle.client().query::<usize>(&key, &exists).await.expect("answered");
    }
    found
}

async fn nothing_stays(ground: &Ground, handle: &Seawall) {
    eventually("no key and no renewal", async || {
        keys(ground, handle).await == 0 && handle.renewed_locks() == 0
    })
    .await;
}

async fn taking_a_free_lock_can_be_dropped_anywhere(ground: Ground) {
    let (a, b) = (ground.connect().await, ground.connect().await);
    for (kind, lock) in kinds(&b).into_iter().enumerate() {
        let mut ended = 0;
        for polls in 1..=MOST_POLLS {
            drop(poll_and_drop(polls, lock.try_acquire()).await);
            let attempt = poll_and_drop(polls, lock.acquire(PATIENCE)).await;
            ended += usize::from(attempt.is_some());
            drop(attempt);
            let body = |_guard| async { tokio::task::yield_now().await };
            drop(poll_and_drop(polls, lock.with(PATIENCE, body)).await);
            nothing_stays(&ground, &b).await;
        }
        assert!(ended > 0, "kind {kind}: {MOST_POLLS} polls do not suffice");
    }
    ground.end([a, b]).await;
}

async fn waiting_can_be_dropped_anywhere(ground: Ground) {
    let (a, b) = (ground.connect().await, ground.connect().await);
    for (index, lock) in kinds(&b).into_iter().enumerate() {
        // A reader only waits for a writer.
        let rival = if index == 3 { a.rw_lock("x").write() } else { kinds(&a).swap_remove(index) };
        for polls in 1..=MOST_POLLS {
            let held = take(&rival).await;
            let mut waiting = pin!(lock.acquire(PATIENCE));
            assert!(poll_and_drop(polls, waiting.as_mut()).await.is_none(), "it is held");
            if polls % 2 == 0 {
                // It comes free while somebody who will be gone still waits.
                assert_eq!(held.release().await.expect("answered"), Release::Released);
                drop(poll_and_drop(polls, waiting.as_mut()).await);
                waiting.set(lock.acquire(PATIENCE));
            } else {
                waiting.set(lock.acquire(PATIENCE));
                assert_eq!(held.release().await.expect("answered"), Release::Released);
            }
            nothing_stays(&ground, &b).await;
        }
    }
    ground.end([a, b]).await;
}

async fn giving_back_can_be_dropped_anywhere(ground: Ground) {
    let a = ground.connect().await;
    for lock in kinds(&a) {
        for polls in 1..=MOST_POLLS {
            let guard = take(&lock).await;
            let _ = poll_and_drop(polls, guard.release()).await;
            nothing_stays(&ground, &a).await;
            let guard = take(&lock).await;
            let _ = poll_and_drop(polls, guard.extend(Duration::from_secs(60))).await;
            drop(guard);
            nothing_stays(&ground, &a).await;
        }
    }
    ground.end([a]).await;
}
