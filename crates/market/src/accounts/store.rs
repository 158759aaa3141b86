//! Users and their profiles in the database.

use std::collections::HashMap;

use sqlx::{Any, QueryBuilder, Row as _, any::AnyRow};

use super::{Change, Phone, Profile, User};
use crate::{
    db::{Db, WriteTx, id, is_taken, unsigned},
    error::Result,
};

/// Maximum ids in one query.
const SLICE: usize = 500;

/// Decodes a user from a row.
pub(super) fn user(row: &AnyRow) -> Result<User> {
    Ok(User {
        id: unsigned(row.try_get("id")?),
        nick_name: row.try_get("nick_name")?,
        icon: row.try_get("icon")?,
        role: row.try_get("role")?,
    })
}

/// Returns the user with this phone.
pub(super) async fn by_phone(db: &Db, phone: &Phone) -> Result<Option<User>> {
    let row = sqlx::query("SELECT id, nick_name, icon, role FROM user WHERE phone = ?")
        .bind(phone.as_str())
        .fetch_optional(db.read())
        .await?;
    row.as_ref().map(user).transpose()
}

/// Returns a user.
pub(super) async fn by_id(db: &Db, user_id: u64) -> Result<Option<User>> {
    let row = sqlx::query("SELECT id, nick_name, icon, role FROM user WHERE id = ?")
        .bind(id(user_id))
        .fetch_optional(db.read())
        .await?;
    row.as_ref().map(user).transpose()
}

/// Sets the role of a user.
pub(super) async fn set_role(db: &Db, user: u64, role: &str, now: i64) -> Result<()> {
    let mut tx = db.write().await?;
    sqlx::query("UPDATE user SET role = ?, update_time = ? WHERE id = ?")
        .bind(role)
        .bind(now)
        .bind(id(user))
        .execute(tx.query())
        .await?;
    tx.commit().await
}

/// Inserts a user. Returns `false` if the phone is already registered.
pub(super) async fn register(db: &Db, new: &User, phone: &Phone, now: i64) -> Result<bool> {
    let mut tx = db.write().await?;
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
    .execute(tx.query())
    .await;
    match inserted {
        Ok(_) => {
            insert_info(&mut tx, new.id, now).await?;
            tx.commit().await.map(|()| true)
        }
        Err(error) if is_taken(&error) => tx.roll_back().await.map(|()| false),
        Err(error) => Err(error.into()),
    }
}

/// Inserts an empty profile row for a user.
async fn insert_info(tx: &mut WriteTx<'_>, user: u64, now: i64) -> Result<()> {
    let inserted = sqlx::query(
        "INSERT INTO user_info (user_id, city, introduce, fans, followee, gender, birthday, \
         credits, level, create_time, update_time) VALUES (?, '', '', 0, 0, 0, NULL, 0, 0, ?, ?)",
    )
    .bind(id(user))
    .bind(now)
    .bind(now)
    .execute(tx.query())
    .await;
    match inserted {
        Ok(_) => Ok(()),
        Err(error) if is_taken(&error) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the profiles of those users that exist; a user without a profile row gets an empty
/// profile.
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

/// Changes a profile. Returns `false` if there is no such user.
pub(super) async fn change_profile(db: &Db, user: u64, change: &Change, now: i64) -> Result<bool> {
    let mut tx = db.write().await?;
    let updated = sqlx::query(
        "UPDATE user SET nick_name = COALESCE(?, nick_name), icon = COALESCE(?, icon), \
         update_time = ? WHERE id = ?",
    )
    .bind(change.nick_name.as_deref())
    .bind(change.icon.as_deref())
    .bind(now)
    .bind(id(user))
    .execute(tx.query())
    .await?;
    if updated.rows_affected() == 0 {
        tx.roll_back().await?;
        return Ok(false);
    }
    if update_info(&mut tx, user, change, now).await? == 0 {
        insert_info(&mut tx, user, now).await?;
        update_info(&mut tx, user, change, now).await?;
    }
    tx.commit().await.map(|()| true)
}

async fn update_info(tx: &mut WriteTx<'_>, user: u64, change: &Change, now: i64) -> Result<u64> {
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
    .execute(tx.query())
    .await?;
    Ok(updated.rows_affected())
}
