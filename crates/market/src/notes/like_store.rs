//! Likes in the database: the record. A row for each like, and their number beside the note.

use sqlx::{QueryBuilder, Row as _};

use super::store::push_ids;
use crate::{
    db::{Db, id, unsigned},
    error::Result,
};

/// Ids of one `IN` list.
const IN_LIST: usize = 500;

/// What somebody wants with their like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// To turn it round.
    Toggle,
    /// To like the note, also when they do already.
    Like,
    /// Not to like it, also when they do not.
    TakeBack,
}

/// What a wish came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Liked {
    /// Whether the user likes it now.
    pub liked: bool,
    /// How many do.
    pub count: i64,
    /// Since when they do; now, where they do not.
    pub(super) since: i64,
}

/// Follows a wish; `None` when there is no such note.
pub(super) async fn set(
    db: &Db,
    note: u64,
    user: u64,
    wish: Wish,
    now: i64,
) -> Result<Option<Liked>> {
    let mut tx = db.write().await?;
    // The note's row is held first: toggles of one note come one after the other, and none of two
    // clicks finds what the other one is about to change.
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

/// Who likes a note, since when.
pub(super) async fn likers(db: &Db, note: u64) -> Result<Vec<(u64, i64)>> {
    let rows = sqlx::query("SELECT user_id, time FROM blog_like WHERE blog_id = ?")
        .bind(id(note))
        .fetch_all(db.read())
        .await?;
    rows.iter().map(|row| Ok((unsigned(row.try_get("user_id")?), row.try_get("time")?))).collect()
}

/// Who liked a note first.
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

/// Which of these notes somebody likes.
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
