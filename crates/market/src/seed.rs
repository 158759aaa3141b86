//! Deterministic pseudo-random numbers for the demo data and the pictures: a fixed seed and our own
//! algorithm, because those of libraries may change between versions.

/// A SplitMix64 sequence.
#[derive(Debug)]
pub(crate) struct Seed(u64);

impl Seed {
    /// Creates an independent sequence per topic.
    pub(crate) fn new(topic: u64) -> Self {
        Seed(topic.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to below 1.
    pub(crate) fn part(&mut self) -> f64 {
        // A float represents 53 bits exactly.
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number from `least` to `most`, both included.
    pub(crate) fn between(&mut self, least: i64, most: i64) -> i64 {
        let span = most.abs_diff(least) + 1;
        least + i64::try_from(self.next() % span).unwrap_or(0)
    }

    /// Picks one element.
    pub(crate) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        let index = self.next() % all.len() as u64;
        all[usize::try_from(index).unwrap_or(0)]
    }
}
