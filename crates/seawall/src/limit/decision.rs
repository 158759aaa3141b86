//! The decision of a limiter: an outcome, not an error.

use std::time::Duration;

/// Outcome of [`Limiter::check`](super::Limiter::check).
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
    /// Allowed, and charged.
    Allowed {
        /// Cost that is still allowed right now.
        remaining: u64,
        /// Time until the full limit is available again, if nothing more is charged.
        reset: Duration,
    },
    /// Refused, and not charged.
    Limited {
        /// Time until the same check may be allowed, if no other check is charged first.
        retry_after: Duration,
    },
}

impl Decision {
    /// Returns `true` if the check was allowed.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Decision::Allowed { .. })
    }

    /// Returns how long to wait, if the check was refused.
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
