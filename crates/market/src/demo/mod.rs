//! The demo town: a few shops, users and sales with fixed ids, so that the page has something to
//! show at once.
//!
//! Written in one transaction, and only into a database without users: never into somebody's data.

use sqlx::Row as _;

use crate::{app::Context, db::Turn, error::Result};

const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;

/// Id, phone, name, role.
const USERS: [(i64, &str, &str, &str); 9] = [
    (1, "10000000001", "Ada", "user"),
    (2, "10000000002", "Bo", "user"),
    (3, "10000000003", "Chen", "user"),
    (4, "10000000004", "Dora", "user"),
    (5, "10000000005", "Emil", "merchant"),
    (6, "10000000006", "Fang", "user"),
    (7, "10000000007", "Gita", "user"),
    (8, "10000000008", "Hugo", "user"),
    (9, "10000000000", "Admin", "admin"),
];

/// Id, name, type, area, address, longitude, latitude, average price, sold, comments, score, hours.
type ShopRow = (
    i64,
    &'static str,
    i64,
    &'static str,
    &'static str,
    f64,
    f64,
    i64,
    i64,
    i64,
    i64,
    &'static str,
);

const SHOPS: [ShopRow; 6] = [
    (
        1,
        "Harbour Noodles",
        1,
        "Old Harbour",
        "12 Quay Street",
        120.1490,
        30.2590,
        4200,
        4215,
        3035,
        47,
        "10:00-22:00",
    ),
    (
        2,
        "The Copper Kettle",
        2,
        "Mill Quarter",
        "3 Mill Lane",
        120.1530,
        30.2610,
        3100,
        1180,
        640,
        45,
        "07:30-19:00",
    ),
    (
        3,
        "Lantern Karaoke",
        3,
        "Night Market",
        "88 Lantern Road",
        120.1605,
        30.2555,
        9800,
        2160,
        1502,
        43,
        "14:00-02:00",
    ),
    (
        4,
        "Salt and Seaweed",
        1,
        "Old Harbour",
        "1 Pier Six",
        120.1462,
        30.2577,
        12800,
        960,
        415,
        49,
        "11:30-21:30",
    ),
    (
        5,
        "Quiet Hour Books",
        4,
        "University Hill",
        "27 College Steps",
        120.1688,
        30.2702,
        2600,
        730,
        288,
        46,
        "09:00-21:00",
    ),
    (
        6,
        "Tide Pool Swim Hall",
        5,
        "Riverside",
        "5 Weir Bank",
        120.1420,
        30.2488,
        5500,
        3340,
        990,
        44,
        "06:00-22:00",
    ),
];

/// A flash sale: id, shop, title, sub-title, price, worth, stock, begin and end relative to now.
type SaleRow = (i64, i64, &'static str, &'static str, i64, i64, i64, i64, i64);

const SALES: [SaleRow; 5] = [
    (
        1,
        1,
        "50 for a bowl of 100",
        "One hundred of them",
        5000,
        10_000,
        100,
        -60 * MINUTE_MS,
        30 * DAY_MS,
    ),
    (
        2,
        4,
        "The captain's table",
        "There is only one",
        9900,
        88_800,
        1,
        -60 * MINUTE_MS,
        30 * DAY_MS,
    ),
    (3, 2, "Breakfast for two", "Begins tomorrow", 1500, 4800, 50, DAY_MS, 31 * DAY_MS),
    (4, 3, "An evening of song", "It was yesterday", 6600, 19_800, 20, -2 * DAY_MS, -DAY_MS),
    (5, 6, "Ten swims", "They went fast", 20_000, 55_000, 0, -60 * MINUTE_MS, 30 * DAY_MS),
];

/// Fills a database that has no users.
pub(crate) async fn fill(context: &Context) -> Result<()> {
    let (db, now) = (&context.db, context.now());
    let count = sqlx::query("SELECT COUNT(*) AS users FROM user").fetch_one(db.read()).await?;
    if count.try_get::<i64, _>("users")? > 0 {
        return Ok(());
    }
    let mut turn = db.write().await?;
    users(&mut turn, now).await?;
    shops(&mut turn, now).await?;
    sales(&mut turn, now).await?;
    turn.commit().await?;
    tracing::info!("the empty database was filled with the demo town");
    Ok(())
}

async fn users(turn: &mut Turn<'_>, now: i64) -> Result<()> {
    for (id, phone, name, role) in USERS {
        sqlx::query(
            "INSERT INTO user (id, phone, nick_name, icon, role, create_time, update_time) \
             VALUES (?, ?, ?, '', ?, ?, ?)",
        )
        .bind(id)
        .bind(phone)
        .bind(name)
        .bind(role)
        .bind(now)
        .bind(now)
        .execute(turn.query())
        .await?;
    }
    Ok(())
}

async fn shops(turn: &mut Turn<'_>, now: i64) -> Result<()> {
    for shop in SHOPS {
        let (id, name, kind, area, address, x, y, price, sold, comments, score, hours) = shop;
        sqlx::query(
            "INSERT INTO shop (id, owner_id, name, type_id, images, area, address, x, y, avg_price, \
             sold, comments, score, open_hours, create_time, update_time) \
             VALUES (?, 5, ?, ?, '', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(id)
        .bind(name)
        .bind(kind)
        .bind(area)
        .bind(address)
        .bind(x)
        .bind(y)
        .bind(price)
        .bind(sold)
        .bind(comments)
        .bind(score)
        .bind(hours)
        .bind(now)
        .bind(now)
        .execute(turn.query())
        .await?;
    }
    Ok(())
}

async fn sales(turn: &mut Turn<'_>, now: i64) -> Result<()> {
    for (id, shop, title, sub_title, price, worth, stock, begin, end) in SALES {
        sqlx::query(
            "INSERT INTO voucher (id, shop_id, title, sub_title, rules, pay_value, actual_value, \
             type, status, create_time, update_time) VALUES (?, ?, ?, ?, ?, ?, ?, 1, 1, ?, ?)",
        )
        .bind(id)
        .bind(shop)
        .bind(title)
        .bind(sub_title)
        .bind("One for each guest. Valid on every day.")
        .bind(price)
        .bind(worth)
        .bind(now)
        .bind(now)
        .execute(turn.query())
        .await?;
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
        .execute(turn.query())
        .await?;
    }
    Ok(())
}
