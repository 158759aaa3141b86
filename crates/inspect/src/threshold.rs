//! Thresholds for big keys: two tiers for each type, in bytes and in members.
//!
//! The defaults are those that operators use: 10 KB and 10 MB for a string, 2,000 and 10,000
//! members for a collection. The bytes of a collection warn at 1 MB, because below that many
//! members cost time, not memory.

use std::fmt;

use super::Kind;

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Below every threshold.
    Fine,
    /// Worth a look.
    Warn,
    /// Causes trouble: blocked servers, full links, skewed nodes.
    Critical,
}

impl Severity {
    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Fine => "fine",
            Severity::Warn => "warn",
            Severity::Critical => "critical",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The values from which on something is worth a look, and critical.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiers {
    /// Worth a look from this value on.
    pub warn: u64,
    /// Critical from this value on.
    pub critical: u64,
}

impl Tiers {
    const NEVER: Tiers = Tiers { warn: u64::MAX, critical: u64::MAX };

    fn severity(self, value: u64) -> Severity {
        if value >= self.critical {
            Severity::Critical
        } else if value >= self.warn {
            Severity::Warn
        } else {
            Severity::Fine
        }
    }
}

/// The quantity that a threshold applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Memory of key and value.
    Bytes,
    /// Members, fields or entries.
    Members,
}

/// Thresholds for every type.
///
/// ```
/// use seawall::survey::{Kind, Measure, Severity, Thresholds, Tiers};
///
/// let mut thresholds = Thresholds::default();
/// assert_eq!(thresholds.severity(Kind::Hash, 90_000, 2_500), Severity::Warn);
/// thresholds.set(Kind::Hash, Measure::Members, Tiers { warn: 500, critical: 2_500 });
/// assert_eq!(thresholds.severity(Kind::Hash, 90_000, 2_500), Severity::Critical);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thresholds {
    bytes: [Tiers; Kind::ALL.len()],
    members: [Tiers; Kind::ALL.len()],
}

impl Default for Thresholds {
    fn default() -> Self {
        let collection = Tiers { warn: 1 << 20, critical: 10 << 20 };
        let mut bytes = [collection; Kind::ALL.len()];
        bytes[Kind::String.index()] = Tiers { warn: 10 << 10, critical: 10 << 20 };
        let mut members = [Tiers { warn: 2_000, critical: 10_000 }; Kind::ALL.len()];
        members[Kind::String.index()] = Tiers::NEVER;
        members[Kind::Other.index()] = Tiers::NEVER;
        Thresholds { bytes, members }
    }
}

impl Thresholds {
    /// Sets a threshold. The members of a string do not count.
    pub fn set(&mut self, kind: Kind, measure: Measure, tiers: Tiers) {
        match measure {
            Measure::Bytes => self.bytes[kind.index()] = tiers,
            Measure::Members if kind != Kind::String => self.members[kind.index()] = tiers,
            Measure::Members => {}
        }
    }

    /// Returns a threshold.
    #[must_use]
    pub fn get(&self, kind: Kind, measure: Measure) -> Tiers {
        match measure {
            Measure::Bytes => self.bytes[kind.index()],
            Measure::Members => self.members[kind.index()],
        }
    }

    /// Returns the severity of a key of this size.
    #[must_use]
    pub fn severity(&self, kind: Kind, bytes: u64, members: u64) -> Severity {
        let by_bytes = self.bytes[kind.index()].severity(bytes);
        by_bytes.max(self.members[kind.index()].severity(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_measure_makes_a_key_big() {
        let limits = Thresholds::default();
        let severity = |kind, bytes, members| limits.severity(kind, bytes, members);
        assert_eq!(severity(Kind::String, 10_239, 10_000_000), Severity::Fine);
        assert_eq!(severity(Kind::String, 10_240, 0), Severity::Warn);
        assert_eq!(severity(Kind::String, 10 << 20, 0), Severity::Critical);
        assert_eq!(severity(Kind::Set, 100, 1_999), Severity::Fine);
        assert_eq!(severity(Kind::Zset, 100, 10_000), Severity::Critical);
        assert_eq!(severity(Kind::Hash, 1 << 20, 1), Severity::Warn);
    }
}
