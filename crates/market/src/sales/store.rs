//! Orders in the database: reading them, and the state of a sale.
//!
//! [`persist`](super::persist) turns a reservation into an order, and
//! [`lifecycle`](super::lifecycle) contains what follows.

use sqlx::{Row as _, any::AnyRow};

use super::{Order, Status, reservation::Window};
use crate::{
    db::{Db, id, unsigned},
    error::{Error, Result},
};

/// The columns of an order.
macro_rules! columns {
    () => {
        "id, user_id, voucher_id, status, create_time, pay_time, use_time, refund_time"
    };
}

/// Position of an order in its user's list: time and id.
pub(super) type Place = (i64, u64);

/// A sale in the database, read at one moment.
#[derive(Debug)]
pub(super) struct SaleSnapshot {
    pub(super) stock: i64,
    pub(super) window: Window,
    /// Every order ever written.
    pub(super) orders: Vec<Written>,
}

impl SaleSnapshot {
    /// Returns the units that are left or belong to a live order.
    pub(super) fn total(&self) -> i64 {
        let live = self.orders.iter().filter(|order| order.live).count();
        self.stock.saturating_add(i64::try_from(live).unwrap_or(i64::MAX))
    }
}

/// The part of an order that a sale needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    pub(super) id: u64,
    pub(super) user_id: u64,
    /// Whether it is live: it has a unit, and its user may not buy again.
    pub(super) live: bool,
}

/// The numbers of a sale, read at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) stock: i64,
    pub(super) live: i64,
}

/// Returns an order of this user.
pub(super) async fn by_id(db: &Db, user: u64, order: u64) -> Result<Option<Order>> {
    let row = sqlx::query(concat!(
        "SELECT ",
        columns!(),
        " FROM voucher_order WHERE id = ? AND user_id = ?"
    ))
    .bind(id(order))
    .bind(id(user))
    .fetch_optional(db.read())
    .await?;
    row.as_ref().map(decode).transpose()
}

/// Returns orders of a user after this position, the newest first. Not sorted by id, because ids
/// are allocated in blocks per process.
pub(super) async fn of_user(
    db: &Db,
    user: u64,
    after: Option<Place>,
    most: u32,
) -> Result<Vec<Order>> {
    let (time, number) = after.unwrap_or((i64::MAX, u64::MAX));
    let rows = sqlx::query(concat!(
        "SELECT ",
        columns!(),
        " FROM voucher_order WHERE user_id = ? AND create_time <= ? \
         AND (create_time < ? OR id < ?) ORDER BY create_time DESC, id DESC LIMIT ?"
    ))
    .bind(id(user))
    .bind(time)
    .bind(time)
    .bind(i64::try_from(number).unwrap_or(i64::MAX))
    .bind(i64::from(most))
    .fetch_all(db.read())
    .await?;
    rows.iter().map(decode).collect()
}

/// Returns orders that have been in a state since before a time, the oldest first. An order that
/// waited long for the database is as old as its row, not as its reservation.
pub(super) async fn since(db: &Db, status: Status, before: i64, most: u32) -> Result<Vec<Order>> {
    let rows = sqlx::query(concat!(
        "SELECT ",
        columns!(),
        " FROM voucher_order WHERE status = ? AND create_time <= ? AND update_time <= ? \
         ORDER BY create_time LIMIT ?"
    ))
    .bind(status.word())
    .bind(before)
    .bind(before)
    .bind(i64::from(most))
    .fetch_all(db.read())
    .await?;
    rows.iter().map(decode).collect()
}

/// Returns cancelled orders with a requested charge and no refund yet.
pub(super) async fn charged_and_cancelled(db: &Db, after: i64, most: u32) -> Result<Vec<Order>> {
    let rows = sqlx::query(concat!(
        "SELECT ",
        columns!(),
        " FROM voucher_order WHERE status = 'CANCELLED' AND create_time > ? \
         AND pay_type IS NOT NULL AND refund_time IS NULL ORDER BY create_time LIMIT ?"
    ))
    .bind(after)
    .bind(i64::from(most))
    .fetch_all(db.read())
    .await?;
    rows.iter().map(decode).collect()
}

fn decode(row: &AnyRow) -> Result<Order> {
    let word: String = row.try_get("status")?;
    Ok(Order {
        id: unsigned(row.try_get("id")?),
        user_id: unsigned(row.try_get("user_id")?),
        voucher_id: unsigned(row.try_get("voucher_id")?),
        status: Status::parse(&word)
            .ok_or_else(|| Error::Internal(format!("an order has the status {word:?}")))?,
        create_time: row.try_get("create_time")?,
        pay_time: row.try_get("pay_time")?,
        use_time: row.try_get("use_time")?,
        refund_time: row.try_get("refund_time")?,
    })
}

/// Returns vouchers whose sale ends after this time, the earliest end first.
pub(super) async fn sales_after(db: &Db, time: i64, most: u32) -> Result<Vec<u64>> {
    let rows = sqlx::query(
        "SELECT voucher_id FROM seckill_voucher WHERE end_time > ? ORDER BY end_time LIMIT ?",
    )
    .bind(time)
    .bind(i64::from(most))
    .fetch_all(db.read())
    .await?;
    rows.iter().map(|row| Ok(unsigned(row.try_get("voucher_id")?))).collect()
}

/// Returns the window of a voucher's flash sale, past or future.
pub(super) async fn window(db: &Db, voucher: u64) -> Result<Option<Window>> {
    let row = sqlx::query("SELECT begin_time, end_time FROM seckill_voucher WHERE voucher_id = ?")
        .bind(id(voucher))
        .fetch_optional(db.read())
        .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Window { begin: row.try_get("begin_time")?, end: row.try_get("end_time")? }))
}

/// Returns the price of a voucher, in cents.
pub(super) async fn price(db: &Db, voucher: u64) -> Result<u64> {
    let row = sqlx::query("SELECT pay_value FROM voucher WHERE id = ?")
        .bind(id(voucher))
        .fetch_optional(db.read())
        .await?;
    let row = row.ok_or_else(|| Error::Internal(format!("no voucher {voucher}")))?;
    Ok(unsigned(row.try_get("pay_value")?))
}

/// Reads a sale at one moment: its stock and its orders are consistent.
pub(super) async fn snapshot(db: &Db, voucher: u64) -> Result<Option<SaleSnapshot>> {
    let mut reading = db.snapshot().await?;
    let sale =
        sqlx::query("SELECT stock, begin_time, end_time FROM seckill_voucher WHERE voucher_id = ?")
            .bind(id(voucher))
            .fetch_optional(&mut *reading)
            .await?;
    let Some(sale) = sale else { return Ok(None) };
    let rows = sqlx::query("SELECT id, user_id, live FROM voucher_order WHERE voucher_id = ?")
        .bind(id(voucher))
        .fetch_all(&mut *reading)
        .await?;
    reading.commit().await?;
    let written = |row: &AnyRow| {
        Ok(Written {
            id: unsigned(row.try_get("id")?),
            user_id: unsigned(row.try_get("user_id")?),
            live: row.try_get::<Option<i64>, _>("live")?.is_some(),
        })
    };
    Ok(Some(SaleSnapshot {
        stock: sale.try_get("stock")?,
        window: Window { begin: sale.try_get("begin_time")?, end: sale.try_get("end_time")? },
        orders: rows.iter().map(written).collect::<Result<_>>()?,
    }))
}

/// Reads the numbers of a sale, without its orders.
pub(super) async fn numbers(db: &Db, voucher: u64) -> Result<Option<Numbers>> {
    let row = sqlx::query(
        "SELECT stock, (SELECT COUNT(*) FROM voucher_order \
         WHERE voucher_order.voucher_id = seckill_voucher.voucher_id AND live = 1) AS live \
         FROM seckill_voucher WHERE voucher_id = ?",
    )
    .bind(id(voucher))
    .fetch_optional(db.read())
    .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Numbers { stock: row.try_get("stock")?, live: row.try_get("live")? }))
}
