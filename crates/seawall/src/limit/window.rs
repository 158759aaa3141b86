//! A sliding window in constant space: counts per slice, and the slice that is only partly in the
//! window counts in full.
//!
//! A log of every use is exact but grows with the limit. The usual two-bucket counter is small and
//! weighs the older bucket, which can admit almost twice the limit in a window that is not aligned.
//! Here the window is split into [`SLICES`] slices, and a use counts until its *whole slice* has
//! left the window:
//!
//! ```text
//!   slice        0   1   2   …  15  16
//!              ├───┼───┼───┼ … ┼───┼───┤
//!                ├──────── window ────┤ now       all 17 slices that it touches count
//! ```
//!
//! So no window, aligned or not, ever admits more than the limit, and the error is on the strict
//! side: a use counts for at least one and at most 17/16 of the window. Space and work are 17 small
//! numbers, whatever the limit is.

use seawall_client::{
    client::{Script, ScriptInvocation},
    error::{Error, Result},
};

use super::{decision::Decision, policy::MAX_EXACT};

static CHECK: Script = Script::with_time(include_str!("window.lua"));

/// Slices in a window.
pub(super) const SLICES: u64 = 16;
/// Slices that a window can touch.
const KEPT: usize = SLICES as usize + 1;

/// A window in slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slicing {
    slice: u64,
    pub(super) limit: u64,
}

/// The counts of one subject; `counts[i]` belongs to the slice `newest - i`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Counts {
    newest: u64,
    counts: [u64; KEPT],
}

impl Slicing {
    pub(super) fn new(limit: u64, length_micros: u64) -> Result<Self> {
        if limit == 0 {
            return Err(Error::Invalid("a window of 0 would never allow anything".into()));
        }
        if limit > MAX_EXACT {
            return Err(Error::Invalid(format!(
                "a window of {limit} cannot be counted exactly: at most {MAX_EXACT}"
            )));
        }
        // Rounded up: a slice too short would forget a use while it is still in the window.
        Ok(Slicing { slice: length_micros.div_ceil(SLICES), limit })
    }

    /// Returns the script call for this window.
    pub(super) fn call(&self, key: &[u8], cost: u64) -> ScriptInvocation {
        CHECK.on(&[key]).arg(self.slice).arg(KEPT).arg(self.limit).arg(cost)
    }

    /// Counts `cost` if there is room: does what the script does, on counts in memory.
    pub(super) fn check(&self, counts: &mut Counts, now: u64, cost: u64) -> Decision {
        let newest = self.roll(counts, now);
        let sum: u64 = counts.counts.iter().sum();
        let wanted = sum.saturating_add(cost);
        if wanted > self.limit {
            let mut missing = wanted - self.limit;
            let mut age = KEPT;
            while missing > 0 && age > 0 {
                age -= 1;
                missing = missing.saturating_sub(counts.counts[age]);
            }
            return Decision::limited(self.gone_at(newest, age).saturating_sub(now));
        }
        counts.counts[0] += cost;
        let first = counts.counts.iter().position(|count| *count > 0);
        let empty_in = first.map_or(0, |age| self.gone_at(newest, age).saturating_sub(now));
        Decision::allowed(self.limit - wanted, empty_in)
    }

    /// Counts a cost that was admitted elsewhere, as far as there is room.
    pub(super) fn charge(&self, counts: &mut Counts, now: u64, cost: u64) {
        self.roll(counts, now);
        let sum: u64 = counts.counts.iter().sum();
        counts.counts[0] += cost.min(self.limit.saturating_sub(sum));
    }

    /// Returns the time at which nothing counts any more, which is equivalent to no counts.
    pub(super) fn idle_at(&self, counts: &Counts) -> u64 {
        let first = counts.counts.iter().position(|count| *count > 0);
        first.map_or(0, |age| self.gone_at(counts.newest, age))
    }

    /// Returns when the slice of this age leaves the window.
    fn gone_at(&self, newest: u64, age: usize) -> u64 {
        (newest + KEPT as u64).saturating_sub(age as u64).saturating_mul(self.slice)
    }

    /// Advances the counts to the current slice.
    fn roll(&self, counts: &mut Counts, now: u64) -> u64 {
        let newest = now / self.slice;
        if newest > counts.newest {
            let by = usize::try_from(newest - counts.newest).unwrap_or(KEPT).min(KEPT);
            counts.counts.rotate_right(by);
            counts.counts[..by].fill(0);
            counts.newest = newest;
        } else if counts.newest - newest > KEPT as u64 {
            // The clock is far behind: everything moves to its newest slice.
            let sum = counts.counts.iter().sum();
            *counts = Counts { newest, ..Counts::default() };
            counts.counts[0] = sum;
        }
        counts.newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_counts_for_a_window_and_at_most_a_slice_more() {
        let window = Slicing::new(1, 16_000).expect("valid");
        for start in [0, 1, 500, 999] {
            let mut counts = Counts::default();
            assert!(window.check(&mut counts, 100_000 + start, 1).is_allowed());
            let until = 17_000 - start;
            let refused = window.check(&mut counts, 100_000 + start, 1);
            assert_eq!(refused, Decision::limited(until));
            assert!(until > 16_000);
            assert!(!window.check(&mut counts, 100_000 + start + until - 1, 1).is_allowed());
            assert!(window.check(&mut counts, 100_000 + start + until, 1).is_allowed());
        }
    }

    #[test]
    fn a_clock_far_behind_waits_for_one_window_only() {
        let window = Slicing::new(2, 16_000).expect("valid");
        let mut counts = Counts::default();
        assert!(window.check(&mut counts, 90_000_000, 2).is_allowed());
        let refused = window.check(&mut counts, 5_000, 1);
        assert_eq!(refused, Decision::limited(17_000));
        assert!(window.check(&mut counts, 22_000, 2).is_allowed());
    }
}
