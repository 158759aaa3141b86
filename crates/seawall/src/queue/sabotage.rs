//! Bugs that can be planted in a delayed queue's worker, to prove that its checkers notice (feature
//! `sabotage`).

use super::DelayedWorkerBuilder;

/// A known bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bug {
    /// Items are acknowledged before their handler runs.
    AckFirst,
    /// Items are handed out without a lease.
    NoLease,
}

impl<T> DelayedWorkerBuilder<T> {
    /// Plants a bug.
    #[must_use]
    pub fn sabotage(mut self, bug: Bug) -> Self {
        self.settings.bug = Some(bug);
        self
    }
}
