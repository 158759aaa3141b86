//! Notes in the database.

use std::collections::HashMap;

use sqlx::{Any, QueryBuilder, Row as _, any::AnyRow};

use super::{Draft, Note};
use crate::{
    db::{Db, id, is_taken, unsigned},
    error::{Error, Result},
};

/// Maximum ids in an `IN` list.
const IN_LIST: usize = 500;

/// Outcome of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Submitted {
    /// It is a new note.
    Now,
    /// It was submitted before, as this note.
    Before(u64),
}

/// The ids on a page, and the number on all pages.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct IdPage {
    pub(crate) ids: Vec<u64>,
    pub(crate) total: u64,
}

fn note(row: &AnyRow) -> Result<Note> {
    Ok(Note {
        id: unsigned(row.try_get("id")?),
        shop_id: unsigned(row.try_get("shop_id")?),
        user_id: unsigned(row.try_get("user_id")?),
        title: row.try_get("title")?,
        images: row.try_get("images")?,
        content: row.try_get("content")?,
        liked: row.try_get("liked")?,
        comments: row.try_get("comments")?,
        create_time: row.try_get("create_time")?,
        update_time: row.try_get("update_time")?,
    })
}

/// Appends ` (?, ?, …)`.
pub(crate) fn push_ids(query: &mut QueryBuilder<Any>, ids: &[u64]) {
    query.push(" (");
    let mut list = query.separated(", ");
    for &one in ids {
        list.push_bind(id(one));
    }
    query.push(")");
}

/// Returns those of these notes that exist.
pub(super) async fn by_ids(db: &Db, ids: &[u64]) -> Result<HashMap<u64, Note>> {
    let mut found = HashMap::with_capacity(ids.len());
    for slice in ids.chunks(IN_LIST) {
        let mut query = QueryBuilder::new(
            "SELECT id, shop_id, user_id, title, images, content, liked, comments, create_time, \
             update_time FROM blog WHERE id IN",
        );
        push_ids(&mut query, slice);
        for row in query.build().fetch_all(db.read()).await? {
            let note = note(&row)?;
            found.insert(note.id, note);
        }
    }
    Ok(found)
}

/// Inserts a note, once per `hash`.
pub(super) async fn insert(
    db: &Db,
    new: u64,
    draft: &Draft,
    hash: &str,
    now: i64,
) -> Result<Submitted> {
    let mut tx = db.write().await?;
    let inserted = sqlx::query(
        "INSERT INTO blog (id, shop_id, user_id, title, images, content, liked, comments, \
         submit_hash, create_time, update_time) VALUES (?, ?, ?, ?, ?, ?, 0, 0, ?, ?, ?)",
    )
    .bind(id(new))
    .bind(id(draft.shop))
    .bind(id(draft.author))
    .bind(draft.title.as_str())
    .bind(draft.images.as_str())
    .bind(draft.content.as_str())
    .bind(hash)
    .bind(now)
    .bind(now)
    .execute(tx.query())
    .await;
    match inserted {
        Ok(_) => tx.commit().await.map(|()| Submitted::Now),
        Err(error) if is_taken(&error) => {
            tx.roll_back().await?;
            let first = by_hash(db, hash, i64::MIN).await?;
            // The note was published and deleted since.
            first.map(Submitted::Before).ok_or_else(|| {
                Error::conflict("ALREADY_SUBMITTED", "this was submitted and deleted since")
            })
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the note of a submission, unless it is older than `since`.
pub(super) async fn by_hash(db: &Db, hash: &str, since: i64) -> Result<Option<u64>> {
    let row = sqlx::query("SELECT id FROM blog WHERE submit_hash = ? AND create_time >= ?")
        .bind(hash)
        .bind(since)
        .fetch_optional(db.read())
        .await?;
    Ok(row.map(|row| row.try_get("id")).transpose()?.map(unsigned))
}

/// Deletes a note with its comments and likes. Returns `false` if it does not exist.
pub(super) async fn delete(db: &Db, note: u64) -> Result<bool> {
    let mut tx = db.write().await?;
    for statement in [
        "DELETE FROM blog WHERE id = ?",
        "DELETE FROM blog_comment WHERE blog_id = ?",
        "DELETE FROM blog_like WHERE blog_id = ?",
    ] {
        let done = sqlx::query(statement).bind(id(note)).execute(tx.query()).await?;
        if statement.starts_with("DELETE FROM blog WHERE") && done.rows_affected() == 0 {
            tx.roll_back().await?;
            return Ok(false);
        }
    }
    tx.commit().await.map(|()| true)
}

/// Returns a page of an author's notes, newest first.
pub(super) async fn of_user(db: &Db, user: u64, page: u32, rows: u32) -> Result<IdPage> {
    let list = "SELECT id FROM blog WHERE user_id = ? ORDER BY create_time DESC, id DESC \
         LIMIT ? OFFSET ?";
    let count = "SELECT COUNT(*) AS notes FROM blog WHERE user_id = ?";
    of_one(db, (list, count), user, page, rows).await
}

/// Returns a page of the notes about a shop, newest first.
pub(super) async fn of_shop(db: &Db, shop: u64, page: u32, rows: u32) -> Result<IdPage> {
    let list = "SELECT id FROM blog WHERE shop_id = ? ORDER BY create_time DESC, id DESC \
         LIMIT ? OFFSET ?";
    let count = "SELECT COUNT(*) AS notes FROM blog WHERE shop_id = ?";
    of_one(db, (list, count), shop, page, rows).await
}

async fn of_one(
    db: &Db,
    (list, count): (&'static str, &'static str),
    whose: u64,
    page: u32,
    rows: u32,
) -> Result<IdPage> {
    // Read at one moment, so that the total fits the page.
    let mut moment = db.snapshot().await?;
    let found = sqlx::query(list)
        .bind(id(whose))
        .bind(i64::from(rows))
        .bind(offset(page, rows))
        .fetch_all(&mut *moment)
        .await?;
    let total = sqlx::query(count).bind(id(whose)).fetch_one(&mut *moment).await?;
    moment.rollback().await?;
    Ok(IdPage { ids: ids(&found)?, total: unsigned(total.try_get("notes")?) })
}

/// Returns a page of all notes, the most liked first.
pub(super) async fn hot(db: &Db, page: u32, rows: u32) -> Result<Vec<u64>> {
    let found = sqlx::query("SELECT id FROM blog ORDER BY liked DESC, id DESC LIMIT ? OFFSET ?")
        .bind(i64::from(rows))
        .bind(offset(page, rows))
        .fetch_all(db.read())
        .await?;
    ids(&found)
}

/// Returns the number of an author's notes.
pub(super) async fn count_of_user(db: &Db, user: u64) -> Result<u64> {
    let row = sqlx::query("SELECT COUNT(*) AS notes FROM blog WHERE user_id = ?")
        .bind(id(user))
        .fetch_one(db.read())
        .await?;
    Ok(unsigned(row.try_get("notes")?))
}

fn offset(page: u32, rows: u32) -> i64 {
    i64::from(page.saturating_sub(1)) * i64::from(rows)
}

fn ids(rows: &[AnyRow]) -> Result<Vec<u64>> {
    rows.iter().map(|row| Ok(unsigned(row.try_get("id")?))).collect()
}
