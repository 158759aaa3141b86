//! The feed: what the people one follows have published, newest first, scrolled by time and offset.
//!
//! The database defines it (`store`); inboxes in Redis answer for the newest (`inboxes`), filled in
//! the background by a stream's worker (`jobs`). A page is gathered from the reader's inbox and the
//! lists of the authors that are pulled, merged by time. Of each list only what is younger than its
//! horizon counts, the time of the last item that was read of it: at that time there may be more. What
//! was deleted or is not followed any more is left out *before* anything is counted, so that an offset
//! means the same whether or not such an item still lies in an inbox. What Redis cannot answer (it is
//! away, or older than what is kept) comes from the database, in the same order.
//!
//! The offset, as documented: how many items of this page have its smallest time, plus the old offset
//! when that is the time that was asked for. Notes of one millisecond are in order of their ids: one
//! that arrives later comes behind those that were seen, and shifts none of them.

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

/// How much is read of each list: first a little, and more if that does not make a page.
const READS: [usize; 3] = [50, 250, KEEP];
/// New notes that are counted in Redis; more are counted by the database.
const NEW_IN_REDIS: usize = 100;
/// How far the clocks of processes may be apart, in milliseconds.
const CLOCKS_APART: i64 = 5_000;

/// A note in a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) note: u64,
    pub(crate) time: i64,
}

impl Item {
    /// Newest first, and of one millisecond the smaller id.
    fn place(self) -> (i64, u64) {
        (-self.time, self.note)
    }
}

/// Where a reader stopped; without a time it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The smallest time that was seen.
    pub time: Option<i64>,
    /// How many of it were seen.
    pub offset: u64,
}

/// A page of a feed.
#[derive(Debug, Clone)]
pub struct Page {
    /// Newest first.
    pub views: Vec<View>,
    /// The smallest time of the page; as asked when it is empty.
    pub min_time: i64,
    /// How many of that time were seen so far.
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

    /// A page of a reader's feed.
    ///
    /// # Errors
    /// [`Error::Unavailable`](crate::Error::Unavailable) when neither Redis nor the database can tell.
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

    /// How many notes of a reader's feed are newer than this.
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

    /// So many items that are not younger than `max`, after `offset` ones of exactly that time; and
    /// how many those were. `None` when Redis does not have enough.
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

    /// Those that are there and whose author the reader follows, in order.
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

/// At this time and before it there may be more than was read of a list; `None` when all was read.
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
