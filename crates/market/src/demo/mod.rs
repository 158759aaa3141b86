//! Demo data: a small town with shops, users and sales with fixed ids, so that the page has content
//! at once.
//!
//! Written in one transaction, and only into a database without users: never into real data.

mod checkins;
mod follows;
mod goods;
mod notes;
mod people;
mod shops;
mod visits;
mod vouchers;

use sqlx::Row as _;

use crate::{app::Context, error::Result, seed};

const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;

/// Fills a database that has no users.
pub(crate) async fn fill(context: &Context) -> Result<()> {
    let (db, now) = (&context.db, context.now());
    let count = sqlx::query("SELECT COUNT(*) AS users FROM user").fetch_one(db.read()).await?;
    if count.try_get::<i64, _>("users")? > 0 {
        return Ok(());
    }
    let mut tx = db.write().await?;
    people::fill(&mut tx, now).await?;
    checkins::fill(&mut tx, context.today(), now).await?;
    shops::fill(&mut tx, now).await?;
    vouchers::fill(&mut tx, now).await?;
    notes::fill(&mut tx, now).await?;
    follows::fill(&mut tx, now).await?;
    people::count_follows(&mut tx).await?;
    goods::fill(&mut tx, now).await?;
    tx.commit().await?;
    visits::fill(context).await?;
    tracing::info!("the empty database was filled with the demo town");
    Ok(())
}
