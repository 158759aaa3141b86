//! Cart changes made in the database while Redis is away, stored beside the rows until the rows
//! include them.
//!
//! A change first locks the user's row in `cart_outage`. The lock serializes the user's changes,
//! and the row numbers them. Numbers are timestamps, so that they keep growing even after such a
//! row was deleted long ago.

use sqlx::{AnyConnection, Row as _, any::AnyRow};

use super::{
    item::{Change, Name, Refused},
    pending::{self, Pending, What, with_pending},
    redis::Noted,
    store::{self, Kept, submission},
};
use crate::{
    db::{Db, id, is_taken, unsigned},
    error::{Error, Result},
    submissions::{self, Noted as Submitted},
};

/// Maximum pending changes of one user. Beyond that, only removals of bought items are accepted.
const MAX_PENDING: usize = 1_000;
/// Users per query.
const USERS: i64 = 500;
/// User id of the `cart_outage` row that announces changes in the database.
const ANYBODY: i64 = 0;

/// Accepts a change in the database, because Redis does not answer.
pub(super) async fn change(
    db: &Db,
    user: u64,
    change: &Change,
    now: i64,
) -> Result<Result<(), Refused>> {
    let mut tx = db.write().await?;
    let seq = number(tx.query(), id(user), now).await?;
    if let Change::Add { name, .. } = change
        && let Submitted::Before(_) =
            submissions::note(tx.query(), submission(user, name.given()), 0, now).await?
    {
        return tx.roll_back().await.map(Ok);
    }
    let Kept { rows, pending, .. } = store::kept_in(tx.query(), user).await?;
    let bought = matches!(change, Change::Take { .. });
    let accepted = if pending.len() >= MAX_PENDING && !bought {
        Err(Refused::Busy)
    } else {
        pending::accept(&with_pending(rows, &pending), change, seq)
    };
    let accepted = match accepted {
        Ok(accepted) => accepted,
        Err(refused) => return tx.roll_back().await.map(|()| Err(refused)),
    };
    for change in &accepted {
        insert(tx.query(), user, change, now).await?;
    }
    if let Some(last) = accepted.last().filter(|last| last.seq > seq) {
        let update = "UPDATE cart_outage SET version = ? WHERE user_id = ?";
        sqlx::query(update).bind(last.seq).bind(id(user)).execute(tx.query()).await?;
    }
    tx.commit().await.map(Ok)
}

/// Returns the next number of a user and locks the user's row.
async fn number(connection: &mut AnyConnection, user: i64, now: i64) -> Result<i64> {
    let micros = now.saturating_mul(1_000);
    let update = "UPDATE cart_outage SET version = CASE WHEN version < ? THEN ? ELSE version + 1 END, \
                  update_time = ? WHERE user_id = ?";
    for _ in 0..2 {
        let update = sqlx::query(update).bind(micros).bind(micros).bind(now).bind(user);
        if update.execute(&mut *connection).await?.rows_affected() > 0 {
            let select = "SELECT version FROM cart_outage WHERE user_id = ?";
            let row = sqlx::query(select).bind(user).fetch_one(connection).await?;
            return Ok(row.try_get("version")?);
        }
        let inserted = sqlx::query(
            "INSERT INTO cart_outage (user_id, version, create_time, update_time) \
             VALUES (?, 0, ?, ?)",
        )
        .bind(user)
        .bind(now)
        .bind(now)
        .execute(&mut *connection)
        .await;
        match inserted {
            // Another transaction inserted the row first.
            Err(error) if is_taken(&error) => {}
            inserted => {
                let _ = inserted?;
            }
        }
    }
    Err(Error::Internal("a row of cart_outage is there and is not".into()))
}

async fn insert(
    connection: &mut AnyConnection,
    user: u64,
    change: &Pending,
    now: i64,
) -> Result<()> {
    let (count, selected, price, added, bought) = columns(change);
    sqlx::query(
        "INSERT INTO cart_pending (user_id, seq, kind, sku_id, count, selected, add_price, added, \
         bought, name, create_time, update_time) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(id(user))
    .bind(change.seq)
    .bind(change.what.word())
    .bind(id(change.sku))
    .bind(count)
    .bind(selected)
    .bind(price)
    .bind(added)
    .bind(bought)
    .bind(change.name.as_str())
    .bind(now)
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns count, selected, price, added and bought, in the order of the table and the script.
pub(super) fn columns(change: &Pending) -> (i64, i64, i64, i64, i64) {
    match change.what {
        What::Add { count, price } => (i64::from(count), -1, price, change.seq / 1_000, 0),
        What::Set { count, selected, price, added } => {
            (count.map_or(-1, i64::from), selected.map_or(-1, i64::from), price, added, 0)
        }
        What::Drop => (0, -1, 0, 0, 0),
        What::Take { bought } => (0, -1, 0, 0, bought),
    }
}

fn read(row: &AnyRow) -> Result<Pending> {
    let number = |name| -> Result<i64> { Ok(row.try_get(name)?) };
    let count = number("count")?;
    let count_of = || u32::try_from(count).map_err(|_| wrong(count));
    let kind: String = row.try_get("kind")?;
    let what = match kind.as_str() {
        "ADD" => What::Add { count: count_of()?, price: number("add_price")? },
        "SET" => What::Set {
            count: if count < 0 { None } else { Some(count_of()?) },
            selected: match number("selected")? {
                -1 => None,
                selected => Some(selected == 1),
            },
            price: number("add_price")?,
            added: number("added")?,
        },
        "DROP" => What::Drop,
        "TAKE" => What::Take { bought: number("bought")? },
        other => return Err(Error::Internal(format!("{other} is no change of a cart"))),
    };
    let sku = unsigned(number("sku_id")?);
    Ok(Pending { seq: number("seq")?, sku, what, name: row.try_get("name")? })
}

fn wrong(count: i64) -> Error {
    Error::Internal(format!("a change of a cart has {count} of something"))
}

/// Returns the pending changes of a user, in order.
pub(super) async fn pending(connection: &mut AnyConnection, user: u64) -> Result<Vec<Pending>> {
    let rows = sqlx::query(
        "SELECT seq, kind, sku_id, count, selected, add_price, added, bought, name \
         FROM cart_pending WHERE user_id = ? ORDER BY seq",
    )
    .bind(id(user))
    .fetch_all(connection)
    .await?;
    rows.iter().map(read).collect()
}

/// Returns the latest number assigned to a user, or 0.
pub(super) async fn last(connection: &mut AnyConnection, user: u64) -> Result<i64> {
    let select = "SELECT version FROM cart_outage WHERE user_id = ?";
    let row = sqlx::query(select).bind(id(user)).fetch_optional(connection).await?;
    row.map_or(Ok(0), |row| Ok(row.try_get("version")?))
}

/// Returns `true` if a change of the user is pending.
pub(super) async fn is_pending(db: &Db, user: u64) -> Result<bool> {
    let select = "SELECT seq FROM cart_pending WHERE user_id = ? LIMIT 1";
    Ok(sqlx::query(select).bind(id(user)).fetch_optional(db.read()).await?.is_some())
}

/// Returns users with pending changes, in order, after this user.
pub(super) async fn users(db: &Db, after: u64) -> Result<Vec<u64>> {
    let select =
        "SELECT DISTINCT user_id FROM cart_pending WHERE user_id > ? ORDER BY user_id LIMIT ?";
    let rows = sqlx::query(select).bind(id(after)).bind(USERS).fetch_all(db.read()).await?;
    rows.iter().map(|row| Ok(unsigned(row.try_get("user_id")?))).collect()
}

/// Deletes pending changes that these states include, or that were executed under these names.
pub(super) async fn forget(
    connection: &mut AnyConnection,
    states: &[Noted],
    names: &[(u64, Name)],
) -> Result<()> {
    let any = sqlx::query("SELECT seq FROM cart_pending LIMIT 1");
    if any.fetch_optional(&mut *connection).await?.is_none() {
        return Ok(());
    }
    for state in states.iter().filter(|state| state.replayed > 0) {
        sqlx::query("DELETE FROM cart_pending WHERE user_id = ? AND sku_id = ? AND seq <= ?")
            .bind(id(state.user))
            .bind(id(state.item.sku))
            .bind(state.replayed)
            .execute(&mut *connection)
            .await?;
    }
    for (user, name) in names {
        sqlx::query("DELETE FROM cart_pending WHERE user_id = ? AND name = ?")
            .bind(id(*user))
            .bind(name.as_str())
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// Deletes numbers assigned before a time, for users without pending changes.
pub(super) async fn purge(connection: &mut AnyConnection, before: i64) -> Result<()> {
    sqlx::query(
        "DELETE FROM cart_outage WHERE update_time < ? AND user_id NOT IN \
         (SELECT user_id FROM cart_pending)",
    )
    .bind(before)
    .execute(connection)
    .await?;
    Ok(())
}

/// Announces that carts are being changed in the database.
pub(super) async fn announce(db: &Db, now: i64) -> Result<()> {
    let mut tx = db.write().await?;
    number(tx.query(), ANYBODY, now).await?;
    tx.commit().await
}

/// Returns the latest announcement, and whether any change is pending.
pub(super) async fn look(db: &Db) -> Result<(i64, bool)> {
    let any = sqlx::query("SELECT seq FROM cart_pending LIMIT 1");
    let any = any.fetch_optional(db.read()).await?.is_some();
    let select = "SELECT version FROM cart_outage WHERE user_id = ?";
    let row = sqlx::query(select).bind(ANYBODY).fetch_optional(db.read()).await?;
    Ok((row.map_or(Ok(0), |row| row.try_get("version"))?, any))
}
