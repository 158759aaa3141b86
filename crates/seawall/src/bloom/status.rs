//! The state of a filter: its keys, how full it is, and its rate of false positives.

use redis::cmd;
use seawall_client::{KeyPart, error::Result};

use super::{Bloom, control::Generation, shape::HEADER_BITS};

/// Parts that are read in one pipeline: BITCOUNT reads all of a part.
const PARTS_AT_ONCE: usize = 8;

/// State of a filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BloomStatus {
    /// Number of the generation, which rises with every build; 0 if there is none.
    pub generation: u64,
    /// Whether another generation is being built.
    pub rebuilding: bool,
    /// Number of keys that it is sized for.
    pub expected: u64,
    /// Number of keys that were new when they were added; slightly less than the true number.
    pub items: u64,
    /// Number of Redis keys that hold its bits.
    pub parts: u32,
    /// Number of missing parts; keys of a missing part are never reported absent.
    pub missing_parts: u32,
    /// Its size in bytes.
    pub bytes: u64,
    /// Share of absent keys that are reported as possible, measured by the bits that are set.
    pub false_positives: f64,
}

impl BloomStatus {
    /// Returns `true` if it holds more keys than it is sized for; its rate of false positives is
    /// then higher than configured.
    #[must_use]
    pub fn is_over_full(&self) -> bool {
        self.items > self.expected
    }
}

impl<K: KeyPart> Bloom<K> {
    /// Returns the state of the filter. Reads all of its bits on the server, a few parts at a time.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn status(&self) -> Result<BloomStatus> {
        let place = &self.inner.place;
        let control = place.refresh().await?;
        let mut status = BloomStatus {
            generation: 0,
            rebuilding: control.next.is_some(),
            expected: self.inner.shape.expected,
            items: 0,
            parts: 0,
            missing_parts: 0,
            bytes: 0,
            false_positives: 1.0,
        };
        let Some(current) = control.current else { return Ok(status) };
        status.generation = current.number;
        status.expected = current.shape.expected;
        status.parts = current.shape.parts;
        status.bytes = u64::from(current.shape.parts) * (current.shape.bits + HEADER_BITS) / 8;
        let mut passing = 0.0;
        for slice in place.parts(current)?.chunks(PARTS_AT_ONCE) {
            for part in self.look(slice).await? {
                match part {
                    None => {
                        status.missing_parts += 1;
                        passing += 1.0;
                    }
                    Some((items, ones)) => {
                        status.items += items;
                        passing += chance(current, ones);
                    }
                }
            }
        }
        // Each key reads one part, and all parts are equally likely.
        status.false_positives = passing / f64::from(current.shape.parts);
        metrics::gauge!("seawall_bloom_false_positive_ratio", "filter" => place.name.clone())
            .set(status.false_positives);
        Ok(status)
    }

    /// Returns the items and the set bits of these parts.
    async fn look(&self, parts: &[Vec<u8>]) -> Result<Vec<Option<(u64, u64)>>> {
        let mut commands = Vec::with_capacity(2 * parts.len());
        for key in parts {
            let mut items = cmd("BITFIELD_RO");
            items.arg(key).arg("GET").arg("u63").arg(128);
            let mut ones = cmd("BITCOUNT");
            ones.arg(key).arg(HEADER_BITS / 8).arg(-1);
            let mut there = cmd("EXISTS");
            there.arg(key);
            commands.extend([items, ones, there].map(|command| (key.clone(), command)));
        }
        let replies = self.inner.place.client().send_all(commands).await;
        let replies = replies.into_iter().collect::<Result<Vec<_>>>()?;
        let looks = replies.chunks(3).map(|look| {
            let items: Vec<u64> = redis::from_redis_value_ref(&look[0])?;
            let ones: u64 = redis::from_redis_value_ref(&look[1])?;
            let there: u64 = redis::from_redis_value_ref(&look[2])?;
            Ok((there == 1).then(|| (items.first().copied().unwrap_or(0), ones)))
        });
        looks.collect()
    }
}

/// Returns the share of absent keys that pass in a part with this number of set bits.
fn chance(generation: Generation, ones: u64) -> f64 {
    let density = ones as f64 / generation.shape.bits as f64;
    density.powi(i32::try_from(generation.shape.hashes).unwrap_or(i32::MAX))
}
