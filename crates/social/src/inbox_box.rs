//! Reading one inbox: pages, counts of new posts, and removing an author.
//!
//! ```text
//!           newest                                     oldest
//! order     (t,c) (t,b) (t,a) | (s,z) (s,y) (s,x) …
//!                        └ cursor: the next page begins right behind it, whatever arrives in front
//! ```
//!
//! A post that arrives late, with a time that the reader has already scrolled past, is before the
//! cursor and is seen with the next read from the top. A post after the cursor is seen when the
//! reader gets there. No post is seen twice, and no post that was there is left out.
//!
//! [`InboxOf::scroll`] does the same with score and offset. By the documented rule the new offset
//! is the number of posts on this page that have the smallest time, *plus the old offset if that
//! time is the one asked for*: without that addition, a page on which all posts share one time
//! would be read forever. Its limit: if a post with exactly the boundary's time arrives or leaves
//! between two pages, the offset is off by one. A cursor has no such limit.

use std::marker::PhantomData;

use redis::{Value, cmd};
use seawall_client::{
    error::{Error, Result},
    member::Member,
};

use super::{
    Cursor, Inbox, Post, SLICE, Scroll,
    cursor::page_call,
    inbox::author_start,
    merge::merge_encoded,
    template::{check_count, check_score, scored},
};

/// Most lists that are pulled for one page.
const MAX_PULLED: usize = 1000;
/// Most posts that are read for one page: number of lists times its size.
const MAX_READ: usize = 100_000;
/// Scripts in one pipeline of pulled pages.
const PULLED_AT_ONCE: usize = 100;
/// `COUNT` of one step of a scan.
const SCAN_STEP: usize = 500;

/// The inbox of one reader.
#[derive(Debug, Clone)]
pub struct InboxOf<M> {
    inbox: Inbox<M>,
    key: Vec<u8>,
    member: PhantomData<fn(M) -> M>,
}

/// A page of an inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<M> {
    /// Posts, newest first.
    pub posts: Vec<Post<M>>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<Cursor>,
}

/// A page by score and offset: `{list, minTime, offset}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScrollPage<M> {
    /// Posts, newest first.
    pub posts: Vec<Post<M>>,
    /// What to ask for next: the smallest time of this page, and how many posts of that time have
    /// been seen.
    ///
    /// If the page is empty, it is the same as in the call.
    pub next: Scroll,
}

impl<M: Member> InboxOf<M> {
    pub(super) fn new(inbox: Inbox<M>, key: Vec<u8>) -> Self {
        InboxOf { inbox, key, member: PhantomData }
    }

    /// Returns the next posts after a cursor, or the newest.
    ///
    /// # Errors
    /// If Redis does not answer; [`Error::Invalid`] for a page of 0 or more than [`SLICE`] posts.
    pub async fn page(&self, after: Option<&Cursor>, count: usize) -> Result<Page<M>> {
        self.page_with(&[], after, count).await
    }

    /// Like [`InboxOf::page`], merged with lists that are pulled: those of authors with many fans.
    ///
    /// At most 1,000 lists, and 100,000 posts together; they are read in pipelines of 100.
    ///
    /// # Errors
    /// As [`InboxOf::page`].
    pub async fn page_with(
        &self,
        pulled: &[InboxOf<M>],
        after: Option<&Cursor>,
        count: usize,
    ) -> Result<Page<M>> {
        check_count(count)?;
        if pulled.len() > MAX_PULLED || (pulled.len() + 1) * count > MAX_READ {
            return Err(Error::Invalid(format!(
                "{} lists are pulled for a page of {count}: {MAX_PULLED} are allowed, and \
                 {MAX_READ} posts",
                pulled.len()
            )));
        }
        let boxes: Vec<&InboxOf<M>> = std::iter::once(self).chain(pulled).collect();
        let mut sources = Vec::with_capacity(boxes.len());
        for slice in boxes.chunks(PULLED_AT_ONCE) {
            let calls: Vec<_> =
                slice.iter().map(|list| page_call(&[&list.key], after, count)).collect();
            for reply in self.inbox.template.client().run_all(&calls).await {
                let (_, items): (Value, Value) = redis::from_redis_value(reply?)?;
                sources.push(flat(items)?);
            }
        }
        let items = merge_encoded(sources, count);
        let next = (items.len() == count).then(|| items.last().map(Cursor::of)).flatten();
        Ok(Page { posts: items.iter().map(Post::decode).collect::<Result<_>>()?, next })
    }

    /// Returns a page by score and offset.
    ///
    /// # Errors
    /// As [`InboxOf::page`].
    pub async fn scroll(&self, from: Scroll, count: usize) -> Result<ScrollPage<M>> {
        check_count(count)?;
        check_score(from.max)?;
        let mut command = cmd("ZREVRANGEBYSCORE");
        command.arg(&self.key).arg(from.max).arg("-inf").arg("WITHSCORES");
        // No inbox is longer than this; an offset from a client must not overflow the server's
        // number.
        command.arg("LIMIT").arg(from.offset.min(self.inbox.keep as u64)).arg(count);
        let items = scored(self.inbox.template.client().send(&self.key, &command).await?)?;
        let next = match items.last() {
            None => from,
            Some((_, smallest)) => {
                let here = items.iter().filter(|(_, time)| time == smallest).count() as u64;
                let before = if *smallest == from.max { from.offset } else { 0 };
                Scroll { max: *smallest, offset: here + before }
            }
        };
        Ok(ScrollPage { posts: items.iter().map(Post::decode).collect::<Result<_>>()?, next })
    }

    /// Returns the number of posts that are newer than this time.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn count_since(&self, time: i64) -> Result<u64> {
        check_score(time)?;
        let mut command = cmd("ZCOUNT");
        command.arg(&self.key).arg(format!("({time}")).arg("+inf");
        self.inbox.template.client().query(&self.key, &command).await
    }

    /// Returns the number of posts.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn count(&self) -> Result<u64> {
        self.inbox.template.client().query(&self.key, cmd("ZCARD").arg(&self.key)).await
    }

    /// Removes all posts of an author, for example after an unfollow, and returns their number.
    /// Safe to retry.
    ///
    /// # Errors
    /// If Redis does not answer: some may have been removed.
    pub async fn remove_author(&self, author: &M) -> Result<u64> {
        let client = self.inbox.template.client();
        let start = author_start(author)?;
        let (mut at, mut removed) = (0_u64, 0);
        loop {
            let mut step = cmd("ZSCAN");
            step.arg(&self.key).arg(at).arg("COUNT").arg(SCAN_STEP);
            let (next, found): (u64, Value) = client.query(&self.key, &step).await?;
            let found: Vec<Vec<u8>> = flat(found)?
                .into_iter()
                .map(|(member, _)| member)
                .filter(|member| member.starts_with(&start))
                .collect();
            for slice in found.chunks(SLICE) {
                let mut remove = cmd("ZREM");
                remove.arg(&self.key).arg(slice);
                removed += client.query::<u64>(&self.key, &remove).await?;
            }
            if next == 0 {
                return Ok(removed);
            }
            at = next;
        }
    }

    /// Deletes the inbox. Safe to retry.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn clear(&self) -> Result<()> {
        self.inbox.template.client().send(&self.key, cmd("UNLINK").arg(&self.key)).await.map(drop)
    }
}

/// Parses alternating members and scores, as scripts and scans return them in either protocol.
pub(super) fn flat(reply: Value) -> Result<Vec<(Vec<u8>, i64)>> {
    let flat: Vec<Vec<u8>> = redis::from_redis_value(reply)?;
    let pairs = flat.chunks_exact(2).map(|pair| {
        let score = std::str::from_utf8(&pair[1]).ok().and_then(|text| text.parse::<f64>().ok());
        let score = score.ok_or_else(|| Error::unexpected("a score is not a number"))?;
        Ok((pair[0].clone(), score as i64))
    });
    pairs.collect()
}
