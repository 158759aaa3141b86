//! Bugs that can be planted in a limiter, to prove that its checkers notice (feature `sabotage`).

use super::LimiterBuilder;

/// A known bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bug {
    /// When Redis is away, everything is allowed.
    FailOpen,
    /// Redis is asked, but what it admits is not charged.
    ChargeNothing,
    /// When Redis is away, each process takes the whole limit for itself.
    WholeShare,
}

impl LimiterBuilder {
    /// Plants a bug.
    #[must_use]
    pub fn sabotage(mut self, bug: Bug) -> Self {
        self.bug = Some(bug);
        self
    }
}
