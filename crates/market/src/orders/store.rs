//! Orders in the database. Unique keys and conditional updates decide between concurrent requests.

use std::collections::HashMap;

use seawall::social;
use sqlx::{AnyConnection, AssertSqlSafe, Row as _, any::AnyRow};

use super::{Order, OrderItem, Status};
use crate::{
    db::{Db, WriteTx, id, is_taken, marks, unsigned},
    error::{Error, Result},
    inventory::{
        movement::Movement,
        store::{Recorded, record},
    },
};

const COLUMNS: &str = "id, user_id, status, total, pay_begun, pay_time, refund_time, create_time";

fn order(row: &AnyRow) -> Result<Order> {
    let word: String = row.try_get("status")?;
    Ok(Order {
        id: unsigned(row.try_get("id")?),
        user: unsigned(row.try_get("user_id")?),
        status: Status::parse(&word)
            .ok_or_else(|| Error::Internal(format!("an order has the status {word:?}")))?,
        total: row.try_get("total")?,
        pay_time: row.try_get("pay_time")?,
        refund_time: row.try_get("refund_time")?,
        create_time: row.try_get("create_time")?,
        items: Vec::new(),
    })
}

/// Outcome of [`place`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Placed {
    /// The order was placed.
    Now,
    /// There is an order with this id, or with this key of this user.
    Taken,
    /// There are not enough units of this SKU.
    TooFew(u64),
}

/// Inserts an order, its items and its stock movements, in one transaction.
pub(super) async fn place(
    db: &Db,
    new: &Order,
    key: &str,
    movements: &[Movement],
) -> Result<Placed> {
    let now = new.create_time;
    let mut tx = db.write().await?;
    let inserted = sqlx::query(
        "INSERT INTO orders (id, user_id, status, total, idempotency_key, refund_due, create_time, \
         update_time) VALUES (?, ?, ?, ?, ?, 0, ?, ?)",
    )
    .bind(id(new.id))
    .bind(id(new.user))
    .bind(new.status.word())
    .bind(new.total)
    .bind(key)
    .bind(now)
    .bind(now)
    .execute(tx.query())
    .await;
    match inserted {
        Ok(_) => {}
        Err(error) if is_taken(&error) => {
            return tx.roll_back().await.map(|()| Placed::Taken);
        }
        Err(error) => return Err(error.into()),
    }
    insert_items(tx.query(), new).await?;
    for movement in movements {
        match record(tx.query(), movement, now).await? {
            Recorded::Now => {}
            Recorded::Before => return tx.roll_back().await.map(|()| Placed::Taken),
            Recorded::TooFew => {
                return tx.roll_back().await.map(|()| Placed::TooFew(movement.sku));
            }
        }
    }
    tx.commit().await.map(|()| Placed::Now)
}

async fn insert_items(connection: &mut AnyConnection, order: &Order) -> Result<()> {
    let rows = vec![format!("({})", marks(8)); order.items.len()].join(", ");
    let text = format!(
        "INSERT INTO order_item (order_id, sku_id, count, price, name, home, create_time, \
         update_time) VALUES {rows}"
    );
    let mut query = sqlx::query(AssertSqlSafe(text));
    for item in &order.items {
        query = query
            .bind(id(order.id))
            .bind(id(item.sku))
            .bind(i64::from(item.count))
            .bind(item.price)
            .bind(item.name.clone())
            .bind(i64::try_from(item.home).unwrap_or(0))
            .bind(order.create_time)
            .bind(order.create_time);
    }
    query.execute(connection).await?;
    Ok(())
}

/// Returns the order placed with this key of a user.
pub(super) async fn by_key(db: &Db, user: u64, key: &str) -> Result<Option<u64>> {
    let row = sqlx::query("SELECT id FROM orders WHERE user_id = ? AND idempotency_key = ?")
        .bind(id(user))
        .bind(key)
        .fetch_optional(db.read())
        .await?;
    row.map(|row| Ok(unsigned(row.try_get("id")?))).transpose()
}

/// Returns orders of a user by id, with their items, in no order.
pub(super) async fn by_ids(db: &Db, user: u64, ids: &[u64]) -> Result<HashMap<u64, Order>> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let list = marks(ids.len());
    let text = format!("SELECT {COLUMNS} FROM orders WHERE user_id = ? AND id IN ({list})");
    let mut query = sqlx::query(AssertSqlSafe(text)).bind(id(user));
    for order in ids {
        query = query.bind(id(*order));
    }
    let rows = query.fetch_all(db.read()).await?;
    let mut orders: HashMap<u64, Order> = HashMap::new();
    for row in &rows {
        let order = order(row)?;
        orders.insert(order.id, order);
    }
    let text = format!(
        "SELECT order_id, sku_id, count, price, name, home FROM order_item \
         WHERE order_id IN ({list}) ORDER BY order_id, sku_id"
    );
    let mut query = sqlx::query(AssertSqlSafe(text));
    for order in ids {
        query = query.bind(id(*order));
    }
    for row in query.fetch_all(db.read()).await? {
        let whose = unsigned(row.try_get("order_id")?);
        if let Some(order) = orders.get_mut(&whose) {
            order.items.push(item(&row)?);
        }
    }
    Ok(orders)
}

fn item(row: &AnyRow) -> Result<OrderItem> {
    let (count, home): (i64, i64) = (row.try_get("count")?, row.try_get("home")?);
    Ok(OrderItem {
        sku: unsigned(row.try_get("sku_id")?),
        name: row.try_get("name")?,
        count: u32::try_from(count).unwrap_or(0),
        price: row.try_get("price")?,
        home: usize::try_from(home).unwrap_or(0),
    })
}

/// Returns an order of a user.
pub(super) async fn by_id(db: &Db, user: u64, order: u64) -> Result<Option<Order>> {
    Ok(by_ids(db, user, &[order]).await?.remove(&order))
}

/// Returns orders of a user that are older than one, the newest first, in the order of the list's
/// index: by time, the last three digits, and the digits.
pub(super) async fn older(
    db: &Db,
    user: u64,
    before: Option<social::Order>,
    count: usize,
) -> Result<Vec<social::Order>> {
    let (time, number) = before.map_or((i64::MAX, 0), |order| (order.time, order.id));
    let digits = id(number % 1000);
    let rows = sqlx::query(
        "SELECT id, create_time FROM orders WHERE user_id = ? AND (create_time < ? OR \
         (create_time = ? AND (id % 1000 < ? OR (id % 1000 = ? AND CAST(id AS CHAR) < ?)))) \
         ORDER BY create_time DESC, id % 1000 DESC, CAST(id AS CHAR) DESC LIMIT ?",
    )
    .bind(id(user))
    .bind(time)
    .bind(time)
    .bind(digits)
    .bind(digits)
    .bind(number.to_string())
    .bind(i64::try_from(count).unwrap_or(i64::MAX))
    .fetch_all(db.read())
    .await?;
    rows.iter()
        .map(|row| {
            let id = unsigned(row.try_get("id")?);
            Ok(social::Order { id, time: row.try_get("create_time")? })
        })
        .collect()
}

/// Returns users who ordered since a time.
pub(super) async fn users_since(db: &Db, time: i64, most: u32) -> Result<Vec<u64>> {
    let rows = sqlx::query("SELECT DISTINCT user_id FROM orders WHERE create_time >= ? LIMIT ?")
        .bind(time)
        .bind(i64::from(most))
        .fetch_all(db.read())
        .await?;
    rows.iter().map(|row| Ok(unsigned(row.try_get("user_id")?))).collect()
}

/// Time of a payment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paying {
    pub(super) now: i64,
    /// Only orders created after this wait for a payment.
    pub(super) after: i64,
}

/// Records the start of a payment. Returns `false` if the order does not wait for one.
pub(super) async fn begin_payment(db: &Db, order: u64, paying: Paying) -> Result<bool> {
    let mut tx = db.write().await?;
    let begun = sqlx::query(
        "UPDATE orders SET pay_begun = ?, update_time = ? \
         WHERE id = ? AND status = 'UNPAID' AND create_time > ?",
    )
    .bind(paying.now)
    .bind(paying.now)
    .bind(id(order))
    .bind(paying.after)
    .execute(tx.query())
    .await?;
    tx.commit().await?;
    Ok(begun.rows_affected() > 0)
}

/// Records a payment. Returns `false` if the order no longer waits for one.
pub(super) async fn pay(db: &Db, order: u64, paying: Paying) -> Result<bool> {
    let mut tx = db.write().await?;
    let paid = sqlx::query(
        "UPDATE orders SET status = 'PAID', pay_time = ?, update_time = ? \
         WHERE id = ? AND status = 'UNPAID' AND create_time > ?",
    )
    .bind(paying.now)
    .bind(paying.now)
    .bind(id(order))
    .bind(paying.after)
    .execute(tx.query())
    .await?;
    tx.commit().await?;
    Ok(paid.rows_affected() > 0)
}

/// Ends an order and returns its units, in one transaction. Returns `false` if it is not in `from`.
pub(super) async fn end(
    db: &Db,
    order: u64,
    (from, to): (Status, Status),
    movements: &[Movement],
    now: i64,
) -> Result<bool> {
    let mut tx: WriteTx<'_> = db.write().await?;
    // A refund is due if the order was paid, or may have been.
    let ended = sqlx::query(
        "UPDATE orders SET status = ?, update_time = ?, \
         refund_due = CASE WHEN pay_begun IS NULL AND pay_time IS NULL THEN 0 ELSE 1 END \
         WHERE id = ? AND status = ?",
    )
    .bind(to.word())
    .bind(now)
    .bind(id(order))
    .bind(from.word())
    .execute(tx.query())
    .await?;
    if ended.rows_affected() == 0 {
        return tx.roll_back().await.map(|()| false);
    }
    for movement in movements {
        let recorded = record(tx.query(), movement, now).await?;
        if recorded != Recorded::Now {
            tx.roll_back().await?;
            return Err(Error::Internal(format!("{movement:?} came to {recorded:?}")));
        }
    }
    tx.commit().await.map(|()| true)
}

/// Records that the payment of an order was refunded.
pub(super) async fn refunded(db: &Db, order: u64, now: i64) -> Result<()> {
    let mut tx = db.write().await?;
    sqlx::query(
        "UPDATE orders SET refund_due = 0, refund_time = ?, update_time = ?, \
         status = CASE WHEN status = 'REFUNDING' THEN 'REFUNDED' ELSE status END \
         WHERE id = ? AND status IN ('REFUNDING', 'CANCELLED')",
    )
    .bind(now)
    .bind(now)
    .bind(id(order))
    .execute(tx.query())
    .await?;
    tx.commit().await
}

/// Returns ids of orders whose refund has been due since before a time.
pub(super) async fn refunds_due(db: &Db, before: i64, most: u32) -> Result<Vec<u64>> {
    let rows = sqlx::query(
        "SELECT id FROM orders WHERE refund_due = 1 AND update_time <= ? \
         ORDER BY update_time LIMIT ?",
    )
    .bind(before)
    .bind(i64::from(most))
    .fetch_all(db.read())
    .await?;
    rows.iter().map(|row| Ok(unsigned(row.try_get("id")?))).collect()
}

/// Returns user and id of orders unpaid since before a time.
pub(super) async fn unpaid_since(db: &Db, before: i64, most: u32) -> Result<Vec<(u64, u64)>> {
    let rows = sqlx::query(
        "SELECT user_id, id FROM orders WHERE status = 'UNPAID' AND create_time <= ? \
         ORDER BY create_time LIMIT ?",
    )
    .bind(before)
    .bind(i64::from(most))
    .fetch_all(db.read())
    .await?;
    rows.iter()
        .map(|row| Ok((unsigned(row.try_get("user_id")?), unsigned(row.try_get("id")?))))
        .collect()
}
