//! Tests the breaker with a clock: permits, cancellation, flapping, many threads, settings.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering},
    task::Poll,
};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString,
    Unit,
};

use super::*;
use crate::clock::ManualTime;

const SECOND: Duration = Duration::from_secs(1);

fn breaker() -> (Breaker, ManualTime) {
    let (clock, time) = Clock::manual();
    (Breaker::builder("test").clock(clock).build().unwrap(), time)
}

fn fail(breaker: &Breaker, times: usize) {
    for _ in 0..times {
        breaker.enter().expect("closed").record(Outcome::Failed);
    }
}

#[test]
fn a_probe_that_never_reports_is_given_up() {
    let (breaker, time) = breaker();
    fail(&breaker, 3);
    time.advance(SECOND);
    let lost = breaker.enter().unwrap();
    assert!(lost.is_probe());
    time.advance(SECOND * 59);
    assert_eq!(breaker.enter().unwrap_err(), Open { retry_after: SECOND });
    time.advance(SECOND);
    let next = breaker.enter().expect("60 s are the longest without a look");
    lost.record(Outcome::Ok);
    assert_eq!(breaker.state(), BreakerState::Probing, "the lost probe has no say any more");
    next.record(Outcome::Ok);
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[test]
fn calls_that_hung_through_the_outage_do_not_reopen_it() {
    let (breaker, time) = breaker();
    let hung: Vec<_> = (0..100).map(|_| breaker.enter().unwrap()).collect();
    fail(&breaker, 3);
    time.advance(SECOND);
    breaker.enter().unwrap().record(Outcome::Ok);
    assert_eq!(breaker.state(), BreakerState::Closed);
    for permit in hung {
        permit.record(Outcome::Failed);
    }
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[test]
fn a_dropped_permit_counts_nothing_and_releases_the_probe() {
    let (breaker, time) = breaker();
    for _ in 0..10 {
        drop(breaker.enter().unwrap());
    }
    assert_eq!(breaker.state(), BreakerState::Closed);
    fail(&breaker, 3);
    for _ in 0..10 {
        time.advance(SECOND);
        let probe = breaker.enter().unwrap();
        assert!(probe.is_probe());
        drop(probe);
        assert_eq!(breaker.state(), BreakerState::Open);
        assert!(
            breaker.enter().is_err(),
            "a cancelled probe is no reason for more than one a second"
        );
    }
}

#[test]
fn a_slow_success_counts_as_a_failure_when_asked_for() {
    let (clock, time) = Clock::manual();
    let breaker = Breaker::builder("slow")
        .slow_call_threshold(SECOND)
        .failure_threshold(1)
        .clock(clock)
        .build()
        .unwrap();
    for (takes, wanted) in [(999, BreakerState::Closed), (1000, BreakerState::Open)] {
        let permit = breaker.enter().unwrap();
        time.advance(Duration::from_millis(takes));
        permit.record(Outcome::Ok);
        assert_eq!(breaker.state(), wanted);
    }
}

/// Runs a backend that alternates between up and down for a minute, with a thousand calls per
/// second. Returns how often the breaker opened, and how many calls hit the outage.
fn flap(breaker: &Breaker, time: &ManualTime, period: u64) -> (u64, u64) {
    let (mut opened, mut hit) = (0, 0);
    for millisecond in 0..60_000_u64 {
        let up = millisecond % period < period / 2;
        if let Ok(permit) = breaker.enter() {
            hit += u64::from(!up);
            let was_closed = !permit.is_probe();
            permit.record(if up { Outcome::Ok } else { Outcome::Failed });
            opened += u64::from(was_closed && breaker.state() == BreakerState::Open);
        }
        time.advance(Duration::from_millis(1));
    }
    (opened, hit)
}

#[test]
fn a_flapping_backend_is_held_off() {
    // In step with the probes, and drifting against them in both directions. Around 1 Hz the
    // breaker stays open; elsewhere four probes in a row may be lucky, which takes at least four
    // seconds.
    for period in (500..=2000).step_by(50) {
        let (breaker, time) = breaker();
        let (opened, hit) = flap(&breaker, &time, period);
        let most = if (900..=1200).contains(&period) { 4 } else { 14 };
        assert!(opened <= most, "opened {opened} times in a minute of {period} ms flaps");
        assert!(hit <= 90, "{hit} of 30000 calls hit the outage of {period} ms flaps");
        // Recovered: with traffic the breaker is closed after five good seconds at the latest.
        for _ in 0..=50 {
            if let Ok(permit) = breaker.enter() {
                permit.record(Outcome::Ok);
            }
            time.advance(SECOND / 10);
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
    }
}

#[tokio::test]
async fn changes_can_be_followed() {
    let (breaker, time) = breaker();
    let mut changes = breaker.changes();
    fail(&breaker, 3);
    changes.changed().await.unwrap();
    assert_eq!(*changes.borrow_and_update(), BreakerState::Open);
    time.advance(SECOND);
    assert_eq!(breaker.check(), Ok(()));
    assert_eq!(breaker.state(), BreakerState::Open, "looking lets no probe out");
    let probe = breaker.enter().unwrap();
    assert_eq!(*changes.borrow_and_update(), BreakerState::Probing);
    assert!(breaker.check().is_err());
    probe.record(Outcome::Ok);
    assert_eq!(*changes.borrow_and_update(), BreakerState::Closed);
}

#[tokio::test]
async fn a_cancelled_future_gives_its_probe_back() {
    let (breaker, time) = breaker();
    fail(&breaker, 3);
    time.advance(SECOND);
    let mut call = Box::pin(async {
        let permit = breaker.enter().unwrap();
        std::future::pending::<()>().await;
        permit.record(Outcome::Ok);
    });
    assert_eq!(futures_util::poll!(&mut call), Poll::Pending);
    assert_eq!(breaker.state(), BreakerState::Probing);
    drop(call);
    assert_eq!(breaker.state(), BreakerState::Open);
}

#[test]
fn many_threads_let_out_one_probe_at_a_time() {
    let (breaker, time) = breaker();
    fail(&breaker, 3);
    let (out, most, probes) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    if let Ok(permit) = breaker.enter() {
                        assert!(permit.is_probe());
                        most.fetch_max(out.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        probes.fetch_add(1, Ordering::SeqCst);
                        std::thread::yield_now();
                        out.fetch_sub(1, Ordering::SeqCst);
                        permit.record(Outcome::Failed);
                    }
                    time.advance(Duration::from_millis(1));
                }
            });
        }
    });
    assert_eq!(most.into_inner(), 1);
    let probes = probes.into_inner();
    // 16 s have passed; there are fewer than 16 probes if a probe's thread had to wait to be
    // scheduled.
    assert!((1..=16).contains(&probes), "{probes} probes");
}

/// Keeps the newest gauges and the sums of counters, under `metric{label}`.
#[derive(Default)]
struct Board(Arc<Mutex<HashMap<String, f64>>>);

struct Cell(Arc<Mutex<HashMap<String, f64>>>, String);

impl Cell {
    fn change(&self, step: impl FnOnce(&mut f64)) {
        step(self.0.lock().unwrap().entry(self.1.clone()).or_default());
    }
}

impl CounterFn for Cell {
    fn increment(&self, value: u64) {
        self.change(|sum| *sum += value as f64);
    }
    fn absolute(&self, value: u64) {
        self.change(|sum| *sum = value as f64);
    }
}

impl GaugeFn for Cell {
    fn increment(&self, value: f64) {
        self.change(|gauge| *gauge += value);
    }
    fn decrement(&self, value: f64) {
        self.change(|gauge| *gauge -= value);
    }
    fn set(&self, value: f64) {
        self.change(|gauge| *gauge = value);
    }
}

impl Board {
    fn cell(&self, key: &Key) -> Arc<Cell> {
        let labels: Vec<_> = key.labels().map(metrics::Label::value).collect();
        Arc::new(Cell(Arc::clone(&self.0), format!("{}{{{}}}", key.name(), labels.join(","))))
    }
}

impl Recorder for Board {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.cell(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.cell(key))
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn state_openings_and_refusals_are_metered() {
    let board = Board::default();
    let see = |metric: &str| board.0.lock().unwrap().get(&format!("{metric}{{test}}")).copied();
    metrics::with_local_recorder(&board, || {
        let (breaker, time) = breaker();
        assert_eq!(see("seawall_breaker_state"), Some(0.0));
        fail(&breaker, 3);
        assert_eq!(see("seawall_breaker_state"), Some(2.0));
        assert_eq!(see("seawall_breaker_opened_total"), Some(1.0));
        assert!(breaker.enter().is_err() && breaker.check().is_err());
        assert_eq!(see("seawall_breaker_refused_total"), Some(2.0));
        time.advance(SECOND);
        let probe = breaker.enter().unwrap();
        assert_eq!(see("seawall_breaker_state"), Some(1.0));
        probe.record(Outcome::Ok);
        assert_eq!(see("seawall_breaker_state"), Some(0.0));
        assert_eq!(see("seawall_breaker_opened_total"), Some(1.0));
    });
}

#[test]
fn contradictory_settings_are_named() {
    let cases = [
        (
            Breaker::builder("b").failure_threshold(0),
            "breaker `b`: failure_threshold is 0, not 1 to 10000",
        ),
        (Breaker::builder("b").max_probes(0), "breaker `b`: max_probes is 0, not 1 to 1000"),
        (Breaker::builder("b").window(Duration::ZERO), "breaker `b`: window is zero"),
        (
            Breaker::builder("b").probe_interval(Duration::ZERO),
            "breaker `b`: probe_interval is zero",
        ),
        (
            Breaker::builder("b").probe_timeout(SECOND).probe_interval(SECOND * 2),
            "breaker `b`: probe_timeout (1s) is shorter than probe_interval (2s)",
        ),
        (
            Breaker::builder("b").slow_call_threshold(Duration::ZERO),
            "breaker `b`: slow_call_threshold is zero: every call would be slow",
        ),
        (Breaker::builder(""), "a breaker's name is empty: it labels its metrics"),
    ];
    for (builder, sentence) in cases {
        assert_eq!(builder.build().unwrap_err().to_string(), sentence);
    }
}
