//! Numbers that look random and are always the same, for the demo town and the pictures: a fixed seed, and an algorithm of our
//! own, since those of libraries may change with their versions.

/// A sequence by SplitMix64.
#[derive(Debug)]
pub(crate) struct Seed(u64);

impl Seed {
    /// A sequence of its own for each topic.
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

    /// From 0 to below 1.
    pub(crate) fn part(&mut self) -> f64 {
        // 53 bits are what a float keeps exactly.
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From `least` to `most`, both included.
    pub(crate) fn between(&mut self, least: i64, most: i64) -> i64 {
        let span = most.abs_diff(least) + 1;
        least + i64::try_from(self.next() % span).unwrap_or(0)
    }

    /// One of these.
    pub(crate) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        let index = self.next() % all.len() as u64;
        all[usize::try_from(index).unwrap_or(0)]
    }
}
