//! The settings of a running cache, their defaults, and the checks that refuse contradictions.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use seawall_resilience::ResiliencePipeline;

use crate::hotkey::{HotRules, copies::MAX_COPIES};
use crate::{
    builder::{LocalKeeps, Mode, OnInvalidate, WhenBusy},
    recovery::log::RecoveryLog,
};

/// Settings that the running cache reads.
pub(crate) struct Settings {
    pub(crate) mode: Mode,
    pub(crate) ttl: Duration,
    pub(crate) max_stale: Duration,
    pub(crate) negative_ttl: Duration,
    pub(crate) jitter: f64,
    pub(crate) sliding: bool,
    pub(crate) early_refresh: Option<f64>,
    pub(crate) lease_ttl: Duration,
    pub(crate) loader_timeout: Duration,
    pub(crate) read_timeout: Duration,
    pub(crate) wait_budget: Duration,
    pub(crate) when_busy: WhenBusy,
    pub(crate) on_invalidate: OnInvalidate,
    pub(crate) second_invalidation_after: Option<Duration>,
    pub(crate) local_max_bytes: u64,
    pub(crate) local_weight: u32,
    pub(crate) local_ttl: Duration,
    pub(crate) outage_ttl: Duration,
    pub(crate) clearable: bool,
    pub(crate) pipeline: Option<ResiliencePipeline>,
    pub(crate) recovery_log: Option<Arc<dyn RecoveryLog>>,
    pub(crate) recovery_limit: usize,
    pub(crate) hot_rules: HotRules,
    pub(crate) local_keeps: LocalKeeps,
    pub(crate) copies: usize,
    pub(crate) big: BigPlan,
}

/// What is done about big values.
#[derive(Clone, Copy)]
pub(crate) struct BigPlan {
    pub(crate) warn_above_bytes: usize,
    pub(crate) split_above_bytes: usize,
}

/// From 1 KiB to what fits into one command with its key and header.
const SPLIT_BYTES: RangeInclusive<usize> = 1 << 10..=1_000_000 - (16 << 10);

/// The longest lifetime.
pub(crate) const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

impl Default for Settings {
    fn default() -> Self {
        Settings {
            mode: Mode::Lease,
            ttl: Duration::from_secs(300),
            max_stale: Duration::from_secs(60),
            negative_ttl: Duration::from_secs(10),
            jitter: 0.1,
            sliding: false,
            early_refresh: None,
            lease_ttl: Duration::from_secs(2),
            loader_timeout: Duration::from_secs(5),
            read_timeout: Duration::from_secs(10),
            wait_budget: Duration::from_millis(200),
            when_busy: WhenBusy::Wait,
            on_invalidate: OnInvalidate::Drop,
            second_invalidation_after: None,
            local_max_bytes: u64::MAX,
            local_weight: 1,
            local_ttl: Duration::from_secs(30),
            outage_ttl: Duration::from_secs(1),
            clearable: false,
            pipeline: None,
            recovery_log: None,
            recovery_limit: 100_000,
            hot_rules: HotRules::default(),
            local_keeps: LocalKeeps::Everything,
            copies: 0,
            big: BigPlan { warn_above_bytes: 64 << 10, split_above_bytes: 512 << 10 },
        }
    }
}

impl Settings {
    /// Checks the settings. Returns which of them contradict each other, as a sentence.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (name, time) in [
            ("ttl", self.ttl),
            ("lease_ttl", self.lease_ttl),
            ("loader_timeout", self.loader_timeout),
            ("read_timeout", self.read_timeout),
        ] {
            if time < Duration::from_millis(1) {
                return Err(format!("{name} is {time:?}, it must be at least 1 ms"));
            }
        }
        for (name, time) in [
            ("ttl", self.ttl),
            ("max_stale", self.max_stale),
            ("negative_ttl", self.negative_ttl),
            ("lease_ttl", self.lease_ttl),
            ("loader_timeout", self.loader_timeout),
        ] {
            if time > LONGEST {
                return Err(format!("{name} is {time:?}, the most is ten years"));
            }
        }
        if self.read_timeout < self.lease_ttl + self.loader_timeout {
            return Err(format!(
                "read_timeout ({:?}) must be at least lease_ttl ({:?}) plus loader_timeout ({:?}): who waits for a \
                 process that died needs the rest of its lease and a load of its own",
                self.read_timeout, self.lease_ttl, self.loader_timeout
            ));
        }
        if self.wait_budget > self.read_timeout {
            return Err(format!(
                "wait_budget ({:?}) must not be longer than read_timeout ({:?})",
                self.wait_budget, self.read_timeout
            ));
        }
        if !(0.0..1.0).contains(&self.jitter) {
            return Err(format!("jitter is {}, it must be at least 0 and below 1", self.jitter));
        }
        if let Some(factor) = self.early_refresh
            && !(factor > 0.0 && factor <= 100.0)
        {
            return Err(format!("early_refresh is {factor}, it must be above 0 and at most 100"));
        }
        if self.sliding && self.mode == Mode::LogicalExpiry {
            return Err(
                "sliding and Mode::LogicalExpiry exclude each other: such values never end".into(),
            );
        }
        if self.mode == Mode::LogicalExpiry && self.when_busy != WhenBusy::Wait {
            return Err(
                "when_busy and Mode::LogicalExpiry exclude each other: nobody waits there".into()
            );
        }
        let split = self.big.split_above_bytes;
        if !SPLIT_BYTES.contains(&split) {
            return Err(format!(
                "split_above_bytes is {split}, it must be from {} to {}: no command moves more than 1 MB",
                SPLIT_BYTES.start(),
                SPLIT_BYTES.end()
            ));
        }
        if self.recovery_limit == 0 {
            return Err("recovery_limit is 0: no invalidation could be kept".into());
        }
        self.hot_rules.check().map_err(|error| error.to_string())?;
        if self.copies > MAX_COPIES {
            return Err(format!("copies is {}, the most is {MAX_COPIES}", self.copies));
        }
        if self.copies == 0 && self.hot_rules.want_copies() {
            return Err("a hot rule has copies_at, but copies is 0".into());
        }
        if self.local_weight == 0 {
            return Err(
                "local_weight is 0: to disable the local tier, set local_max_bytes to 0".into()
            );
        }
        if self.local_keeps == LocalKeeps::HotOnly && self.local_max_bytes == 0 {
            return Err(
                "local_keeps is HotOnly but local_max_bytes is 0: there is no local tier".into()
            );
        }
        if self.local_max_bytes > 0 && self.local_ttl.is_zero() {
            return Err("local_ttl is 0 but local_max_bytes is not: to disable the local tier, set local_max_bytes to 0".into());
        }
        Ok(())
    }
}
