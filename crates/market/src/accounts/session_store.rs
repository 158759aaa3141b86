//! Rows of sessions, and of log-outs that Redis has not been told of yet.
//!
//! One transaction deletes the session's row and inserts its log-out. So if neither row exists,
//! there is no such session (any more) and nothing is left to do for it.

use sqlx::{Any, QueryBuilder, Row as _};

use super::{User, store::user};
use crate::{
    db::{Db, id, is_taken},
    error::Result,
};

/// Maximum rows in one query.
const SLICE: usize = 500;

/// A session row to insert.
#[derive(Debug)]
pub(super) struct New<'a> {
    pub(super) token_hash: &'a str,
    pub(super) user_id: u64,
    pub(super) expires: i64,
    pub(super) until: i64,
}

/// A session as stored in its row.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) user: User,
    /// Time at which the row expires.
    pub(super) expires: i64,
    /// Latest time at which the session ends.
    pub(super) until: i64,
}

/// Inserts a session's row and deletes expired rows of this user.
pub(super) async fn insert(db: &Db, row: &New<'_>, now: i64) -> Result<()> {
    let mut tx = db.write().await?;
    sqlx::query("DELETE FROM session WHERE user_id = ? AND expires < ?")
        .bind(id(row.user_id))
        .bind(now)
        .execute(tx.query())
        .await?;
    sqlx::query(
        "INSERT INTO session (token_hash, user_id, expires, until, create_time, update_time) \
         VALUES (?, ?, ?, ?, ?, ?)",
    )
    .bind(row.token_hash)
    .bind(id(row.user_id))
    .bind(row.expires)
    .bind(row.until)
    .bind(now)
    .bind(now)
    .execute(tx.query())
    .await?;
    tx.commit().await
}

/// Returns a session that has not ended.
pub(super) async fn read(db: &Db, token_hash: &str, now: i64) -> Result<Option<Stored>> {
    let row = sqlx::query(
        "SELECT u.id AS id, u.nick_name AS nick_name, u.icon AS icon, u.role AS role, \
         s.expires AS expires, s.until AS until FROM session s JOIN user u ON u.id = s.user_id \
         WHERE s.token_hash = ? AND s.expires > ? AND s.until > ?",
    )
    .bind(token_hash)
    .bind(now)
    .bind(now)
    .fetch_optional(db.read())
    .await?;
    let Some(row) = row else { return Ok(None) };
    let (expires, until) = (row.try_get("expires")?, row.try_get("until")?);
    Ok(Some(Stored { user: user(&row)?, expires, until }))
}

/// Extends the expiry of a session's row.
pub(super) async fn slide(db: &Db, token_hash: &str, expires: i64, now: i64) -> Result<()> {
    let mut tx = db.write().await?;
    sqlx::query("UPDATE session SET expires = ?, update_time = ? WHERE token_hash = ?")
        .bind(expires)
        .bind(now)
        .bind(token_hash)
        .execute(tx.query())
        .await?;
    tx.commit().await
}

/// Records a pending log-out and deletes the session's row.
pub(super) async fn end(db: &Db, token_hash: &str, now: i64) -> Result<()> {
    let mut tx = db.write().await?;
    sqlx::query("DELETE FROM session WHERE token_hash = ?")
        .bind(token_hash)
        .execute(tx.query())
        .await?;
    let noted = sqlx::query("INSERT INTO session_end (token_hash, create_time) VALUES (?, ?)")
        .bind(token_hash)
        .bind(now)
        .execute(tx.query())
        .await;
    match noted {
        Ok(_) => {}
        // The log-out was already recorded.
        Err(error) if is_taken(&error) => {}
        Err(error) => return Err(error.into()),
    }
    tx.commit().await
}

/// Returns `true` if the session is logged out and Redis has not been told yet.
pub(super) async fn is_ending(db: &Db, token_hash: &str) -> Result<bool> {
    let row = sqlx::query("SELECT token_hash FROM session_end WHERE token_hash = ?")
        .bind(token_hash)
        .fetch_optional(db.read())
        .await?;
    Ok(row.is_some())
}

/// Returns some of the sessions with a pending log-out.
pub(super) async fn ending(db: &Db) -> Result<Vec<String>> {
    let limit = i64::try_from(SLICE).unwrap_or(i64::MAX);
    let rows = sqlx::query("SELECT token_hash FROM session_end LIMIT ?").bind(limit);
    let rows = rows.fetch_all(db.read()).await?;
    rows.iter().map(|row| Ok(row.try_get("token_hash")?)).collect()
}

/// Deletes a pending log-out that is complete.
pub(super) async fn ended(db: &Db, token_hash: &str) -> Result<()> {
    let mut tx = db.write().await?;
    sqlx::query("DELETE FROM session_end WHERE token_hash = ?")
        .bind(token_hash)
        .execute(tx.query())
        .await?;
    tx.commit().await
}

/// Deletes a session's row.
pub(super) async fn delete(db: &Db, token_hash: &str) -> Result<()> {
    let mut tx = db.write().await?;
    sqlx::query("DELETE FROM session WHERE token_hash = ?")
        .bind(token_hash)
        .execute(tx.query())
        .await?;
    tx.commit().await
}

/// Deletes some expired rows. Returns how many.
pub(super) async fn delete_expired(db: &Db, now: i64) -> Result<usize> {
    // Selected first, because SQLite has no DELETE with a limit.
    let limit = i64::try_from(SLICE).unwrap_or(i64::MAX);
    let rows = sqlx::query("SELECT token_hash FROM session WHERE expires < ? LIMIT ?")
        .bind(now)
        .bind(limit)
        .fetch_all(db.read())
        .await?;
    if rows.is_empty() {
        return Ok(0);
    }
    let mut query = QueryBuilder::<Any>::new("DELETE FROM session WHERE expires < ");
    query.push_bind(now).push(" AND token_hash IN (");
    let mut list = query.separated(", ");
    for row in &rows {
        list.push_bind(row.try_get::<String, _>("token_hash")?);
    }
    list.push_unseparated(")");
    let mut tx = db.write().await?;
    query.build().execute(tx.query()).await?;
    tx.commit().await?;
    Ok(rows.len())
}
