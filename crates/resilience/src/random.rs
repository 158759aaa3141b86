//! Random numbers for the toolkit: a source that tests can seed.
//!
//! Tokens, jitter, sampling and hash seeds are drawn from a [`Randomness`], never from the operating
//! system or the thread's generator directly, so that a test on one thread can repeat a run exactly.

use std::{
    fmt, io,
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rand::{TryRng as _, rngs::SysRng};

/// A source of random numbers: the system's, or a sequence that a seed determines.
///
/// Cheap to clone; clones of a seeded source continue the same sequence.
///
/// ```
/// use seawall_resilience::random::Randomness;
///
/// let (one, other) = (Randomness::seeded(7), Randomness::seeded(7));
/// assert_eq!(one.u64(), other.u64());
/// assert!((50..=100).contains(&Randomness::system().within(50..=100)));
/// ```
#[derive(Clone, Default)]
pub struct Randomness {
    /// State of a seeded sequence.
    seeded: Option<Arc<AtomicU64>>,
}

/// Increment of the sequence's state: 2^64 divided by the golden ratio, and odd.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Randomness {
    /// Returns the system's source: the thread's generator, and the operating system for secrets.
    #[must_use]
    pub const fn system() -> Self {
        Randomness { seeded: None }
    }

    /// Creates a sequence that the seed determines. It is predictable, so it is only for tests.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Randomness { seeded: Some(Arc::new(AtomicU64::new(seed))) }
    }

    /// Returns 64 random bits.
    #[must_use]
    #[inline]
    pub fn u64(&self) -> u64 {
        match &self.seeded {
            None => rand::random(),
            Some(state) => split_mix(state),
        }
    }

    /// Returns 128 random bits.
    #[must_use]
    pub fn u128(&self) -> u128 {
        u128::from(self.u64()) << 64 | u128::from(self.u64())
    }

    /// Returns a number from 0 up to, but not including, 1.
    #[must_use]
    #[inline]
    pub fn unit(&self) -> f64 {
        // As many bits as the fraction of a float has.
        (self.u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number of this range. An empty range counts as its start alone.
    #[must_use]
    pub fn within(&self, range: RangeInclusive<u64>) -> u64 {
        let (start, end) = range.into_inner();
        let count = u128::from(end.saturating_sub(start)) + 1;
        // The product's upper half is below `count`; the bias is below `count` in 2^64.
        start + ((u128::from(self.u64()) * count) >> 64) as u64
    }

    /// Returns an index into something of this length; 0 if it is empty.
    #[must_use]
    #[inline]
    pub fn index(&self, length: usize) -> usize {
        self.within(0..=(length as u64).saturating_sub(1)) as usize
    }

    /// Returns the seed for a hash table whose order has an effect; `None` if the table's own random
    /// seed is as good.
    #[must_use]
    pub fn hash_seed(&self) -> Option<u64> {
        self.seeded.is_some().then(|| self.u64())
    }

    /// Fills `bytes` with a secret, which comes from the operating system if the source is not seeded.
    ///
    /// # Errors
    /// If the operating system provides no random bytes.
    pub fn fill_secret(&self, bytes: &mut [u8]) -> io::Result<()> {
        if self.seeded.is_none() {
            return SysRng.try_fill_bytes(bytes).map_err(io::Error::other);
        }
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.u64().to_be_bytes()[..part.len()]);
        }
        Ok(())
    }
}

/// SplitMix64: one atomic word, and the same numbers in every release.
fn split_mix(state: &AtomicU64) -> u64 {
    let mut bits = state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

impl fmt::Debug for Randomness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Invariant: no state reaches a log, since tokens follow from it.
        let is_seeded = self.seeded.is_some();
        f.write_str(if is_seeded { "Randomness(seeded)" } else { "Randomness(system)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_the_sequence_that_clones_share() {
        // The published test vector of SplitMix64.
        let source = Randomness::seeded(1_234_567);
        assert_eq!(source.u64(), 6_457_827_717_110_365_317);
        assert_eq!(source.clone().u64(), 3_203_168_211_198_807_973);
        assert_eq!(source.u64(), 9_817_491_932_198_370_423);
    }

    #[test]
    fn numbers_stay_within_their_bounds() {
        for source in [Randomness::system(), Randomness::seeded(1)] {
            let mut seen = [0; 3];
            for _ in 0..3_000 {
                seen[source.index(3)] += 1;
                assert!((0.0..1.0).contains(&source.unit()));
                assert!((7..=9).contains(&source.within(7..=9)));
            }
            assert!(seen.iter().all(|&count| count > 800), "{seen:?}");
            assert_eq!((source.index(0), source.within(5..=5)), (0, 5));
            let _ = source.within(0..=u64::MAX);
        }
    }

    #[test]
    fn secrets_differ_and_are_filled_to_the_end() {
        for source in [Randomness::system(), Randomness::seeded(1)] {
            let (mut one, mut other) = ([0; 21], [0; 21]);
            source.fill_secret(&mut one).unwrap();
            source.fill_secret(&mut other).unwrap();
            assert_ne!(one, other);
            assert_ne!(one[16..], [0; 5]);
        }
    }
}
