//! Bugs that can be planted in social structures, to prove that their checkers notice (feature
//! `sabotage`).

use redis::cmd;

use super::{Add, Cursor, Inbox, Likes, Order, OrderIndexBuilder, SignIns, rebuild::Rebuilt};
use crate::{error::Result, link::Link};

/// A known bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bug {
    /// Inbox: the new offset leaves out the old one: a page on which all share one time comes again.
    OffsetOfThisPageOnly,
    /// Inbox: the cursor forgets which item it was and goes on with smaller scores: equal ones are
    /// skipped.
    CursorWithoutItem,
    /// Likes: a toggle whose reply was lost is asked for again as if it were another click.
    AnotherClick,
    /// Order lists: an order is added to whatever is there, also to nothing.
    AddAnyway,
    /// Sign-ins: whoever has copied the record ends every doubt, not only what it began with.
    EndEveryDoubt,
}

impl Bug {
    pub(super) fn misplace(self, after: Option<&Cursor>) -> Option<Cursor> {
        let after = after?;
        Some(match self {
            // Before every member of that score.
            Bug::CursorWithoutItem => Cursor::of(&(vec![0], after.score())),
            _ => after.clone(),
        })
    }
}

/// Makes a complete list of one order where there is none.
pub(super) async fn add_anyway(link: &Link, keys: &Rebuilt, order: Order) -> Result<Add> {
    let Rebuilt { key, marker, .. } = keys;
    link.send(key, cmd("ZADD").arg(key).arg(order.score()?).arg(order.id)).await?;
    let count: u64 = link.query(key, cmd("ZCARD").arg(key)).await?;
    link.send(marker, cmd("SET").arg(marker).arg(format!("{count} 1"))).await?;
    Ok(Add::Added)
}

macro_rules! plantable {
    ($($structure:ident)*) => {$(
        impl<M> $structure<M> {
            /// Plants a bug.
            #[must_use]
            pub fn sabotage(mut self, bug: Bug) -> Self {
                self.template.bug = Some(bug);
                self
            }
        }
    )*};
}
plantable! { Inbox Likes OrderIndexBuilder SignIns }
