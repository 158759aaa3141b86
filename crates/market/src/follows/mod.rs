//! Follows.
//!
//! The database decides, by the primary key of the pair; follower counts change in the same
//! transaction. The user's set in Redis is updated after the commit, under a lock of that user that
//! covers both, and is rebuilt from the database when absent. A change of follows also changes the
//! user's feed: the inbox is deleted, and rebuilt when it is read. While Redis is away, all reads
//! go to the database.

pub(crate) mod http;
pub(crate) mod store;

use std::{sync::Arc, time::Duration};

use seawall::{Seawall, social};

use self::store::Kept;
use crate::{
    accounts::{Accounts, Brief},
    app::Context,
    db::Db,
    debts::{Debt, Debts},
    error::{Error, Result},
    feed::inboxes::Inboxes,
    keys,
    notes::{
        events::{Event, Events},
        likes::turn,
    },
    stale::Stale,
};

/// Lifetime of a set.
const LIFETIME: Duration = Duration::from_secs(3600);
/// Maximum wait of a change for other changes of the same user.
const TURN: Duration = Duration::from_secs(8);
/// Maximum common follows returned.
const COMMON: usize = 100;

/// Requested state of a follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Follow.
    Follow,
    /// Unfollow.
    Unfollow,
}

/// Follows of all users; cheap to clone.
#[derive(Debug, Clone)]
pub struct Follows {
    seawall: Seawall,
    db: Arc<Db>,
    accounts: Arc<Accounts>,
    sets: social::Follows<u64>,
    inboxes: Inboxes,
    events: Events,
    debts: Debts,
    stale: Arc<Stale>,
}

impl Follows {
    pub(crate) fn new(
        context: &Context,
        accounts: &Arc<Accounts>,
        inboxes: &Inboxes,
        events: &Events,
    ) -> Result<Self> {
        let db = Arc::clone(&context.db);
        let load = move |user| {
            let db = Arc::clone(&db);
            async move { store::followees(&db, user).await }
        };
        let sets = context.seawall.follows("user").source(load).ttl(LIFETIME).build()?;
        Ok(Follows {
            seawall: context.seawall.clone(),
            db: Arc::clone(&context.db),
            accounts: Arc::clone(accounts),
            sets,
            inboxes: inboxes.clone(),
            events: events.clone(),
            debts: context.debts.clone(),
            stale: Arc::default(),
        })
    }

    /// Follows or unfollows a user; does nothing if that is already the state.
    ///
    /// # Errors
    /// [`Error::BadInput`] if both users are the same, [`Error::NotFound`] if there is no such
    /// user.
    pub async fn set(&self, user: u64, whom: u64, wish: Wish) -> Result<()> {
        if user == whom {
            return Err(Error::bad("ONESELF", "a user cannot follow themselves"));
        }
        let guard = turn(&self.seawall, &keys::follow_lock(user), TURN).await?;
        let now = self.seawall.client().server_millis();
        let kept = match wish {
            Wish::Follow => store::follow(&self.db, user, whom, now).await,
            Wish::Unfollow => store::unfollow(&self.db, user, whom, now).await,
        };
        let mut owed = Ok(());
        if !matches!(kept, Ok(Kept::Unknown)) {
            // Also if nothing changed: the set may have missed the last change, and an error may
            // have occurred after the commit.
            let followed = guard.is_some()
                && kept.is_ok()
                && self.follow_in_redis(user, whom, wish).await.is_ok();
            let sets = if followed { Ok(()) } else { self.forget(user).await };
            let inbox = self.inboxes.forget(user).await;
            let profiles = self.accounts.changed(&[user, whom]).await;
            owed = sets.and(inbox).and(profiles);
        }
        if let Some(guard) = guard {
            // The work is done, whether or not the lock was lost.
            let _ = guard.release().await;
        }
        let kept = kept?;
        owed?;
        match kept {
            Kept::Unknown => return Err(Error::not_found("UNKNOWN_USER", "no such user")),
            Kept::Changed if wish == Wish::Unfollow => self.backfill(whom, now).await?,
            Kept::Changed | Kept::Unchanged => {}
        }
        Ok(())
    }

    async fn follow_in_redis(&self, user: u64, whom: u64, wish: Wish) -> Result<()> {
        let set = self.sets.of(&user)?;
        match wish {
            Wish::Follow => drop(set.follow(&whom).await?),
            Wish::Unfollow => drop(set.unfollow(&whom).await?),
        }
        Ok(())
    }

    /// Requests a backfill if the author just fell below the pull threshold.
    async fn backfill(&self, author: u64, time: i64) -> Result<()> {
        if store::fans(&self.db, author).await? + 1 == self.inboxes.pulled_from() {
            let event = Event::Backfill { author, time };
            if let Err(error) = self.events.append(event).await {
                tracing::warn!(?event, %error, "inboxes follow when Redis answers");
                self.debts.owe(&[Debt::Backfill { author, time }]).await?;
            }
        }
        Ok(())
    }

    /// Deletes the set of a user's follows, now or as soon as Redis answers.
    async fn forget(&self, user: u64) -> Result<()> {
        self.stale.add(user);
        self.repair().await;
        if self.stale.contains(user) {
            self.debts.owe(&[Debt::Follows(user)]).await?;
        }
        Ok(())
    }

    /// Deletes a set that missed a change.
    pub(crate) async fn settle(&self, user: u64) -> Result<()> {
        Ok(self.sets.of(&user)?.forget().await?)
    }

    /// Appends a missed backfill event: the inboxes of the author's followers are rebuilt.
    pub(crate) async fn settle_backfill(&self, author: u64, time: i64) -> Result<()> {
        let _ = self.events.append(Event::Backfill { author, time }).await?;
        Ok(())
    }

    /// Returns `true` if `user` follows `whom`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if neither Redis nor the database can answer.
    pub async fn is_following(&self, user: u64, whom: u64) -> Result<bool> {
        if !self.stale.contains(user) {
            match self.sets.of(&user)?.is_following(&whom).await {
                Ok(following) => return Ok(following),
                Err(error) => tracing::debug!(%error, "follows are read from the database"),
            }
        }
        store::is_following(&self.db, user, whom).await
    }

    /// Returns for each of these users, in order, whether `user` follows them.
    pub(crate) async fn following(&self, user: u64, asked: &[u64]) -> Result<Vec<bool>> {
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        if !self.stale.contains(user) {
            match self.sets.of(&user)?.following(asked).await {
                Ok(following) => return Ok(following),
                Err(error) => tracing::debug!(%error, "follows are read from the database"),
            }
        }
        let followees = store::followees(&self.db, user).await?;
        Ok(asked.iter().map(|whom| followees.contains(whom)).collect())
    }

    /// Returns the users that both follow, sorted by id; at most a hundred.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if neither Redis nor the database can answer.
    pub async fn common(&self, one: u64, other: u64) -> Result<Vec<Brief>> {
        let common = match self.common_in_redis(one, other).await {
            Ok(Some(common)) => common,
            Ok(None) => store::common(&self.db, one, other, COMMON).await?,
            Err(error) => {
                tracing::debug!(%error, "follows are read from the database");
                store::common(&self.db, one, other, COMMON).await?
            }
        };
        let mut briefs = self.accounts.brief(common.iter().copied()).await?;
        Ok(common.iter().filter_map(|user| briefs.remove(user)).collect())
    }

    /// Reads common follows from Redis. `None` if one of the sets cannot be trusted.
    async fn common_in_redis(&self, one: u64, other: u64) -> Result<Option<Vec<u64>>> {
        if self.stale.contains(one) || self.stale.contains(other) {
            return Ok(None);
        }
        Ok(Some(self.sets.of(&one)?.common(&self.sets.of(&other)?, COMMON).await?))
    }

    /// Deletes sets that missed a change.
    pub(crate) async fn repair(&self) {
        self.stale.forget_all(|user| async move { self.sets.of(&user)?.forget().await }).await;
    }
}
