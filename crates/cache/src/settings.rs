//! What a running cache reads of its settings, their defaults, and the sentences that refuse those
//! which contradict each other.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use seawall_client::key::KeyPart;
use seawall_resilience::Governor;

use super::{
    filter_keys::KeyFilter,
    options::{Level1Keeps, Mode, OnInvalidate, WhenBusy},
    repair_log::RepairLog,
};
use crate::hotkey::{HotRules, copies::MAX_COPIES};

type TagsOf<K> = Arc<dyn Fn(&K) -> Vec<String> + Send + Sync>;

/// Settings that the running cache reads.
pub(super) struct Settings<K> {
    pub(super) mode: Mode,
    pub(super) fresh_for: Duration,
    pub(super) stale_for: Duration,
    pub(super) missing_for: Duration,
    pub(super) jitter: f64,
    pub(super) sliding: bool,
    pub(super) early_refresh: Option<f64>,
    pub(super) lease_for: Duration,
    pub(super) load_within: Duration,
    pub(super) deadline: Duration,
    pub(super) wait_budget: Duration,
    pub(super) when_busy: WhenBusy,
    pub(super) on_invalidate: OnInvalidate,
    pub(super) second_invalidation_after: Option<Duration>,
    pub(super) level1_bytes: u64,
    pub(super) level1_weight: u32,
    pub(super) level1_for: Duration,
    pub(super) outage_copies_for: Duration,
    pub(super) tags: Option<TagsOf<K>>,
    pub(super) clearable: bool,
    pub(super) governor: Option<Governor>,
    pub(super) repair_log: Option<Arc<dyn RepairLog>>,
    pub(super) repair_limit: usize,
    pub(super) filter: Option<KeyFilter<K>>,
    pub(super) hot_rules: HotRules,
    pub(super) level1_keeps: Level1Keeps,
    pub(super) copies: usize,
    pub(super) big: BigPlan,
}

/// What is done about big values.
#[derive(Clone, Copy)]
pub(super) struct BigPlan {
    pub(super) warn_above_bytes: usize,
    pub(super) split_above_bytes: usize,
}

/// From 1 KiB to what fits into one command with its key and header.
const SPLIT_BYTES: RangeInclusive<usize> = 1 << 10..=1_000_000 - (16 << 10);

/// The longest lifetime.
pub(super) const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

impl<K> Default for Settings<K> {
    fn default() -> Self {
        Settings {
            mode: Mode::Lease,
            fresh_for: Duration::from_secs(300),
            stale_for: Duration::from_secs(60),
            missing_for: Duration::from_secs(10),
            jitter: 0.1,
            sliding: false,
            early_refresh: None,
            lease_for: Duration::from_secs(2),
            load_within: Duration::from_secs(5),
            deadline: Duration::from_secs(10),
            wait_budget: Duration::from_millis(200),
            when_busy: WhenBusy::Wait,
            on_invalidate: OnInvalidate::Drop,
            second_invalidation_after: None,
            level1_bytes: u64::MAX,
            level1_weight: 1,
            level1_for: Duration::from_secs(30),
            outage_copies_for: Duration::from_secs(1),
            tags: None,
            clearable: false,
            governor: None,
            repair_log: None,
            repair_limit: 100_000,
            filter: None,
            hot_rules: HotRules::default(),
            level1_keeps: Level1Keeps::Everything,
            copies: 0,
            big: BigPlan { warn_above_bytes: 64 << 10, split_above_bytes: 512 << 10 },
        }
    }
}

impl<K: KeyPart + Send + Sync + 'static> Settings<K> {
    /// Which of them contradict each other, as a sentence.
    pub(super) fn check(&self) -> Result<(), String> {
        for (name, time) in [
            ("fresh_for", self.fresh_for),
            ("lease_for", self.lease_for),
            ("load_within", self.load_within),
            ("deadline", self.deadline),
        ] {
            if time < Duration::from_millis(1) {
                return Err(format!("{name} is {time:?}, it must be at least 1 ms"));
            }
        }
        for (name, time) in [
            ("fresh_for", self.fresh_for),
            ("stale_for", self.stale_for),
            ("missing_for", self.missing_for),
            ("lease_for", self.lease_for),
            ("load_within", self.load_within),
        ] {
            if time > LONGEST {
                return Err(format!("{name} is {time:?}, the most is ten years"));
            }
        }
        if self.deadline < self.lease_for + self.load_within {
            return Err(format!(
                "deadline ({:?}) must be at least lease_for ({:?}) plus load_within ({:?}): who waits for a \
                 process that died needs the rest of its lease and a load of its own",
                self.deadline, self.lease_for, self.load_within
            ));
        }
        if self.wait_budget > self.deadline {
            return Err(format!(
                "wait_budget ({:?}) must not be longer than deadline ({:?})",
                self.wait_budget, self.deadline
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
        if self.repair_limit == 0 {
            return Err("repair_limit is 0: no invalidation could be kept".into());
        }
        self.hot_rules.check().map_err(|error| error.to_string())?;
        if self.copies > MAX_COPIES {
            return Err(format!("copies is {}, the most is {MAX_COPIES}", self.copies));
        }
        if self.copies == 0 && self.hot_rules.want_copies() {
            return Err("a hot rule has copies_at, but copies is 0".into());
        }
        if self.level1_weight == 0 {
            return Err(
                "level1_weight is 0: to do without a first level set level1_bytes to 0".into()
            );
        }
        if self.level1_keeps == Level1Keeps::HotOnly && self.level1_bytes == 0 {
            return Err(
                "level1_keeps is HotOnly but level1_bytes is 0: there is no first level".into()
            );
        }
        if let Some(Err(sentence)) = self.filter.as_ref().map(KeyFilter::check) {
            return Err(sentence);
        }
        if self.level1_bytes > 0 && self.level1_for.is_zero() {
            return Err("level1_for is 0 but level1_bytes is not: to do without a first level set level1_bytes to 0".into());
        }
        Ok(())
    }
}
