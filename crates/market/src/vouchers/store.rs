//! Vouchers in the database.

use sqlx::{Row as _, any::AnyRow};

use super::{Kind, Sale, Voucher};
use crate::{
    db::{Db, id, unsigned},
    error::Result,
    submissions::{self, Noted, Submission},
};

/// Maximum length of a list.
const MAX_LISTED: i64 = 100;

/// Returns the value of `voucher.type`.
fn type_of(kind: Kind) -> i64 {
    match kind {
        Kind::Normal => 0,
        Kind::Flash(_) => 1,
    }
}

/// Builds the query of every list; the last three columns are NULL for a voucher without a sale.
macro_rules! vouchers {
    ($join:literal, $rest:literal) => {
        concat!(
            "SELECT v.id AS id, v.shop_id AS shop_id, v.title AS title, v.sub_title AS sub_title, \
             v.rules AS rules, v.pay_value AS pay_value, v.actual_value AS actual_value, \
             s.stock AS stock, s.begin_time AS begin_time, s.end_time AS end_time \
             FROM voucher v ",
            $join,
            " seckill_voucher s ON s.voucher_id = v.id ",
            $rest
        )
    };
}

fn decode(row: &AnyRow) -> Result<Voucher> {
    let kind = match row.try_get::<Option<i64>, _>("stock")? {
        None => Kind::Normal,
        Some(stock) => Kind::Flash(Sale {
            stock,
            begin_time: row.try_get("begin_time")?,
            end_time: row.try_get("end_time")?,
        }),
    };
    Ok(Voucher {
        id: unsigned(row.try_get("id")?),
        shop_id: unsigned(row.try_get("shop_id")?),
        title: row.try_get("title")?,
        sub_title: row.try_get("sub_title")?,
        rules: row.try_get("rules")?,
        pay_value: row.try_get("pay_value")?,
        actual_value: row.try_get("actual_value")?,
        kind,
    })
}

/// Returns the newest flash sales: those that end last come first.
pub(super) async fn flash_sales(db: &Db) -> Result<Vec<Voucher>> {
    let rows = sqlx::query(vouchers!("JOIN", "ORDER BY s.end_time DESC, v.id LIMIT ?"))
        .bind(MAX_LISTED)
        .fetch_all(db.read())
        .await?;
    rows.iter().map(decode).collect()
}

/// Returns vouchers of one shop that can be bought, the newest first.
pub(super) async fn of_shop(db: &Db, shop: u64) -> Result<Vec<Voucher>> {
    let rows = sqlx::query(vouchers!(
        "LEFT JOIN",
        "WHERE v.shop_id = ? AND v.status = 1 ORDER BY v.id DESC LIMIT ?"
    ))
    .bind(id(shop))
    .bind(MAX_LISTED)
    .fetch_all(db.read())
    .await?;
    rows.iter().map(decode).collect()
}

/// Inserts a voucher with its sale, once per idempotency key. Returns its id.
pub(super) async fn insert(
    db: &Db,
    voucher: &Voucher,
    submission: Submission<'_>,
    now: i64,
) -> Result<u64> {
    let mut tx = db.write().await?;
    if let Noted::Before(first) = submissions::note(tx.query(), submission, voucher.id, now).await?
    {
        return tx.roll_back().await.map(|()| first);
    }
    sqlx::query(
        "INSERT INTO voucher (id, shop_id, title, sub_title, rules, pay_value, actual_value, type, \
         status, create_time, update_time) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)",
    )
    .bind(id(voucher.id))
    .bind(id(voucher.shop_id))
    .bind(voucher.title.as_str())
    .bind(voucher.sub_title.as_str())
    .bind(voucher.rules.as_str())
    .bind(voucher.pay_value)
    .bind(voucher.actual_value)
    .bind(type_of(voucher.kind))
    .bind(now)
    .bind(now)
    .execute(tx.query())
    .await?;
    if let Kind::Flash(sale) = voucher.kind {
        sqlx::query(
            "INSERT INTO seckill_voucher (voucher_id, total, stock, begin_time, end_time, \
             create_time, update_time) VALUES (?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(id(voucher.id))
        .bind(sale.stock)
        .bind(sale.stock)
        .bind(sale.begin_time)
        .bind(sale.end_time)
        .bind(now)
        .bind(now)
        .execute(tx.query())
        .await?;
    }
    tx.commit().await.map(|()| voucher.id)
}
