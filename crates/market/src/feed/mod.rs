//! The feed: notes of followed users, newest first, paged by time and offset.
//!
//! The database defines the feed (`store`). Inboxes in Redis serve the newest part (`inboxes`) and
//! are filled in the background by a stream worker (`jobs`). A page is collected from the reader's
//! inbox and the lists of the pulled authors, merged by time. Of each list only items newer than
//! its horizon count; the horizon is the time of the last item read, because the list may have more
//! items of that time. Deleted notes and notes of users no longer followed are removed *before*
//! anything is counted, so that an offset means the same whether or not such an item is still in an
//! inbox. What Redis cannot answer (it is away, or the page is older than what it keeps) comes from
//! the database, in the same order.
//!
//! The offset, as documented: the number of items on this page with its smallest time, plus the
//! previous offset if that is the requested time. Notes of one millisecond are sorted by id: one
//! that arrives later comes after those already seen, and shifts none of them.

pub(crate) mod http;
pub(crate) mod inboxes;
pub(crate) mod jobs;
mod store;

use std::{collections::BTreeSet, sync::Arc};

use futures_util::future::try_join_all;
use seawall::social::{MAX_SCORE, Newest};

use self::inboxes::{Inboxes, KEEP};
use crate::{
    app::Context,
    error::Result,
    follows::Follows,
    http::PAGE_ROWS,
    notes::{Notes, View},
};

/// Entries read from each list: first a few, then more if they do not fill a page.
const READS: [usize; 3] = [50, 250, KEEP];
/// Maximum new notes counted in Redis; more are counted by the database.
const NEW_IN_REDIS: usize = 100;
/// Maximum clock difference between processes, in milliseconds.
const CLOCKS_APART: i64 = 5_000;

/// A note in a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) note: u64,
    pub(crate) time: i64,
}

impl Item {
    /// Sort key: newest first; within one millisecond the smaller id first.
    fn place(self) -> (i64, u64) {
        (-self.time, self.note)
    }
}

/// Position where a reader stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Smallest time seen; `None` means now.
    pub time: Option<i64>,
    /// Number of items of that time already seen.
    pub offset: u64,
}

/// A page of a feed.
#[derive(Debug, Clone)]
pub struct Page {
    /// Newest first.
    pub views: Vec<View>,
    /// Smallest time on the page; the requested time if the page is empty.
    pub min_time: i64,
    /// Number of items of that time seen so far.
    pub offset: u64,
}

/// Feeds of all readers.
#[derive(Debug)]
pub struct Feed {
    context: Context,
    notes: Arc<Notes>,
    follows: Follows,
    inboxes: Inboxes,
}

impl Feed {
    pub(crate) fn new(
        context: &Context,
        notes: &Arc<Notes>,
        follows: &Follows,
        inboxes: &Inboxes,
    ) -> Self {
        Feed {
            context: context.clone(),
            notes: Arc::clone(notes),
            follows: follows.clone(),
            inboxes: inboxes.clone(),
        }
    }

    /// Returns a page of a reader's feed.
    ///
    /// # Errors
    /// [`Error::Unavailable`](crate::Error::Unavailable) if neither Redis nor the database can
    /// answer.
    pub async fn page(&self, reader: u64, place: Place) -> Result<Page> {
        let now = self.context.now();
        let max = place.time.unwrap_or(now + CLOCKS_APART).min(MAX_SCORE);
        let offset = if place.time.is_some() { place.offset } else { 0 };
        let rows = PAGE_ROWS as usize;
        let (items, skipped) = match self.gather(reader, max, offset, rows).await {
            Ok(Some(found)) => found,
            Ok(None) => self.database_page(reader, max, offset, rows).await?,
            Err(error) => {
                tracing::debug!(%error, "a feed is read from the database");
                self.database_page(reader, max, offset, rows).await?
            }
        };
        let ids: Vec<u64> = items.iter().map(|item| item.note).collect();
        let views = self.notes.views(&ids, Some(reader)).await?;
        let Some(last) = views.last() else {
            let min_time = place.time.unwrap_or(now);
            return Ok(Page { views, min_time, offset });
        };
        let min_time = last.note.create_time;
        let here = views.iter().filter(|view| view.note.create_time == min_time).count() as u64;
        let before = if min_time == max { skipped } else { 0 };
        Ok(Page { views, min_time, offset: here + before })
    }

    /// Returns the number of notes in a reader's feed that are newer than `time`.
    ///
    /// # Errors
    /// As [`Feed::page`].
    pub async fn count_since(&self, reader: u64, time: i64) -> Result<u64> {
        let newest = self.gather(reader, MAX_SCORE, 0, NEW_IN_REDIS).await.ok().flatten();
        if let Some((items, _)) = newest {
            let new = items.iter().filter(|item| item.time > time).count();
            if new < NEW_IN_REDIS {
                return Ok(new as u64);
            }
        }
        store::count_since(&self.context.db, reader, time).await
    }

    /// Returns up to `rows` items that are not newer than `max`, after skipping `offset` items of
    /// exactly that time, and the number skipped. `None` if Redis does not have enough.
    async fn gather(
        &self,
        reader: u64,
        max: i64,
        offset: u64,
        rows: usize,
    ) -> Result<Option<(Vec<Item>, u64)>> {
        if !self.inboxes.is_believed(reader) {
            return Ok(None);
        }
        let Some(pulled) = self.inboxes.pulled(reader).await? else { return Ok(None) };
        for count in READS {
            let mut lists = vec![self.inboxes.inbox.of(&reader)?.newest(max, count).await?];
            let authors = pulled.iter().map(|author| self.inboxes.wrote.of(author));
            let authors = authors.collect::<Result<Vec<_>, _>>()?;
            lists.extend(try_join_all(authors.iter().map(|list| list.newest(max, count))).await?);
            let horizon = lists.iter().filter_map(horizon).max();
            let merged: BTreeSet<(i64, u64)> = lists
                .iter()
                .flat_map(|list| &list.members)
                .filter(|(_, time)| horizon.is_none_or(|horizon| *time > horizon))
                .map(|&(note, time)| Item { note, time }.place())
                .collect();
            let visible = self.visible(reader, merged).await?;
            let at_max = visible.iter().take_while(|item| item.time == max).count() as u64;
            let skipped = offset.min(at_max);
            let skip = usize::try_from(skipped).unwrap_or(usize::MAX);
            if visible.len() >= skip + rows || horizon.is_none() {
                let page = visible.into_iter().skip(skip).take(rows).collect();
                return Ok(Some((page, skipped)));
            }
        }
        Ok(None)
    }

    /// Keeps the notes that exist and whose author the reader follows, in order.
    async fn visible(&self, reader: u64, places: BTreeSet<(i64, u64)>) -> Result<Vec<Item>> {
        let ids: Vec<u64> = places.iter().map(|&(_, note)| note).collect();
        let notes = self.notes.rows(&ids).await?;
        let authors: BTreeSet<u64> = notes.iter().map(|note| note.user_id).collect();
        let authors: Vec<u64> = authors.into_iter().collect();
        let following = self.follows.following(reader, &authors).await?;
        let followed: BTreeSet<u64> = authors
            .into_iter()
            .zip(following)
            .filter_map(|(author, followed)| followed.then_some(author))
            .collect();
        let seen = notes.iter().filter(|note| followed.contains(&note.user_id));
        Ok(seen.map(|note| Item { note: note.id, time: note.create_time }).collect())
    }

    async fn database_page(
        &self,
        reader: u64,
        max: i64,
        offset: u64,
        rows: usize,
    ) -> Result<(Vec<Item>, u64)> {
        let db = &self.context.db;
        let skipped = match offset {
            0 => 0,
            offset => offset.min(store::count_at(db, reader, max).await?),
        };
        Ok((store::page(db, reader, max, skipped, rows).await?, skipped))
    }
}

/// Returns the time at or before which a list may have more items than were read; `None` if all
/// were read.
fn horizon(list: &Newest<u64>) -> Option<i64> {
    let last = list.members.last().map_or(i64::MAX, |&(_, time)| time);
    (!list.end).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_read_to_its_end_says_nothing_about_its_last_time() {
        let list = |members: &[(u64, i64)], end| Newest { members: members.to_vec(), end };
        assert_eq!(horizon(&list(&[(1, 9), (2, 7)], true)), None);
        assert_eq!(horizon(&list(&[(1, 9), (2, 7)], false)), Some(7));
        assert_eq!(horizon(&list(&[], false)), Some(i64::MAX));
        let (young, old) = (Item { note: 9, time: 5 }, Item { note: 1, time: 4 });
        assert!(young.place() < old.place());
        assert!(Item { note: 1, time: 5 }.place() < young.place(), "the later one comes behind");
    }
}
