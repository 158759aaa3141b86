//! The home feed: one list of notes that stays as it is while somebody scrolls.
//!
//! A list is built from the database (the newest and the most liked notes, the older the more likes
//! it takes to stay in front), gets a version and is kept for ten minutes. Who scrolls names the
//! version and gets the next page of the very same list, whatever is posted and liked meanwhile. A
//! version that is gone starts over: page 1 of the newest list, and the answer says so.
//!
//! Both lists are values of the toolkit's cache. The newest is loaded under its lease: one process of
//! the fleet builds it, the others wait for that one. Invariant: a version is kept before anybody is
//! told of it. Without Redis every page is cut from a list that is read from the database anew.

pub(crate) mod http;
mod store;

use std::{sync::Arc, time::Duration};

use seawall::cache::{Cache, Loaded};
use serde::{Deserialize, Serialize};

use crate::{
    app::Context,
    error::Result,
    http::PAGE_ROWS,
    notes::{Notes, View},
};

/// How long a version is kept.
const PINNED: Duration = Duration::from_secs(10 * 60);
/// After how long the newest list is built again.
const FRESH: Duration = Duration::from_secs(20);
/// Notes of a list.
const MAX_NOTES: usize = 500;
/// The time that is worth as much as e times the likes, in milliseconds.
const DECAY_MS: f64 = 24.0 * 3_600_000.0;
/// The only key of the newest list.
const NEWEST: u64 = 0;

/// A list of notes that does not change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Feed {
    version: u64,
    notes: Vec<u64>,
}

/// Whether a page continues the list that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// It is a page of that list, or nobody asked for one.
    Goes,
    /// That list is gone: this is page 1 of the newest.
    StartsOver,
}

/// A page of the home feed.
#[derive(Debug)]
pub struct FeedPage {
    /// Names the list.
    pub version: u64,
    /// Notes as the visitor sees them.
    pub list: Vec<View>,
    /// Whether another page follows.
    pub has_more: bool,
    /// Whether it is the list that was asked for.
    pub course: Course,
}

/// The home feed.
#[derive(Debug)]
pub struct Home {
    context: Context,
    notes: Arc<Notes>,
    newest: Cache<u64, Feed>,
    versions: Cache<u64, Feed>,
}

impl Home {
    pub(crate) fn new(context: &Context, notes: &Arc<Notes>) -> Result<Self> {
        let seawall = &context.seawall;
        Ok(Home {
            newest: seawall.cache("home").ttl(FRESH).build()?,
            versions: seawall.cache("home-version").ttl(PINNED).jitter(0.0).build()?,
            notes: Arc::clone(notes),
            context: context.clone(),
        })
    }

    /// A page of the list with this version, or of the newest list.
    ///
    /// # Errors
    /// [`Error::Unavailable`](crate::Error::Unavailable) when the database is away.
    pub async fn page(
        &self,
        version: Option<u64>,
        page: u32,
        viewer: Option<u64>,
    ) -> Result<FeedPage> {
        let (feed, page, course) = match version {
            None => (self.newest().await?, page, Course::Goes),
            Some(version) => match self.versions.get(&version).await {
                Ok(kept) => match kept.and_then(|read| read.value) {
                    Some(feed) => (feed, page, Course::Goes),
                    None => (self.newest().await?, 1, Course::StartsOver),
                },
                Err(error) => {
                    tracing::debug!(%error, "the home feed is read from the database");
                    let notes = build(&self.context).await?;
                    (Arc::new(Feed { version, notes }), page, Course::Goes)
                }
            },
        };
        let rows = PAGE_ROWS as usize;
        let start = (page as usize).saturating_sub(1).saturating_mul(rows);
        let ids: Vec<u64> = feed.notes.iter().skip(start).take(rows).copied().collect();
        Ok(FeedPage {
            version: feed.version,
            list: self.notes.views(&ids, viewer).await?,
            has_more: feed.notes.len() > start.saturating_add(rows),
            course,
        })
    }

    async fn newest(&self) -> Result<Arc<Feed>> {
        let (context, versions) = (self.context.clone(), self.versions.clone());
        let load = move || async move {
            let notes = build(&context).await?;
            // Random, so that nobody finds lists of which nobody told them.
            let version = rand::random::<u64>() >> 1;
            let feed = Feed { version, notes };
            if let Err(error) = versions.put(&version, &feed).await {
                tracing::debug!(%error, "a version of the home feed is not kept");
            }
            Ok::<_, crate::Error>(Loaded::Found(feed))
        };
        let read = self.newest.get_or_load(&NEWEST, load).await?;
        Ok(read.value.unwrap_or_default())
    }
}

/// Ids of the notes that a list has, the best first.
async fn build(context: &Context) -> Result<Vec<u64>> {
    let mut notes = store::candidates(&context.db).await?;
    notes.sort_by(|one, other| worth(other).total_cmp(&worth(one)).then(other.id.cmp(&one.id)));
    notes.dedup_by_key(|note| note.id);
    notes.truncate(MAX_NOTES);
    Ok(notes.into_iter().map(|note| note.id).collect())
}

/// A note that may come into a list.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    id: u64,
    liked: i64,
    create_time: i64,
}

/// What a note is worth: its age against the logarithm of its likes.
fn worth(note: &Candidate) -> f64 {
    (1.0 + note.liked.max(0) as f64).ln() + note.create_time as f64 / DECAY_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likes_and_time_are_weighed() {
        let day = 24 * 3_600_000_i64;
        let note = |liked, days| Candidate { id: 1, liked, create_time: days * day };
        assert!(worth(&note(0, 10)) > worth(&note(0, 9)), "the newer of two without likes");
        assert!(worth(&note(9, 9)) > worth(&note(0, 10)), "many likes beat a day");
        assert!(worth(&note(9, 7)) < worth(&note(0, 10)), "and not three");
    }
}
