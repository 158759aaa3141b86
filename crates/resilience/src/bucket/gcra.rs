//! Arithmetic of the token bucket: the generic cell rate algorithm on one atomic word.
//!
//! A bucket of `burst` tokens that refills at a steady rate is equivalent to a clock: each token
//! takes `interval`, and `tat` (the *theoretical arrival time*) is when everything taken so far
//! would have been earned. Taking `n` advances it by `n · interval`, and is allowed as long as it
//! is not ahead of now by more than `burst · interval`:
//!
//! ```text
//!            now                    tat                now + tolerance
//!   ──────────┼──────────────────────┼──────────────────────┼────────▶ time
//!             └─── taken, not yet ───┘└──── available ──────┘
//!                     earned
//! ```
//!
//! Because the state is one word, a take is one compare-and-swap, and concurrent takes cannot add
//! up to more than one thread could have taken.
//!
//! Times are in 16ths of a nanosecond since the bucket's origin: that lasts for 36 years, and an
//! interval, which is rounded *up* so that the rate is never exceeded, errs by less than 0.01 % at
//! a million tokens per second.
//!
//! The limiter of `seawall` (`limit/gcra.rs`) keeps a level and a time instead, which is exact in whole
//! numbers and equal to its Lua script, but is two words and needs a lock.
//!
//! The word can be *sealed*: a change of the rate takes its last value and leaves a mark that sends
//! all callers to the new word, so that no take is lost between two rates.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Ticks per nanosecond.
const TICKS_PER_NANO: u64 = 16;
/// Marks a word that is no longer in force; no time reaches this value.
const SEALED: u64 = u64::MAX;

/// Converts a time or a duration to ticks.
pub(super) fn ticks(time: Duration) -> u64 {
    let ticks = time.as_nanos().saturating_mul(u128::from(TICKS_PER_NANO));
    u64::try_from(ticks).unwrap_or(SEALED).min(SEALED - 1)
}

/// Converts ticks to a duration, rounded up, so that a caller that waits for it is not too early.
fn duration(ticks: u64) -> Duration {
    Duration::from_nanos(ticks.div_ceil(TICKS_PER_NANO))
}

/// Outcome of an attempt to take tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Take {
    Taken,
    /// Not enough tokens yet; they are available after this time if no other caller takes any.
    Wait(Duration),
    /// Another word is in force.
    Sealed,
}

/// One rate, and the tokens taken from it.
#[derive(Debug)]
pub(super) struct Gcra {
    interval: u64,
    tolerance: u64,
    tat: AtomicU64,
}

impl Gcra {
    /// Maximum time for an empty bucket to fill: ten years.
    pub(super) const MAX_FILL: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

    /// Creates a full bucket. Returns `None` if it would take longer than [`Gcra::MAX_FILL`] to
    /// fill.
    pub(super) fn new(tokens: u64, per: Duration, burst: u64) -> Option<Self> {
        let interval = ticks(per).div_ceil(tokens.max(1)).max(1);
        let tolerance = interval.checked_mul(burst)?;
        let fits = tolerance <= ticks(Self::MAX_FILL);
        fits.then_some(Self { interval, tolerance, tat: AtomicU64::new(0) })
    }

    /// Takes `n` tokens, all or none. `n` is at most the burst.
    pub(super) fn take(&self, n: u64, now: u64) -> Take {
        let cost = self.interval.saturating_mul(n);
        let limit = now.saturating_add(self.tolerance).min(SEALED - 1);
        let mut tat = self.tat.load(Ordering::Acquire);
        // Lock-free: a failed exchange means that another thread's exchange succeeded.
        loop {
            if tat == SEALED {
                return Take::Sealed;
            }
            let after = tat.max(now).saturating_add(cost);
            if after > limit {
                return Take::Wait(duration(after - limit));
            }
            match self.tat.compare_exchange_weak(tat, after, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Take::Taken,
                Err(current) => tat = current,
            }
        }
    }

    /// Returns the number of tokens that could be taken now.
    pub(super) fn available(&self, now: u64) -> u64 {
        self.left(self.tat.load(Ordering::Acquire), now) / self.interval
    }

    fn left(&self, tat: u64, now: u64) -> u64 {
        self.tolerance.saturating_sub(tat.saturating_sub(now))
    }

    /// Seals this bucket and moves its remaining tokens to `next`, as far as they fit. A larger
    /// burst fills up over time.
    pub(super) fn hand_over(&self, next: &Gcra, now: u64) {
        let tat = self.tat.swap(SEALED, Ordering::AcqRel);
        let left = u128::from(self.left(tat, now));
        // Rounded down: a change never creates tokens.
        let left = left * u128::from(next.interval) / u128::from(self.interval);
        let left = u64::try_from(left).unwrap_or(u64::MAX).min(next.tolerance);
        next.tat.store(now.saturating_add(next.tolerance - left), Ordering::Release);
    }
}
