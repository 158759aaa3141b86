//! The breaker's rules as a function of time: no clock, no lock, no task.
//!
//! Time is a `Duration` since an origin that the owner chooses, and is passed to every function, so
//! the whole behaviour can be written as a table and checked against a model.
//!
//! ```text
//!            `failure_threshold` within `window`
//!   CLOSED ─────────────────────────────▶ OPEN ── probe_interval passed ──▶ PROBING
//!     ▲                                    ▲  ◀── failed, or given up ──────┤
//!     │                                    └───── won, but not yet steady ──┤
//!     └──────────────────── won `needed` probes in a row ──────────────────┘
//! ```
//!
//! Invariants: at most one probe is in flight at a time (one that was given up no longer counts,
//! whatever it reports); two probes start at least `probe_interval` apart; the outcome of a call
//! counts only in the epoch in which the call began, so calls that hung through an outage cannot
//! reopen a breaker that has just closed.
//!
//! Deliberately absent: a failure *ratio*. It would require counting every success, which is the
//! hot path, and a dead backend fails all of its calls anyway.

use std::{collections::VecDeque, time::Duration};

use super::Outcome;

/// The validated settings.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    pub(super) failures: usize,
    pub(super) window: Duration,
    pub(super) probe_interval: Duration,
    pub(super) probe_timeout: Duration,
    pub(super) max_probes: u32,
}

/// How a call was admitted. Passed back with its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// An ordinary call of this epoch.
    Ordinary(u64),
    /// The probe with this number.
    Probe(u64),
}

/// The machine's answer to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Through(Pass),
    Refused { retry_after: Duration },
}

/// State of the machine.
#[derive(Debug)]
enum Phase {
    Closed {
        /// Times of the newest failures, oldest first; never more than `Rules::failures`.
        recent: VecDeque<Duration>,
    },
    Open {
        next_probe: Duration,
        probe: Option<Probe>,
        /// Successful probes in a row.
        won: u32,
        /// Successful probes in a row that are required to close.
        needed: u32,
    },
}

#[derive(Debug)]
struct Probe {
    number: u64,
    /// When the probe counts as failed if it has not reported.
    given_up_at: Duration,
}

/// The state machine.
#[derive(Debug)]
pub(super) struct Machine {
    rules: Rules,
    phase: Phase,
    /// Incremented with every opening and closing.
    epoch: u64,
    /// Number of probes started.
    probes: u64,
    closed_at: Option<Duration>,
    /// Consecutive openings within one window of the previous closing.
    flaps: u32,
}

impl Machine {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules,
            phase: Phase::Closed { recent: VecDeque::new() },
            epoch: 0,
            probes: 0,
            closed_at: None,
            flaps: 0,
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open { .. })
    }

    pub(super) fn is_probing(&self) -> bool {
        matches!(self.phase, Phase::Open { probe: Some(_), .. })
    }

    /// Returns what [`Machine::admit`] would decide, without admitting anything: `None` means
    /// admitted.
    pub(super) fn refusal(&self, now: Duration) -> Option<Duration> {
        let Phase::Open { next_probe, probe, .. } = &self.phase else { return None };
        // While a probe is in flight, its outcome may arrive at any moment: the caller should check
        // again soon, whatever the probe's limit is.
        let (due, at_most) = match probe {
            Some(probe) => (probe.given_up_at, self.rules.probe_interval),
            None => (*next_probe, Duration::MAX),
        };
        (now < due).then(|| due.saturating_sub(now).min(at_most))
    }

    /// Admits a call, as a probe if the breaker is open and a probe is due.
    pub(super) fn admit(&mut self, now: Duration) -> Admission {
        if let Some(retry_after) = self.refusal(now) {
            return Admission::Refused { retry_after };
        }
        let Phase::Open { next_probe, probe, won, .. } = &mut self.phase else {
            return Admission::Through(Pass::Ordinary(self.epoch));
        };
        if probe.is_some() {
            // The probe was given up: no answer for that long is a failure.
            *won = 0;
        }
        self.probes += 1;
        *next_probe = now.saturating_add(self.rules.probe_interval);
        *probe = Some(Probe {
            number: self.probes,
            given_up_at: now.saturating_add(self.rules.probe_timeout),
        });
        Admission::Through(Pass::Probe(self.probes))
    }

    /// Records the outcome of an admitted call.
    pub(super) fn record(&mut self, pass: Pass, outcome: Outcome, now: Duration) {
        match (pass, outcome) {
            (Pass::Ordinary(_), Outcome::Ok | Outcome::Ignored) => {}
            (Pass::Ordinary(epoch), Outcome::Failed | Outcome::Slow) => self.fail(epoch, now),
            (Pass::Probe(number), outcome) => self.probed(number, outcome, now),
        }
    }

    fn fail(&mut self, epoch: u64, now: Duration) {
        if epoch != self.epoch {
            return;
        }
        let Phase::Closed { recent } = &mut self.phase else { return };
        // Callers read the clock before they get here: an earlier reading may come second.
        let now = recent.back().map_or(now, |&newest| newest.max(now));
        if recent.len() == self.rules.failures {
            recent.pop_front();
        }
        recent.push_back(now);
        let oldest = recent.front().copied().unwrap_or(now);
        if recent.len() == self.rules.failures && now.saturating_sub(oldest) < self.rules.window {
            self.open(now);
        }
    }

    fn open(&mut self, now: Duration) {
        let flapped =
            self.closed_at.is_some_and(|closed| now.saturating_sub(closed) < self.rules.window);
        self.flaps = if flapped { self.flaps.saturating_add(1) } else { 0 };
        let needed = 1_u32.checked_shl(self.flaps).unwrap_or(u32::MAX);
        self.epoch += 1;
        self.phase = Phase::Open {
            next_probe: now.saturating_add(self.rules.probe_interval),
            probe: None,
            won: 0,
            needed: needed.min(self.rules.max_probes),
        };
    }

    fn probed(&mut self, number: u64, outcome: Outcome, now: Duration) {
        let Phase::Open { next_probe, probe, won, needed } = &mut self.phase else { return };
        if probe.as_ref().is_none_or(|out| out.number != number) {
            return;
        }
        *probe = None;
        match outcome {
            Outcome::Ignored => {}
            Outcome::Failed | Outcome::Slow => *won = 0,
            Outcome::Ok => {
                *won += 1;
                if won >= needed {
                    self.epoch += 1;
                    self.closed_at = Some(now);
                    self.phase = Phase::Closed { recent: VecDeque::new() };
                } else if *won % 2 == 1 {
                    // After an odd number of successes the pause is half as long again: probes in
                    // step with a backend that flaps would only ever see it up.
                    *next_probe = next_probe.saturating_add(self.rules.probe_interval / 2);
                }
            }
        }
    }
}
