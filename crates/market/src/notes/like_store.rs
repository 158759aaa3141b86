//! Likes in the database: the record. A row for each like, and their number beside the note.

use sqlx::{QueryBuilder, Row as _};

use super::store::push_ids;
use crate::{
    db::{Db, id, unsigned},
    error::Result,
};

/// Ids of one `IN` list.
const IN_LIST: usize = 500;

/// What a toggle came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Toggled {
    /// Whether the user likes it now.
    pub liked: bool,
    /// How many do.
    pub count: i64,
}

/// Turns a like round; `None` when there is no such note.
pub(super) async fn toggle(db: &Db, note: u64, user: u64, now: i64) -> Result<Option<Toggled>> {
    let mut turn = db.write().await?;
    // The note's row is held first: toggles of one note come one after the other, and none of two
    // clicks finds what the other one is about to change.
    let held = sqlx::query("UPDATE blog SET liked = liked WHERE id = ?")
        .bind(id(note))
        .execute(turn.query())
        .await?;
    if held.rows_affected() == 0 {
        turn.roll_back().await?;
        return Ok(None);
    }
    let taken_back = sqlx::query("DELETE FROM blog_like WHERE blog_id = ? AND user_id = ?")
        .bind(id(note))
        .bind(id(user))
        .execute(turn.query())
        .await?
        .rows_affected();
    if taken_back == 0 {
        sqlx::query(
            "INSERT INTO blog_like (blog_id, user_id, time, create_time, update_time) \
             VALUES (?, ?, ?, ?, ?)",
        )
        .bind(id(note))
        .bind(id(user))
        .bind(now)
        .bind(now)
        .bind(now)
        .execute(turn.query())
        .await?;
    }
    let liked = taken_back == 0;
    sqlx::query("UPDATE blog SET liked = liked + ? WHERE id = ?")
        .bind(if liked { 1_i64 } else { -1 })
        .bind(id(note))
        .execute(turn.query())
        .await?;
    let row = sqlx::query("SELECT liked FROM blog WHERE id = ?")
        .bind(id(note))
        .fetch_one(turn.query())
        .await?;
    let count = row.try_get("liked")?;
    turn.commit().await?;
    Ok(Some(Toggled { liked, count }))
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
