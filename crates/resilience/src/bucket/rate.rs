//! A rate, as tokens per time, and which rates a bucket supports.
//!
//! Stored as the two given numbers, not as a quotient: "5 per minute" has no exact rate per second.

use std::time::Duration;

use super::gcra::Gcra;

/// The highest rate: above it a bucket would measure its own cost.
const MAX_TOKENS_PER_SECOND: u64 = 100_000_000;
const NANOS_PER_SECOND: u128 = 1_000_000_000;
/// Duration whose tokens form the default burst: 100 ms.
const DEFAULT_BURST_NANOS: u128 = 100_000_000;

/// Tokens per time, such as 200 per second or 5 per minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    tokens: u64,
    per: Duration,
}

impl Rate {
    /// Creates a rate of this many tokens per `per`.
    #[must_use]
    pub const fn new(tokens: u64, per: Duration) -> Self {
        Self { tokens, per }
    }

    /// Creates a rate of this many tokens per second.
    #[must_use]
    pub const fn per_second(tokens: u64) -> Self {
        Self::new(tokens, Duration::from_secs(1))
    }

    /// Creates a full bucket with this rate, or describes what is wrong with the numbers.
    pub(super) fn bucket(self, burst: u64) -> Result<Gcra, String> {
        let Rate { tokens, per } = self;
        if tokens == 0 || per.is_zero() {
            return Err(format!("the rate is {tokens} tokens in {per:?}: neither may be zero"));
        }
        let highest = u128::from(MAX_TOKENS_PER_SECOND).saturating_mul(per.as_nanos());
        if u128::from(tokens) * NANOS_PER_SECOND > highest {
            return Err(format!(
                "the rate is {tokens} tokens in {per:?}, above {MAX_TOKENS_PER_SECOND} a second"
            ));
        }
        if burst == 0 {
            return Err("burst is 0: nothing could ever be taken".into());
        }
        Gcra::new(tokens, per, burst).ok_or_else(|| {
            let longest = Gcra::MAX_FILL;
            format!("burst {burst} at {tokens} tokens in {per:?} takes over {longest:?} to fill")
        })
    }

    /// Returns the tokens of 100 ms, at least one.
    pub(super) fn default_burst(self) -> u64 {
        let burst = u128::from(self.tokens) * DEFAULT_BURST_NANOS / self.per.as_nanos().max(1);
        u64::try_from(burst).unwrap_or(u64::MAX).max(1)
    }

    /// Returns how long this many tokens take to accumulate.
    pub(super) fn time_for(self, tokens: u64) -> Duration {
        let nanos = self.per.as_nanos().saturating_mul(u128::from(tokens));
        let nanos = nanos / u128::from(self.tokens.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
