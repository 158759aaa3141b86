//! Carts in the database: the states that Redis appended, as the worker writes them behind.
//!
//! An item's row is only replaced by a newer version, and rows contain states from Redis only.
//! Changes made here while Redis is away are stored beside the rows ([`aside`](super::aside)) until
//! a state that includes them is written, and are deleted in that same transaction. So rows and
//! pending changes, read at one moment, are the cart, with nothing missing and nothing twice.

use sqlx::{AnyConnection, Row as _, any::AnyRow};

use super::{
    aside,
    item::{Item, Name},
    pending::{Pending, with_pending},
    redis::Noted,
};
use crate::{
    db::{Db, id, is_taken, unsigned},
    error::{Error, Result},
    submissions::{IdempotencyKey, Kind, Submission, note},
};

/// All data of a cart in the database, read at one moment.
#[derive(Debug)]
pub(super) struct Kept {
    /// Rows, removals included.
    pub(super) rows: Vec<Item>,
    /// Changes that the rows do not include yet, in order.
    pub(super) pending: Vec<Pending>,
    /// The latest number assigned to a pending change, or 0.
    pub(super) last: i64,
}

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

async fn rows(connection: &mut AnyConnection, user: u64) -> Result<Vec<Item>> {
    let rows = sqlx::query(ROWS).bind(id(user)).fetch_all(connection).await?;
    rows.iter().map(item).collect()
}

/// Reads all data of a user's cart in the caller's transaction.
pub(super) async fn kept_in(connection: &mut AnyConnection, user: u64) -> Result<Kept> {
    let rows = rows(&mut *connection, user).await?;
    let pending = aside::pending(&mut *connection, user).await?;
    let last = aside::last(connection, user).await?;
    Ok(Kept { rows, pending, last })
}

/// Reads all data of a user's cart in its own snapshot.
pub(super) async fn kept(db: &Db, user: u64) -> Result<Kept> {
    let mut snapshot = db.snapshot().await?;
    let kept = kept_in(&mut snapshot, user).await?;
    snapshot.commit().await?;
    Ok(kept)
}

/// Returns the items of a cart, the newest first.
pub(super) async fn items(db: &Db, user: u64) -> Result<Vec<Item>> {
    let Kept { rows, pending, .. } = kept(db, user).await?;
    let mut items = with_pending(rows, &pending);
    items.retain(|item| item.count > 0);
    Ok(items)
}

/// Writes states that are newer than the rows, and the names of the changes that made them, and
/// deletes pending changes that they include. Idempotent, in any order.
pub(super) async fn write(
    db: &Db,
    states: &[Noted],
    names: &[(u64, Name)],
    now: i64,
) -> Result<()> {
    if states.is_empty() {
        return Ok(());
    }
    let mut tx = db.write().await?;
    // In the same lock order as a change during an outage, so that the two cannot deadlock.
    for (user, key) in names.iter().filter_map(|(user, name)| Some((*user, name.given()?))) {
        // A name that is already stored is fine.
        let _ = note(tx.query(), submission(user, Some(key)), 0, now).await?;
    }
    for state in states {
        put(tx.query(), state.user, &state.item, now).await?;
    }
    aside::forget(tx.query(), states, names).await?;
    tx.commit().await
}

/// Returns the submission of an addition.
pub(super) fn submission(user: u64, key: Option<&IdempotencyKey>) -> Submission<'_> {
    Submission { user, kind: Kind::Cart, key }
}

/// Writes an item's state unless the row is newer.
async fn put(connection: &mut AnyConnection, user: u64, item: &Item, now: i64) -> Result<()> {
    if replace(connection, user, item, now).await? {
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
        // A row exists. It is newer, or another writer has just inserted an older one.
        Err(error) if is_taken(&error) => replace(connection, user, item, now).await.map(drop),
        inserted => Ok(inserted.map(drop)?),
    }
}

/// Replaces an older state. Returns `false` if there is none.
async fn replace(connection: &mut AnyConnection, user: u64, item: &Item, now: i64) -> Result<bool> {
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
    .execute(connection)
    .await?;
    Ok(updated.rows_affected() > 0)
}

/// Deletes removals from before a time, and outage rows of users without pending changes since.
pub(super) async fn purge(db: &Db, before: i64) -> Result<()> {
    let mut tx = db.write().await?;
    sqlx::query("DELETE FROM cart WHERE count = 0 AND update_time < ?")
        .bind(before)
        .execute(tx.query())
        .await?;
    aside::purge(tx.query(), before).await?;
    tx.commit().await
}
