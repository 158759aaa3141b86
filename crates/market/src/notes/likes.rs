//! Likes: the database decides, Redis answers reads.
//!
//! A click is one transaction that locks the note's row, so that concurrent clicks alternate and
//! the count always equals the number of rows. The timeline of users who like a note is updated
//! after the commit, under a lock of this user and note that covers both; otherwise two clicks
//! could reach Redis in the opposite order. If the timeline cannot be updated it is deleted, and
//! rebuilt from the rows when it is read. While Redis is away, all reads go to the database.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures_util::future::join_all;
use seawall::{
    Seawall,
    lock::{AcquireOutcome, Guard},
    social::Timelines,
};

use super::like_store;
pub use super::like_store::{Liked, Wish};
use crate::{
    app::Context,
    db::Db,
    debts::{Debt, Debts},
    error::{Error, Result},
    keys,
    stale::Stale,
};

/// Lifetime of a timeline.
const LIFETIME: Duration = Duration::from_secs(3600);
/// Maximum wait of a click for other clicks of the same user on the same note.
const TURN: Duration = Duration::from_secs(8);
/// Maximum wait of one attempt to lock, including retries after an interruption.
const STEP: Duration = Duration::from_secs(1);

/// Likes of all notes; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Likes {
    seawall: Seawall,
    db: Arc<Db>,
    timelines: Timelines<u64>,
    debts: Debts,
    stale: Arc<Stale>,
}

impl Likes {
    pub(super) fn new(context: &Context) -> Result<Self> {
        let db = Arc::clone(&context.db);
        let load = move |note| {
            let db = Arc::clone(&db);
            async move { like_store::likers(&db, note).await }
        };
        let timelines = context.seawall.timelines("likes", load).ttl(LIFETIME).build()?;
        let (seawall, db) = (context.seawall.clone(), Arc::clone(&context.db));
        let debts = context.debts.clone();
        Ok(Likes { seawall, db, timelines, debts, stale: Arc::default() })
    }

    /// Sets the state of a like. Returns `None` if there is no such note. Must run to its end.
    pub(super) async fn set(&self, note: u64, user: u64, wish: Wish) -> Result<Option<Liked>> {
        let guard = turn(&self.seawall, &keys::like_lock(note, user), TURN).await?;
        let now = self.seawall.client().server_millis();
        let done = like_store::set(&self.db, note, user, wish, now).await;
        let followed = match &done {
            // Also if nothing changed: the timeline may have missed the last change. Without the
            // lock the order in which Redis is told is unknown.
            Ok(Some(done)) => guard.is_some() && self.follow(note, user, done).await.is_ok(),
            Ok(None) => true,
            // It may have been committed all the same.
            Err(_) => false,
        };
        let owed = if followed { Ok(()) } else { self.forget(note).await };
        if let Some(guard) = guard {
            // The work is done, whether or not the lock was lost.
            let _ = guard.release().await;
        }
        let done = done?;
        owed.map(|()| done)
    }

    async fn follow(&self, note: u64, user: u64, done: &Liked) -> Result<()> {
        let timeline = self.timelines.of(&note)?;
        let _ = if done.liked {
            timeline.put(&user, done.since).await?
        } else {
            timeline.remove(&user).await?
        };
        Ok(())
    }

    /// Returns the first users who liked a note.
    pub(super) async fn first(&self, note: u64, count: usize) -> Result<Vec<u64>> {
        if !self.stale.contains(note) {
            match self.timelines.of(&note)?.first(count).await {
                Ok(first) => return Ok(first),
                Err(error) => tracing::debug!(%error, "likes are read from the database"),
            }
        }
        like_store::first(&self.db, note, count).await
    }

    /// Returns which of these notes a user likes.
    pub(super) async fn liked_by(&self, user: u64, notes: &[u64]) -> Result<HashSet<u64>> {
        let (doubtful, believed): (Vec<u64>, Vec<u64>) =
            notes.iter().partition(|note| self.stale.contains(**note));
        match self.liked_in_redis(user, &believed).await {
            Ok(mut liked) => {
                liked.extend(like_store::liked_by(&self.db, user, &doubtful).await?);
                Ok(liked)
            }
            Err(error) => {
                tracing::debug!(%error, "likes are read from the database");
                Ok(like_store::liked_by(&self.db, user, notes).await?.into_iter().collect())
            }
        }
    }

    async fn liked_in_redis(
        &self,
        user: u64,
        notes: &[u64],
    ) -> Result<HashSet<u64>, seawall::Error> {
        let known = self.timelines.known(&user, notes).await?;
        let rebuilt = notes.iter().zip(&known).filter(|(_, known)| known.is_none());
        let rebuilt = join_all(rebuilt.map(|(&note, _)| async move {
            let there = self.timelines.of(&note)?.has(&[user]).await?;
            Ok::<_, seawall::Error>((note, there == [true]))
        }))
        .await;
        let mut liked: HashSet<u64> = notes
            .iter()
            .zip(&known)
            .filter(|(_, known)| **known == Some(true))
            .map(|(&note, _)| note)
            .collect();
        for answer in rebuilt {
            let (note, there) = answer?;
            if there {
                liked.insert(note);
            }
        }
        Ok(liked)
    }

    /// Deletes the timeline of a note, now or as soon as Redis answers.
    pub(super) async fn forget(&self, note: u64) -> Result<()> {
        self.stale.add(note);
        self.repair().await;
        if self.stale.contains(note) {
            self.debts.owe(&[Debt::Likes(note)]).await?;
        }
        Ok(())
    }

    /// Deletes a timeline that missed a change.
    pub(super) async fn settle(&self, note: u64) -> Result<()> {
        Ok(self.timelines.of(&note)?.forget().await?)
    }

    /// Deletes timelines that missed a change.
    pub(super) async fn repair(&self) {
        self.stale.forget_all(|note| async move { self.timelines.of(&note)?.forget().await }).await;
    }
}

/// Acquires a lock that orders changes in database and Redis. Returns `None` if Redis is away; then
/// only the database is changed.
///
/// The lock itself would wait for Redis to come back, but a click must not. So the first attempt
/// does not wait at all, and later ones wait in short steps: an outage ends the first of them.
pub(crate) async fn turn(seawall: &Seawall, name: &str, wait: Duration) -> Result<Option<Guard>> {
    let (lock, clock) = (seawall.lock(name), seawall.clock());
    let deadline = clock.now() + wait;
    let mut step = Duration::ZERO;
    loop {
        match lock.acquire(step).await {
            Ok(AcquireOutcome::Acquired(guard)) => return Ok(Some(guard)),
            Ok(AcquireOutcome::Busy { .. }) => {}
            Err(error) => {
                tracing::debug!(%error, name, "the database alone is changed");
                return Ok(None);
            }
        }
        let left = deadline.since(clock.now());
        if left.is_zero() {
            let cause = format!("{name} was held for {wait:?}");
            return Err(Error::Unavailable { what: "a lock", cause });
        }
        step = STEP.min(left);
    }
}
