//! The home feed: one list of notes that stays the same while a reader scrolls.
//!
//! A list is built from the database (the newest and the most liked notes; the older a note, the
//! more likes it needs to stay in front), gets a version and is kept for ten minutes. A reader
//! sends the version and gets the next page of exactly the same list, whatever is posted and liked
//! meanwhile. If the version is gone, the feed starts over: page 1 of the newest list, and the
//! response says so.
//!
//! Both lists are values of the toolkit's cache. The newest list is loaded under its lease: one
//! process of the fleet builds it and the others wait. Invariant: a version is stored before any
//! client learns of it. While Redis is away every page is cut from a list read from the database
//! again.

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

/// Lifetime of a version.
const PINNED: Duration = Duration::from_secs(10 * 60);
/// Time after which the newest list is rebuilt.
const FRESH: Duration = Duration::from_secs(20);
/// Maximum notes in a list.
const MAX_NOTES: usize = 500;
/// Age in milliseconds that is worth a factor of e in likes.
const DECAY_MS: f64 = 24.0 * 3_600_000.0;
/// The only key of the newest list.
const NEWEST: u64 = 0;

/// An immutable list of notes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Feed {
    version: u64,
    notes: Vec<u64>,
}

/// Whether a page continues the requested list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// It is a page of that list, or no list was requested.
    Goes,
    /// That list is gone: this is page 1 of the newest list.
    StartsOver,
}

/// A page of the home feed.
#[derive(Debug)]
pub struct FeedPage {
    /// Identifies the list.
    pub version: u64,
    /// Notes as the viewer sees them.
    pub list: Vec<View>,
    /// Whether another page follows.
    pub has_more: bool,
    /// Whether it is the requested list.
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

    /// Returns a page of the list with this version, or of the newest list.
    ///
    /// # Errors
    /// [`Error::Unavailable`](crate::Error::Unavailable) if the database is away.
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
            // Random, so that lists cannot be guessed.
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

/// Builds a list of note ids, the best first.
async fn build(context: &Context) -> Result<Vec<u64>> {
    let mut notes = store::candidates(&context.db).await?;
    notes.sort_by(|one, other| worth(other).total_cmp(&worth(one)).then(other.id.cmp(&one.id)));
    notes.dedup_by_key(|note| note.id);
    notes.truncate(MAX_NOTES);
    Ok(notes.into_iter().map(|note| note.id).collect())
}

/// A candidate for a list.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    id: u64,
    liked: i64,
    create_time: i64,
}

/// Returns the score of a note: the logarithm of its likes plus its time.
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
