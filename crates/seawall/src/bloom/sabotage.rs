//! Bugs that can be planted in a filter, to prove that its checkers notice (feature `sabotage`).

use super::BloomBuilder;

/// A known bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bug {
    /// What a part says about a next generation is not looked at: what is added during a rebuild is
    /// denied after it.
    IgnoreMarks,
    /// A part that is gone counts as one without bits: after a rebuild everything is denied.
    MissingIsEmpty,
}

impl<K> BloomBuilder<K> {
    /// Plants a bug.
    #[must_use]
    pub fn sabotage(mut self, bug: Bug) -> Self {
        self.bug = Some(bug);
        self
    }
}
