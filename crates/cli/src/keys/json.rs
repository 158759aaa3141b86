//! Reports as JSON, with all findings.

use seawall::survey::{Finding, IDLE_DAYS, Report, Totals};
use serde_json::{Map, Value, json};

fn totals(totals: &Totals) -> Value {
    let sizes: Vec<_> =
        totals.histogram().map(|(from, keys)| json!({ "fromBytes": from, "keys": keys })).collect();
    json!({
        "keys": totals.keys,
        "bytes": totals.bytes,
        "members": totals.members,
        "withoutLifetime": totals.without_lifetime,
        "largest": totals.largest,
        "sizes": sizes,
    })
}

/// Formats one key. Its name loses nothing: bytes that are not text are written `\xNN`.
pub(super) fn finding(found: &Finding) -> Value {
    json!({
        "key": found.key_text(),
        "type": found.kind.name(),
        "bytes": found.bytes,
        "members": found.members,
        "severity": found.severity.name(),
        "lifetimeSeconds": found.lifetime.map(|time| time.as_secs()),
        "idleSeconds": found.idle.map(|time| time.as_secs()),
        "database": found.database,
        "node": &*found.node,
    })
}

/// Formats the whole report; `end` says whether it is complete.
pub(super) fn report(report: &Report, end: &str) -> String {
    let findings = |found: &[Finding]| found.iter().map(finding).collect::<Vec<_>>();
    let asked: Vec<_> = report
        .asked
        .iter()
        .map(|one| json!({ "name": &*one.name, "role": one.role.map(seawall::survey::Role::name), "keys": one.keys }))
        .collect();
    let kinds: Map<_, _> =
        report.by_kind.iter().map(|(kind, sum)| (kind.name().to_owned(), totals(sum))).collect();
    let prefixes: Map<_, _> =
        report.by_prefix.iter().map(|(prefix, sum)| (prefix.clone(), totals(sum))).collect();
    let idle =
        IDLE_DAYS.iter().zip(report.idle).map(|(days, keys)| (days.to_string(), json!(keys)));
    let idle: Map<_, _> = idle.collect();
    let value = json!({
        "end": end,
        "asked": asked,
        "totals": totals(&report.totals),
        "byType": kinds,
        "byPrefix": prefixes,
        "otherPrefixes": totals(&report.other_prefixes),
        "warn": report.warn,
        "critical": report.critical,
        "largest": findings(&report.largest),
        "longest": findings(&report.longest),
        "flagged": findings(&report.flagged),
        "idleDays": report.idle_known.then_some(idle),
        "duplicates": report.duplicates,
        "vanished": report.vanished,
        "tookSeconds": report.took.as_secs_f64(),
        "pausedSeconds": report.paused.as_secs_f64(),
        "notes": report.notes,
    });
    format!("{value:#}\n")
}
