//! Findings as comma-separated values (RFC 4180).

use std::{collections::BTreeMap, fmt::Write as _};

use seawall::survey::{Finding, Report};

/// Formats a field, quoted if necessary.
pub(super) fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) || text.starts_with([' ', '=', '+', '-', '@']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Formats every key of the report, the largest first.
pub(super) fn report(report: &Report) -> String {
    let all = report.largest.iter().chain(&report.longest).chain(&report.flagged);
    let named: BTreeMap<_, &Finding> =
        all.map(|found| ((found.database, &*found.key), found)).collect();
    let mut named: Vec<_> = named.into_values().collect();
    named.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.key.cmp(&b.key)));
    let mut text =
        "key,type,bytes,members,severity,lifetime_seconds,idle_seconds,database,node\n".to_owned();
    let seconds = |time: Option<std::time::Duration>| {
        time.map_or_else(String::new, |time| time.as_secs().to_string())
    };
    for found in named {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{},{},{}",
            field(&found.key_text()),
            found.kind,
            found.bytes,
            found.members,
            found.severity,
            seconds(found.lifetime),
            seconds(found.idle),
            found.database,
            field(&found.node),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(field("a:b"), "a:b");
        assert_eq!(field("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(field("=1+1"), "\"=1+1\"");
    }
}
