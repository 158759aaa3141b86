//! A bug that can be planted in a survey, to prove that its checkers notice (feature `sabotage`).

use super::Survey;

/// A known bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bug {
    /// A page without keys is taken for the last one.
    EmptyPageIsTheEnd,
}

impl Survey {
    /// Plants a bug.
    pub fn sabotage(mut self, bug: Bug) -> Self {
        self.route.bug = Some(bug);
        self
    }
}
