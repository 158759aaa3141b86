//! The feed in the database: the notes of everybody whom somebody follows. This is what a feed is;
//! what lies in Redis is a copy of it.
//!
//! Newest first; notes of one millisecond in order of their ids, so that one that is committed a
//! moment later comes behind those which a reader may have seen.

use sqlx::{Row as _, any::AnyRow};

use super::Item;
use crate::{
    db::{Db, id, unsigned},
    error::Result,
};

fn items(rows: &[AnyRow]) -> Result<Vec<Item>> {
    let item = |row: &AnyRow| {
        Ok(Item { note: unsigned(row.try_get("id")?), time: row.try_get("create_time")? })
    };
    rows.iter().map(item).collect()
}

/// The newest of a reader's feed.
pub(super) async fn newest(db: &Db, reader: u64, most: usize) -> Result<Vec<Item>> {
    page(db, reader, i64::MAX, 0, most).await
}

/// What is not younger than `max`, but for the first `skip`.
pub(super) async fn page(
    db: &Db,
    reader: u64,
    max: i64,
    skip: u64,
    most: usize,
) -> Result<Vec<Item>> {
    let rows = sqlx::query(
        "SELECT b.id AS id, b.create_time AS create_time FROM follow f \
         JOIN blog b ON b.user_id = f.follow_user_id \
         WHERE f.user_id = ? AND b.create_time <= ? \
         ORDER BY b.create_time DESC, b.id LIMIT ? OFFSET ?",
    )
    .bind(id(reader))
    .bind(max)
    .bind(i64::try_from(most).unwrap_or(i64::MAX))
    .bind(id(skip))
    .fetch_all(db.read())
    .await?;
    items(&rows)
}

/// How many of a reader's feed are of exactly this time.
pub(super) async fn count_at(db: &Db, reader: u64, time: i64) -> Result<u64> {
    let row = sqlx::query(
        "SELECT COUNT(*) AS notes FROM follow f JOIN blog b ON b.user_id = f.follow_user_id \
         WHERE f.user_id = ? AND b.create_time = ?",
    )
    .bind(id(reader))
    .bind(time)
    .fetch_one(db.read())
    .await?;
    Ok(unsigned(row.try_get("notes")?))
}

/// How many of a reader's feed are newer than this.
pub(super) async fn count_since(db: &Db, reader: u64, time: i64) -> Result<u64> {
    let row = sqlx::query(
        "SELECT COUNT(*) AS notes FROM follow f JOIN blog b ON b.user_id = f.follow_user_id \
         WHERE f.user_id = ? AND b.create_time > ?",
    )
    .bind(id(reader))
    .bind(time)
    .fetch_one(db.read())
    .await?;
    Ok(unsigned(row.try_get("notes")?))
}

/// The newest notes of an author.
pub(super) async fn wrote(db: &Db, author: u64, most: usize) -> Result<Vec<Item>> {
    let rows = sqlx::query(
        "SELECT id, create_time FROM blog WHERE user_id = ? \
         ORDER BY create_time DESC, id DESC LIMIT ?",
    )
    .bind(id(author))
    .bind(i64::try_from(most).unwrap_or(i64::MAX))
    .fetch_all(db.read())
    .await?;
    items(&rows)
}

/// Notes in the order in which they were published, from a time on: id, author, time.
pub(super) async fn published(
    db: &Db,
    from: i64,
    after: u64,
    most: u32,
) -> Result<Vec<(Item, u64)>> {
    let rows = sqlx::query(
        "SELECT id, user_id, create_time FROM blog \
         WHERE create_time > ? OR (create_time = ? AND id > ?) ORDER BY create_time, id LIMIT ?",
    )
    .bind(from)
    .bind(from)
    .bind(id(after))
    .bind(i64::from(most))
    .fetch_all(db.read())
    .await?;
    let mut found = Vec::with_capacity(rows.len());
    for (item, row) in items(&rows)?.into_iter().zip(&rows) {
        found.push((item, unsigned(row.try_get("user_id")?)));
    }
    Ok(found)
}
