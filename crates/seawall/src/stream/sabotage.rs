//! Bugs that can be planted in a worker, to prove that its checkers notice (feature `sabotage`).

use super::WorkerBuilder;

/// A known bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bug {
    /// Entries are acknowledged before their handler runs.
    AckBeforeCommit,
    /// What a dead worker held is left to it.
    NoClaim,
    /// Trimming looks at the number of entries alone.
    TrimBlindly,
    /// Attempts are not counted: nothing is ever parked for failing.
    NoLimit,
}

impl<T> WorkerBuilder<T> {
    /// Plants a bug.
    #[must_use]
    pub fn sabotage(mut self, bug: Bug) -> Self {
        self.settings.bug = Some(bug);
        self
    }
}
