//! Counts the attempts at an entry, in the one number that Redis keeps for a pending entry.
//!
//! An attempt counts if its handler ended without success, or if it was begun *alone* and its
//! process ended with it. A delivery alone does not count, because its reply may have been lost.
//! Nor does a handler that was begun together with others and never ended: any of them may have
//! ended the process. Such an entry is handed out alone the next time, which is recorded before it
//! begins.
//!
//! ```text
//!  counter of the pending list    1        delivered for the first time; nothing is known
//!                                 2k + 2   begun without an end, after k attempts that count
//!                                 2k + 3   its last attempt has ended, after k that count
//! ```
//!
//! Invariant: an entry that may be in progress, or may have ended its process, is never at `2k +
//! 3`.

/// What is known about the last attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// There was none, as far as this worker knows.
    None,
    /// It may have begun, and has not ended.
    Open,
    /// It has ended.
    Ended,
}

/// Attempts at an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attempts {
    counted: u64,
    last: Last,
}

impl Attempts {
    /// Attempts at an entry that was delivered for the first time.
    pub(super) const FIRST: Attempts = Attempts { counted: 0, last: Last::None };

    /// Decodes the counter of the pending list.
    pub(super) fn from_counter(counter: u64) -> Self {
        match counter {
            0 | 1 => Self::FIRST,
            even if even % 2 == 0 => Attempts { counted: (even - 2) / 2, last: Last::Open },
            odd => Attempts { counted: (odd - 3) / 2, last: Last::Ended },
        }
    }

    /// Encodes the counter of the pending list.
    pub(super) fn counter(self) -> u64 {
        match self.last {
            Last::None => 1,
            Last::Open => self.counted.saturating_mul(2).saturating_add(2),
            Last::Ended => self.counted.saturating_mul(2).saturating_add(3),
        }
    }

    /// Returns `true` if the entry must run alone: its last attempt may have begun and never ended.
    pub(super) fn is_unexplained(self) -> bool {
        self.last == Last::Open
    }

    /// Returns the number of attempts that count.
    pub(super) fn counted(self) -> u64 {
        self.counted
    }

    /// Returns the number of attempts, including one that does not count for the limit: an upper
    /// bound.
    pub(super) fn number(self) -> u64 {
        self.counted + u64::from(self.is_unexplained())
    }

    /// Returns the attempts after one was begun alone, which counts from now on.
    pub(super) fn begun_alone(self) -> Self {
        Attempts { counted: self.counted.saturating_add(1), last: Last::Open }
    }

    /// Returns the attempts after one that was begun together with others ended, and counts.
    pub(super) fn ended_together(self) -> Self {
        Attempts { counted: self.counted.saturating_add(1), last: Last::Ended }
    }

    /// Returns the attempts after one ended, without counting it.
    pub(super) fn ended(self) -> Self {
        Attempts { last: Last::Ended, ..self }
    }

    /// Returns the attempts after one that was begun alone ended and does not count after all.
    pub(super) fn uncounted(self) -> Self {
        Attempts { counted: self.counted.saturating_sub(1), last: Last::Ended }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_says_the_same_when_it_is_written_again() {
        for counter in 1..100 {
            assert_eq!(Attempts::from_counter(counter).counter(), counter);
        }
    }

    #[test]
    fn what_ends_is_explained_and_what_is_begun_is_not() {
        let first = Attempts::FIRST;
        assert!(!first.is_unexplained());
        let running = Attempts::from_counter(2);
        assert!(running.is_unexplained());
        assert_eq!((running.counted(), running.counter()), (0, 2));
        let alone = running.begun_alone();
        assert_eq!((alone.counted(), alone.number(), alone.counter()), (1, 2, 4));
        assert_eq!((alone.ended().counted(), alone.ended().counter()), (1, 5));
        assert_eq!(alone.uncounted().counter(), 3);
        assert_eq!(first.ended_together().counter(), 5);
    }
}
