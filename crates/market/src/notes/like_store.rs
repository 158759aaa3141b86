//! Likes in the database, the record: one row per like, and a count in the note.

use sqlx::{QueryBuilder, Row as _};

use super::store::push_ids;
use crate::{
    db::{Db, id, unsigned},
    error::Result,
};

/// Maximum ids in an `IN` list.
const IN_LIST: usize = 500;

/// Requested state of a like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Toggle the like.
    Toggle,
    /// Like the note; no change if it is already liked.
    Like,
    /// Unlike the note; no change if it is not liked.
    TakeBack,
}

/// Outcome of a like request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Liked {
    /// Whether the user likes the note now.
    pub liked: bool,
    /// Number of likes.
    pub count: i64,
    /// Time of the like; only meaningful if `liked` is `true`.
    pub(super) since: i64,
}

/// Sets the state of a like. Returns `None` if there is no such note.
pub(super) async fn set(
    db: &Db,
    note: u64,
    user: u64,
    wish: Wish,
    now: i64,
) -> Result<Option<Liked>> {
    let mut tx = db.write().await?;
    // Locks the note's row first: toggles of one note run one after the other, so that neither of
    // two clicks reads what the other is about to change.
    let held = sqlx::query("UPDATE blog SET liked = liked WHERE id = ?")
        .bind(id(note))
        .execute(tx.query())
        .await?;
    if held.rows_affected() == 0 {
        tx.roll_back().await?;
        return Ok(None);
    }
    let before = sqlx::query("SELECT time FROM blog_like WHERE blog_id = ? AND user_id = ?")
        .bind(id(note))
        .bind(id(user))
        .fetch_optional(tx.query())
        .await?;
    let before: Option<i64> = before.map(|row| row.try_get("time")).transpose()?;
    let likes = before.is_some();
    let liked = match wish {
        Wish::Toggle => !likes,
        Wish::Like => true,
        Wish::TakeBack => false,
    };
    let is_new = liked != likes;
    if is_new && !liked {
        sqlx::query("DELETE FROM blog_like WHERE blog_id = ? AND user_id = ?")
            .bind(id(note))
            .bind(id(user))
            .execute(tx.query())
            .await?;
    }
    if is_new && liked {
        sqlx::query(
            "INSERT INTO blog_like (blog_id, user_id, time, create_time, update_time) \
             VALUES (?, ?, ?, ?, ?)",
        )
        .bind(id(note))
        .bind(id(user))
        .bind(now)
        .bind(now)
        .bind(now)
        .execute(tx.query())
        .await?;
    }
    let step = i64::from(liked) - i64::from(likes);
    sqlx::query("UPDATE blog SET liked = liked + ? WHERE id = ?")
        .bind(step)
        .bind(id(note))
        .execute(tx.query())
        .await?;
    let row = sqlx::query("SELECT liked FROM blog WHERE id = ?")
        .bind(id(note))
        .fetch_one(tx.query())
        .await?;
    let count = row.try_get("liked")?;
    tx.commit().await?;
    Ok(Some(Liked { liked, count, since: before.unwrap_or(now) }))
}

/// Returns the users who like a note, with the time of each like.
pub(super) async fn likers(db: &Db, note: u64) -> Result<Vec<(u64, i64)>> {
    let rows = sqlx::query("SELECT user_id, time FROM blog_like WHERE blog_id = ?")
        .bind(id(note))
        .fetch_all(db.read())
        .await?;
    rows.iter().map(|row| Ok((unsigned(row.try_get("user_id")?), row.try_get("time")?))).collect()
}

/// Returns the first users who liked a note.
pub(super) async fn first(db: &Db, note: u64, count: usize) -> Result<Vec<u64>> {
    let rows = sqlx::query(
        "SELECT user_id FROM blog_like WHERE blog_id = ? ORDER BY time, user_id LIMIT ?",
    )
    .bind(id(note))
    .bind(i64::try_from(count).unwrap_or(i64::MAX))
    .fetch_all(db.read())
    .await?;
    rows.iter().map(|row| Ok(unsigned(row.try_get("user_id")?))).collect()
}

/// Returns which of these notes a user likes.
pub(super) async fn liked_by(db: &Db, user: u64, notes: &[u64]) -> Result<Vec<u64>> {
    let mut liked = Vec::new();
    for slice in notes.chunks(IN_LIST) {
        let mut query = QueryBuilder::new("SELECT blog_id FROM blog_like WHERE user_id = ");
        query.push_bind(id(user)).push(" AND blog_id IN");
        push_ids(&mut query, slice);
        for row in query.build().fetch_all(db.read()).await? {
            liked.push(unsigned(row.try_get("blog_id")?));
        }
    }
    Ok(liked)
}
