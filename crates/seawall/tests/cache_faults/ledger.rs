//! The source of a random campaign, and what its readers must see.
//!
//! Each key has a version that only rises; some versions say that there is no row. A writer reports
//! what it was promised after it was promised, a reader notes the *floor* before it reads: so what is
//! due is never more than what the cache owes. The last events of each key are kept for the report.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use seawall::cache::Version;
use serde::{Deserialize, Serialize};

/// Keys of an episode that are read and written throughout.
pub(crate) const KEYS: u64 = 12;
/// Keys that only probes use.
pub(crate) const PROBED: u64 = KEYS + 3;
/// "Processes": handles of their own.
pub(crate) const PARTIES: usize = 2;
/// Events that are kept of each key.
const EVENTS: usize = 40;
/// Violations that are kept in full.
const MAX_KEPT: usize = 4;
/// Tokens that are kept of each key.
const TOKENS: usize = 4;
/// A filter knows of what was announced this long ago: a second, and what a busy machine adds.
const ANNOUNCED: Duration = Duration::from_millis(1_500);
/// How long commits are remembered, for replicas that lag.
const REMEMBERED: Duration = Duration::from_secs(5);

/// How a key is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// By anybody at any time: `write`, `invalidate`, `clear`.
    Free,
    /// One writer at a time, which also brings the value itself.
    Put,
    /// One writer at a time, by the source's own versions.
    Versioned,
}

pub(crate) fn class_of(key: u64) -> Class {
    match key % 4 {
        2 => Class::Put,
        3 => Class::Versioned,
        _ => Class::Free,
    }
}

/// A row of the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    key: u64,
    pub(crate) version: u64,
    padding: String,
}

/// Tags that rows carry.
pub(crate) const ROW_TAGS: usize = 2;

impl Row {
    /// The tag that this row carries: another one with each version.
    pub(crate) fn tag(&self) -> usize {
        ((self.key + self.version) % ROW_TAGS as u64) as usize
    }
}

/// Versions that are due, by the tags of rows: older rows with that tag are not.
pub(crate) type ByTag = [u64; ROW_TAGS];

fn mix(key: u64, version: u64) -> u64 {
    crate::chance::Chance::new(key << 32 ^ version).below(u64::MAX)
}

/// Whether the source has a row in this version.
fn has_row(key: u64, version: u64) -> bool {
    version > 0 && !mix(key, version).is_multiple_of(5)
}

#[derive(Default)]
struct Line {
    version: u64,
    /// When which version came, the last seconds of it.
    commits: VecDeque<(Instant, u64)>,
    /// What every strong reader sees.
    floor: u64,
    floors: VecDeque<(Instant, u64)>,
    /// The floor that a filter knows of.
    announced: u64,
    /// What each process has told the cache itself.
    own: [u64; PARTIES],
    /// What is seen at the end: applied, or queued.
    promised: u64,
    /// The same of clears of the tags that rows carry.
    tag_floor: ByTag,
    tag_own: [ByTag; PARTIES],
    tag_promised: ByTag,
    tokens: VecDeque<(Version, u64)>,
    events: VecDeque<String>,
    loading: [u64; PARTIES],
    most_loading: u64,
    loads: u64,
}

/// What a reader knows before it reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    pub(crate) floor: u64,
    pub(crate) own: u64,
    pub(crate) announced: u64,
    pub(crate) promised: u64,
    pub(crate) tag_floor: ByTag,
    pub(crate) tag_own: ByTag,
    pub(crate) tag_promised: ByTag,
    pub(crate) strict: bool,
    pub(crate) era: u64,
}

pub(crate) struct Ledger {
    lines: Mutex<Vec<Line>>,
    began: Instant,
    padding: usize,
    lag: Duration,
    /// Whether nothing that was acknowledged has been lost.
    strict: AtomicBool,
    /// How often acknowledged writes were lost.
    era: AtomicU64,
    violations: AtomicU64,
    kept: Mutex<Vec<String>>,
}

impl Ledger {
    pub(crate) fn new(padding: usize, lag: Duration) -> Self {
        Ledger {
            lines: Mutex::new((0..PROBED).map(|_| Line::default()).collect()),
            began: Instant::now(),
            padding,
            lag,
            strict: AtomicBool::new(true),
            era: AtomicU64::new(0),
            violations: AtomicU64::new(0),
            kept: Mutex::default(),
        }
    }

    fn lines(&self) -> MutexGuard<'_, Vec<Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, key: u64, work: impl FnOnce(&mut Line) -> T) -> T {
        work(&mut self.lines()[usize::try_from(key).expect("a key")])
    }

    /// Notes what happened to a key.
    pub(crate) fn event(&self, key: u64, what: impl FnOnce() -> String) {
        let at = self.began.elapsed().as_micros();
        self.with(key, |line| {
            if line.events.len() == EVENTS {
                line.events.pop_front();
            }
            line.events.push_back(format!("{at:>9} us {}", what()));
        });
    }

    pub(crate) fn exists(&self, key: u64) -> bool {
        self.with(key, |line| has_row(key, line.version))
    }

    /// Changes the row.
    pub(crate) fn commit(&self, key: u64) -> u64 {
        self.with(key, |line| {
            line.version += 1;
            line.commits.push_back((Instant::now(), line.version));
            while line.commits.front().is_some_and(|(at, _)| at.elapsed() > REMEMBERED) {
                line.commits.pop_front();
            }
            line.version
        })
    }

    /// What a loader of this process finds; it says when it is done.
    pub(crate) fn begin_load(&self, party: usize, key: u64) -> u64 {
        let now = Instant::now();
        let version = self.with(key, |line| {
            line.loads += 1;
            line.loading[party] += 1;
            line.most_loading = line.most_loading.max(line.loading[party]);
            // What the replica has not got yet.
            let missing =
                line.commits.iter().filter(|(at, _)| now.duration_since(*at) < self.lag).count();
            if self.lags(key) { line.version - missing as u64 } else { line.version }
        });
        self.event(key, || format!("p{party} loads {version}"));
        version
    }

    pub(crate) fn end_load(&self, party: usize, key: u64) {
        self.with(key, |line| line.loading[party] -= 1);
    }

    pub(crate) fn loads(&self, key: u64) -> u64 {
        self.with(key, |line| line.loads)
    }

    /// How many loads of this key one process ran at the same time, at most.
    pub(crate) fn most_loading(&self, key: u64) -> u64 {
        self.with(key, |line| line.most_loading)
    }

    /// The row as the source has it in this version.
    pub(crate) fn row(&self, key: u64, version: u64) -> Option<Row> {
        has_row(key, version).then(|| Row { key, version, padding: self.pad(key, version) })
    }

    fn pad(&self, key: u64, version: u64) -> String {
        let mut text = String::with_capacity(self.padding + 16);
        let mut chance = crate::chance::Chance::new(mix(key, version));
        while text.len() < self.padding {
            let _ = write!(text, "{:x}", chance.below(u64::MAX));
        }
        text
    }

    /// Whether loads of this key come from a replica that lags.
    pub(crate) fn lags(&self, key: u64) -> bool {
        !self.lag.is_zero() && class_of(key) == Class::Free
    }

    pub(crate) fn begin(&self, party: usize, key: u64) -> Begun {
        let (strict, era) = (self.strict.load(Ordering::SeqCst), self.era.load(Ordering::SeqCst));
        self.with(key, |line| {
            while let Some(&(at, floor)) = line.floors.front()
                && at.elapsed() >= ANNOUNCED
            {
                line.announced = line.announced.max(floor);
                line.floors.pop_front();
            }
            let (floor, own) = (line.floor, line.own[party]);
            let (announced, promised) = (line.announced, line.promised);
            let (tag_floor, tag_own) = (line.tag_floor, line.tag_own[party]);
            let tag_promised = line.tag_promised;
            Begun { floor, own, announced, promised, tag_floor, tag_own, tag_promised, strict, era }
        })
    }

    /// The cache said that everybody sees this version from now on.
    pub(crate) fn applied(
        &self,
        party: usize,
        key: u64,
        version: u64,
        token: Option<Version>,
        era: u64,
    ) {
        if class_of(key) != Class::Free && era != self.era.load(Ordering::SeqCst) {
            return;
        }
        self.with(key, |line| {
            line.floor = line.floor.max(version);
            line.floors.push_back((Instant::now(), line.floor));
            line.own[party] = line.own[party].max(version);
            line.promised = line.promised.max(version);
            if let Some(token) = token {
                if line.tokens.len() == TOKENS {
                    line.tokens.pop_front();
                }
                line.tokens.push_back((token, version));
            }
        });
    }

    /// The cache said that nobody sees older rows with this tag from now on; without a process, that
    /// nobody will.
    pub(crate) fn cleared(&self, party: Option<usize>, key: u64, tag: usize, version: u64) {
        self.with(key, |line| {
            let raise = |due: &mut ByTag| due[tag] = due[tag].max(version);
            raise(&mut line.tag_promised);
            if let Some(party) = party {
                raise(&mut line.tag_floor);
                raise(&mut line.tag_own[party]);
            }
        });
    }

    /// The cache said that everybody will see this version, and this process does so now.
    pub(crate) fn queued(&self, party: usize, key: u64, version: u64) {
        self.with(key, |line| {
            line.own[party] = line.own[party].max(version);
            line.promised = line.promised.max(version);
        });
    }

    /// Everybody will see this version.
    pub(crate) fn promised(&self, key: u64, version: u64) {
        self.with(key, |line| line.promised = line.promised.max(version));
    }

    pub(crate) fn token(&self, key: u64, pick: u64) -> Option<(Version, u64)> {
        self.with(key, |line| {
            let count = line.tokens.len() as u64;
            (count > 0).then(|| line.tokens[usize::try_from(pick % count).expect("few")])
        })
    }

    /// From here on acknowledged writes may be lost: what readers see counts at the end only, and a
    /// value that a writer brought may be lost for good.
    pub(crate) fn may_forget(&self) {
        self.strict.store(false, Ordering::SeqCst);
    }

    /// They were lost just now.
    pub(crate) fn forgot(&self) {
        self.era.fetch_add(1, Ordering::SeqCst);
        for (key, line) in (0..).zip(self.lines().iter_mut()) {
            line.tokens.clear();
            if class_of(key) != Class::Free {
                (line.floor, line.promised, line.own) = (0, 0, [0; PARTIES]);
            }
        }
    }

    pub(crate) fn is_strict(&self) -> bool {
        self.strict.load(Ordering::SeqCst)
    }

    /// Whether this is a row of this key that is at least as new as `due`, and as what is due for its
    /// tag.
    pub(crate) fn suits(
        &self,
        key: u64,
        got: Option<&Row>,
        due: u64,
        by_tag: ByTag,
    ) -> Result<(), String> {
        let current = self.with(key, |line| line.version);
        let Some(row) = got else {
            if (due..=current).any(|version| !has_row(key, version)) {
                return Ok(());
            }
            return Err(format!("no row, though {due} to {current} have one"));
        };
        if row.key != key
            || row.version > current
            || self.row(key, row.version).as_ref() != Some(row)
        {
            return Err(format!("a row that never was: {} {}", row.key, row.version));
        }
        if row.version < due {
            return Err(format!("version {} where {due} was due", row.version));
        }
        let due = by_tag[row.tag()];
        if row.version < due {
            return Err(format!("version {} with a tag that was cleared at {due}", row.version));
        }
        Ok(())
    }

    pub(crate) fn violation(&self, key: u64, text: &str) {
        self.violations.fetch_add(1, Ordering::SeqCst);
        self.event(key, || format!("VIOLATION {text}"));
        let events = self.with(key, |line| line.events.iter().cloned().collect::<Vec<_>>());
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MAX_KEPT {
            kept.push(format!("key {key}: {text}\n    {}", events.join("\n    ")));
        }
    }

    pub(crate) fn violations(&self) -> u64 {
        self.violations.load(Ordering::SeqCst)
    }

    pub(crate) fn kept(&self) -> String {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).join("\n  ")
    }
}
