//! The size of a filter, and the positions of a key's bits.
//!
//! Both are part of the format in Redis. Processes of different versions share a filter, so the
//! hash (XXH3, whose output is fixed) and the walk below never change under the magic `SWB1`.

use std::{fmt, str::FromStr};

use seawall_client::error::{Error, Result};
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Bits before those of the filter.
pub(super) const HEADER_BITS: u64 = 256;
/// Most bits of one part: 512 KB with its header.
const MAX_PART_BITS: u64 = 512 * 1024 * 8 - HEADER_BITS;
/// Most parts: 2 GB.
const MAX_PARTS: u64 = 4096;
/// Most bits of one key.
const MAX_HASHES: u32 = 32;

/// The size of one generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) parts: u32,
    /// Bits of one part.
    pub(super) bits: u64,
    /// Bits of one key.
    pub(super) hashes: u32,
    /// Number of keys that it is sized for.
    pub(super) expected: u64,
}

/// Position of a key's bits: the part, and the start and step of the walk through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) part: u32,
    pub(super) start: u32,
    pub(super) step: u32,
}

impl Shape {
    /// Returns the smallest shape for this number of keys and this rate of false positives.
    pub(super) fn new(expected: u64, false_positives: f64) -> Result<Self> {
        if expected == 0 {
            return Err(Error::Invalid("bloom: expected is 0, nothing would fit".into()));
        }
        if !(false_positives > 0.0 && false_positives < 1.0) {
            return Err(Error::Invalid(format!(
                "bloom: false_positives is {false_positives}, it must be above 0 and below 1"
            )));
        }
        let ln2 = std::f64::consts::LN_2;
        let all = (-(expected as f64) * false_positives.ln() / (ln2 * ln2)).ceil().max(64.0) as u64;
        let parts = all.div_ceil(MAX_PART_BITS);
        if parts > MAX_PARTS {
            return Err(Error::Invalid(format!(
                "bloom: {expected} keys at {false_positives} need {} MB, 2 GB are allowed",
                all / 8_000_000
            )));
        }
        let hashes = (all as f64 / expected as f64 * ln2).round() as u32;
        Ok(Shape {
            parts: parts as u32,
            bits: all.div_ceil(parts),
            hashes: hashes.clamp(1, MAX_HASHES),
            expected,
        })
    }

    pub(super) fn spot(&self, key: &[u8]) -> Spot {
        let hash = xxh3_128_with_seed(key, 0);
        let (low, high) = (hash as u64, (hash >> 64) as u64);
        Spot {
            part: (high % u64::from(self.parts)) as u32,
            start: low as u32,
            step: (low >> 32) as u32,
        }
    }

    /// Returns the number of keys that each part is sized for.
    pub(super) fn expected_in_part(&self) -> u64 {
        self.expected.div_ceil(u64::from(self.parts))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.parts, self.bits, self.hashes, self.expected)
    }
}

impl FromStr for Shape {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let strange = || Error::unexpected(format!("{text:?} is not the shape of a filter"));
        let numbers: Vec<u64> =
            text.split(' ').map(str::parse).collect::<Result<_, _>>().map_err(|_| strange())?;
        match *numbers {
            [parts @ 1..=MAX_PARTS, bits @ 1..=MAX_PART_BITS, hashes, expected]
                if (1..=u64::from(MAX_HASHES)).contains(&hashes) && expected > 0 =>
            {
                Ok(Shape { parts: parts as u32, bits, hashes: hashes as u32, expected })
            }
            _ => Err(strange()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_the_textbooks_and_come_back() {
        let small = Shape::new(1000, 0.01).unwrap();
        assert_eq!((small.parts, small.bits, small.hashes), (1, 9586, 7));
        let large = Shape::new(10_000_000, 0.01).unwrap();
        assert_eq!((large.parts, large.hashes), (23, 7));
        assert!(large.bits + HEADER_BITS <= 512 * 1024 * 8);
        assert_eq!(large.to_string().parse::<Shape>().unwrap(), large);
        for bad in ["", "1", "0 1 1 1", "1 1 99 1", "1 1 1 1 1", "99999 1 1 1"] {
            assert!(bad.parse::<Shape>().is_err(), "{bad}");
        }
        assert!(Shape::new(0, 0.01).is_err() && Shape::new(1, 1.0).is_err());
        assert!(Shape::new(u64::MAX, 0.01).is_err());
    }

    #[test]
    fn the_hash_is_the_same_for_ever() {
        // The published value of XXH3 for an empty input.
        assert_eq!(xxh3_128_with_seed(b"", 0), 0x99aa_06d3_0147_98d8_6001_c324_468d_497f);
        let shape = Shape::new(10_000_000, 0.01).unwrap();
        assert_eq!(shape.spot(b"42"), Spot { part: 17, start: 3236897169, step: 303549224 });
    }
}
