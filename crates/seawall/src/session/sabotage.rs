//! A bug that can be planted in sessions, to prove that their checkers notice (feature `sabotage`).

use super::SessionsBuilder;

/// A known bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bug {
    /// A session is not entered in its user's index: nobody who ends all of them finds it.
    NotInTheIndex,
}

impl<M> SessionsBuilder<M> {
    /// Plants a bug.
    #[must_use]
    pub fn sabotage(mut self, bug: Bug) -> Self {
        self.bug = Some(bug);
        self
    }
}
