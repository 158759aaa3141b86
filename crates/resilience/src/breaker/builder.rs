//! Settings of the breaker and their validation.

use std::{
    sync::{Arc, Mutex, atomic::AtomicU64},
    time::Duration,
};

use tokio::sync::watch;

use super::{
    Breaker, BreakerState, Shared,
    machine::{Machine, Rules},
};
use crate::{InvalidSettings, clock::Clock};

/// Maximum number of failures that can be configured: each is stored.
const MAX_FAILURES: usize = 10_000;
/// Maximum number of probes in a row that can be configured.
const MAX_STEADY_PROBES: u32 = 1_000;

/// Settings of a [`Breaker`].
#[derive(Debug, Clone)]
#[must_use]
pub struct BreakerBuilder {
    name: Arc<str>,
    clock: Clock,
    slow_call_threshold: Option<Duration>,
    rules: Rules,
}

impl BreakerBuilder {
    pub(super) fn new(name: Arc<str>) -> Self {
        BreakerBuilder {
            name,
            clock: Clock::system(),
            slow_call_threshold: None,
            rules: Rules {
                failures: 3,
                window: Duration::from_secs(30),
                probe_interval: Duration::from_secs(1),
                probe_timeout: Duration::from_secs(60),
                max_probes: 4,
            },
        }
    }

    /// Sets the number of failures within the window that open the breaker. Default: 3.
    pub fn failure_threshold(mut self, failures: usize) -> Self {
        self.rules.failures = failures;
        self
    }

    /// Sets how long a failure counts. Default: 30 seconds.
    pub fn window(mut self, window: Duration) -> Self {
        self.rules.window = window;
        self
    }

    /// Sets the pause before a probe, after opening and between two probes. Default: 1 second.
    pub fn probe_interval(mut self, pause: Duration) -> Self {
        self.rules.probe_interval = pause;
        self
    }

    /// Sets the time limit of a probe, which is the longest time without another probe. Default: 60
    /// seconds.
    ///
    /// A probe that has not reported by then has failed, and the next one may start.
    pub fn probe_timeout(mut self, limit: Duration) -> Self {
        self.rules.probe_timeout = limit;
        self
    }

    /// Sets the maximum number of probes in a row that must succeed. Default: 4.
    ///
    /// One is enough after a plain outage; each time the breaker opens again within a window of
    /// closing, twice as many are required. 1 disables this hysteresis.
    pub fn max_probes(mut self, most: u32) -> Self {
        self.rules.max_probes = most;
        self
    }

    /// Sets the duration from which a call counts as a failure even if it succeeds. Default: none.
    pub fn slow_call_threshold(mut self, limit: Duration) -> Self {
        self.slow_call_threshold = Some(limit);
        self
    }

    /// Sets the clock. Default: the system clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Builds the breaker.
    ///
    /// # Errors
    ///
    /// [`InvalidSettings`], with the name of the setting that is empty, out of range or contradicts
    /// another.
    pub fn build(self) -> Result<Breaker, InvalidSettings> {
        let rules = &self.rules;
        let name = &self.name;
        let wrong = |what: String| Err(InvalidSettings::new(format!("breaker `{name}`: {what}")));
        if name.is_empty() {
            return Err(InvalidSettings::new("a breaker's name is empty: it labels its metrics"));
        }
        if !(1..=MAX_FAILURES).contains(&rules.failures) {
            return wrong(format!(
                "failure_threshold is {}, not 1 to {MAX_FAILURES}",
                rules.failures
            ));
        }
        if !(1..=MAX_STEADY_PROBES).contains(&rules.max_probes) {
            let asked = rules.max_probes;
            return wrong(format!("max_probes is {asked}, not 1 to {MAX_STEADY_PROBES}"));
        }
        for (setting, value) in [("window", rules.window), ("probe_interval", rules.probe_interval)]
        {
            if value.is_zero() {
                return wrong(format!("{setting} is zero"));
            }
        }
        if rules.probe_timeout < rules.probe_interval {
            return wrong(format!(
                "probe_timeout ({:?}) is shorter than probe_interval ({:?})",
                rules.probe_timeout, rules.probe_interval
            ));
        }
        if self.slow_call_threshold.is_some_and(|limit| limit.is_zero()) {
            return wrong("slow_call_threshold is zero: every call would be slow".into());
        }
        Ok(self.assemble())
    }

    /// Builds the breaker from valid settings.
    pub(super) fn assemble(self) -> Breaker {
        let origin = self.clock.now();
        let gauge = metrics::gauge!("seawall_breaker_state", "name" => Arc::clone(&self.name));
        gauge.set(BreakerState::Closed.as_gauge());
        Breaker {
            shared: Arc::new(Shared {
                name: self.name,
                origin,
                clock: self.clock,
                slow_call_threshold: self.slow_call_threshold,
                phase: AtomicU64::new(0),
                machine: Mutex::new(Machine::new(self.rules)),
                changes: watch::Sender::new(BreakerState::Closed),
            }),
        }
    }
}
