//! Orders in the database: where a reservation becomes an order, or does not.

use sqlx::{Row as _, any::AnyRow};

use super::{CrashPoint, CrashPoints, Order, Status};
use crate::{
    db::{Db, id, is_taken, unsigned},
    error::{Error, Result},
};

/// What the database says about a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placed {
    /// The order stands, now or since an earlier delivery.
    Kept,
    /// The user has another order for this voucher; no unit was taken.
    Duplicate {
        /// That one.
        has: u64,
    },
    /// There was no unit left.
    SoldOut,
    /// A crash point said so.
    Killed,
}

/// A sale as the database sees it, all at one moment.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) stock: i64,
    pub(super) begin: i64,
    pub(super) end: i64,
    /// User and order of all live orders.
    pub(super) buyers: Vec<(u64, u64)>,
}

/// Writes a reservation as an order, in one transaction with the stock. Any number of deliveries
/// have the effect of one.
pub(super) async fn place(db: &Db, order: &Order, now: i64, crash: &CrashPoints) -> Result<Placed> {
    let mut turn = db.write().await?;
    let taken = sqlx::query(
        "UPDATE seckill_voucher SET stock = stock - 1, update_time = ? \
         WHERE voucher_id = ? AND stock >= 1",
    )
    .bind(now)
    .bind(id(order.voucher_id))
    .execute(turn.query())
    .await?;
    if taken.rows_affected() == 0 {
        turn.roll_back().await?;
        return refuse(db, order, now).await;
    }
    match insert(turn.query(), order, Some(1), Status::Unpaid, now).await {
        Ok(()) => {}
        Err(error) if is_taken(&error) => {
            turn.roll_back().await?;
            return refuse(db, order, now).await;
        }
        Err(error) => return Err(error.into()),
    }
    if crash.kills(CrashPoint::BeforeCommit) {
        return Ok(Placed::Killed);
    }
    turn.commit().await?;
    if crash.kills(CrashPoint::AfterCommit) {
        return Ok(Placed::Killed);
    }
    Ok(Placed::Kept)
}

/// Why an order could not be placed. One that will never be gets a row that says so.
async fn refuse(db: &Db, order: &Order, now: i64) -> Result<Placed> {
    let before = by_id(db, order.user_id, order.id).await?;
    if before.as_ref().is_some_and(|row| row.status != Status::Failed) {
        return Ok(Placed::Kept);
    }
    if before.is_none() {
        record_failed(db, order, now).await?;
    }
    let other = sqlx::query(
        "SELECT id FROM voucher_order WHERE user_id = ? AND voucher_id = ? AND live = 1",
    )
    .bind(id(order.user_id))
    .bind(id(order.voucher_id))
    .fetch_optional(db.read())
    .await?;
    match other {
        Some(row) => Ok(Placed::Duplicate { has: unsigned(row.try_get("id")?) }),
        None => Ok(Placed::SoldOut),
    }
}

/// Writes that an order failed; nothing when it has a row already.
pub(super) async fn record_failed(db: &Db, order: &Order, now: i64) -> Result<()> {
    let mut turn = db.write().await?;
    match insert(turn.query(), order, None, Status::Failed, now).await {
        Ok(()) => turn.commit().await,
        Err(error) if is_taken(&error) => turn.roll_back().await,
        Err(error) => Err(error.into()),
    }
}

async fn insert(
    connection: &mut sqlx::AnyConnection,
    order: &Order,
    live: Option<i64>,
    status: Status,
    now: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO voucher_order (id, user_id, voucher_id, live, status, create_time, \
         update_time) VALUES (?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(id(order.id))
    .bind(id(order.user_id))
    .bind(id(order.voucher_id))
    .bind(live)
    .bind(status.word())
    .bind(order.create_time.unwrap_or(now))
    .bind(now)
    .execute(connection)
    .await
    .map(drop)
}

/// An order of this user.
pub(super) async fn by_id(db: &Db, user: u64, order: u64) -> Result<Option<Order>> {
    let row = sqlx::query(
        "SELECT id, user_id, voucher_id, status, create_time FROM voucher_order \
         WHERE id = ? AND user_id = ?",
    )
    .bind(id(order))
    .bind(id(user))
    .fetch_optional(db.read())
    .await?;
    row.as_ref().map(decode).transpose()
}

fn decode(row: &AnyRow) -> Result<Order> {
    let word: String = row.try_get("status")?;
    Ok(Order {
        id: unsigned(row.try_get("id")?),
        user_id: unsigned(row.try_get("user_id")?),
        voucher_id: unsigned(row.try_get("voucher_id")?),
        status: Status::parse(&word)
            .ok_or_else(|| Error::Internal(format!("an order has the status {word:?}")))?,
        create_time: Some(row.try_get("create_time")?),
    })
}

/// Vouchers whose sale ends after this time.
pub(super) async fn sales_after(db: &Db, time: i64) -> Result<Vec<u64>> {
    let rows = sqlx::query("SELECT voucher_id FROM seckill_voucher WHERE end_time > ?")
        .bind(time)
        .fetch_all(db.read())
        .await?;
    rows.iter().map(|row| Ok(unsigned(row.try_get("voucher_id")?))).collect()
}

/// Whether a voucher is sold in a flash sale, past or future.
pub(super) async fn has_sale(db: &Db, voucher: u64) -> Result<bool> {
    let row = sqlx::query("SELECT voucher_id FROM seckill_voucher WHERE voucher_id = ?")
        .bind(id(voucher))
        .fetch_optional(db.read())
        .await?;
    Ok(row.is_some())
}

/// A sale at one moment: its stock and its buyers agree.
pub(super) async fn snapshot(db: &Db, voucher: u64) -> Result<Option<Snapshot>> {
    let mut reading = db.snapshot().await?;
    let sale =
        sqlx::query("SELECT stock, begin_time, end_time FROM seckill_voucher WHERE voucher_id = ?")
            .bind(id(voucher))
            .fetch_optional(&mut *reading)
            .await?;
    let Some(sale) = sale else { return Ok(None) };
    let rows =
        sqlx::query("SELECT user_id, id FROM voucher_order WHERE voucher_id = ? AND live = 1")
            .bind(id(voucher))
            .fetch_all(&mut *reading)
            .await?;
    reading.commit().await?;
    let buyers = rows
        .iter()
        .map(|row| Ok((unsigned(row.try_get("user_id")?), unsigned(row.try_get("id")?))))
        .collect::<Result<_>>()?;
    Ok(Some(Snapshot {
        stock: sale.try_get("stock")?,
        begin: sale.try_get("begin_time")?,
        end: sale.try_get("end_time")?,
        buyers,
    }))
}
