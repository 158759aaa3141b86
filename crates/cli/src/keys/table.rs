//! Human-readable reports.

use std::fmt::Write as _;

use seawall::survey::{Finding, IDLE_DAYS, Report, Totals};

use super::text::{bytes, grouped, span};

/// Number of prefixes shown; JSON has all of them.
const PREFIXES: usize = 15;
/// Width of the longest bar of a histogram.
const BAR: u64 = 40;

/// Formats rows of cells under a heading, in columns as wide as needed; the last column is never
/// padded.
pub(super) fn aligned(rows: &[Vec<String>], right: &[usize]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::from(" ");
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            // Writing to a string cannot fail.
            let _ = match right.contains(&column) {
                true => write!(line, " {cell:>width$} "),
                false => write!(line, " {cell:<width$} "),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn cells<const N: usize>(row: [impl Into<String>; N]) -> Vec<String> {
    row.into_iter().map(Into::into).collect()
}

fn sum(name: &str, totals: &Totals) -> Vec<String> {
    cells([
        name.to_owned(),
        grouped(totals.keys),
        bytes(totals.bytes),
        grouped(totals.members),
        bytes(totals.largest),
        grouped(totals.without_lifetime),
    ])
}

fn sums<'a>(heading: &str, all: impl Iterator<Item = (&'a str, &'a Totals)>) -> String {
    let mut rows = vec![cells([heading, "keys", "bytes", "members", "largest", "no lifetime"])];
    rows.extend(all.map(|(name, totals)| sum(name, totals)));
    aligned(&rows, &[1, 2, 3, 4, 5])
}

fn findings(found: &[Finding]) -> String {
    let heading = ["", "type", "bytes", "members", "lifetime", "idle", "node", "key"];
    let mut rows = vec![cells(heading)];
    for one in found {
        let time = |time: Option<std::time::Duration>, none: &str| {
            time.map_or_else(|| none.to_owned(), span)
        };
        let severity = match one.severity {
            seawall::survey::Severity::Fine => "",
            other => other.name(),
        };
        rows.push(cells([
            severity.to_owned(),
            one.kind.to_string(),
            bytes(one.bytes),
            grouped(one.members),
            time(one.lifetime, "none"),
            time(one.idle, "?"),
            one.node.to_string(),
            one.key_text(),
        ]));
    }
    aligned(&rows, &[2, 3, 4, 5])
}

fn histogram(totals: &Totals) -> String {
    let most = totals.histogram().map(|(_, keys)| keys).max().unwrap_or(1);
    let rows: Vec<_> = totals
        .histogram()
        .map(|(from, keys)| {
            let bar = "█".repeat((keys * BAR).div_ceil(most) as usize);
            cells([format!("from {}", bytes(from)), grouped(keys), bar])
        })
        .collect();
    aligned(&rows, &[0, 1])
}

/// Formats the whole report.
pub(super) fn report(report: &Report, end: &str) -> String {
    let mut text = String::new();
    let totals = &report.totals;
    let _ = writeln!(
        text,
        "{} keys, {}, {} without a lifetime; {} critical, {} worth a look ({end})",
        grouped(totals.keys),
        bytes(totals.bytes),
        grouped(totals.without_lifetime),
        grouped(report.critical),
        grouped(report.warn),
    );
    for asked in &report.asked {
        let role = asked.role.map_or_else(String::new, |role| format!(", {}", role.name()));
        let _ = writeln!(text, "  {}{role}: {} keys", asked.name, grouped(asked.keys));
    }
    if report.idle_known {
        let idle: Vec<_> = IDLE_DAYS
            .iter()
            .zip(report.idle)
            .map(|(days, keys)| format!("{} for {days} d", grouped(keys)))
            .collect();
        let _ = writeln!(text, "  idle: {}", idle.join(", "));
    }
    let kinds = report.by_kind.iter().map(|(kind, totals)| (kind.name(), totals));
    let _ = write!(text, "\n{}", sums("type", kinds));
    let prefixes = report.by_prefix.iter().take(PREFIXES).map(|(prefix, totals)| {
        (if prefix.is_empty() { "(none)" } else { prefix.as_str() }, totals)
    });
    let others = (report.other_prefixes.keys > 0).then_some(("(others)", &report.other_prefixes));
    let _ = write!(text, "\n{}", sums("prefix", prefixes.chain(others)));
    let _ = write!(text, "\n  keys by size\n{}", histogram(totals));
    let _ = write!(text, "\n  largest by memory\n{}", findings(&report.largest));
    if !report.longest.is_empty() {
        let _ = write!(text, "\n  most members\n{}", findings(&report.longest));
    }
    text.push('\n');
    if report.duplicates > 0 || report.vanished > 0 {
        let _ = writeln!(
            text,
            "  {} keys were returned twice and counted once, {} went away meanwhile",
            grouped(report.duplicates),
            grouped(report.vanished)
        );
    }
    for note in &report.notes {
        let _ = writeln!(text, "  {note}");
    }
    let paused = match report.paused.is_zero() {
        true => String::new(),
        false => format!(", of that {:.1} s paused for the server", report.paused.as_secs_f64()),
    };
    let _ = writeln!(text, "  took {:.1} s{paused}", report.took.as_secs_f64());
    text
}
