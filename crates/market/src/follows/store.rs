//! Follows in the database; the counts in profiles change in the same transaction.

use sqlx::Row as _;

use crate::{
    db::{Db, WriteTx, id, is_taken, unsigned},
    error::Result,
};

/// Outcome of a follow or unfollow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// Changed by this call.
    Changed,
    /// It was already in that state.
    Unchanged,
    /// There is no such user.
    Unknown,
}

/// Follows a user.
pub(super) async fn follow(db: &Db, user: u64, whom: u64, now: i64) -> Result<Kept> {
    let mut tx = db.write().await?;
    let inserted = sqlx::query(
        "INSERT INTO follow (user_id, follow_user_id, create_time, update_time) \
         SELECT ?, id, ?, ? FROM user WHERE id = ?",
    )
    .bind(id(user))
    .bind(now)
    .bind(now)
    .bind(id(whom))
    .execute(tx.query())
    .await;
    match inserted {
        Ok(done) if done.rows_affected() == 0 => {
            tx.roll_back().await?;
            Ok(Kept::Unknown)
        }
        Ok(_) => {
            count(&mut tx, user, whom, 1, now).await?;
            tx.commit().await.map(|()| Kept::Changed)
        }
        Err(error) if is_taken(&error) => tx.roll_back().await.map(|()| Kept::Unchanged),
        Err(error) => Err(error.into()),
    }
}

/// Unfollows a user.
pub(super) async fn unfollow(db: &Db, user: u64, whom: u64, now: i64) -> Result<Kept> {
    let mut tx = db.write().await?;
    let deleted = sqlx::query("DELETE FROM follow WHERE user_id = ? AND follow_user_id = ?")
        .bind(id(user))
        .bind(id(whom))
        .execute(tx.query())
        .await?;
    if deleted.rows_affected() == 0 {
        tx.roll_back().await?;
        let known = sqlx::query("SELECT id FROM user WHERE id = ?").bind(id(whom));
        let known = known.fetch_optional(db.read()).await?.is_some();
        return Ok(if known { Kept::Unchanged } else { Kept::Unknown });
    }
    count(&mut tx, user, whom, -1, now).await?;
    tx.commit().await.map(|()| Kept::Changed)
}

/// Changes the counts of both users; always the smaller id first, so that two users who follow each
/// other at the same time do not deadlock.
async fn count(tx: &mut WriteTx<'_>, user: u64, whom: u64, step: i64, now: i64) -> Result<()> {
    let mut people = [(user, 0, step), (whom, step, 0)];
    people.sort_unstable();
    for (person, fans, followee) in people {
        let counted = sqlx::query(
            "UPDATE user_info SET fans = fans + ?, followee = followee + ?, update_time = ? \
             WHERE user_id = ?",
        )
        .bind(fans)
        .bind(followee)
        .bind(now)
        .bind(id(person))
        .execute(tx.query())
        .await?;
        if counted.rows_affected() == 0 {
            add_info(tx, person, fans, followee, now).await?;
        }
    }
    Ok(())
}

/// Inserts the profile row of a user who has none yet.
async fn add_info(
    tx: &mut WriteTx<'_>,
    person: u64,
    fans: i64,
    followee: i64,
    now: i64,
) -> Result<()> {
    sqlx::query(
        "INSERT INTO user_info (user_id, city, introduce, fans, followee, gender, birthday, \
         credits, level, create_time, update_time) VALUES (?, '', '', ?, ?, 0, NULL, 0, 0, ?, ?)",
    )
    .bind(id(person))
    .bind(fans.max(0))
    .bind(followee.max(0))
    .bind(now)
    .bind(now)
    .execute(tx.query())
    .await?;
    Ok(())
}

/// Returns all users that `user` follows.
pub(super) async fn followees(db: &Db, user: u64) -> Result<Vec<u64>> {
    let rows = sqlx::query("SELECT follow_user_id FROM follow WHERE user_id = ?")
        .bind(id(user))
        .fetch_all(db.read())
        .await?;
    rows.iter().map(|row| Ok(unsigned(row.try_get("follow_user_id")?))).collect()
}

/// Returns `true` if `user` follows `whom`.
pub(super) async fn is_following(db: &Db, user: u64, whom: u64) -> Result<bool> {
    let row = sqlx::query("SELECT 1 AS one FROM follow WHERE user_id = ? AND follow_user_id = ?")
        .bind(id(user))
        .bind(id(whom))
        .fetch_optional(db.read())
        .await?;
    Ok(row.is_some())
}

/// Returns the users that both follow.
pub(super) async fn common(db: &Db, one: u64, other: u64, most: usize) -> Result<Vec<u64>> {
    let rows = sqlx::query(
        "SELECT a.follow_user_id AS whom FROM follow a \
         JOIN follow b ON b.follow_user_id = a.follow_user_id \
         WHERE a.user_id = ? AND b.user_id = ? ORDER BY a.follow_user_id LIMIT ?",
    )
    .bind(id(one))
    .bind(id(other))
    .bind(i64::try_from(most).unwrap_or(i64::MAX))
    .fetch_all(db.read())
    .await?;
    rows.iter().map(|row| Ok(unsigned(row.try_get("whom")?))).collect()
}

/// Returns the number of followers.
pub(crate) async fn fans(db: &Db, user: u64) -> Result<u64> {
    let row = sqlx::query("SELECT fans FROM user_info WHERE user_id = ?")
        .bind(id(user))
        .fetch_optional(db.read())
        .await?;
    Ok(row.map(|row| row.try_get("fans")).transpose()?.map_or(0, unsigned))
}

/// Returns the number of followers that began to follow after this time.
pub(crate) async fn fans_since(db: &Db, user: u64, time: i64) -> Result<u64> {
    let row = sqlx::query(
        "SELECT COUNT(*) AS fans FROM follow WHERE follow_user_id = ? AND create_time > ?",
    )
    .bind(id(user))
    .bind(time)
    .fetch_one(db.read())
    .await?;
    Ok(unsigned(row.try_get("fans")?))
}

/// Returns some followers, sorted by id, after one of them.
pub(crate) async fn fans_after(db: &Db, user: u64, after: i64, most: u32) -> Result<Vec<u64>> {
    let rows = sqlx::query(
        "SELECT user_id FROM follow WHERE follow_user_id = ? AND user_id > ? \
         ORDER BY user_id LIMIT ?",
    )
    .bind(id(user))
    .bind(after)
    .bind(i64::from(most))
    .fetch_all(db.read())
    .await?;
    rows.iter().map(|row| Ok(unsigned(row.try_get("user_id")?))).collect()
}

/// Returns followed users with at least `fans` followers.
pub(crate) async fn popular_followees(
    db: &Db,
    user: u64,
    fans: u64,
    most: usize,
) -> Result<Vec<u64>> {
    let rows = sqlx::query(
        "SELECT f.follow_user_id AS whom FROM follow f \
         JOIN user_info i ON i.user_id = f.follow_user_id \
         WHERE f.user_id = ? AND i.fans >= ? ORDER BY f.follow_user_id LIMIT ?",
    )
    .bind(id(user))
    .bind(i64::try_from(fans).unwrap_or(i64::MAX))
    .bind(i64::try_from(most).unwrap_or(i64::MAX))
    .fetch_all(db.read())
    .await?;
    rows.iter().map(|row| Ok(unsigned(row.try_get("whom")?))).collect()
}
