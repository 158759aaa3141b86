//! Bugs that can be planted in an inbox, to prove that its checker notices (feature `sabotage`).

use super::{Cursor, Inbox};

/// A known bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bug {
    /// The new offset leaves out the old one: a page on which all share one time comes again.
    OffsetOfThisPageOnly,
    /// The cursor forgets which item it was and goes on with smaller scores: equal ones are skipped.
    CursorWithoutItem,
}

impl Bug {
    pub(super) fn misplace(self, after: Option<&Cursor>) -> Option<Cursor> {
        let after = after?;
        Some(match self {
            // Before every member of that score.
            Bug::CursorWithoutItem => Cursor::of(&(vec![0], after.score())),
            Bug::OffsetOfThisPageOnly => after.clone(),
        })
    }
}

impl<M> Inbox<M> {
    /// Plants a bug.
    #[must_use]
    pub fn sabotage(mut self, bug: Bug) -> Self {
        self.bug = Some(bug);
        self
    }
}
