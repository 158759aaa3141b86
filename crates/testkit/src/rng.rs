//! A small seeded generator, which gives the same commands for the same seed on every machine, and
//! random words that are unique.

use std::hash::{BuildHasher, RandomState};

/// SplitMix64: tiny, well mixed, and every seed is a good one.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `limit`, which must not be zero.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        // The bias of the remainder is far below anything that matters for tests.
        usize::try_from(self.next() % limit as u64).expect("below a usize")
    }

    /// Returns `true` in `percent` of all calls.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns one of `choices`, which must not be empty.
    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

/// Returns 16 unique hexadecimal digits, for names and passwords of servers and databases.
pub(crate) fn random_word() -> String {
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}
