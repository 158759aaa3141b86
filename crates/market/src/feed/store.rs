//! The feed in the database: the notes of all followed users. This defines the feed; Redis holds a
//! copy.
//!
//! Newest first. Notes of one millisecond are sorted by id, so that a note committed a moment later
//! comes after those that a reader may have seen.

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

/// Returns the newest notes of a reader's feed.
pub(super) async fn newest(db: &Db, reader: u64, most: usize) -> Result<Vec<Item>> {
    page(db, reader, i64::MAX, 0, most).await
}

/// Returns notes not newer than `max`, without the first `skip`.
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

/// Counts the notes of a reader's feed with exactly this time.
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

/// Counts the notes of a reader's feed that are newer than `time`.
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

/// Returns the newest notes of an author.
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

/// Returns notes in order of publication, from a time on, with their authors.
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
