//! Users and sessions in the database.

use sqlx::{Row as _, any::AnyRow};

use super::{Phone, User, sessions};
use crate::{
    db::{Db, id, is_taken, unsigned},
    error::Result,
};

fn user(row: &AnyRow) -> Result<User> {
    Ok(User {
        id: unsigned(row.try_get("id")?),
        nick_name: row.try_get("nick_name")?,
        icon: row.try_get("icon")?,
        role: row.try_get("role")?,
    })
}

/// The user of a phone.
pub(super) async fn by_phone(db: &Db, phone: &Phone) -> Result<Option<User>> {
    let row = sqlx::query("SELECT id, nick_name, icon, role FROM user WHERE phone = ?")
        .bind(phone.as_str())
        .fetch_optional(db.read())
        .await?;
    row.as_ref().map(user).transpose()
}

/// Adds a user; false when the phone has one already.
pub(super) async fn register(db: &Db, new: &User, phone: &Phone, now: i64) -> Result<bool> {
    let mut turn = db.write().await?;
    let inserted = sqlx::query(
        "INSERT INTO user (id, phone, nick_name, icon, role, create_time, update_time) \
         VALUES (?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(id(new.id))
    .bind(phone.as_str())
    .bind(new.nick_name.as_str())
    .bind(new.icon.as_str())
    .bind(new.role.as_str())
    .bind(now)
    .bind(now)
    .execute(turn.query())
    .await;
    match inserted {
        Ok(_) => turn.commit().await.map(|()| true),
        Err(error) if is_taken(&error) => turn.roll_back().await.map(|()| false),
        Err(error) => Err(error.into()),
    }
}

/// Adds a session's row, and takes out rows of this user that have ended.
pub(super) async fn insert_session(db: &Db, row: &sessions::Row, now: i64) -> Result<()> {
    let mut turn = db.write().await?;
    sqlx::query("DELETE FROM session WHERE user_id = ? AND expires < ?")
        .bind(id(row.user_id))
        .bind(now)
        .execute(turn.query())
        .await?;
    sqlx::query(
        "INSERT INTO session (token_hash, user_id, expires, until, create_time, update_time) \
         VALUES (?, ?, ?, ?, ?, ?)",
    )
    .bind(row.token_hash.as_str())
    .bind(id(row.user_id))
    .bind(row.expires)
    .bind(row.until)
    .bind(now)
    .bind(now)
    .execute(turn.query())
    .await?;
    turn.commit().await
}

/// The user of a session that has not ended.
pub(super) async fn session_user(db: &Db, token_hash: &str, now: i64) -> Result<Option<User>> {
    let row = sqlx::query(
        "SELECT u.id AS id, u.nick_name AS nick_name, u.icon AS icon, u.role AS role \
         FROM session s JOIN user u ON u.id = s.user_id \
         WHERE s.token_hash = ? AND s.expires > ? AND s.until > ?",
    )
    .bind(token_hash)
    .bind(now)
    .bind(now)
    .fetch_optional(db.read())
    .await?;
    row.as_ref().map(user).transpose()
}

/// Gives a session's row a later end.
pub(super) async fn slide_session(db: &Db, token_hash: &str, expires: i64, now: i64) -> Result<()> {
    let mut turn = db.write().await?;
    sqlx::query("UPDATE session SET expires = ?, update_time = ? WHERE token_hash = ?")
        .bind(expires)
        .bind(now)
        .bind(token_hash)
        .execute(turn.query())
        .await?;
    turn.commit().await
}

/// Takes a session's row out.
pub(super) async fn delete_session(db: &Db, token_hash: &str) -> Result<()> {
    let mut turn = db.write().await?;
    sqlx::query("DELETE FROM session WHERE token_hash = ?")
        .bind(token_hash)
        .execute(turn.query())
        .await?;
    turn.commit().await
}
