//! Growing pauses between attempts.

use std::time::Duration;

/// A pause that doubles with each failure, up to a longest one.
///
/// It neither waits nor adds jitter: the caller has the clock and knows who else waits.
///
/// ```
/// use std::time::Duration;
/// use seawall_resilience::Backoff;
///
/// let ms = Duration::from_millis;
/// let mut pauses = Backoff::doubling(ms(20), ms(50));
/// assert_eq!([pauses.pause(), pauses.pause(), pauses.pause()], [ms(20), ms(40), ms(50)]);
/// pauses.reset();
/// assert_eq!(pauses.pause(), ms(20));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Creates pauses that double from `first` up to `longest`.
    #[must_use]
    pub const fn doubling(first: Duration, longest: Duration) -> Self {
        Backoff { first, longest, next: first }
    }

    /// Returns the next pause; the one after it is twice as long.
    #[must_use]
    pub fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.longest);
        pause
    }

    /// Returns the next pause, and does not lengthen the one after it.
    #[must_use]
    pub const fn peek(&self) -> Duration {
        self.next
    }

    /// Begins with the first pause again, after a success.
    pub const fn reset(&mut self) {
        self.next = self.first;
    }
}
