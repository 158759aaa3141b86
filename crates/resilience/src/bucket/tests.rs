//! Tests the bucket against a model of any time window, with many tasks, and under cancellation.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Poll,
};

use futures_util::poll;
use proptest::prelude::*;

use super::*;
use crate::clock::ManualTime;

const FAR: Moment = Moment::from_nanos(u64::MAX);
const MS: Duration = Duration::from_millis(1);

fn bucket(rate: Rate, burst: u64) -> (TokenBucket, ManualTime) {
    let (clock, time) = Clock::manual();
    (TokenBucket::builder("test", rate).burst(burst).clock(clock).build().unwrap(), time)
}

#[test]
fn starts_full_and_refills_at_its_rate() {
    let (bucket, time) = bucket(Rate::new(5, Duration::from_secs(60)), 5);
    for _ in 0..5 {
        bucket.try_take(1).unwrap();
    }
    let twelve = Duration::from_secs(12);
    assert_eq!(bucket.try_take(1), Err(Refusal::RetryAfter(twelve)));
    assert_eq!(bucket.try_take(3), Err(Refusal::RetryAfter(twelve * 3)));
    time.advance(twelve - Duration::from_nanos(1));
    assert_eq!(bucket.try_take(1), Err(Refusal::RetryAfter(Duration::from_nanos(1))));
    time.advance(Duration::from_nanos(1));
    bucket.try_take(1).unwrap();
    time.advance(Duration::from_secs(3600));
    assert_eq!(bucket.available(), 5, "it does not overflow");
    assert_eq!(bucket.try_take(6), Err(Refusal::TooMany { asked: 6, burst: 5 }));
    bucket.try_take(0).unwrap();
    bucket.try_take(5).unwrap();
}

#[test]
fn a_change_of_the_rate_neither_makes_nor_loses_tokens() {
    let (bucket, time) = bucket(Rate::per_second(10), 10);
    bucket.try_take(6).unwrap();
    bucket.set_rate(Rate::per_second(1000), 100).unwrap();
    assert_eq!((bucket.available(), bucket.burst()), (4, 100));
    time.advance(MS * 10);
    assert_eq!(bucket.available(), 14);
    bucket.set_rate(Rate::per_second(1), 3).unwrap();
    assert_eq!(bucket.available(), 3, "as far as they fit");
    let sentence = bucket.set_rate(Rate::per_second(0), 3).unwrap_err().to_string();
    assert_eq!(sentence, "token bucket `test`: the rate is 0 tokens in 1s: neither may be zero");
    assert_eq!(bucket.rate(), Rate::per_second(1));
}

/// Takes single tokens in four threads, `attempts` times each, and returns how many they got.
fn storm(attempts: usize, take: impl Fn() -> bool + Sync) -> u64 {
    let (taken, start) = (AtomicU64::new(0), Barrier::new(4));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                start.wait();
                let got = (0..attempts).filter(|_| take()).count();
                taken.fetch_add(got as u64, Ordering::Relaxed);
            });
        }
    });
    taken.into_inner()
}

#[test]
fn threads_together_take_exactly_what_there_is() {
    let gcra = Rate::per_second(1000).bucket(200_000).unwrap();
    let now = AtomicU64::new(0);
    let take = || gcra.take(1, now.load(Ordering::Relaxed)) == Take::Taken;
    assert_eq!(storm(100_000, take), 200_000);
    now.store(ticks(MS * 123), Ordering::Relaxed);
    assert_eq!(storm(1000, take), 123);
}

#[test]
fn takes_that_race_with_changes_of_the_rate_are_all_counted() {
    let (bucket, _time) = bucket(Rate::per_second(1000), 100_000);
    let over = AtomicBool::new(false);
    let taken = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Whole multiples, so that the change itself rounds nothing.
            for rate in [2000, 1000].into_iter().cycle() {
                bucket.set_rate(Rate::per_second(rate), 100_000).unwrap();
                if over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let taken = storm(40_000, || bucket.try_take(1).is_ok());
        over.store(true, Ordering::Relaxed);
        taken
    });
    // Time stands still: the number of tokens is the same, whatever the rate was.
    assert_eq!(taken, 100_000);
}

#[tokio::test]
async fn waiters_are_served_in_order() {
    let (bucket, time) = bucket(Rate::per_second(10), 1);
    bucket.try_take(1).unwrap();
    let mut waiters: Vec<_> = (0..5).map(|_| Box::pin(bucket.take(1, FAR))).collect();
    for waiter in &mut waiters {
        assert_eq!(poll!(waiter), Poll::Pending);
    }
    assert_eq!(bucket.waiting(), 5);
    for served in 0..5 {
        time.advance(MS * 100);
        for (index, waiter) in waiters.iter_mut().enumerate().skip(served) {
            let wanted = if index == served { Poll::Ready(Ok(())) } else { Poll::Pending };
            assert_eq!(poll!(waiter), wanted, "waiter {index} in round {served}");
        }
    }
    drop(waiters);
    assert_eq!(bucket.waiting(), 0);
}

#[tokio::test]
async fn who_cannot_be_served_in_time_is_told_at_once() {
    let (bucket, time) = bucket(Rate::per_second(10), 1);
    bucket.try_take(1).unwrap();
    let soon = time.now() + MS * 99;
    assert_eq!(bucket.take(1, soon).await, Err(Refusal::RetryAfter(MS * 100)));
    assert_eq!(bucket.take(2, FAR).await, Err(Refusal::TooMany { asked: 2, burst: 1 }));
    let mut head = Box::pin(bucket.take(1, time.now() + MS * 100));
    let mut second = Box::pin(bucket.take(1, time.now() + MS * 150));
    assert_eq!(poll!(&mut head), Poll::Pending);
    assert_eq!(poll!(&mut second), Poll::Pending);
    time.advance(MS * 100);
    assert_eq!(head.await, Ok(()));
    assert_eq!(second.await, Err(Refusal::RetryAfter(MS * 100)));
}

#[tokio::test]
async fn a_deadline_passes_in_the_queue_too() {
    let (bucket, time) = bucket(Rate::per_second(1), 1);
    bucket.try_take(1).unwrap();
    let mut head = Box::pin(bucket.take(1, FAR));
    assert_eq!(poll!(&mut head), Poll::Pending);
    let mut second = Box::pin(bucket.take(1, time.now() + MS * 10));
    assert_eq!(poll!(&mut second), Poll::Pending);
    time.advance(MS * 10);
    assert!(matches!(second.await, Err(Refusal::RetryAfter(_))));
    assert_eq!(bucket.waiting(), 1);
}

#[tokio::test]
async fn the_queue_is_bounded() {
    let (clock, _time) = Clock::manual();
    let bucket = TokenBucket::builder("test", Rate::per_second(1)).max_queue(2).clock(clock);
    let bucket = bucket.build().unwrap();
    bucket.try_take(1).unwrap();
    let mut waiters: Vec<_> = (0..2).map(|_| Box::pin(bucket.take(1, FAR))).collect();
    for waiter in &mut waiters {
        assert_eq!(poll!(waiter), Poll::Pending);
    }
    let refused = bucket.take(1, FAR).await;
    assert_eq!(refused, Err(Refusal::RetryAfter(Duration::from_secs(3))));
}

#[tokio::test]
async fn a_cancelled_waiter_takes_nothing_and_blocks_nobody() {
    let (bucket, time) = bucket(Rate::per_second(10), 1);
    bucket.try_take(1).unwrap();
    let mut waiters: Vec<_> = (0..3).map(|_| Box::pin(bucket.take(1, FAR))).collect();
    for waiter in &mut waiters {
        assert_eq!(poll!(waiter), Poll::Pending);
    }
    // The head, and one in the queue.
    let mut last = waiters.pop().unwrap();
    drop(waiters);
    assert_eq!(bucket.waiting(), 1);
    time.advance(MS * 100);
    assert_eq!(poll!(&mut last), Poll::Ready(Ok(())));
    assert_eq!(bucket.waiting(), 0);
    assert_eq!(bucket.available(), 0, "just one was taken");
}

#[tokio::test]
async fn a_new_rate_wakes_who_waits_by_the_old_one() {
    let (bucket, time) = bucket(Rate::new(1, Duration::from_secs(3600)), 1);
    bucket.try_take(1).unwrap();
    let mut waiter = Box::pin(bucket.take(1, FAR));
    assert_eq!(poll!(&mut waiter), Poll::Pending);
    bucket.set_rate(Rate::per_second(100), 1).unwrap();
    assert_eq!(poll!(&mut waiter), Poll::Pending);
    time.advance(MS * 10);
    assert_eq!(poll!(&mut waiter), Poll::Ready(Ok(())));
}

#[test]
fn wrong_settings_are_named() {
    let second = Rate::per_second(1);
    let cases = [
        (TokenBucket::builder("t", second).burst(0), "burst is 0: nothing could ever be taken"),
        (
            TokenBucket::builder("t", Rate::new(1, Duration::ZERO)),
            "the rate is 1 tokens in 0ns: neither may be zero",
        ),
        (
            TokenBucket::builder("t", Rate::per_second(100_000_001)),
            "the rate is 100000001 tokens in 1s, above 100000000 a second",
        ),
        (
            TokenBucket::builder("t", second).burst(u64::MAX),
            "burst 18446744073709551615 at 1 tokens in 1s takes over 315360000s to fill",
        ),
        (
            TokenBucket::builder("t", second).max_queue(usize::MAX),
            "max_queue is 18446744073709551615, more than 1048576",
        ),
    ];
    for (builder, sentence) in cases {
        let wanted = format!("token bucket `t`: {sentence}");
        assert_eq!(builder.build().unwrap_err().to_string(), wanted);
    }
    let forever = Rate::new(u64::MAX, Duration::MAX);
    assert!(TokenBucket::builder("t", forever).burst(1).build().is_ok(), "extremes do not panic");
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Pass(u64),
    Take(u64),
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_window_holds_more_than_burst_and_rate(
        tokens in 1..5000_u64,
        per_ms in 1..5000_u64,
        burst in 1..50_u64,
        events in prop::collection::vec(prop_oneof![
            (0..3_000_000_u64).prop_map(Event::Pass),
            (1..60_u64).prop_map(Event::Take),
            Just(Event::Take(1)),
            Just(Event::Take(1)),
        ], 1..200),
    ) {
        let per = Duration::from_millis(per_ms);
        let (bucket, time) = bucket(Rate::new(tokens, per), burst);
        let mut taken: Vec<(u128, u64)> = Vec::new();
        for event in events {
            match event {
                Event::Pass(micros) => time.advance(Duration::from_nanos(micros * 37)),
                Event::Take(n) => match bucket.try_take(n) {
                    Ok(()) => taken.push((u128::from(time.now().as_nanos()), n)),
                    Err(Refusal::TooMany { asked, burst: most }) => {
                        prop_assert!(asked == n && most == burst && n > burst);
                    }
                    Err(Refusal::RetryAfter(wait)) => {
                        prop_assert!(n <= burst && !wait.is_zero());
                        // The reported time is exact: a nanosecond earlier fails, and then it
                        // works.
                        time.advance(wait - Duration::from_nanos(1));
                        prop_assert!(bucket.try_take(n).is_err());
                        time.advance(Duration::from_nanos(1));
                        prop_assert!(bucket.try_take(n).is_ok());
                        taken.push((u128::from(time.now().as_nanos()), n));
                    }
                },
            }
        }
        for (first, &(from, _)) in taken.iter().enumerate() {
            let mut sum = 0_u128;
            for &(until, n) in &taken[first..] {
                sum += u128::from(n);
                // sum <= burst + tokens * t / per, without dividing
                let left = (sum.saturating_sub(u128::from(burst))) * per.as_nanos();
                prop_assert!(left <= u128::from(tokens) * (until - from), "{sum} in {}", until - from);
            }
        }
    }
}
