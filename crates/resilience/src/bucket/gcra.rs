//! The bucket's arithmetic: the generic cell rate algorithm on one atomic word.
//!
//! A bucket of `burst` tokens that refills at a steady rate is the same as a clock: each token
//! takes `interval`, and `tat` (the *theoretical arrival time*) is when everything taken so far
//! would have been earned. Taking `n` moves it on by `n · interval`, and is allowed as long as it
//! does not run ahead of now by more than `burst · interval`:
//!
//! ```text
//!            now                    tat                now + tolerance
//!   ──────────┼──────────────────────┼──────────────────────┼────────▶ time
//!             └─── taken, not yet ───┘└──── available ──────┘
//!                     earned
//! ```
//!
//! One word means that a take is one compare-and-swap, and that concurrent takes cannot add up to
//! more than one thread could have taken.
//!
//! Times are in 16ths of a nanosecond since the bucket's origin: that lasts for 36 years, and an
//! interval, which is rounded *up* so that the rate is never exceeded, errs by less than 0.01 % at
//! a million tokens a second.
//!
//! The word can be *sealed*: a change of the rate takes its last value and leaves a mark that sends
//! everyone to the new one, so that no take is lost between two rates.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Ticks in a nanosecond.
const TICKS_PER_NANO: u64 = 16;
/// The mark of a word that is no longer in force; no time ever gets there.
const SEALED: u64 = u64::MAX;

/// A time, or a span of it, in ticks.
pub(super) fn ticks(time: Duration) -> u64 {
    let ticks = time.as_nanos().saturating_mul(u128::from(TICKS_PER_NANO));
    u64::try_from(ticks).unwrap_or(SEALED).min(SEALED - 1)
}

/// Rounded up: who waits for so long will not come too early.
fn duration(ticks: u64) -> Duration {
    Duration::from_nanos(ticks.div_ceil(TICKS_PER_NANO))
}

/// What came of an attempt to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Take {
    Taken,
    /// Not yet; after so long it would work, if nobody else takes meanwhile.
    Wait(Duration),
    /// Another word is in force.
    Sealed,
}

/// One rate, and how much of it was taken.
#[derive(Debug)]
pub(super) struct Gcra {
    interval: u64,
    tolerance: u64,
    tat: AtomicU64,
}

impl Gcra {
    /// The longest an empty bucket may take to fill: ten years.
    pub(super) const MAX_FILL: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

    /// A full bucket. `None` when it would take longer than [`Gcra::MAX_FILL`] to fill.
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
        // Lock-free: a failed exchange means that somebody else's succeeded.
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

    /// Tokens that could be taken now.
    pub(super) fn available(&self, now: u64) -> u64 {
        self.left(self.tat.load(Ordering::Acquire), now) / self.interval
    }

    fn left(&self, tat: u64, now: u64) -> u64 {
        self.tolerance.saturating_sub(tat.saturating_sub(now))
    }

    /// Puts this bucket out of force and moves what is left in it to `next`: the tokens that are
    /// there stay, as far as they fit; a larger burst fills up with time.
    pub(super) fn hand_over(&self, next: &Gcra, now: u64) {
        let tat = self.tat.swap(SEALED, Ordering::AcqRel);
        let left = u128::from(self.left(tat, now));
        // Rounded down: a change never makes tokens.
        let left = left * u128::from(next.interval) / u128::from(self.interval);
        let left = u64::try_from(left).unwrap_or(u64::MAX).min(next.tolerance);
        next.tat.store(now.saturating_add(next.tolerance - left), Ordering::Release);
    }
}
