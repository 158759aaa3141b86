//! Formats and parses numbers for people.

use std::time::Duration;

use seawall::survey::{Kind, Measure, Thresholds, Tiers};

/// `1,234,567`
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1.2 MB`, in powers of 1,024.
pub(super) fn bytes(number: u64) -> String {
    const UNITS: [&str; 6] = ["KB", "MB", "GB", "TB", "PB", "EB"];
    if number < 1024 {
        return format!("{number} B");
    }
    let power = (number.ilog2() / 10) as usize;
    let value = number as f64 / 1024f64.powi(power as i32);
    format!("{value:.1} {}", UNITS[(power - 1).min(UNITS.len() - 1)])
}

/// The largest unit that fits: `3 d`, `5 h`, `12 min`, `7 s`.
pub(super) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Parses a whole number with an optional `kb`, `mb` or `gb`.
fn size(text: &str) -> Option<u64> {
    let lower = text.trim().to_ascii_lowercase();
    let units = [("kb", 10), ("mb", 20), ("gb", 30), ("k", 10), ("m", 20), ("g", 30), ("b", 0)];
    let (digits, shift) = units
        .iter()
        .find_map(|(unit, shift)| Some((lower.strip_suffix(unit)?, *shift)))
        .unwrap_or((&lower, 0));
    digits.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Applies rules such as `hash.members=500,5000`.
///
/// # Errors
/// A sentence that names the rule and the allowed values.
pub(super) fn thresholds(rules: &[String]) -> Result<Thresholds, String> {
    let mut thresholds = Thresholds::default();
    for rule in rules {
        let refuse = || {
            format!(
                "--threshold cannot be '{rule}': it takes TYPE.bytes=WARN,CRITICAL or \
                 TYPE.members=WARN,CRITICAL with WARN not above CRITICAL, such as hash.members=500,5000 \
                 or string.bytes=10kb,1mb; TYPE is string, list, set, zset, hash, stream, other or all"
            )
        };
        let parsed = rule.split_once('=').and_then(|(name, tiers)| {
            let (kind, measure) = name.split_once('.')?;
            let (warn, critical) = tiers.split_once(',')?;
            let tiers = Tiers { warn: size(warn)?, critical: size(critical)? };
            let measure = match measure {
                "bytes" => Measure::Bytes,
                "members" => Measure::Members,
                _ => return None,
            };
            (tiers.warn <= tiers.critical).then_some((kind, measure, tiers))
        });
        let (kind, measure, tiers) = parsed.ok_or_else(refuse)?;
        let kinds: Vec<Kind> = match kind {
            "all" => Kind::ALL.to_vec(),
            kind => vec![Kind::of_name(kind).ok_or_else(refuse)?],
        };
        kinds.into_iter().for_each(|kind| thresholds.set(kind, measure, tiers));
    }
    Ok(thresholds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(bytes(1_023), "1023 B");
        assert_eq!(bytes(1_536), "1.5 KB");
        assert_eq!(bytes(u64::MAX), "16.0 EB");
        assert_eq!(span(Duration::from_secs(90_000)), "25 h");
    }

    #[test]
    fn rules_are_read_and_refused() {
        let rules = ["hash.members=5,1k".to_owned(), "all.bytes=1,2mb".to_owned()];
        let set = thresholds(&rules).expect("they are right");
        assert_eq!(set.get(Kind::Hash, Measure::Members), Tiers { warn: 5, critical: 1024 });
        assert_eq!(set.get(Kind::Stream, Measure::Bytes), Tiers { warn: 1, critical: 2 << 20 });
        for wrong in ["hash", "hash.members", "hash.members=9,5", "tree.bytes=1,2", "set.size=1,2"]
        {
            let said = thresholds(&[wrong.to_owned()]).expect_err("it is wrong");
            assert!(said.contains(wrong) && said.contains("hash.members=500,5000"), "{said}");
        }
    }
}
