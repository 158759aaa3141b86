//! What people say to a note: threads of one level, each with whom it answers.

use std::collections::HashMap;

use super::{
    Notes,
    comment_store::{self, NewComment, Place},
    draft::text,
    unknown,
};
use crate::{
    accounts::Brief,
    error::{Error, Result},
    http::PAGE_ROWS,
    submissions::IdempotencyKey,
};

/// Longest comment, in characters.
const CONTENT_CHARS: usize = 1_000;
/// Replies of one page, over all of its roots.
const REPLIES: u32 = 500;

/// A comment, as the database has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// Id.
    pub id: u64,
    /// Who wrote it.
    pub user_id: u64,
    /// The note.
    pub blog_id: u64,
    /// The root that it stands under; 0 for a root.
    pub parent_id: u64,
    /// The comment that it answers; 0 for a root.
    pub answer_id: u64,
    /// Text.
    pub content: String,
    /// How many like it.
    pub liked: i64,
    /// 0 when it is shown.
    pub status: i64,
    /// Milliseconds since the epoch.
    pub create_time: i64,
}

/// A root with what stands under it.
#[derive(Debug, Clone)]
pub struct Thread {
    /// The root.
    pub root: Comment,
    /// Oldest first.
    pub replies: Vec<Comment>,
}

/// A page of threads.
#[derive(Debug, Clone)]
pub struct Threads {
    /// Newest first.
    pub threads: Vec<Thread>,
    /// How many there are on all pages.
    pub total: u64,
    /// Who wrote them.
    pub authors: HashMap<u64, Brief>,
}

impl Notes {
    /// Says something to a note: the comment's id, the same for a submission that is repeated.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such note, [`Error::BadInput`] for a text or a place that
    /// does not fit.
    pub async fn comment(
        &self,
        note: u64,
        author: &crate::accounts::User,
        place: Place,
        content: &str,
        key: Option<&IdempotencyKey>,
    ) -> Result<u64> {
        let content = text(content, CONTENT_CHARS).ok_or_else(|| {
            Error::bad("BAD_CONTENT", "a comment has 1 to 1000 characters that can be seen")
        })?;
        let comment = self.comment_ids.next().await?.as_u64();
        let new =
            NewComment { id: comment, note, author: author.id, place, content: &content, key };
        let work = comment_store::insert(&self.context.db, &new, self.context.now());
        let (comment, _) = self.cache.write(&note, work).await?;
        comment.ok_or_else(unknown)
    }

    /// A page of what was said to a note.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such note.
    pub async fn comments(&self, note: u64, page: u32) -> Result<Threads> {
        if self.rows(&[note]).await?.is_empty() {
            return Err(unknown());
        }
        let db = &self.context.db;
        let (roots, total) = comment_store::roots(db, note, page, PAGE_ROWS).await?;
        let ids: Vec<u64> = roots.iter().map(|root| root.id).collect();
        let mut under: HashMap<u64, Vec<Comment>> = HashMap::new();
        for reply in comment_store::replies(db, note, &ids, REPLIES).await? {
            under.entry(reply.parent_id).or_default().push(reply);
        }
        let thread =
            |root: Comment| Thread { replies: under.remove(&root.id).unwrap_or_default(), root };
        let threads: Vec<Thread> = roots.into_iter().map(thread).collect();
        let all = threads.iter().flat_map(|thread| thread.replies.iter().chain([&thread.root]));
        let authors: Vec<u64> = all.map(|comment| comment.user_id).collect();
        let authors = self.accounts.brief(authors).await?;
        Ok(Threads { threads, total, authors })
    }
}
