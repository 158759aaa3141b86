//! The outcome that a handler returns, and what follows from it.

use std::{fmt, time::Duration};

/// Longest delay between two attempts at an item that failed.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// Outcome of a delivery. A panic of the handler counts as [`Outcome::Failed`].
///
/// ```
/// use seawall::stream::Outcome;
///
/// // A handler can end with a `Result`.
/// let outcome = Outcome::from(Err::<(), _>("the card was refused"));
/// assert!(matches!(outcome, Outcome::Failed(_)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// Committed: the entry is acknowledged.
    Done,
    /// Retry after this delay. It counts as an attempt.
    Retry(Duration),
    /// Retry after this delay, without counting an attempt: the cause is not the entry (the
    /// database is unavailable, for example).
    Postpone(Duration),
    /// Failed: retry after a delay that grows with the attempts. If this was the last attempt, the
    /// entry becomes a dead letter with this text as the reason.
    Failed(String),
    /// Can never succeed: the entry becomes a dead letter at once, with this reason.
    Park(String),
}

impl<E: fmt::Display> From<Result<(), E>> for Outcome {
    fn from(result: Result<(), E>) -> Self {
        match result {
            Ok(()) => Outcome::Done,
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }
}

/// What follows from an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next<'a> {
    /// The item is finished.
    Done,
    /// The item is tried again after a delay.
    Again {
        after: Duration,
        /// Whether this attempt counts: then the item is given up if it was the last one.
        counts: bool,
        /// Why the attempt failed, if the handler said so.
        reason: Option<&'a str>,
    },
    /// The item is given up.
    Dead { reason: &'a str },
}

impl Outcome {
    /// Returns what follows, for an item with this number of attempts that count, including this one.
    pub(crate) fn next(&self, retry_delay: Duration, counted: u64) -> Next<'_> {
        match self {
            Outcome::Done => Next::Done,
            Outcome::Retry(after) => Next::Again { after: *after, counts: true, reason: None },
            Outcome::Postpone(after) => Next::Again { after: *after, counts: false, reason: None },
            Outcome::Failed(reason) => Next::Again {
                after: delay(retry_delay, counted),
                counts: true,
                reason: Some(reason),
            },
            Outcome::Park(reason) => Next::Dead { reason },
        }
    }
}

/// Returns the delay after a failure: it doubles with each attempt.
fn delay(first: Duration, counted: u64) -> Duration {
    let doubled = u32::try_from(counted.clamp(1, 16)).unwrap_or(16) - 1;
    first.saturating_mul(1 << doubled).min(LONGEST_RETRY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_with_each_failure_up_to_a_minute() {
        let seconds = |first: u64, counted| delay(Duration::from_secs(first), counted).as_secs();
        assert_eq!([0, 1, 2, 3, 6, 7, 99].map(|n| seconds(1, n)), [1, 1, 2, 4, 32, 60, 60]);
        assert_eq!(seconds(0, u64::MAX), 0);
        assert_eq!(seconds(u64::MAX, 2), 60);
    }

    #[test]
    fn only_a_postponement_does_not_count() {
        let next = |outcome: &Outcome| match outcome.next(Duration::from_secs(1), 1) {
            Next::Again { counts, .. } => Some(counts),
            Next::Done | Next::Dead { .. } => None,
        };
        assert_eq!(next(&Outcome::Retry(Duration::ZERO)), Some(true));
        assert_eq!(next(&Outcome::Failed(String::new())), Some(true));
        assert_eq!(next(&Outcome::Postpone(Duration::ZERO)), Some(false));
        assert_eq!(next(&Outcome::Park(String::new())), None);
        assert_eq!(next(&Outcome::Done), None);
    }
}
