//! Sign-ins in the database.

use seawall::social::Day;
use sqlx::Row as _;

use crate::{
    db::{Db, id, is_taken},
    error::{Error, Result},
};

/// Inserts a day. Returns `false` if it exists already.
pub(super) async fn insert(db: &Db, user: u64, day: Day, now: i64) -> Result<bool> {
    let mut tx = db.write().await?;
    let inserted = sqlx::query(
        "INSERT INTO sign (user_id, date, is_backup, create_time, update_time) \
         VALUES (?, ?, 0, ?, ?)",
    )
    .bind(id(user))
    .bind(day.dashed())
    .bind(now)
    .bind(now)
    .execute(tx.query())
    .await;
    match inserted {
        Ok(_) => tx.commit().await.map(|()| true),
        Err(error) if is_taken(&error) => tx.roll_back().await.map(|()| false),
        Err(error) => Err(error.into()),
    }
}

/// Returns every signed day of a user.
pub(super) async fn days(db: &Db, user: u64) -> Result<Vec<Day>> {
    let rows = sqlx::query("SELECT date FROM sign WHERE user_id = ?")
        .bind(id(user))
        .fetch_all(db.read())
        .await?;
    let days = rows.iter().map(|row| {
        let date: String = row.try_get("date")?;
        date.parse().map_err(|_| Error::Internal(format!("{date:?} in the table sign is no day")))
    });
    days.collect()
}
