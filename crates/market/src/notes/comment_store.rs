//! Comments in the database. A comment is a root (`parent_id` 0) or belongs to one root;
//! `answer_id` is the comment it answers. Comments are sorted by time, not by id, because ids are
//! allocated in blocks per process.

use std::collections::HashMap;

use sqlx::{QueryBuilder, Row as _, any::AnyRow};

use super::{Comment, store::push_ids};
use crate::{
    db::{Db, WriteTx, id, unsigned},
    error::{Error, Result},
    submissions::{self, IdempotencyKey, Kind, Noted, Submission},
};

/// The columns of a comment.
const COLUMNS: &str =
    "id, user_id, blog_id, parent_id, answer_id, content, liked, status, create_time";

/// A new comment and its position.
#[derive(Debug, Clone)]
pub(super) struct NewComment<'a> {
    pub(super) id: u64,
    pub(super) note: u64,
    pub(super) author: u64,
    pub(super) place: Place,
    pub(super) content: &'a str,
    /// The author's idempotency key.
    pub(super) key: Option<&'a IdempotencyKey>,
}

/// Requested position of a comment; 0 means not specified.
#[derive(Debug, Clone, Copy, Default)]
pub struct Place {
    /// Root of the thread.
    pub parent: u64,
    /// Comment that it answers.
    pub answer: u64,
}

impl Place {
    /// Returns the comment that it answers, explicitly or as the root; 0 for none.
    fn answered(self) -> u64 {
        if self.answer == 0 { self.parent } else { self.answer }
    }
}

fn comment(row: &AnyRow) -> Result<Comment> {
    Ok(Comment {
        id: unsigned(row.try_get("id")?),
        user_id: unsigned(row.try_get("user_id")?),
        blog_id: unsigned(row.try_get("blog_id")?),
        parent_id: unsigned(row.try_get("parent_id")?),
        answer_id: unsigned(row.try_get("answer_id")?),
        content: row.try_get("content")?,
        liked: row.try_get("liked")?,
        status: row.try_get("status")?,
        create_time: row.try_get("create_time")?,
    })
}

/// Inserts and counts a comment, once per idempotency key. Returns its id; `None` if there is no
/// such note.
pub(super) async fn insert(db: &Db, new: &NewComment<'_>, now: i64) -> Result<Option<u64>> {
    let mut tx = db.write().await?;
    let counted = sqlx::query("UPDATE blog SET comments = comments + 1 WHERE id = ?")
        .bind(id(new.note))
        .execute(tx.query())
        .await?;
    if counted.rows_affected() == 0 {
        tx.roll_back().await?;
        return Ok(None);
    }
    let kind = Kind::Comment { note: new.note, answered: new.place.answered() };
    let submission = Submission { user: new.author, kind, key: new.key };
    if let Noted::Before(first) = submissions::note(tx.query(), submission, new.id, now).await? {
        return tx.roll_back().await.map(|()| Some(first));
    }
    let Some(place) = settle(&mut tx, new.note, new.place).await? else {
        tx.roll_back().await?;
        let msg = "parentId and answerId are comments of this note, in one thread";
        return Err(Error::bad("BAD_PARENT", msg));
    };
    sqlx::query(
        "INSERT INTO blog_comment (id, user_id, blog_id, parent_id, answer_id, content, liked, \
         status, create_time, update_time) VALUES (?, ?, ?, ?, ?, ?, 0, 0, ?, ?)",
    )
    .bind(id(new.id))
    .bind(id(new.author))
    .bind(id(new.note))
    .bind(id(place.parent))
    .bind(id(place.answer))
    .bind(new.content)
    .bind(now)
    .bind(now)
    .execute(tx.query())
    .await?;
    tx.commit().await.map(|()| Some(new.id))
}

/// Resolves a position to its root and answered comment; `None` if there is no such position.
async fn settle(tx: &mut WriteTx<'_>, note: u64, wanted: Place) -> Result<Option<Place>> {
    let answered = wanted.answered();
    if answered == 0 {
        return Ok(Some(Place::default()));
    }
    let row = sqlx::query("SELECT parent_id FROM blog_comment WHERE id = ? AND blog_id = ?")
        .bind(id(answered))
        .bind(id(note))
        .fetch_optional(tx.query())
        .await?;
    let Some(row) = row else { return Ok(None) };
    let root = match unsigned(row.try_get("parent_id")?) {
        0 => answered,
        root => root,
    };
    let fits = wanted.parent == 0 || wanted.parent == root;
    Ok(fits.then_some(Place { parent: root, answer: answered }))
}

/// Returns a page of root comments, newest first, and the number of roots.
pub(super) async fn roots(db: &Db, note: u64, page: u32, rows: u32) -> Result<(Vec<Comment>, u64)> {
    let found = sqlx::query(
        "SELECT id, user_id, blog_id, parent_id, answer_id, content, liked, status, create_time \
         FROM blog_comment WHERE blog_id = ? AND parent_id = 0 \
         ORDER BY create_time DESC, id DESC LIMIT ? OFFSET ?",
    )
    .bind(id(note))
    .bind(i64::from(rows))
    .bind(i64::from(page.saturating_sub(1)) * i64::from(rows))
    .fetch_all(db.read())
    .await?;
    let total = sqlx::query(
        "SELECT COUNT(*) AS roots FROM blog_comment WHERE blog_id = ? AND parent_id = 0",
    )
    .bind(id(note))
    .fetch_one(db.read())
    .await?;
    let comments = found.iter().map(comment).collect::<Result<_>>()?;
    Ok((comments, unsigned(total.try_get("roots")?)))
}

/// Returns the first replies of each of these roots, oldest first, at most `most` per root.
pub(super) async fn first_replies(
    db: &Db,
    note: u64,
    roots: &[u64],
    most: u32,
) -> Result<Vec<Comment>> {
    if roots.is_empty() {
        return Ok(Vec::new());
    }
    // One limit per root: a long thread does not hide the others.
    let mut query = QueryBuilder::new("SELECT ");
    query.push(COLUMNS).push(" FROM (");
    for (number, root) in roots.iter().enumerate() {
        if number > 0 {
            query.push(" UNION ALL ");
        }
        query.push("SELECT * FROM (SELECT ").push(COLUMNS);
        query.push(" FROM blog_comment WHERE blog_id = ").push_bind(id(note));
        query.push(" AND parent_id = ").push_bind(id(*root));
        query.push(" ORDER BY create_time, id LIMIT ").push_bind(i64::from(most));
        query.push(format!(") AS thread{number}"));
    }
    query.push(") AS threads ORDER BY create_time, id");
    query.build().fetch_all(db.read()).await?.iter().map(comment).collect()
}

/// Returns the number of replies per root; roots without replies are omitted.
pub(super) async fn reply_counts(db: &Db, note: u64, roots: &[u64]) -> Result<HashMap<u64, u64>> {
    if roots.is_empty() {
        return Ok(HashMap::new());
    }
    let mut query = QueryBuilder::new(
        "SELECT parent_id, COUNT(*) AS replies FROM blog_comment WHERE blog_id = ",
    );
    query.push_bind(id(note)).push(" AND parent_id IN");
    push_ids(&mut query, roots);
    query.push(" GROUP BY parent_id");
    let rows = query.build().fetch_all(db.read()).await?;
    let count =
        |row: &AnyRow| Ok((unsigned(row.try_get("parent_id")?), unsigned(row.try_get("replies")?)));
    rows.iter().map(count).collect()
}

/// Returns one comment of a note.
pub(super) async fn by_id(db: &Db, note: u64, wanted: u64) -> Result<Option<Comment>> {
    let mut query = QueryBuilder::new("SELECT ");
    query.push(COLUMNS).push(" FROM blog_comment WHERE id = ").push_bind(id(wanted));
    query.push(" AND blog_id = ").push_bind(id(note));
    query.build().fetch_optional(db.read()).await?.as_ref().map(comment).transpose()
}

/// Returns replies of a root after one of them, oldest first.
pub(super) async fn replies_after(
    db: &Db,
    root: &Comment,
    after: Option<&Comment>,
    most: u32,
) -> Result<Vec<Comment>> {
    let (time, number) = after.map_or((i64::MIN, 0), |last| (last.create_time, id(last.id)));
    let mut query = QueryBuilder::new("SELECT ");
    query.push(COLUMNS).push(" FROM blog_comment WHERE blog_id = ").push_bind(id(root.blog_id));
    query.push(" AND parent_id = ").push_bind(id(root.id));
    query.push(" AND create_time >= ").push_bind(time);
    query.push(" AND (create_time > ").push_bind(time);
    query.push(" OR id > ").push_bind(number);
    query.push(") ORDER BY create_time, id LIMIT ").push_bind(i64::from(most));
    query.build().fetch_all(db.read()).await?.iter().map(comment).collect()
}
