//! Goods and stock movements in the database.
//!
//! A movement is one conditional update of `inventory.num` and one row of `inventory_log`, in the
//! transaction of the change that it belongs to. The conditional update prevents overselling,
//! whatever Redis has lost.

use std::collections::HashMap;

use sqlx::{AnyConnection, AssertSqlSafe, Row as _, any::AnyRow};

use super::{
    Sku,
    movement::{Movement, Reason},
};
use crate::{
    db::{Db, id, is_taken, marks, unsigned},
    error::{Error, Result},
    http::PAGE_ROWS,
};

const COLUMNS: &str = "id, name, price, vip_price, image, status, create_time, update_time";

fn sku(row: &AnyRow) -> Result<Sku> {
    Ok(Sku {
        id: unsigned(row.try_get("id")?),
        name: row.try_get("name")?,
        price: row.try_get("price")?,
        vip_price: row.try_get("vip_price")?,
        image: row.try_get("image")?,
        on_shelf: row.try_get::<i64, _>("status")? == 1,
        create_time: row.try_get("create_time")?,
        update_time: row.try_get("update_time")?,
    })
}

/// Returns SKUs by id; those that do not exist are omitted.
pub(super) async fn skus(db: &Db, ids: &[u64]) -> Result<HashMap<u64, Sku>> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let text = format!("SELECT {COLUMNS} FROM sku WHERE id IN ({})", marks(ids.len()));
    let mut query = sqlx::query(AssertSqlSafe(text));
    for sku in ids {
        query = query.bind(id(*sku));
    }
    let rows = query.fetch_all(db.read()).await?;
    rows.iter().map(|row| sku(row).map(|sku| (sku.id, sku))).collect()
}

/// Returns a page of the SKUs on the shelf, and their number.
pub(super) async fn on_shelf(db: &Db, page: u32) -> Result<(Vec<Sku>, u64)> {
    let count = sqlx::query("SELECT COUNT(*) AS skus FROM sku WHERE status = 1");
    let total: i64 = count.fetch_one(db.read()).await?.try_get("skus")?;
    let text = format!(
        "SELECT {COLUMNS} FROM sku WHERE status = 1 ORDER BY id LIMIT {PAGE_ROWS} OFFSET ?"
    );
    let rows = sqlx::query(AssertSqlSafe(text))
        .bind(i64::from(PAGE_ROWS) * i64::from(page - 1))
        .fetch_all(db.read())
        .await?;
    Ok((rows.iter().map(sku).collect::<Result<_>>()?, unsigned(total)))
}

/// Outcome of [`record`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Recorded {
    /// It is part of the transaction now.
    Now,
    /// It was recorded before; the caller must roll the transaction back.
    Before,
    /// There are not enough units; the caller must roll the transaction back.
    TooFew,
}

/// Records a movement as part of a transaction.
pub(crate) async fn record(
    connection: &mut AnyConnection,
    movement: &Movement,
    now: i64,
) -> Result<Recorded> {
    let moved = sqlx::query(
        "UPDATE inventory SET num = num + ?, update_time = ? WHERE sku_id = ? AND num + ? >= 0",
    )
    .bind(movement.delta)
    .bind(now)
    .bind(id(movement.sku))
    .bind(movement.delta)
    .execute(&mut *connection)
    .await?;
    if moved.rows_affected() == 0 {
        return Ok(Recorded::TooFew);
    }
    let after: i64 = sqlx::query("SELECT num FROM inventory WHERE sku_id = ?")
        .bind(id(movement.sku))
        .fetch_one(&mut *connection)
        .await?
        .try_get("num")?;
    let noted = sqlx::query(
        "INSERT INTO inventory_log (id, sku_id, delta, before_num, after_num, reason, ref, applied, \
         create_time, update_time) VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?)",
    )
    .bind(id(movement.id))
    .bind(id(movement.sku))
    .bind(movement.delta)
    .bind(after - movement.delta)
    .bind(after)
    .bind(movement.reason.word())
    .bind(movement.reference.as_str())
    .bind(now)
    .bind(now)
    .execute(&mut *connection)
    .await;
    match noted {
        Ok(_) => Ok(Recorded::Now),
        Err(error) if is_taken(&error) => Ok(Recorded::Before),
        Err(error) => Err(error.into()),
    }
}

/// Records a receipt in its own transaction. If it was recorded before, returns the units recorded
/// then.
pub(super) async fn receive(db: &Db, movement: &Movement, now: i64) -> Result<Option<i64>> {
    open_row(db, movement.sku, now).await?;
    let mut tx = db.write().await?;
    match record(tx.query(), movement, now).await? {
        Recorded::Now => tx.commit().await.map(|()| None),
        Recorded::TooFew => Err(Error::Internal(format!("SKU {} has no stock row", movement.sku))),
        Recorded::Before => {
            tx.roll_back().await?;
            let row = sqlx::query(
                "SELECT delta FROM inventory_log WHERE ref = ? AND reason = ? AND sku_id = ?",
            )
            .bind(movement.reference.as_str())
            .bind(movement.reason.word())
            .bind(id(movement.sku))
            .fetch_one(db.read())
            .await?;
            Ok(Some(row.try_get("delta")?))
        }
    }
}

/// Creates the stock row of a SKU if there is none.
async fn open_row(db: &Db, sku: u64, now: i64) -> Result<()> {
    let row = sqlx::query("SELECT num FROM inventory WHERE sku_id = ?").bind(id(sku));
    if row.fetch_optional(db.read()).await?.is_some() {
        return Ok(());
    }
    let mut tx = db.write().await?;
    let made = sqlx::query(
        "INSERT INTO inventory (sku_id, num, create_time, update_time) VALUES (?, 0, ?, ?)",
    )
    .bind(id(sku))
    .bind(now)
    .bind(now)
    .execute(tx.query())
    .await;
    match made {
        Ok(_) => tx.commit().await,
        Err(error) if is_taken(&error) => tx.roll_back().await,
        Err(error) => Err(error.into()),
    }
}

/// Stock of a SKU in the database, with movements that Redis may not have followed yet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Level {
    /// Units on hand.
    pub(super) num: i64,
    /// Units of these that may not have reached Redis.
    pub(super) coming: i64,
    /// Units that may still be in Redis.
    pub(super) going: i64,
}

/// Returns SKUs with stock, in order, after this one.
pub(super) async fn stocked_after(db: &Db, after: i64, most: u32) -> Result<Vec<u64>> {
    let query =
        sqlx::query("SELECT sku_id FROM inventory WHERE sku_id > ? ORDER BY sku_id LIMIT ?")
            .bind(after)
            .bind(i64::from(most));
    ids(query.fetch_all(db.read()).await?.iter())
}

/// Returns SKUs whose stock moved since a time, each once.
pub(super) async fn moved_since(db: &Db, since: i64, most: u32) -> Result<Vec<u64>> {
    let query = sqlx::query(
        "SELECT DISTINCT sku_id FROM inventory_log WHERE applied IN (0, 1) AND create_time >= ? \
         LIMIT ?",
    )
    .bind(since)
    .bind(i64::from(most));
    ids(query.fetch_all(db.read()).await?.iter())
}

fn ids<'a>(rows: impl Iterator<Item = &'a AnyRow>) -> Result<Vec<u64>> {
    rows.map(|row| Ok(unsigned(row.try_get("sku_id")?))).collect()
}

/// Returns the level of one SKU at one moment; 0 if it has no stock row.
pub(super) async fn level(db: &Db, sku: u64) -> Result<Level> {
    let mut reading = db.snapshot().await?;
    let stock = sqlx::query("SELECT num FROM inventory WHERE sku_id = ?").bind(id(sku));
    let stock = stock.fetch_optional(&mut *reading).await?;
    let open = sqlx::query(
        "SELECT \
         CAST(COALESCE(SUM(CASE WHEN delta > 0 THEN delta ELSE 0 END), 0) AS SIGNED) AS coming, \
         CAST(COALESCE(SUM(CASE WHEN delta < 0 THEN -delta ELSE 0 END), 0) AS SIGNED) AS going \
         FROM inventory_log WHERE applied = 0 AND sku_id = ?",
    );
    let open = open.bind(id(sku)).fetch_one(&mut *reading).await?;
    reading.commit().await?;
    let Some(stock) = stock else { return Ok(Level::default()) };
    Ok(Level {
        num: stock.try_get("num")?,
        coming: open.try_get("coming")?,
        going: open.try_get("going")?,
    })
}

fn movement(row: &AnyRow) -> Result<Movement> {
    let reason: String = row.try_get("reason")?;
    Ok(Movement {
        id: unsigned(row.try_get("id")?),
        sku: unsigned(row.try_get("sku_id")?),
        delta: row.try_get("delta")?,
        reason: Reason::parse(&reason)
            .ok_or_else(|| Error::Internal(format!("a movement has the reason {reason:?}")))?,
        reference: row.try_get("ref")?,
    })
}

/// Returns movements that Redis may not have followed, recorded before a time, the oldest first.
pub(super) async fn open_movements(
    db: &Db,
    of: Option<u64>,
    before: i64,
    most: u32,
) -> Result<Vec<Movement>> {
    let rows = sqlx::query(
        "SELECT id, sku_id, delta, reason, ref FROM inventory_log \
         WHERE applied = 0 AND create_time <= ? AND (? = 0 OR sku_id = ?) \
         ORDER BY create_time, id LIMIT ?",
    )
    .bind(before)
    .bind(i64::from(of.is_some()))
    .bind(id(of.unwrap_or(0)))
    .bind(i64::from(most))
    .fetch_all(db.read())
    .await?;
    rows.iter().map(movement).collect()
}

/// Marks movements as followed by Redis.
pub(super) async fn close_movements(db: &Db, done: &[u64], now: i64) -> Result<()> {
    if done.is_empty() {
        return Ok(());
    }
    let mut tx = db.write().await?;
    let text = format!(
        "UPDATE inventory_log SET applied = 1, update_time = ? WHERE id IN ({})",
        marks(done.len())
    );
    let mut query = sqlx::query(AssertSqlSafe(text)).bind(now);
    for movement in done {
        query = query.bind(id(*movement));
    }
    query.execute(tx.query()).await?;
    tx.commit().await
}

/// The log of a SKU, read at one moment.
#[derive(Debug)]
pub(super) struct Log {
    /// All receipts, and other movements since a time.
    pub(super) movements: Vec<Movement>,
    /// Units that left before that time and did not return before it.
    pub(super) gone_before: i64,
}

/// Reads the log of a SKU; movements before `since` are one number.
pub(super) async fn log(db: &Db, sku: u64, since: i64) -> Result<Log> {
    let mut reading = db.snapshot().await?;
    let rows = sqlx::query(
        "SELECT id, sku_id, delta, reason, ref FROM inventory_log \
         WHERE sku_id = ? AND (reason = 'RECEIPT' OR create_time >= ?)",
    )
    .bind(id(sku))
    .bind(since)
    .fetch_all(&mut *reading)
    .await?;
    let old = sqlx::query(
        "SELECT CAST(COALESCE(SUM(delta), 0) AS SIGNED) AS gone FROM inventory_log \
         WHERE sku_id = ? AND reason <> 'RECEIPT' AND create_time < ?",
    )
    .bind(id(sku))
    .bind(since)
    .fetch_one(&mut *reading)
    .await?;
    reading.commit().await?;
    let movements = rows.iter().map(movement).collect::<Result<_>>()?;
    Ok(Log { movements, gone_before: -old.try_get::<i64, _>("gone")? })
}
