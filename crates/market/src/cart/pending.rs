//! Changes made in the database that Redis has not executed yet, and their effect on a cart.
//!
//! They are operations, not states: rows lag behind Redis, so a state computed from a row would
//! undo what still waits in the stream. Redis executes them, in order and each once, on its own
//! state (`script/merge.lua`, which follows the same rules as [`Pending::apply`]). Until the rows
//! include their effect, a reader of the database applies them to the rows.
//!
//! Limits are checked when a change is accepted, against what is visible then. If more turns out to
//! be in the cart on execution, the count is capped at the maximum and an excess SKU is not added.

use super::{
    MAX_COUNT, MAX_SKUS,
    item::{Change, Item, Refused},
};

/// One change of one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pending {
    /// Number among this user's changes; also its time, in microseconds.
    pub(super) seq: i64,
    pub(super) sku: u64,
    pub(super) what: What,
    /// Name that prevents Redis from executing it twice; empty for operations that are idempotent.
    pub(super) name: String,
}

/// The operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Add {
        count: u32,
        price: i64,
    },
    /// Price and time are used if the item is gone on execution.
    Set {
        count: Option<u32>,
        selected: Option<bool>,
        price: i64,
        added: i64,
    },
    Drop,
    /// Removes the item if it is not newer than this version.
    Take {
        bought: i64,
    },
}

impl What {
    /// Returns the word used in the database and in the script.
    pub(super) fn word(self) -> &'static str {
        match self {
            What::Add { .. } => "ADD",
            What::Set { .. } => "SET",
            What::Drop => "DROP",
            What::Take { .. } => "TAKE",
        }
    }
}

/// Applies pending changes, in order, to rows of the database (removals included).
pub(super) fn with_pending(mut rows: Vec<Item>, pending: &[Pending]) -> Vec<Item> {
    for change in pending {
        change.apply(&mut rows);
    }
    rows.sort_by_key(|item| std::cmp::Reverse((item.added, item.sku)));
    rows
}

fn is_full(rows: &[Item]) -> bool {
    rows.iter().filter(|item| item.count > 0).count() >= MAX_SKUS
}

impl Pending {
    fn apply(&self, rows: &mut Vec<Item>) {
        let sku = self.sku;
        let newest = rows.iter().map(|item| item.version).max().unwrap_or(0);
        let version = self.seq.max(newest + 1);
        let before = rows.iter().find(|item| item.sku == sku && item.count > 0).cloned();
        let first = |price, added| {
            let new = Item { sku, count: 0, selected: true, add_price: price, added, version };
            before.clone().or_else(|| (!is_full(rows)).then_some(new))
        };
        let after = match self.what {
            What::Add { count, price } => first(price, self.seq / 1_000).map(|item| Item {
                count: item.count.saturating_add(count).min(MAX_COUNT),
                ..item
            }),
            What::Set { count: Some(count), selected, price, added } => first(price, added)
                .map(|item| Item { count, selected: selected.unwrap_or(item.selected), ..item }),
            What::Set { count: None, selected, .. } => {
                before.map(|item| Item { selected: selected.unwrap_or(item.selected), ..item })
            }
            What::Drop => before.map(|item| Item { count: 0, ..item }),
            What::Take { bought } => {
                before.filter(|item| item.version <= bought).map(|item| Item { count: 0, ..item })
            }
        };
        let Some(after) = after.map(|item| Item { version, ..item }) else { return };
        match rows.iter_mut().find(|item| item.sku == sku) {
            Some(row) => *row = after,
            None => rows.push(after),
        }
    }
}

/// Checks a change against the visible cart and returns its operations, numbered from `seq`.
pub(super) fn accept(cart: &[Item], change: &Change, seq: i64) -> Result<Vec<Pending>, Refused> {
    let find = |sku: u64| cart.iter().find(|item| item.sku == sku && item.count > 0);
    let one = |sku, what, name: &str| vec![Pending { seq, sku, what, name: name.to_owned() }];
    Ok(match *change {
        Change::Add { sku, count, price, ref name } => {
            let before = find(sku).map_or(0, |item| item.count);
            if before == 0 && is_full(cart) {
                return Err(Refused::Full);
            }
            if before.saturating_add(count) > MAX_COUNT {
                return Err(Refused::TooMany);
            }
            one(sku, What::Add { count, price }, name.as_str())
        }
        Change::Set { sku, count, selected } => {
            let item = find(sku).ok_or(Refused::NoSuchItem)?;
            let what = What::Set { count, selected, price: item.add_price, added: item.added };
            one(sku, what, "")
        }
        // Also if the item is not visible: it may wait in Redis for the database.
        Change::Remove { sku } => one(sku, What::Drop, ""),
        Change::Take { ref items } => (seq..)
            .zip(items)
            .map(|(seq, &(sku, bought))| Pending {
                seq,
                sku,
                what: What::Take { bought },
                name: String::new(),
            })
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cart::item::Name;

    fn row(sku: u64, count: u32, version: i64) -> Item {
        Item { sku, count, selected: true, add_price: 100, added: 1, version }
    }

    fn add(sku: u64, count: u32) -> Change {
        Change::Add { sku, count, price: 7, name: Name::fresh() }
    }

    fn after(rows: &[Item], change: &Change) -> Result<Vec<Item>, Refused> {
        accept(rows, change, 6_000).map(|pending| with_pending(rows.to_vec(), &pending))
    }

    #[test]
    fn changes_follow_the_rules_and_versions_grow() {
        let rows = [row(1, 998, 5_000), row(2, 0, 9_000)];
        let find = |rows: Vec<Item>, sku| rows.into_iter().find(|item| item.sku == sku);
        let fits = find(after(&rows, &add(1, 1)).expect("fits"), 1).expect("there");
        assert_eq!((fits.count, fits.version), (999, 9_001), "newer than everything");
        assert_eq!(after(&rows, &add(1, 2)), Err(Refused::TooMany));
        let again = find(after(&rows, &add(2, 3)).expect("it was removed"), 2).expect("there");
        assert_eq!((again.count, again.add_price, again.added), (3, 7, 6), "as if it were new");
        let set = Change::Set { sku: 2, count: Some(1), selected: None };
        assert_eq!(after(&rows, &set), Err(Refused::NoSuchItem));
        let take = Change::Take { items: vec![(1, 4_999), (2, 9_000)] };
        assert_eq!(after(&rows, &take), Ok(rows.iter().rev().cloned().collect()), "newer");
        let take = Change::Take { items: vec![(1, 5_000)] };
        assert_eq!(find(after(&rows, &take).expect("always"), 1).expect("a row").count, 0);
    }

    #[test]
    fn a_full_cart_takes_more_of_what_it_has() {
        let rows: Vec<Item> = (0..100).map(|sku| row(sku, 1, 1)).collect();
        assert_eq!(after(&rows, &add(100, 1)), Err(Refused::Full));
        let more = after(&rows, &add(99, 1)).expect("it is there");
        assert_eq!(more.iter().find(|item| item.sku == 99).expect("there").count, 2);
    }

    /// A cart may hold more on execution than was visible when the change was accepted.
    #[test]
    fn limits_hold_also_for_what_was_accepted_before() {
        let pending = accept(&[], &add(1, 999), 5).expect("an empty cart");
        assert_eq!(with_pending(vec![row(1, 7, 1)], &pending)[0].count, 999);
        let full: Vec<Item> = (2..102).map(|sku| row(sku, 1, 1)).collect();
        assert_eq!(with_pending(full, &pending).len(), 100);
    }
}
