//! Tests the breaker's rules against tables and against a model that keeps the whole history.

use std::time::Duration;

use proptest::prelude::*;

use super::{
    Outcome::{self, Failed, Ignored, Ok as Fine, Slow},
    machine::{Admission, Machine, Pass, Rules},
};

const SECOND: Duration = Duration::from_secs(1);

fn rules() -> Rules {
    Rules {
        failures: 3,
        window: SECOND * 30,
        probe_interval: SECOND,
        probe_timeout: SECOND * 60,
        max_probes: 4,
    }
}

use Step::{In, Refused};

/// One step of a table: at this time a call is admitted and ends at once with this outcome.
enum Step {
    In(u64, Outcome),
    Refused(u64, u64),
}
/// Runs a table; times are in milliseconds.
fn table(name: &str, steps: &[Step]) {
    let mut machine = Machine::new(rules());
    for (index, step) in steps.iter().enumerate() {
        let (at, wanted) = match *step {
            In(at, outcome) => (at, Ok(outcome)),
            Refused(at, retry_after) => (at, Err(Duration::from_millis(retry_after))),
        };
        let now = Duration::from_millis(at);
        match (machine.admit(now), wanted) {
            (Admission::Through(pass), Ok(outcome)) => machine.record(pass, outcome, now),
            (Admission::Refused { retry_after }, Err(wanted)) => {
                assert_eq!(retry_after, wanted, "{name}, step {index}");
            }
            (said, wanted) => panic!("{name}, step {index}: {said:?}, not {wanted:?}"),
        }
    }
}

#[test]
fn tables() {
    table(
        "three failures in the window open it",
        &[
            In(0, Failed),
            In(10_000, Fine),
            In(20_000, Slow),
            In(29_999, Failed),
            Refused(29_999, 1000),
        ],
    );
    table(
        "the oldest failure leaves the window",
        &[
            In(0, Failed),
            In(20_000, Failed),
            In(30_000, Failed),
            In(30_001, Failed),
            Refused(30_002, 999),
        ],
    );
    table(
        "a caller's bug counts nothing",
        &[
            In(0, Failed),
            In(0, Ignored),
            In(0, Ignored),
            In(0, Ignored),
            In(0, Failed),
            In(0, Fine),
            In(0, Failed),
            Refused(0, 1000),
        ],
    );
    table(
        "one probe a second, success closes",
        &[
            In(0, Failed),
            In(0, Failed),
            In(0, Failed),
            Refused(999, 1),
            In(1000, Failed),
            Refused(1000, 1000),
            Refused(1999, 1),
            In(2000, Slow),
            Refused(2500, 500),
            In(3000, Ignored),
            Refused(3001, 999),
            In(4000, Fine),
            In(4000, Failed),
            In(4000, Failed),
            In(4000, Fine),
        ],
    );
    table(
        "reopened within a window, it wants two probes in a row, then four",
        &[
            In(0, Failed),
            In(0, Failed),
            In(0, Failed),
            In(1000, Fine),
            In(1000, Failed),
            In(1000, Failed),
            In(1000, Failed),
            In(2000, Fine),
            Refused(2000, 1500),
            In(3500, Failed),
            In(4500, Fine),
            Refused(5999, 1),
            In(6000, Fine),
            In(6000, Failed),
            In(6000, Failed),
            In(6000, Failed),
            In(7000, Ignored),
            In(8000, Fine),
            In(9500, Ignored),
            In(10_500, Fine),
            In(11_500, Fine),
            Refused(11_500, 1500),
            In(13_000, Fine),
            // Still four: that is the maximum.
            In(13_000, Failed),
            In(13_000, Failed),
            In(13_000, Failed),
            In(14_000, Fine),
            In(15_500, Fine),
            In(16_500, Fine),
            Refused(16_500, 1500),
            In(18_000, Fine),
            // After a calm window one is enough again.
            In(48_000, Failed),
            In(48_000, Failed),
            In(48_000, Failed),
            In(49_000, Fine),
            In(49_000, Fine),
        ],
    );
}

/// A random event for a breaker.
#[derive(Debug, Clone)]
enum Event {
    Pass(u64),
    Enter,
    /// The nth of the calls in flight ends with this outcome.
    End(usize, Outcome),
}

fn event() -> impl Strategy<Value = Event> {
    let outcome = prop_oneof![
        3 => Just(Failed),
        2 => Just(Fine),
        1 => Just(Slow),
        1 => Just(Ignored),
    ];
    prop_oneof![
        2 => (0..4000_u64).prop_map(Event::Pass),
        4 => Just(Event::Enter),
        4 => (0..8_usize, outcome).prop_map(|(nth, outcome)| Event::End(nth, outcome)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The model keeps the whole history and evaluates it from scratch each time.
    #[test]
    fn opens_and_closes_exactly_when_the_model_does(
        events in prop::collection::vec(event(), 1..300),
        failures in 1..5_usize,
        window in 1..20_u32,
        probe_timeout in 1..20_u32,
    ) {
        let (window, probe_timeout) = (SECOND * window, SECOND * probe_timeout);
        let rules = Rules { failures, window, probe_timeout, ..rules() };
        let mut machine = Machine::new(rules.clone());
        let mut now = Duration::ZERO;
        // Calls in flight, with the number of openings and closings they have seen.
        let mut out: Vec<(Pass, u64)> = Vec::new();
        let mut turns = 0_u64;
        let mut history: Vec<Duration> = Vec::new();
        let mut open = false;
        // The hysteresis: successful probes in a row, flaps, and the time of the last closing.
        let (mut won, mut flaps, mut closed_at) = (0, 0, None::<Duration>);
        let mut last_probe: Option<Duration> = None;
        for event in events {
            match event {
                Event::Pass(milliseconds) => now += Duration::from_millis(milliseconds),
                Event::Enter => match machine.admit(now) {
                    Admission::Through(pass @ Pass::Ordinary(_)) => {
                        prop_assert!(!open, "an ordinary call went through an open breaker");
                        out.push((pass, turns));
                    }
                    Admission::Through(pass @ Pass::Probe(_)) => {
                        prop_assert!(open);
                        if let Some(last) = last_probe {
                            prop_assert!(now - last >= rules.probe_interval);
                        }
                        // A probe that is still in flight must have been given up.
                        let others = out.iter().filter(|(pass, seen)| {
                            matches!(pass, Pass::Probe(_)) && *seen == turns
                        });
                        if others.count() > 0 {
                            let started = last_probe.expect("one is out");
                            prop_assert!(now - started >= rules.probe_timeout, "two probes at a time");
                            out.retain(|(pass, _)| !matches!(pass, Pass::Probe(_)));
                            won = 0;
                        }
                        last_probe = Some(now);
                        out.push((pass, turns));
                    }
                    Admission::Refused { retry_after } => {
                        prop_assert!(open, "a closed breaker refused");
                        prop_assert!(!retry_after.is_zero() && retry_after <= rules.probe_interval * 3 / 2);
                    }
                },
                Event::End(nth, outcome) => {
                    if out.is_empty() { continue }
                    let (pass, seen) = out.remove(nth % out.len());
                    machine.record(pass, outcome, now);
                    let bad = matches!(outcome, Failed | Slow);
                    if bad && !open && seen == turns {
                        history.push(now);
                        let recent = history.iter().filter(|&&at| now - at < rules.window).count();
                        if recent >= failures {
                            open = true;
                            turns += 1;
                            won = 0;
                            let soon = closed_at.is_some_and(|at| now - at < rules.window);
                            flaps = if soon { flaps + 1 } else { 0 };
                            history.clear();
                            last_probe = None;
                        }
                    } else if let Pass::Probe(_) = pass && open && seen == turns {
                        match outcome {
                            Fine => won += 1,
                            Failed | Slow => won = 0,
                            Ignored => {}
                        }
                        if won == [1, 2, 4][flaps.min(2)] {
                            open = false;
                            turns += 1;
                            closed_at = Some(now);
                        }
                    }
                    prop_assert_eq!(machine.is_open(), open);
                }
            }
        }
    }
}
