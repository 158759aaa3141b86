//! What a limiter answers: an outcome, not an error.

use std::time::Duration;

/// Whether something may happen now.
///
/// ```
/// use std::time::Duration;
/// use seawall::limit::Decision;
///
/// let decision = Decision::Limited { retry_after: Duration::from_millis(1_200) };
/// assert!(!decision.is_allowed());
/// assert_eq!(decision.retry_after(), Some(Duration::from_millis(1_200)));
/// ```
#[must_use = "a limit that nobody looks at limits nothing"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It may happen, and was charged.
    Allowed {
        /// How much more would be allowed right now.
        remaining: u64,
        /// How long until everything is allowed again, if nothing more happens.
        reset: Duration,
    },
    /// It may not, and was not charged.
    Limited {
        /// How long until it may, if nobody else is quicker.
        retry_after: Duration,
    },
}

impl Decision {
    /// True when it may happen.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Decision::Allowed { .. })
    }

    /// How long to wait, when it may not happen now.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Decision::Allowed { .. } => None,
            Decision::Limited { retry_after } => Some(*retry_after),
        }
    }

    pub(super) fn allowed(remaining: u64, reset_micros: u64) -> Self {
        Decision::Allowed { remaining, reset: Duration::from_micros(reset_micros) }
    }

    pub(super) fn limited(micros: u64) -> Self {
        Decision::Limited { retry_after: Duration::from_micros(micros) }
    }
}
