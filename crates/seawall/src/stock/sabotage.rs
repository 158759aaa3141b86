//! Bugs that can be planted in an inventory, to prove that its checkers notice (feature `sabotage`).

use super::{InventoryBuilder, inventory::Inner};

/// A known bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bug {
    /// Undoing a gathering adds units that were never taken.
    UndoTwice,
    /// A remainder of 0 is read as a failure: whoever takes the last unit hears that it is sold out.
    RefuseTheLastUnit,
}

impl InventoryBuilder {
    /// Plants a bug.
    #[must_use]
    pub fn sabotage(mut self, bug: Bug) -> Self {
        self.bug = Some(bug);
        self
    }
}

/// Adds a unit to shards that have got theirs back already.
pub(super) async fn undo_again(inner: &Inner, shards: &[usize]) {
    for shard in shards {
        let key = inner.shards[*shard].key();
        let mut add = redis::cmd("HINCRBY");
        add.arg(key).arg("left").arg(1);
        // A bug does not look whether it worked.
        let _ = inner.link.send(key, &add).await;
    }
}
