//! Parses the output of the suite into counts and names.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::outcome::{Context, Outcome};

/// Maximum characters of a failure that are shown.
const SHOWN_CHARS: usize = 300;

/// One unit's run.
pub(super) struct UnitResult {
    pub(super) unit: &'static str,
    pub(super) passed: Vec<String>,
    pub(super) failed: Vec<String>,
    /// Reason why the unit did not finish.
    pub(super) interrupted: Option<String>,
    pub(super) elapsed: Duration,
}

/// How often each test of each unit passes on redis-server; several tests may share a name.
pub(super) struct Baseline(BTreeMap<String, BTreeMap<String, usize>>);

impl Baseline {
    /// Reads the baseline of an earlier run; empty if there was none.
    pub(super) fn load(file: &Path) -> Self {
        let mut units: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
        for line in fs::read_to_string(file).unwrap_or_default().lines() {
            if let Some((unit, name)) = line.split_once('\t') {
                *units.entry(unit.into()).or_default().entry(name.into()).or_default() += 1;
            }
        }
        Self(units)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl UnitResult {
    /// Returns the number of passed tests and the total: that of redis-server if known.
    pub(super) fn score(&self, baseline: &Baseline) -> (usize, usize) {
        match baseline.0.get(self.unit) {
            Some(tests) => {
                let of: usize = tests.values().sum();
                let missing: usize = self.missing(tests).map(|(_, count)| count).sum();
                (of - missing, of)
            }
            None => {
                let stopped = usize::from(self.interrupted.is_some());
                (self.passed.len(), self.passed.len() + self.failed.len() + stopped)
            }
        }
    }

    /// Returns the tests that pass on redis-server but were reported neither as passed nor as
    /// failed here.
    pub(super) fn never_passed(&self, baseline: &Baseline) -> Vec<String> {
        let Some(tests) = baseline.0.get(self.unit) else { return Vec::new() };
        let reported = |name: &str| {
            let starts = format!("{name} in tests/");
            self.failed.iter().any(|failed| failed.starts_with(&starts))
        };
        let missing = self.missing(tests).map(|(name, _)| name.clone());
        missing.filter(|name| !reported(name)).collect()
    }

    fn missing<'a>(
        &'a self,
        tests: &'a BTreeMap<String, usize>,
    ) -> impl Iterator<Item = (&'a String, usize)> {
        tests.iter().filter_map(|(name, &wanted)| {
            let passed = self.passed.iter().filter(|passed| *passed == name).count();
            (passed < wanted).then(|| (name, wanted - passed))
        })
    }
}

/// Parses the verdicts in the lines of one unit.
pub(super) fn read(unit: &'static str, lines: &[String], elapsed: Duration) -> UnitResult {
    let mut result =
        UnitResult { unit, passed: Vec::new(), failed: Vec::new(), interrupted: None, elapsed };
    let mut ended = false;
    for line in lines {
        let line = without_colours(line);
        if let Some(rest) = line.strip_prefix("[ok]: ") {
            result.passed.push(without_time(rest));
        } else if let Some(rest) = line.strip_prefix("[err]: ") {
            result.failed.push(rest.chars().take(SHOWN_CHARS).collect());
        } else if let Some(rest) = line.strip_prefix("[exception]: ") {
            result.interrupted = Some(rest.chars().take(SHOWN_CHARS).collect());
        } else if line.starts_with("[TIMEOUT]") {
            result.interrupted = Some("no progress within the time limit".into());
        } else if line.contains("The End") {
            ended = true;
        }
    }
    if !ended && result.interrupted.is_none() {
        let last = lines.iter().rev().find(|line| !line.trim().is_empty());
        let last = last.map(|line| without_colours(line)).unwrap_or_default();
        result.interrupted = Some(format!("the suite ended after: {last}"));
    }
    result
}

/// Removes the time from `name (12 ms)`.
fn without_time(text: &str) -> String {
    match text.rsplit_once(" (") {
        Some((name, time)) if time.ends_with(" ms)") => name.to_owned(),
        _ => text.to_owned(),
    }
}

fn without_colours(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('\x1b') {
        out.push_str(before);
        rest = after.split_once('m').map_or("", |(_, tail)| tail);
    }
    out.push_str(rest);
    out
}

/// Stores the names of the tests that passed; units that did not run this time keep theirs.
pub(super) fn keep(file: &Path, results: &[UnitResult]) -> Outcome {
    let mut text = String::new();
    let ran = |unit: &str| results.iter().any(|result| result.unit == unit);
    for line in fs::read_to_string(file).unwrap_or_default().lines() {
        if line.split_once('\t').is_some_and(|(unit, _)| !ran(unit)) {
            let _ = writeln!(text, "{line}");
        }
    }
    for result in results {
        for name in &result.passed {
            let _ = writeln!(text, "{}\t{name}", result.unit);
        }
    }
    fs::write(file, text).context(format!("cannot keep {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_found_in_coloured_output() {
        let lines = [
            "[\x1b[0;32mok\x1b[0m]: SET and GET (3 ms)",
            "[\x1b[0;31merr\x1b[0m]: INCR in tests/unit/x.tcl",
            "Expected '1' to be equal to '2'",
            "[\x1b[0;31mexception\x1b[0m]: Executing test client: boom",
        ];
        let result = read("x", &lines.map(String::from), Duration::ZERO);
        assert_eq!(result.passed, ["SET and GET"]);
        assert_eq!(result.failed, ["INCR in tests/unit/x.tcl"]);
        assert_eq!(result.interrupted.as_deref(), Some("Executing test client: boom"));
        assert_eq!(result.score(&Baseline(BTreeMap::new())), (1, 3));
    }

    #[test]
    fn the_score_is_out_of_what_redis_passes() {
        let lines = ["[ok]: a (1 ms)".to_owned(), "The End".to_owned()];
        let result = read("x", &lines, Duration::ZERO);
        let names = BTreeMap::from([("a".to_owned(), 2), ("b".to_owned(), 1)]);
        let baseline = Baseline(BTreeMap::from([("x".to_owned(), names)]));
        assert_eq!(result.score(&baseline), (1, 3));
        assert_eq!(result.never_passed(&baseline), ["a", "b"]);
    }
}
