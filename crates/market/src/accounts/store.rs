//! Users, their profiles and sessions in the database.

use std::collections::HashMap;

use sqlx::{Any, QueryBuilder, Row as _, any::AnyRow};

use super::{Change, Phone, Profile, User, sessions};
use crate::{
    db::{Db, Turn, id, is_taken, unsigned},
    error::Result,
};

/// Most ids in one query.
const SLICE: usize = 500;

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

/// A user.
pub(super) async fn by_id(db: &Db, user_id: u64) -> Result<Option<User>> {
    let row = sqlx::query("SELECT id, nick_name, icon, role FROM user WHERE id = ?")
        .bind(id(user_id))
        .fetch_optional(db.read())
        .await?;
    row.as_ref().map(user).transpose()
}

/// Gives a user another role.
pub(super) async fn set_role(db: &Db, user: u64, role: &str, now: i64) -> Result<()> {
    let mut turn = db.write().await?;
    sqlx::query("UPDATE user SET role = ?, update_time = ? WHERE id = ?")
        .bind(role)
        .bind(now)
        .bind(id(user))
        .execute(turn.query())
        .await?;
    turn.commit().await
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
        Ok(_) => {
            insert_info(&mut turn, new.id, now).await?;
            turn.commit().await.map(|()| true)
        }
        Err(error) if is_taken(&error) => turn.roll_back().await.map(|()| false),
        Err(error) => Err(error.into()),
    }
}

/// The row about somebody who has told nothing yet.
async fn insert_info(turn: &mut Turn<'_>, user: u64, now: i64) -> Result<()> {
    let inserted = sqlx::query(
        "INSERT INTO user_info (user_id, city, introduce, fans, followee, gender, birthday, \
         credits, level, create_time, update_time) VALUES (?, '', '', 0, 0, 0, NULL, 0, 0, ?, ?)",
    )
    .bind(id(user))
    .bind(now)
    .bind(now)
    .execute(turn.query())
    .await;
    match inserted {
        Ok(_) => Ok(()),
        Err(error) if is_taken(&error) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The profiles of those of these users who exist; who has told nothing has an empty one.
pub(super) async fn profiles(db: &Db, users: &[u64]) -> Result<HashMap<u64, Profile>> {
    let mut found = HashMap::with_capacity(users.len());
    for slice in users.chunks(SLICE) {
        let mut query = QueryBuilder::<Any>::new(
            "SELECT u.id AS id, u.nick_name AS nick_name, u.icon AS icon, \
             COALESCE(i.city, '') AS city, COALESCE(i.introduce, '') AS introduce, \
             COALESCE(i.fans, 0) AS fans, COALESCE(i.followee, 0) AS followee, \
             COALESCE(i.gender, 0) AS gender, i.birthday AS birthday, \
             COALESCE(i.credits, 0) AS credits, COALESCE(i.level, 0) AS level, \
             u.create_time AS create_time \
             FROM user u LEFT JOIN user_info i ON i.user_id = u.id WHERE u.id IN (",
        );
        let mut list = query.separated(", ");
        for user in slice {
            list.push_bind(id(*user));
        }
        list.push_unseparated(")");
        for row in query.build().fetch_all(db.read()).await? {
            let profile = profile(&row)?;
            found.insert(profile.id, profile);
        }
    }
    Ok(found)
}

fn profile(row: &AnyRow) -> Result<Profile> {
    Ok(Profile {
        id: unsigned(row.try_get("id")?),
        nick_name: row.try_get("nick_name")?,
        icon: row.try_get("icon")?,
        city: row.try_get("city")?,
        introduce: row.try_get("introduce")?,
        fans: row.try_get("fans")?,
        followee: row.try_get("followee")?,
        gender: row.try_get("gender")?,
        birthday: row.try_get("birthday")?,
        credits: row.try_get("credits")?,
        level: row.try_get("level")?,
        create_time: row.try_get("create_time")?,
    })
}

/// Changes a profile; false when there is no such user.
pub(super) async fn change_profile(db: &Db, user: u64, change: &Change, now: i64) -> Result<bool> {
    let mut turn = db.write().await?;
    let updated = sqlx::query(
        "UPDATE user SET nick_name = COALESCE(?, nick_name), icon = COALESCE(?, icon), \
         update_time = ? WHERE id = ?",
    )
    .bind(change.nick_name.as_deref())
    .bind(change.icon.as_deref())
    .bind(now)
    .bind(id(user))
    .execute(turn.query())
    .await?;
    if updated.rows_affected() == 0 {
        turn.roll_back().await?;
        return Ok(false);
    }
    if update_info(&mut turn, user, change, now).await? == 0 {
        insert_info(&mut turn, user, now).await?;
        update_info(&mut turn, user, change, now).await?;
    }
    turn.commit().await.map(|()| true)
}

async fn update_info(turn: &mut Turn<'_>, user: u64, change: &Change, now: i64) -> Result<u64> {
    let updated = sqlx::query(
        "UPDATE user_info SET city = COALESCE(?, city), introduce = COALESCE(?, introduce), \
         gender = COALESCE(?, gender), birthday = NULLIF(COALESCE(?, birthday), ''), \
         update_time = ? WHERE user_id = ?",
    )
    .bind(change.city.as_deref())
    .bind(change.introduce.as_deref())
    .bind(change.gender)
    .bind(change.birthday.as_deref())
    .bind(now)
    .bind(id(user))
    .execute(turn.query())
    .await?;
    Ok(updated.rows_affected())
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

/// The user of a session that has not ended, and when its row ends.
pub(super) async fn session(db: &Db, token_hash: &str, now: i64) -> Result<Option<(User, i64)>> {
    let row = sqlx::query(
        "SELECT u.id AS id, u.nick_name AS nick_name, u.icon AS icon, u.role AS role, \
         s.expires AS expires FROM session s JOIN user u ON u.id = s.user_id \
         WHERE s.token_hash = ? AND s.expires > ? AND s.until > ?",
    )
    .bind(token_hash)
    .bind(now)
    .bind(now)
    .fetch_optional(db.read())
    .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some((user(&row)?, row.try_get("expires")?)))
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

/// Takes some rows out that have ended; how many.
pub(super) async fn delete_ended(db: &Db, now: i64) -> Result<usize> {
    // Chosen first: SQLite deletes no limited number.
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
    let mut turn = db.write().await?;
    query.build().execute(turn.query()).await?;
    turn.commit().await?;
    Ok(rows.len())
}
