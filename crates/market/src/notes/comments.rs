//! Comments on a note: threads of one level; each reply names the comment it answers.

use std::collections::HashMap;

use super::{
    Notes,
    comment_store::{self, NewComment, Place},
    draft::text,
    unknown,
};
use crate::{
    accounts::Brief,
    debts::Debt,
    error::{Error, Result},
    http::PAGE_ROWS,
    submissions::IdempotencyKey,
};

/// Maximum length of a comment, in characters.
const CONTENT_CHARS: usize = 1_000;
/// Replies shown per thread on a page of threads, and per page of a thread.
const REPLIES: u32 = 50;

/// A comment, as stored in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// Id.
    pub id: u64,
    /// Author.
    pub user_id: u64,
    /// Note.
    pub blog_id: u64,
    /// Root of the thread; 0 for a root.
    pub parent_id: u64,
    /// Comment that it answers; 0 for a root.
    pub answer_id: u64,
    /// Text.
    pub content: String,
    /// Number of likes.
    pub liked: i64,
    /// 0 if it is shown.
    pub status: i64,
    /// Milliseconds since the epoch.
    pub create_time: i64,
}

/// A root with its replies.
#[derive(Debug, Clone)]
pub struct Thread {
    /// The root.
    pub root: Comment,
    /// The first replies, oldest first.
    pub replies: Vec<Comment>,
    /// Number of replies.
    pub reply_count: u64,
}

/// A page of replies in one thread.
#[derive(Debug, Clone)]
pub struct Replies {
    /// Oldest first.
    pub replies: Vec<Comment>,
    /// Number of replies on all pages.
    pub total: u64,
    /// Authors of the replies.
    pub authors: HashMap<u64, Brief>,
}

/// A page of threads.
#[derive(Debug, Clone)]
pub struct Threads {
    /// Newest first.
    pub threads: Vec<Thread>,
    /// Number of threads on all pages.
    pub total: u64,
    /// Authors of the comments.
    pub authors: HashMap<u64, Brief>,
}

impl Notes {
    /// Adds a comment to a note.
    ///
    /// Returns its id, the same for a repeated submission.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such note, [`Error::BadInput`] for an invalid text or
    /// position, [`Error::Conflict`] if the key was used elsewhere.
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
        let (comment, told) = self.cache.write(&note, work).await?;
        self.context.debts.unless_applied(told, &[Debt::Note(note)]).await?;
        comment.ok_or_else(unknown)
    }

    /// Returns a page of the comments on a note.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such note.
    pub async fn comments(&self, note: u64, page: u32) -> Result<Threads> {
        if self.rows(&[note]).await?.is_empty() {
            return Err(unknown());
        }
        let db = &self.context.db;
        let (roots, total) = comment_store::roots(db, note, page, PAGE_ROWS).await?;
        let ids: Vec<u64> = roots.iter().map(|root| root.id).collect();
        let mut under: HashMap<u64, Vec<Comment>> = HashMap::new();
        for reply in comment_store::first_replies(db, note, &ids, REPLIES).await? {
            under.entry(reply.parent_id).or_default().push(reply);
        }
        let counts = comment_store::reply_counts(db, note, &ids).await?;
        let thread = |root: Comment| Thread {
            replies: under.remove(&root.id).unwrap_or_default(),
            reply_count: counts.get(&root.id).copied().unwrap_or(0),
            root,
        };
        let threads: Vec<Thread> = roots.into_iter().map(thread).collect();
        let all = threads.iter().flat_map(|thread| thread.replies.iter().chain([&thread.root]));
        let authors: Vec<u64> = all.map(|comment| comment.user_id).collect();
        let authors = self.accounts.brief(authors).await?;
        Ok(Threads { threads, total, authors })
    }

    /// Returns a page of a thread's replies, after one of them.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the note has no such root, or the thread no such reply.
    pub async fn replies(&self, note: u64, root: u64, last: Option<u64>) -> Result<Replies> {
        let db = &self.context.db;
        let root = comment_store::by_id(db, note, root).await?.filter(|root| root.parent_id == 0);
        let root = root.ok_or_else(no_comment)?;
        let last = match last {
            Some(last) => {
                let last = comment_store::by_id(db, note, last).await?;
                Some(last.filter(|last| last.parent_id == root.id).ok_or_else(no_comment)?)
            }
            None => None,
        };
        let replies = comment_store::replies_after(db, &root, last.as_ref(), REPLIES).await?;
        let counts = comment_store::reply_counts(db, note, &[root.id]).await?;
        let total = counts.get(&root.id).copied().unwrap_or(0);
        let authors = self.accounts.brief(replies.iter().map(|reply| reply.user_id)).await?;
        Ok(Replies { replies, total, authors })
    }
}

fn no_comment() -> Error {
    Error::not_found("UNKNOWN_COMMENT", "no such comment in this thread")
}
