//! The demo town: a few shops, users and sales with fixed ids, so that the page has something to
//! show at once.
//!
//! Written in one transaction, and only into a database without users: never into somebody's data.

mod seed;
mod shops;
mod vouchers;

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

/// Fills a database that has no users.
pub(crate) async fn fill(context: &Context) -> Result<()> {
    let (db, now) = (&context.db, context.now());
    let count = sqlx::query("SELECT COUNT(*) AS users FROM user").fetch_one(db.read()).await?;
    if count.try_get::<i64, _>("users")? > 0 {
        return Ok(());
    }
    let mut turn = db.write().await?;
    users(&mut turn, now).await?;
    shops::fill(&mut turn, now).await?;
    vouchers::fill(&mut turn, now).await?;
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
