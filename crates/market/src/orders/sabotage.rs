//! Bugs that can be planted in orders of goods, to prove that their checker notices (feature
//! `sabotage`).

use super::{Orders, store};
use crate::{error::Result, inventory::movement::Movement};

/// What can be spoiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Stock leaves in a transaction of its own, before its order is written: whoever dies in between
    /// takes the units along.
    StockBeforeOrder,
}

impl Orders {
    /// Plants a bug.
    pub(crate) fn spoiled(mut self, bug: Option<Bug>) -> Self {
        self.bug = bug;
        self
    }

    /// Records the movements of an order too early, with the bug that does so; those that are left to
    /// record.
    pub(super) async fn record_early<'a>(
        &self,
        movements: &'a [Movement],
    ) -> Result<&'a [Movement]> {
        match self.bug {
            None => Ok(movements),
            Some(Bug::StockBeforeOrder) => {
                store::record_alone(&self.context.db, movements, self.context.now()).await?;
                Ok(&[])
            }
        }
    }
}
