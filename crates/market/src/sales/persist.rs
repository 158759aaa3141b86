//! Turns reservations into orders: the database decides finally.
//!
//! Many orders go into one transaction, because a transaction costs the disk the same whatever it
//! contains. If one order violates a rule of the database, the transaction is rolled back and each
//! of its orders is tried alone. Any number of deliveries have the effect of one: an order's id is
//! its key.
//!
//! Invariant: the sale's row is written before rows of orders, here and in
//! [`lifecycle`](super::lifecycle), so that two transactions never deadlock.

use std::collections::BTreeMap;

use sqlx::Row as _;

use super::{Order, Status, store};
use crate::{
    db::{Db, WriteTx, id, is_taken, unsigned},
    error::Result,
};

/// Rows per INSERT.
const ROWS: usize = 200;

/// The database's decision about a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Persisted {
    /// The order exists or existed, now or since an earlier delivery.
    Kept,
    /// The user has another order for this voucher; no unit was taken.
    Duplicate {
        /// Id of that order.
        has: u64,
    },
    /// There was no unit left.
    SoldOut,
}

/// Outcome of [`persist_all`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum AllPersisted {
    /// All of them are orders now.
    Kept,
    /// One of them violates a rule; nothing was written.
    OneByOne,
}

/// Writes reservations as orders, in one transaction with the stock: all or none.
pub(super) async fn persist_all(db: &Db, orders: &[Order], now: i64) -> Result<AllPersisted> {
    let mut units: BTreeMap<u64, i64> = BTreeMap::new();
    for order in orders {
        *units.entry(order.voucher_id).or_default() += 1;
    }
    let mut tx = db.write().await?;
    for (voucher, count) in units {
        if !take(&mut tx, voucher, count, now).await? {
            tx.roll_back().await?;
            return Ok(AllPersisted::OneByOne);
        }
    }
    for some in orders.chunks(ROWS) {
        match insert(tx.query(), some, Some(1), Status::Unpaid, now).await {
            Ok(()) => {}
            Err(error) if is_taken(&error) => {
                tx.roll_back().await?;
                return Ok(AllPersisted::OneByOne);
            }
            Err(error) => return Err(error.into()),
        }
    }
    tx.commit().await?;
    Ok(AllPersisted::Kept)
}

/// Writes one reservation as an order, or finds out why it cannot be one.
pub(super) async fn persist(db: &Db, order: &Order, now: i64) -> Result<Persisted> {
    match persist_all(db, std::slice::from_ref(order), now).await? {
        AllPersisted::Kept => Ok(Persisted::Kept),
        AllPersisted::OneByOne => refuse(db, order, now).await,
    }
}

/// Returns why an order could not be placed. An order that never will be gets a row that says so.
async fn refuse(db: &Db, order: &Order, now: i64) -> Result<Persisted> {
    if fail(db, order, now).await? != Status::Failed {
        return Ok(Persisted::Kept);
    }
    let other = sqlx::query(
        "SELECT id FROM voucher_order WHERE user_id = ? AND voucher_id = ? AND live = 1",
    )
    .bind(id(order.user_id))
    .bind(id(order.voucher_id))
    .fetch_optional(db.read())
    .await?;
    match other {
        Some(row) => Ok(Persisted::Duplicate { has: unsigned(row.try_get("id")?) }),
        None => Ok(Persisted::SoldOut),
    }
}

/// Records that an order failed, unless it already has a row. Returns its status.
pub(super) async fn fail(db: &Db, order: &Order, now: i64) -> Result<Status> {
    if let Some(row) = store::by_id(db, order.user_id, order.id).await? {
        return Ok(row.status);
    }
    let mut tx = db.write().await?;
    let orders = std::slice::from_ref(order);
    match insert(tx.query(), orders, None, Status::Failed, now).await {
        Ok(()) => tx.commit().await?,
        Err(error) if is_taken(&error) => tx.roll_back().await?,
        Err(error) => return Err(error.into()),
    }
    let row = store::by_id(db, order.user_id, order.id).await?;
    // An id that is another user's order can never be this one's.
    Ok(row.map_or(Status::Failed, |row| row.status))
}

/// Takes units from a sale. Returns `false` if there are not enough.
async fn take(tx: &mut WriteTx<'_>, voucher: u64, units: i64, now: i64) -> Result<bool> {
    let taken = sqlx::query(
        "UPDATE seckill_voucher SET stock = stock - ?, update_time = ? \
         WHERE voucher_id = ? AND stock >= ?",
    )
    .bind(units)
    .bind(now)
    .bind(id(voucher))
    .bind(units)
    .execute(tx.query())
    .await?;
    Ok(taken.rows_affected() == 1)
}

async fn insert(
    connection: &mut sqlx::AnyConnection,
    orders: &[Order],
    live: Option<i64>,
    status: Status,
    now: i64,
) -> Result<(), sqlx::Error> {
    let mut text = String::from(
        "INSERT INTO voucher_order (id, user_id, voucher_id, live, status, create_time, \
         update_time) VALUES ",
    );
    for index in 0..orders.len() {
        text.push_str(if index == 0 { "(?, ?, ?, ?, ?, ?, ?)" } else { ", (?, ?, ?, ?, ?, ?, ?)" });
    }
    let mut query = sqlx::query(sqlx::AssertSqlSafe(text));
    for order in orders {
        query = query
            .bind(id(order.id))
            .bind(id(order.user_id))
            .bind(id(order.voucher_id))
            .bind(live)
            .bind(status.word())
            .bind(order.create_time)
            .bind(now);
    }
    // Few of the many possible lengths occur twice, so the statement is not cached.
    query.persistent(false).execute(connection).await.map(drop)
}
