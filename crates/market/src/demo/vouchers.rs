//! Demo vouchers: five flash sales with the ids 1 to 5 (running with 100, running with one, future,
//! ended, sold out), and one or two vouchers that many shops sell at any time.

use super::{DAY_MS, MINUTE_MS, seed::Seed};
use crate::{db::WriteTx, error::Result};

/// A flash sale: id, shop, title, sub-title, price, worth, stock, begin and end relative to now.
type SaleRow = (i64, i64, &'static str, &'static str, i64, i64, i64, i64, i64);

const HOUR_AGO: i64 = -60 * MINUTE_MS;
const MONTH: i64 = 30 * DAY_MS;

#[rustfmt::skip]
const SALES: [SaleRow; 5] = [
    (1, 1, "50 for a bowl of 100", "One hundred of them", 5000, 10_000, 100, HOUR_AGO, MONTH),
    (2, 4, "The captain's table", "There is only one", 9900, 88_800, 1, HOUR_AGO, MONTH),
    (3, 2, "Breakfast for two", "Begins tomorrow", 1500, 4800, 50, DAY_MS, MONTH + DAY_MS),
    (4, 3, "An evening of song", "It was yesterday", 6600, 19_800, 20, -2 * DAY_MS, -DAY_MS),
    (5, 6, "Ten swims", "They went fast", 20_000, 55_000, 0, HOUR_AGO, MONTH),
];

/// First id of vouchers without a flash sale.
const FIRST_NORMAL: i64 = 101;
/// Shops that may sell vouchers.
const SHOPS: std::ops::RangeInclusive<i64> = 1..=48;

const NORMAL: [(&str, &str); 4] = [
    ("for the whole bill", "Every day"),
    ("from Monday to Thursday", "Not on holidays"),
    ("for two", "A drink each is included"),
    ("for the afternoon", "From 14:00 to 17:00"),
];

/// A voucher without its sale.
struct Row<'a> {
    id: i64,
    shop: i64,
    title: &'a str,
    sub_title: &'a str,
    price: i64,
    worth: i64,
    kind: i64,
}

/// Inserts all vouchers.
pub(super) async fn fill(tx: &mut WriteTx<'_>, now: i64) -> Result<()> {
    for (id, shop, title, sub_title, price, worth, stock, begin, end) in SALES {
        insert(tx, &Row { id, shop, title, sub_title, price, worth, kind: 1 }, now).await?;
        sqlx::query(
            "INSERT INTO seckill_voucher (voucher_id, total, stock, begin_time, end_time, \
             create_time, update_time) VALUES (?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(id)
        .bind(stock)
        .bind(stock)
        .bind(now + begin)
        .bind(now + end)
        .bind(now)
        .bind(now)
        .execute(tx.query())
        .await?;
    }
    let mut seed = Seed::new(2);
    let mut id = FIRST_NORMAL;
    for shop in SHOPS {
        for _ in 0..seed.between(0, 2) {
            let worth = seed.between(5, 40) * 1000;
            let price = worth / 100 * seed.between(70, 95);
            let (what, sub_title) = seed.pick(&NORMAL);
            let title = format!("{} worth {} {what}", price / 100, worth / 100);
            let row = Row { id, shop, title: &title, sub_title, price, worth, kind: 0 };
            insert(tx, &row, now).await?;
            id += 1;
        }
    }
    Ok(())
}

async fn insert(tx: &mut WriteTx<'_>, row: &Row<'_>, now: i64) -> Result<()> {
    sqlx::query(
        "INSERT INTO voucher (id, shop_id, title, sub_title, rules, pay_value, actual_value, \
         type, status, create_time, update_time) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)",
    )
    .bind(row.id)
    .bind(row.shop)
    .bind(row.title)
    .bind(row.sub_title)
    .bind("One for each guest. Valid on every day.")
    .bind(row.price)
    .bind(row.worth)
    .bind(row.kind)
    .bind(now)
    .bind(now)
    .execute(tx.query())
    .await?;
    Ok(())
}
