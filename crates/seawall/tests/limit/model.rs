//! Every answer, compared with a model that is written another way, on a clock held by the test.

use std::{cell::Cell, time::Duration};

use proptest::prelude::*;
use seawall::{
    cmd,
    limit::{Decision, Limiter, Rate, Window},
    testing::TestServer,
};
use tokio::runtime::Runtime;

/// GCRA by its other form: the theoretical arrival time, in units of 1/count µs.
struct ArrivalTime {
    count: u128,
    period: u128,
    burst: u128,
    arrival: u128,
}

impl ArrivalTime {
    fn check(&mut self, now: u128, cost: u128) -> Decision {
        let now = now * self.count;
        let arrival = self.arrival.max(now) + cost * self.period;
        let behind = arrival - now;
        let tolerance = self.burst * self.period;
        if behind > tolerance {
            let wait = (behind - tolerance).div_ceil(self.count);
            return Decision::Limited { retry_after: micros(wait) };
        }
        self.arrival = arrival;
        Decision::Allowed {
            remaining: ((tolerance - behind) / self.period) as u64,
            reset: micros(behind.div_ceil(self.count)),
        }
    }
}

fn micros(micros: u128) -> Duration {
    Duration::from_micros(micros as u64)
}

/// A test server for all cases of a property, each with a subject of its own.
struct Theatre {
    runtime: Runtime,
    test_server: TestServer,
    subject: Cell<u64>,
}

impl Theatre {
    fn open() -> Self {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let test_server = runtime.block_on(TestServer::start()).expect("it starts");
        Theatre { runtime, test_server, subject: Cell::new(0) }
    }

    fn next_subject(&self) -> u64 {
        self.subject.set(self.subject.get() + 1);
        self.subject.get()
    }

    fn check(&self, limiter: &Limiter, subject: u64, cost: u64) -> Decision {
        self.runtime.block_on(limiter.check(&subject, cost)).expect("a valid check")
    }

    fn advance(&self, micros: u64) {
        self.runtime.block_on(self.test_server.advance(Duration::from_micros(micros)));
    }

    fn server_micros(&self) -> u64 {
        let client = self.test_server.seawall().client();
        let (seconds, micros): (u64, u64) =
            self.runtime.block_on(client.query(b"", &cmd("TIME"))).expect("a time");
        seconds * 1_000_000 + micros
    }
}

#[test]
fn a_rate_answers_as_the_arrival_time_model() {
    let theatre = Theatre::open();
    let steps = proptest::collection::vec((0u64..400_000, 0u64..6), 1..40);
    let rates = (1u64..50, prop_oneof![Just(1_000_000u64), Just(77_777), Just(60_000_000)]);
    let config = ProptestConfig { cases: 96, failure_persistence: None, ..Default::default() };
    proptest!(config, |(steps in steps, (count, period) in rates, burst in 5u64..20, ask_always: bool)| {
        let subject = theatre.next_subject();
        let rate = Rate::of(count, Duration::from_micros(period)).burst(burst);
        let mut builder = theatre.test_server.seawall().limiter("model", rate);
        if ask_always {
            builder = builder.ask_always();
        }
        let limiter = builder.build().expect("valid");
        let (count, period, burst) = (count.into(), period.into(), burst.into());
        let mut model = ArrivalTime { count, period, burst, arrival: 0 };
        let mut now = 1_000_000_000u128;
        for (pause, cost) in steps {
            theatre.advance(pause);
            now += u128::from(pause);
            let (expected, got) = (model.check(now, cost.into()), theatre.check(&limiter, subject, cost));
            match (expected.retry_after(), got.retry_after()) {
                // What is remembered was said about a cost that was perhaps smaller.
                (Some(exact), Some(remembered)) if !ask_always => prop_assert!(remembered <= exact),
                _ => prop_assert_eq!(expected, got),
            }
        }
    });
    theatre.runtime.block_on(theatre.test_server.shutdown());
}

#[test]
fn no_window_of_any_position_admits_more_than_its_limit() {
    let theatre = Theatre::open();
    let steps = proptest::collection::vec((0u64..40_000, 0u64..4), 1..80);
    let config = ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() };
    proptest!(config, |(steps in steps, limit in 4u64..12, length in 90_000u64..110_000)| {
        let subject = theatre.next_subject();
        let window = Window::of(limit, Duration::from_micros(length));
        let limiter = theatre.test_server.seawall().limiter("window", window).ask_always().build().expect("valid");
        let slice = length.div_ceil(16);
        // (time, cost) of everything that was admitted.
        let mut log: Vec<(u64, u64)> = Vec::new();
        let used = |log: &[(u64, u64)], after: u64| -> u64 {
            log.iter().filter(|(time, _)| *time > after).map(|(_, cost)| cost).sum()
        };
        for (pause, cost) in steps {
            theatre.advance(pause);
            let now = theatre.server_micros();
            // The slices that count: 16 before the present one, and that.
            let oldest = (now / slice - 16) * slice;
            let counted = used(&log, oldest - 1);
            match theatre.check(&limiter, subject, cost) {
                Decision::Allowed { remaining, .. } => {
                    prop_assert_eq!(remaining + counted + cost, limit);
                    log.push((now, cost));
                    prop_assert!(used(&log, now - length) <= limit, "more than the limit in a window");
                }
                Decision::Limited { retry_after } => {
                    prop_assert!(counted + cost > limit);
                    prop_assert!(used(&log, now - length - slice) + cost > limit, "stricter than stated");
                    let then = now + retry_after.as_micros() as u64;
                    prop_assert!(used(&log, (then / slice - 16) * slice - 1) + cost <= limit);
                    prop_assert!(used(&log, ((then - 1) / slice - 16) * slice - 1) + cost > limit);
                }
            }
        }
    });
    theatre.runtime.block_on(theatre.test_server.shutdown());
}
