//! Vouchers in the database.

use sqlx::{Row as _, any::AnyRow};

use super::FlashVoucher;
use crate::{
    db::{Db, unsigned},
    error::Result,
};

/// Longest list of sales.
const MAX_LISTED: i64 = 100;

fn flash_voucher(row: &AnyRow) -> Result<FlashVoucher> {
    Ok(FlashVoucher {
        id: unsigned(row.try_get("id")?),
        shop_id: unsigned(row.try_get("shop_id")?),
        title: row.try_get("title")?,
        sub_title: row.try_get("sub_title")?,
        rules: row.try_get("rules")?,
        pay_value: row.try_get("pay_value")?,
        actual_value: row.try_get("actual_value")?,
        stock: row.try_get("stock")?,
        begin_time: row.try_get("begin_time")?,
        end_time: row.try_get("end_time")?,
    })
}

/// The newest flash sales: those that end last come first.
pub(super) async fn flash_sales(db: &Db) -> Result<Vec<FlashVoucher>> {
    let rows = sqlx::query(
        "SELECT v.id AS id, v.shop_id AS shop_id, v.title AS title, v.sub_title AS sub_title, \
         v.rules AS rules, v.pay_value AS pay_value, v.actual_value AS actual_value, \
         s.stock AS stock, s.begin_time AS begin_time, s.end_time AS end_time \
         FROM voucher v JOIN seckill_voucher s ON s.voucher_id = v.id \
         ORDER BY s.end_time DESC, v.id LIMIT ?",
    )
    .bind(MAX_LISTED)
    .fetch_all(db.read())
    .await?;
    rows.iter().map(flash_voucher).collect()
}
