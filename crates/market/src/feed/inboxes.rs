//! The feed's data in Redis: the inbox of each reader, the latest notes of each author, and the
//! authors that a reader pulls from.
//!
//! A note is pushed to the inboxes of its author's followers, unless the author has too many
//! (`feed_pull_fans`). Then readers pull it from the author's own list when they read a page.
//! Readers learn about the switch up to a minute later. So recent followers do not count for the
//! push decision: an author is pushed until the followers who stayed that long are enough, by which
//! time every lookup a reader has cached says to pull. In the other direction readers continue to
//! pull until the count is a tenth below the threshold at which writers push again. Inboxes and
//! author lists are timelines, rebuilt from the database when absent.

use std::{sync::Arc, time::Duration};

use seawall::{
    cache::{Cache, Invalidation, Loaded},
    social::Timelines,
};

use super::{Item, store};
use crate::{
    app::Context,
    db::Db,
    debts::{Debt, Debts, settle::applied},
    error::Result,
    follows::store as follows,
    stale::Stale,
};

/// Maximum entries of an inbox or an author's list.
pub(super) const KEEP: usize = 1_000;
/// Lifetime of an inbox.
const LIFETIME: Duration = Duration::from_secs(3600);
/// Lifetime of the cached list of authors a reader pulls from.
const PULLED_FOR: Duration = Duration::from_secs(60);
/// Time a follower must have stayed to count for the push decision, in milliseconds: twice
/// [`PULLED_FOR`], to allow for clock differences and slow lookups.
const STAYED_MS: i64 = 120_000;
/// Maximum authors a reader pulls from; a reader who follows more of them reads the database.
const MOST_PULLED: usize = 100;

/// Timelines of feeds; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Inboxes {
    db: Arc<Db>,
    pub(super) inbox: Timelines<u64>,
    pub(super) wrote: Timelines<u64>,
    pulled: Cache<u64, Vec<u64>>,
    debts: Debts,
    stale: Arc<Stale>,
    push_below: u64,
}

fn pairs(items: Vec<Item>) -> Vec<(u64, i64)> {
    items.into_iter().map(|item| (item.note, item.time)).collect()
}

impl Inboxes {
    pub(crate) fn new(context: &Context) -> Result<Self> {
        let (seawall, db) = (&context.seawall, &context.db);
        let of_reader = Arc::clone(db);
        let inbox = move |reader| {
            let db = Arc::clone(&of_reader);
            async move { store::newest(&db, reader, KEEP + 1).await.map(pairs) }
        };
        let of_author = Arc::clone(db);
        let wrote = move |author| {
            let db = Arc::clone(&of_author);
            async move { store::wrote(&db, author, KEEP + 1).await.map(pairs) }
        };
        Ok(Inboxes {
            inbox: seawall.timelines("feed", inbox).max_kept(KEEP).ttl(LIFETIME).build()?,
            wrote: seawall.timelines("wrote", wrote).max_kept(KEEP).ttl(LIFETIME).build()?,
            pulled: seawall
                .cache("feed-pull")
                .ttl(PULLED_FOR)
                .max_stale(Duration::ZERO)
                .local_max_bytes(0)
                .build()?,
            db: Arc::clone(db),
            debts: context.debts.clone(),
            stale: Arc::default(),
            push_below: context.config.feed_pull_fans,
        })
    }

    /// Returns `true` if an author's notes are pushed: some followers may not know yet that they
    /// must pull.
    pub(super) async fn is_pushed(&self, author: u64, now: i64) -> Result<bool> {
        let fans = follows::fans(&self.db, author).await?;
        if fans < self.push_below {
            return Ok(true);
        }
        let lately = follows::fans_since(&self.db, author, now - STAYED_MS).await?;
        Ok(fans.saturating_sub(lately) < self.push_below)
    }

    /// Returns the number of followers from which authors are pulled.
    pub(crate) fn pulled_from(&self) -> u64 {
        self.push_below.saturating_sub((self.push_below / 10).max(1))
    }

    /// Returns the authors that a reader pulls from; `None` if there are too many.
    pub(super) async fn pulled(&self, reader: u64) -> Result<Option<Vec<u64>>> {
        let (db, from) = (Arc::clone(&self.db), self.pulled_from());
        let load = move || async move {
            let found = follows::popular_followees(&db, reader, from, MOST_PULLED + 1).await;
            found.map(Loaded::Found)
        };
        let read = self.pulled.get_or_load(&reader, load).await?;
        let pulled = read.value.map(|pulled| pulled.to_vec()).unwrap_or_default();
        Ok((pulled.len() <= MOST_PULLED).then_some(pulled))
    }

    /// Returns `true` if a reader's inbox can be trusted.
    pub(super) fn is_believed(&self, reader: u64) -> bool {
        !self.stale.contains(reader)
    }

    /// Deletes the cached feed data of a reader whose follows have changed, now or as soon as Redis
    /// answers.
    pub(crate) async fn forget(&self, reader: u64) -> Result<()> {
        let told = self.pulled.invalidate(&reader).await?;
        self.stale.add(reader);
        self.repair().await;
        if told == Invalidation::Queued || self.stale.contains(reader) {
            self.debts.owe(&[Debt::Feed(reader)]).await?;
        }
        Ok(())
    }

    /// Deletes a reader's feed data that missed a change.
    pub(crate) async fn settle(&self, reader: u64) -> Result<()> {
        applied(self.pulled.invalidate(&reader).await?)?;
        Ok(self.inbox.of(&reader)?.forget().await?)
    }

    /// Deletes inboxes that missed a change.
    pub(crate) async fn repair(&self) {
        self.stale.forget_all(|reader| async move { self.inbox.of(&reader)?.forget().await }).await;
    }
}
