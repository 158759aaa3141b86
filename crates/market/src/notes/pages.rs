//! Pages of an author's notes: cached by author, page and page size.
//!
//! A page holds ids; the notes have their own cache, so that a like does not touch any page. A page
//! is built when it is first read. A write moves all of them: the writer invalidates every page
//! that the author can have, which also voids what concurrent loaders have read before. The event's
//! worker then rebuilds in the background the pages that were cached. There is no local cache
//! level: once the write is answered, no reader sees an old page. When Redis is away pages come
//! from the database, and the invalidation is recorded as a debt.

use std::{sync::Arc, time::Duration};

use seawall::cache::{Cache, Freshness, Invalidation, Loaded, OnInvalidate};

use super::store::{self, IdPage};
use crate::{app::Context, db::Db, error::Result, http::PAGE_ROWS};

/// TTL of a page.
const FRESH: Duration = Duration::from_secs(10 * 60);
/// Maximum pages of an author rebuilt after a write; others are rebuilt when they are read.
const REBUILD: u32 = 20;

/// Author, page, rows per page.
type PageKey = (u64, u32, u32);

/// The page cache.
#[derive(Debug, Clone)]
pub(crate) struct Pages {
    db: Arc<Db>,
    cache: Cache<PageKey, IdPage>,
}

impl Pages {
    pub(super) fn new(context: &Context) -> Result<Self> {
        let cache = context
            .seawall
            .cache("note-page")
            .ttl(FRESH)
            .local_max_bytes(0)
            // So that the rebuild can tell which pages were cached.
            .on_invalidate(OnInvalidate::KeepForStale)
            .build()?;
        Ok(Pages { db: Arc::clone(&context.db), cache })
    }

    /// Returns one page, from 1.
    pub(super) async fn read(&self, author: u64, page: u32) -> Result<Arc<IdPage>> {
        let db = Arc::clone(&self.db);
        let load = move || async move {
            store::of_user(&db, author, page, PAGE_ROWS).await.map(Loaded::Found)
        };
        let read = self.cache.get_or_load(&(author, page, PAGE_ROWS), load).await?;
        Ok(read.value.unwrap_or_else(|| Arc::new(IdPage { ids: Vec::new(), total: 0 })))
    }

    /// Invalidates all pages after an author's list has changed; `notes` is the larger of its old
    /// and new length.
    pub(crate) async fn moved(&self, author: u64, notes: u64) -> Result<Invalidation> {
        // One page beyond the last: an empty page may be cached, and may now have its first note.
        let last = u32::try_from(notes / u64::from(PAGE_ROWS) + 2).unwrap_or(u32::MAX);
        let keys: Vec<PageKey> = (1..=last).map(|page| (author, page, PAGE_ROWS)).collect();
        // If queued, this process's cache bypasses Redis for these keys until it is applied.
        Ok(self.cache.invalidate_many(&keys).await?)
    }

    /// Rebuilds the pages that were read before the last write.
    pub(crate) async fn rebuild(&self, author: u64) -> Result<()> {
        for page in 1..=REBUILD {
            let key = (author, page, PAGE_ROWS);
            if self.cache.get_as(Freshness::StaleOk, &key).await?.is_none() {
                // Readers usually start at the first page, but some follow a link.
                continue;
            }
            let page = self.read(author, page).await?;
            if page.ids.len() < PAGE_ROWS as usize {
                break;
            }
        }
        Ok(())
    }
}
