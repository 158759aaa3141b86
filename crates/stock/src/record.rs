//! Record of a reference at a shard: "STATE units ms attempt rest".

use seawall_client::error::{Error, Result};

/// State of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// Its units are being gathered.
    Gathering,
    /// Its units are held.
    Held,
    /// Its units are sold.
    Sold,
    /// Its units were released.
    Released,
    /// Its hold expired.
    Expired,
    /// Its units were sold and taken back.
    TakenBack,
    /// The reference is unknown: it was never used, or is forgotten.
    Unknown,
}

impl Standing {
    pub(super) fn of(letter: &str) -> Option<Self> {
        Some(match letter {
            "G" => Standing::Gathering,
            "H" => Standing::Held,
            "S" => Standing::Sold,
            "R" => Standing::Released,
            "X" => Standing::Expired,
            "B" => Standing::TakenBack,
            "N" => Standing::Unknown,
            _ => return None,
        })
    }

    pub(super) fn letter(self) -> &'static str {
        match self {
            Standing::Gathering => "G",
            Standing::Held => "H",
            Standing::Sold => "S",
            Standing::Released => "R",
            Standing::Expired => "X",
            Standing::TakenBack => "B",
            Standing::Unknown => "N",
        }
    }
}

/// Units of a hold at one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Shard number.
    pub shard: usize,
    /// Number of units.
    pub units: u64,
}

/// A record at the home of a hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) standing: Standing,
    /// Units at the home itself.
    pub(super) units: u64,
    pub(super) ends_millis: i64,
    pub(super) attempt: u64,
    /// Parts at other shards.
    pub(super) parts: Vec<Part>,
}

impl Record {
    /// Parses a script's reply without its first word.
    pub(super) fn from_answer(words: &[String]) -> Result<Self> {
        let record = match words {
            [state, units, ends, attempt, rest, ..] => {
                Self::of_words([state, units, ends, attempt, rest])
            }
            _ => None,
        };
        record.ok_or_else(|| Error::unexpected(format!("{words:?} is not a record")))
    }

    /// Parses a field of the records.
    pub(super) fn from_value(value: &str) -> Option<Self> {
        let words: Vec<&str> = value.split(' ').collect();
        Self::of_words(words.try_into().ok()?)
    }

    fn of_words([state, units, ends, attempt, rest]: [&str; 5]) -> Option<Self> {
        Some(Record {
            standing: Standing::of(state)?,
            units: units.parse().ok()?,
            ends_millis: ends.parse().ok()?,
            attempt: attempt.parse().ok()?,
            parts: parts_of(rest)?,
        })
    }

    /// Formats the record as a field of the records.
    pub(super) fn to_value(&self) -> String {
        let Record { standing, units, ends_millis, attempt, parts } = self;
        format!("{} {units} {ends_millis} {attempt} {}", standing.letter(), written(parts))
    }

    /// Returns the units at all shards.
    pub(super) fn total(&self) -> u64 {
        self.units + self.parts.iter().map(|part| part.units).sum::<u64>()
    }
}

/// Parses `1:4,2:1` or `-`. A part's own record has its home there, which is not a part.
fn parts_of(text: &str) -> Option<Vec<Part>> {
    if !text.contains(':') {
        return Some(Vec::new());
    }
    let part = |text: &str| {
        let (shard, units) = text.split_once(':')?;
        Some(Part { shard: shard.parse().ok()?, units: units.parse().ok()? })
    };
    text.split(',').map(part).collect()
}

pub(super) fn written(parts: &[Part]) -> String {
    if parts.is_empty() {
        return "-".to_owned();
    }
    let parts: Vec<_> = parts.iter().map(|part| format!("{}:{}", part.shard, part.units)).collect();
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_are_written() {
        for value in ["H 3 1700000000000 2 -", "S 0 5 1 1:2,4:1", "G 0 0 7 -"] {
            assert_eq!(Record::from_value(value).expect("a record").to_value(), value);
        }
        assert_eq!(Record::from_value("S 0 5 1 1:2,4:1").map(|record| record.total()), Some(3));
        for wrong in ["", "H 3 1 2", "Q 1 1 1 -", "H x 1 1 -", "H 1 1 1 1:x"] {
            assert_eq!(Record::from_value(wrong), None, "{wrong}");
        }
    }
}
