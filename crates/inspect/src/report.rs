//! The report of a survey: totals, histograms, the largest keys; in bounded memory.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use seawall_resilience::clock::{Clock, Moment};

use super::{Finding, Kind, Role, Severity, Thresholds, top::Top};

/// Prefixes that are counted separately; all later ones are counted together.
const MAX_PREFIXES: usize = 1_000;
/// Big keys that are kept with their names; the rest is only counted.
const MAX_FLAGGED: usize = 10_000;
/// A longer prefix is truncated.
const MAX_PREFIX_BYTES: usize = 64;
/// Powers of two of bytes, up to 2⁴⁷.
const SIZES: usize = 48;
/// Days without use from which on a key is counted as idle.
pub const IDLE_DAYS: [u64; 4] = [1, 7, 30, 90];
const DAY: Duration = Duration::from_secs(86_400);

/// Totals over some keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Totals {
    /// Number of keys.
    pub keys: u64,
    /// Their memory.
    pub bytes: u64,
    /// Their members; for strings, their lengths.
    pub members: u64,
    /// Keys without a lifetime.
    pub without_lifetime: u64,
    /// The memory of the largest key.
    pub largest: u64,
    sizes: [u64; SIZES],
}

impl Default for Totals {
    fn default() -> Self {
        let sizes = [0; SIZES];
        Totals { keys: 0, bytes: 0, members: 0, without_lifetime: 0, largest: 0, sizes }
    }
}

impl Totals {
    fn add(&mut self, key: &Measured<'_>) {
        self.keys += 1;
        self.bytes = self.bytes.saturating_add(key.bytes);
        self.members = self.members.saturating_add(key.members);
        self.without_lifetime += u64::from(key.lifetime.is_none());
        self.largest = self.largest.max(key.bytes);
        let power = key.bytes.max(1).ilog2() as usize;
        self.sizes[power.min(SIZES - 1)] += 1;
    }

    /// Returns the number of keys per size: `(from, keys)`, where `from` is a power of two and the
    /// range ends before the next power.
    pub fn histogram(&self) -> impl Iterator<Item = (u64, u64)> {
        let filled = self.sizes.iter().enumerate().filter(|(_, keys)| **keys > 0);
        filled.map(|(power, keys)| (1 << power, *keys))
    }
}

/// A server that was asked, or a file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Its address or path.
    pub name: Arc<str>,
    /// Its role in replication; `None` for a file.
    pub role: Option<Role>,
    /// Number of its keys that were examined.
    pub keys: u64,
}

/// The report of a survey.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Report {
    /// Servers or files that were examined.
    pub asked: Vec<Asked>,
    /// All keys together.
    pub totals: Totals,
    /// Totals per type; only types that occur.
    pub by_kind: Vec<(Kind, Totals)>,
    /// Totals per prefix, largest first.
    pub by_prefix: Vec<(String, Totals)>,
    /// Keys of prefixes beyond the first thousand.
    pub other_prefixes: Totals,
    /// The largest keys by memory.
    pub largest: Vec<Finding>,
    /// The collections with the most members.
    pub longest: Vec<Finding>,
    /// Keys above a threshold, worst first; at most ten thousand.
    pub flagged: Vec<Finding>,
    /// Number of keys with a warning.
    pub warn: u64,
    /// Number of critical keys.
    pub critical: u64,
    /// Keys that were not used for this number of days, for each of [`IDLE_DAYS`].
    pub idle: [u64; 4],
    /// Whether idle times were known.
    pub idle_known: bool,
    /// Keys that a scan returned again; each is counted once.
    pub duplicates: u64,
    /// Keys that were deleted between being found and being measured.
    pub vanished: u64,
    /// How long it took.
    pub took: Duration,
    /// How much of that it paused because the server was slow.
    pub paused: Duration,
    /// Notes that help to interpret the figures.
    pub notes: Vec<String>,
}

/// A key that was measured, before it is decided whether the report keeps it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured<'a> {
    pub(super) key: &'a [u8],
    pub(super) kind: Kind,
    pub(super) bytes: u64,
    pub(super) members: u64,
    pub(super) node: &'a Arc<str>,
    pub(super) database: u32,
    pub(super) lifetime: Option<Duration>,
    pub(super) idle: Option<Duration>,
}

/// Collects keys into a report.
#[derive(Debug)]
pub(super) struct Collector {
    thresholds: Thresholds,
    separator: u8,
    by_kind: [Totals; Kind::ALL.len()],
    by_prefix: BTreeMap<Box<[u8]>, Totals>,
    largest: Top<Finding>,
    longest: Top<Finding>,
    flagged: Top<Finding>,
    clock: Clock,
    began: Moment,
    pub(super) report: Report,
}

impl Collector {
    pub(super) fn new(thresholds: Thresholds, separator: u8, top: usize, clock: Clock) -> Self {
        Collector {
            thresholds,
            separator,
            by_kind: std::array::from_fn(|_| Totals::default()),
            by_prefix: BTreeMap::new(),
            largest: Top::new(top),
            longest: Top::new(top),
            flagged: Top::new(MAX_FLAGGED),
            began: clock.now(),
            clock,
            report: Report::default(),
        }
    }

    pub(super) fn add(&mut self, key: &Measured<'_>) {
        self.report.totals.add(key);
        self.by_kind[key.kind.index()].add(key);
        self.add_prefix(key);
        if let Some(idle) = key.idle {
            self.report.idle_known = true;
            for (count, days) in self.report.idle.iter_mut().zip(IDLE_DAYS) {
                *count += u64::from(idle >= DAY * days as u32);
            }
        }
        let severity = self.thresholds.severity(key.kind, key.bytes, key.members);
        match severity {
            Severity::Fine => {}
            Severity::Warn => self.report.warn += 1,
            Severity::Critical => self.report.critical += 1,
        }
        self.keep(key, severity);
    }

    fn add_prefix(&mut self, key: &Measured<'_>) {
        let end = key.key.iter().position(|&byte| byte == self.separator);
        let prefix = end.map_or(&b""[..], |end| &key.key[..end.min(MAX_PREFIX_BYTES)]);
        if let Some(totals) = self.by_prefix.get_mut(prefix) {
            totals.add(key);
        } else if self.by_prefix.len() < MAX_PREFIXES {
            self.by_prefix.entry(prefix.into()).or_default().add(key);
        } else {
            self.report.other_prefixes.add(key);
        }
    }

    /// Copies only what the report keeps.
    fn keep(&mut self, key: &Measured<'_>, severity: Severity) {
        // Critical keys come first; within a severity, keys are ordered by memory.
        let worst = key.bytes | (u64::from(severity == Severity::Critical) << 63);
        // A string's length is not a number of members.
        let members = if key.kind == Kind::String { 0 } else { key.members };
        let flagged = severity > Severity::Fine && self.flagged.wants(worst);
        let longest = members > 0 && self.longest.wants(members);
        if !self.largest.wants(key.bytes) && !longest && !flagged {
            return;
        }
        let finding = Finding {
            key: key.key.into(),
            kind: key.kind,
            bytes: key.bytes,
            members: key.members,
            node: Arc::clone(key.node),
            database: key.database,
            lifetime: key.lifetime,
            idle: key.idle,
            severity,
        };
        let name = (key.database, Arc::clone(&finding.key));
        if longest {
            self.longest.offer(members, name.clone(), finding.clone());
        }
        if flagged {
            self.flagged.offer(worst, name.clone(), finding.clone());
        }
        self.largest.offer(key.bytes, name, finding);
    }

    pub(super) fn finish(mut self) -> Report {
        self.report.took = self.clock.now().since(self.began);
        let kinds = Kind::ALL.into_iter().zip(self.by_kind);
        self.report.by_kind = kinds.filter(|(_, totals)| totals.keys > 0).collect();
        let named = |(prefix, totals): (Box<[u8]>, Totals)| (super::key_text(&prefix), totals);
        self.report.by_prefix = self.by_prefix.into_iter().map(named).collect();
        self.report
            .by_prefix
            .sort_by(|(a, x), (b, y)| y.bytes.cmp(&x.bytes).then_with(|| a.cmp(b)));
        self.report.largest = self.largest.into_sorted();
        self.report.longest = self.longest.into_sorted();
        self.report.flagged = self.flagged.into_sorted();
        let flagged = self.report.warn + self.report.critical;
        if flagged > MAX_FLAGGED as u64 {
            self.report.notes.push(format!(
                "{flagged} keys are above a threshold; the {MAX_FLAGGED} worst are kept by name"
            ));
        }
        self.report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_bounded_and_nothing_is_lost() {
        let mut collector = Collector::new(Thresholds::default(), b':', 2, Clock::manual().0);
        let node: Arc<str> = "n".into();
        for number in 0..3_000u64 {
            let key = format!("p{number}:x");
            collector.add(&Measured {
                key: key.as_bytes(),
                kind: Kind::Hash,
                bytes: number + 1,
                members: 5_000 - number,
                node: &node,
                database: 0,
                lifetime: None,
                idle: Some(Duration::from_secs(number * 86_400)),
            });
        }
        let report = collector.finish();
        assert_eq!(report.by_prefix.len(), MAX_PREFIXES);
        assert_eq!(report.other_prefixes.keys, 2_000);
        let bytes: u64 = report.by_prefix.iter().map(|(_, totals)| totals.bytes).sum();
        assert_eq!(bytes + report.other_prefixes.bytes, report.totals.bytes);
        assert_eq!(report.totals.histogram().map(|(_, keys)| keys).sum::<u64>(), 3_000);
        assert_eq!(report.largest[0].key_text(), "p2999:x");
        assert_eq!(report.longest[0].key_text(), "p0:x");
        assert_eq!(report.idle, [2_999, 2_993, 2_970, 2_910]);
        assert_eq!((report.warn, report.critical), (3_000, 0));
    }
}
