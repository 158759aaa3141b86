//! Carts in the database: what the worker writes behind, and what is done here while Redis is away.
//!
//! An item's row is only ever replaced by a newer version. Changes during an outage first take the
//! user's row of `cart_outage`, which makes them wait for each other and tells everybody afterwards
//! whose cart has to be brought back into Redis.

use sqlx::{AnyConnection, Row as _, any::AnyRow};

use super::{
    MAX_COUNT, MAX_SKUS,
    item::{Change, Item, Refused},
    redis::Noted,
};
use crate::{
    db::{Db, id, is_taken, unsigned},
    error::{Error, Result},
    submissions::{IdempotencyKey, Kind, Noted as Submitted, Submission, note},
};

/// Users whose carts are brought back in one round.
const OUTAGES: i64 = 500;

fn item(row: &AnyRow) -> Result<Item> {
    let count: i64 = row.try_get("count")?;
    Ok(Item {
        sku: unsigned(row.try_get("sku_id")?),
        count: u32::try_from(count)
            .map_err(|_| Error::Internal(format!("a cart has {count} of something")))?,
        selected: row.try_get::<i64, _>("selected")? == 1,
        add_price: row.try_get("add_price")?,
        added: row.try_get("create_time")?,
        version: row.try_get("version")?,
    })
}

const ROWS: &str = "SELECT sku_id, count, selected, add_price, version, create_time FROM cart \
                    WHERE user_id = ? ORDER BY create_time DESC, sku_id DESC";

/// All rows of a user, removals included.
pub(super) async fn rows(db: &Db, user: u64) -> Result<Vec<Item>> {
    let rows = sqlx::query(ROWS).bind(id(user)).fetch_all(db.read()).await?;
    rows.iter().map(item).collect()
}

/// What is in a cart, the newest item first.
pub(super) async fn items(db: &Db, user: u64) -> Result<Vec<Item>> {
    let mut rows = rows(db, user).await?;
    rows.retain(|item| item.count > 0);
    Ok(rows)
}

/// Writes states of items where they are newer than what is there, and the submissions that made them.
/// Any number of times has the effect of one, in any order.
pub(super) async fn write(
    db: &Db,
    states: &[Noted],
    submissions: &[(u64, IdempotencyKey)],
    now: i64,
) -> Result<()> {
    if states.is_empty() {
        return Ok(());
    }
    let mut turn = db.write().await?;
    // In the order of a change during an outage, so that the two do not wait for each other.
    for (user, key) in submissions {
        // Noted before is as good.
        let _ = note(turn.query(), submission(*user, Some(key)), 0, now).await?;
    }
    for state in states {
        put(turn.query(), state.user, &state.item, now).await?;
    }
    turn.commit().await
}

fn submission(user: u64, key: Option<&IdempotencyKey>) -> Submission<'_> {
    Submission { user, kind: Kind::Cart, key }
}

async fn put(connection: &mut AnyConnection, user: u64, item: &Item, now: i64) -> Result<()> {
    let updated = sqlx::query(
        "UPDATE cart SET count = ?, selected = ?, add_price = ?, version = ?, create_time = ?, \
         update_time = ? WHERE user_id = ? AND sku_id = ? AND version < ?",
    )
    .bind(i64::from(item.count))
    .bind(i64::from(item.selected))
    .bind(item.add_price)
    .bind(item.version)
    .bind(item.added)
    .bind(now)
    .bind(id(user))
    .bind(id(item.sku))
    .bind(item.version)
    .execute(&mut *connection)
    .await?;
    if updated.rows_affected() > 0 {
        return Ok(());
    }
    let inserted = sqlx::query(
        "INSERT INTO cart (user_id, sku_id, selected, count, add_price, version, create_time, \
         update_time) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(id(user))
    .bind(id(item.sku))
    .bind(i64::from(item.selected))
    .bind(i64::from(item.count))
    .bind(item.add_price)
    .bind(item.version)
    .bind(item.added)
    .bind(now)
    .execute(&mut *connection)
    .await;
    match inserted {
        // There is a row, and it is newer.
        Err(error) if is_taken(&error) => Ok(()),
        inserted => Ok(inserted.map(drop)?),
    }
}

/// Carries out a change here, because Redis does not answer.
pub(super) async fn change(
    db: &Db,
    user: u64,
    change: &Change,
    now: i64,
) -> Result<Result<(), Refused>> {
    let mut turn = db.write().await?;
    begin_outage(turn.query(), user, now).await?;
    if let Change::Add { submission: key, .. } = change
        && let Submitted::Before(_) =
            note(turn.query(), submission(user, key.as_ref()), 0, now).await?
    {
        return turn.roll_back().await.map(Ok);
    }
    let rows = sqlx::query(ROWS).bind(id(user)).fetch_all(turn.query()).await?;
    let rows: Vec<Item> = rows.iter().map(item).collect::<Result<_>>()?;
    let changed = match changed(&rows, change, now) {
        Ok(changed) => changed,
        Err(refused) => return turn.roll_back().await.map(|()| Err(refused)),
    };
    for item in &changed {
        put(turn.query(), user, item, now).await?;
    }
    turn.commit().await.map(Ok)
}

/// The states that a change makes of what is there.
fn changed(rows: &[Item], change: &Change, now: i64) -> Result<Vec<Item>, Refused> {
    let newest = rows.iter().map(|item| item.version).max().unwrap_or(0);
    let version = (now * 1_000).max(newest + 1);
    let find = |sku: u64| rows.iter().find(|item| item.sku == sku && item.count > 0);
    let there = |sku: u64| find(sku).cloned().ok_or(Refused::NoSuchItem);
    Ok(match *change {
        Change::Add { sku, count, price, .. } => {
            let new = Item { sku, count: 0, selected: true, add_price: price, added: now, version };
            let before = find(sku).cloned();
            if before.is_none() && rows.iter().filter(|item| item.count > 0).count() >= MAX_SKUS {
                return Err(Refused::Full);
            }
            let before = before.unwrap_or(new);
            let count = before.count.saturating_add(count);
            if count > MAX_COUNT {
                return Err(Refused::TooMany);
            }
            vec![Item { count, version, ..before }]
        }
        Change::Set { sku, count, selected } => {
            let before = there(sku)?;
            let selected = selected.unwrap_or(before.selected);
            vec![Item { count: count.unwrap_or(before.count), selected, version, ..before }]
        }
        Change::Remove { sku } => vec![Item { count: 0, version, ..there(sku)? }],
        // A row that is older than what was bought only waits for the worker.
        Change::Take { ref items } => items
            .iter()
            .filter_map(|(sku, bought)| find(*sku).filter(|item| item.version <= *bought))
            .map(|item| Item { count: 0, version, ..item.clone() })
            .collect(),
    })
}

/// Notes that a user's cart is changed here.
async fn begin_outage(connection: &mut AnyConnection, user: u64, now: i64) -> Result<()> {
    let update = "UPDATE cart_outage SET version = version + 1, update_time = ? WHERE user_id = ?";
    let updated = sqlx::query(update).bind(now).bind(id(user)).execute(&mut *connection).await?;
    if updated.rows_affected() > 0 {
        return Ok(());
    }
    let inserted = sqlx::query(
        "INSERT INTO cart_outage (user_id, version, create_time, update_time) VALUES (?, 1, ?, ?)",
    )
    .bind(id(user))
    .bind(now)
    .bind(now)
    .execute(&mut *connection)
    .await;
    match inserted {
        Err(error) if is_taken(&error) => {
            sqlx::query(update).bind(now).bind(id(user)).execute(&mut *connection).await?;
            Ok(())
        }
        inserted => Ok(inserted.map(drop)?),
    }
}

/// Users whose carts were changed here, and how often.
pub(super) async fn outages(db: &Db) -> Result<Vec<(u64, i64)>> {
    let rows = sqlx::query("SELECT user_id, version FROM cart_outage ORDER BY user_id LIMIT ?")
        .bind(OUTAGES)
        .fetch_all(db.read())
        .await?;
    rows.iter()
        .map(|row| Ok((unsigned(row.try_get("user_id")?), row.try_get("version")?)))
        .collect()
}

/// Notes that a cart is in Redis again, unless it was changed here since.
pub(super) async fn end_outage(db: &Db, user: u64, version: i64) -> Result<()> {
    let mut turn = db.write().await?;
    sqlx::query("DELETE FROM cart_outage WHERE user_id = ? AND version = ?")
        .bind(id(user))
        .bind(version)
        .execute(turn.query())
        .await?;
    turn.commit().await
}

/// Takes out removals from before a time.
pub(super) async fn purge(db: &Db, before: i64) -> Result<()> {
    let mut turn = db.write().await?;
    sqlx::query("DELETE FROM cart WHERE count = 0 AND update_time < ?")
        .bind(before)
        .execute(turn.query())
        .await?;
    turn.commit().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(sku: u64, count: u32, version: i64) -> Item {
        Item { sku, count, selected: true, add_price: 100, added: 1, version }
    }

    #[test]
    fn changes_follow_the_rules_and_versions_grow() {
        let rows = [row(1, 998, 5_000), row(2, 0, 9_000)];
        let add =
            |sku, count| changed(&rows, &Change::Add { sku, count, price: 7, submission: None }, 1);
        assert_eq!(add(1, 1).expect("fits")[0].count, 999);
        assert_eq!(add(1, 2), Err(Refused::TooMany));
        assert_eq!(add(1, 1).expect("fits")[0].version, 9_001, "newer than everything");
        let again = &add(2, 3).expect("it was removed")[0];
        assert_eq!((again.count, again.add_price), (3, 7), "as if it had never been there");
        let gone = Change::Remove { sku: 2 };
        assert_eq!(changed(&rows, &gone, 1), Err(Refused::NoSuchItem));
        let take = Change::Take { items: vec![(1, 4_999), (2, 9_000)] };
        assert_eq!(changed(&rows, &take, 1), Ok(vec![]), "changed since it was bought");
    }

    #[test]
    fn a_full_cart_takes_more_of_what_it_has() {
        let rows: Vec<Item> = (0..100).map(|sku| row(sku, 1, 1)).collect();
        let add =
            |sku| changed(&rows, &Change::Add { sku, count: 1, price: 7, submission: None }, 1);
        assert_eq!(add(100), Err(Refused::Full));
        assert_eq!(add(99).expect("it is there")[0].count, 2);
    }
}
