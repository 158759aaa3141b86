//! Tests the pipeline: each limit sheds, nothing that was shed ran, nothing is left behind.

use std::{
    future::pending,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures_util::poll;

use super::*;
use crate::{BreakerState, Rate, clock::ManualTime};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

struct Bench {
    pipeline: ResiliencePipeline,
    breaker: Breaker,
    bucket: TokenBucket,
    bulkhead: Bulkhead,
    time: ManualTime,
}

/// 2 slots and 2 places, 10 calls per second with bursts of 10, 3 failures.
fn bench() -> Bench {
    let (clock, time) = Clock::manual();
    let breaker = Breaker::builder("test").clock(clock.clone()).build().unwrap();
    let bucket = TokenBucket::builder("test", Rate::per_second(10)).burst(10).clock(clock.clone());
    let bucket = bucket.build().unwrap();
    let bulkhead = Bulkhead::builder("test", 2).max_queue(2).clock(clock.clone()).build().unwrap();
    let pipeline = ResiliencePipeline::builder("test")
        .breaker(breaker.clone())
        .bucket(bucket.clone())
        .bulkhead(bulkhead.clone())
        .clock(clock)
        .build()
        .unwrap();
    Bench { pipeline, breaker, bucket, bulkhead, time }
}

impl Bench {
    async fn fine(&self) -> Result<u8, CallError<&'static str>> {
        self.pipeline.within(SECOND, || async { Ok(7) }).await
    }

    async fn broken(&self) -> Result<u8, CallError<&'static str>> {
        self.pipeline.within(SECOND, || async { Err("refused") }).await
    }

    fn nothing_is_left(&self) {
        assert_eq!((self.bulkhead.in_flight(), self.bulkhead.waiting()), (0, 0));
        assert_eq!(self.bucket.waiting(), 0);
        assert_ne!(self.breaker.state(), BreakerState::Probing);
    }
}

fn shed_by(result: Result<u8, CallError<&'static str>>) -> ShedReason {
    result.unwrap_err().shed().expect("shed").reason
}

#[tokio::test]
async fn failures_open_the_breaker_and_a_probe_closes_it() {
    let bench = bench();
    assert_eq!(bench.fine().await, Ok(7));
    for _ in 0..3 {
        assert_eq!(bench.broken().await, Err(CallError::Failed("refused")));
    }
    let shed = bench.fine().await.unwrap_err().shed().unwrap();
    assert_eq!(shed, Shed { reason: ShedReason::Breaker, retry_after: SECOND });
    assert_eq!(bench.bucket.available(), 6, "a refused call costs no token");
    bench.time.advance(SECOND);
    assert_eq!(bench.fine().await, Ok(7));
    assert_eq!(bench.fine().await, Ok(7));
    bench.nothing_is_left();
}

#[tokio::test]
async fn a_callers_bug_does_not_open_it() {
    let bench = bench();
    for _ in 0..5 {
        let deadline = bench.time.now() + SECOND;
        let judge = |result: &Result<u8, &str>| match result {
            Err("bad query") => Outcome::Ignored,
            Err(_) => Outcome::Failed,
            Ok(_) => Outcome::Ok,
        };
        let result = bench.pipeline.call_judged(deadline, judge, || async { Err("bad query") });
        assert_eq!(result.await, Err(CallError::Failed("bad query")));
    }
    assert_eq!(bench.breaker.state(), BreakerState::Closed);
}

#[tokio::test]
async fn the_rate_is_kept_and_a_short_wait_is_allowed() {
    let bench = bench();
    for _ in 0..10 {
        bench.fine().await.unwrap();
    }
    let mut waiting = Box::pin(bench.fine());
    assert!(poll!(&mut waiting).is_pending());
    let mut too_late = Box::pin(bench.fine());
    assert!(poll!(&mut too_late).is_pending());
    bench.time.advance(MS * 100);
    assert_eq!(waiting.await, Ok(7));
    assert_eq!(shed_by(too_late.await), ShedReason::Rate);
    bench.nothing_is_left();
}

#[tokio::test]
async fn concurrency_is_bounded_and_so_is_its_queue() {
    let bench = bench();
    let hang = || bench.pipeline.within(SECOND * 10, pending::<Result<u8, &'static str>>);
    let mut calls: Vec<_> = (0..4).map(|_| Box::pin(hang())).collect();
    for call in &mut calls {
        assert!(poll!(call).is_pending());
    }
    assert_eq!((bench.bulkhead.in_flight(), bench.bulkhead.waiting()), (2, 2));
    assert_eq!(shed_by(bench.fine().await), ShedReason::Concurrency);
    bench.time.advance(SECOND);
    for waiter in calls.drain(2..) {
        assert_eq!(shed_by(waiter.await), ShedReason::Concurrency);
    }
    bench.time.advance(SECOND * 9);
    for call in calls {
        assert_eq!(call.await, Err(CallError::DeadlineExceeded { ran: SECOND * 10 }));
    }
    bench.nothing_is_left();
}

#[tokio::test]
async fn a_deadline_counts_only_if_the_call_had_a_fair_chance() {
    let bench = bench();
    for (time, wanted) in [(MS * 99, BreakerState::Closed), (MS * 100, BreakerState::Open)] {
        for _ in 0..3 {
            let mut call =
                Box::pin(bench.pipeline.within(time, pending::<Result<u8, &'static str>>));
            assert!(poll!(&mut call).is_pending());
            bench.time.advance(time);
            assert_eq!(call.await, Err(CallError::DeadlineExceeded { ran: time }));
        }
        assert_eq!(bench.breaker.state(), wanted);
    }
}

#[tokio::test]
async fn a_call_without_time_is_not_begun() {
    let bench = bench();
    bench.time.advance(SECOND);
    let began = AtomicUsize::new(0);
    let result = bench.pipeline.call(bench.time.now(), || async {
        began.fetch_add(1, Ordering::Relaxed);
        Ok::<u8, &'static str>(1)
    });
    assert_eq!(shed_by(result.await), ShedReason::Deadline);
    assert_eq!(began.into_inner(), 0);
}

/// A call has four awaits: slot, token, work (its own two). It is dropped at each of them, as a
/// probe and as an ordinary call.
#[tokio::test]
async fn dropping_the_future_at_every_await_leaves_nothing_behind() {
    for as_probe in [false, true] {
        for stop_at in 0..4 {
            let bench = bench();
            if as_probe {
                for _ in 0..3 {
                    bench.broken().await.unwrap_err();
                }
                bench.time.advance(SECOND);
            }
            let held: Vec<_> = match stop_at {
                0 => (0..2).map(|_| bench.bulkhead.try_enter().unwrap()).collect(),
                _ => Vec::new(),
            };
            if stop_at == 1 {
                bench.bucket.try_take(bench.bucket.available()).unwrap();
            }
            let mut call = Box::pin(bench.pipeline.within(SECOND * 5, || async {
                tokio::task::yield_now().await;
                pending::<Result<u8, &'static str>>().await
            }));
            let polls = if stop_at == 3 { 2 } else { 1 };
            for _ in 0..polls {
                assert!(poll!(&mut call).is_pending());
            }
            drop(call);
            drop(held);
            bench.nothing_is_left();
            // Nothing was counted: the next call, when the next probe is due, goes through.
            bench.time.advance(SECOND);
            assert_eq!(bench.fine().await, Ok(7), "probe {as_probe}, stopped at {stop_at}");
            assert_eq!(bench.breaker.state(), BreakerState::Closed);
        }
    }
}

#[tokio::test]
async fn a_panic_gives_everything_back() {
    let bench = bench();
    let pipeline = bench.pipeline.clone();
    let task = tokio::spawn(async move {
        pipeline
            .within(SECOND, || async {
                if true {
                    panic!("a bug of the caller's");
                }
                Ok::<u8, &'static str>(1)
            })
            .await
    });
    assert!(task.await.unwrap_err().is_panic());
    bench.nothing_is_left();
    assert_eq!(bench.fine().await, Ok(7));
}

/// The database during an outage of the cache: 50 callers that call repeatedly.
#[tokio::test]
async fn many_callers_stay_within_the_rate() {
    let (clock, time) = Clock::manual();
    let bucket = TokenBucket::builder("test", Rate::per_second(100)).burst(10).clock(clock.clone());
    let bulkhead = Bulkhead::builder("test", 4).clock(clock.clone()).build().unwrap();
    let pipeline = ResiliencePipeline::builder("test")
        .bucket(bucket.build().unwrap())
        .bulkhead(bulkhead.clone())
        .clock(clock.clone())
        .build()
        .unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let callers: Vec<_> = (0..50)
        .map(|_| {
            let (pipeline, clock, calls) = (pipeline.clone(), clock.clone(), calls.clone());
            let (bulkhead, most) = (bulkhead.clone(), most.clone());
            tokio::spawn(async move {
                while clock.now() < Moment::from_nanos(2_000_000_000) {
                    let work = || async {
                        most.fetch_max(bulkhead.in_flight(), Ordering::Relaxed);
                        calls.fetch_add(1, Ordering::Relaxed);
                        tokio::task::yield_now().await;
                        Ok::<(), ()>(())
                    };
                    let _ = pipeline.within(SECOND, work).await;
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    // The last callers may still wait for a token when the two seconds are over.
    while !callers.iter().all(tokio::task::JoinHandle::is_finished) {
        time.advance(MS);
        tokio::task::yield_now().await;
    }
    let calls = calls.load(Ordering::Relaxed) as u64;
    let allowed = 10 + time.now().as_nanos() / 10_000_000;
    assert!((200..=allowed).contains(&calls), "{calls} calls, {allowed} allowed");
    assert!(most.load(Ordering::Relaxed) <= 4);
    assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0));
}

#[tokio::test]
async fn waiting_for_a_token_is_not_the_backends_slowness() {
    let (clock, time) = Clock::manual();
    let bucket = TokenBucket::builder("test", Rate::per_second(10)).burst(1).clock(clock.clone());
    let bulkhead = Bulkhead::builder("test", 10).target_latency(MS * 50).clock(clock.clone());
    let pipeline = ResiliencePipeline::builder("test")
        .bucket(bucket.build().unwrap())
        .bulkhead(bulkhead.build().unwrap())
        .clock(clock)
        .build()
        .unwrap();
    let call = || pipeline.within(SECOND, || async { Ok::<(), ()>(()) });
    call().await.unwrap();
    let mut calls: Vec<_> = (0..2).map(|_| Box::pin(call())).collect();
    for call in &mut calls {
        assert!(poll!(call).is_pending());
    }
    time.advance(MS * 100);
    // One call gets its token; the other waited until its limit.
    assert_eq!(calls.remove(0).await, Ok(()));
    assert!(calls.remove(0).await.unwrap_err().shed().is_some());
    assert_eq!(pipeline.bulkhead().unwrap().limit(), 10);
}

#[tokio::test]
async fn every_part_is_optional() {
    let pipeline = ResiliencePipeline::builder("bare").build().unwrap();
    assert_eq!(pipeline.within(SECOND, || async { Ok::<u8, ()>(1) }).await, Ok(1));
}

#[test]
fn settings_without_their_part_are_named() {
    let cases = [
        (
            ResiliencePipeline::builder("g").token_timeout(MS),
            "token_timeout is set, but there is no bucket",
        ),
        (
            ResiliencePipeline::builder("g").fair_time(MS),
            "fair_time is set, but there is no breaker",
        ),
    ];
    for (builder, sentence) in cases {
        assert_eq!(builder.build().unwrap_err().to_string(), format!("pipeline `g`: {sentence}"));
    }
}
