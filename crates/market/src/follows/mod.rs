//! Who follows whom.
//!
//! The database decides, by the primary key of a pair; numbers of fans follow in the same
//! transaction. The set of each user in Redis follows after the commit, under a lock of that user
//! which spans both, and is rebuilt from the database where it is absent. Whatever changes whom
//! somebody follows also changes their feed: the inbox is forgotten, and rebuilt when it is read.
//! Without Redis everything is asked of the database.

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

/// How long a set is believed.
const LIFETIME: Duration = Duration::from_secs(3600);
/// How long a change waits for others of the same user.
const TURN: Duration = Duration::from_secs(8);
/// How many common ones are named.
const COMMON: usize = 100;

/// What somebody wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// To follow.
    Follow,
    /// To follow no more.
    Unfollow,
}

/// Who follows whom; a cheap clone.
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
        let sets = context.seawall.follows("user").source(load).lifetime(LIFETIME).build()?;
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

    /// Follows somebody, or ends that; what is so already stays so.
    ///
    /// # Errors
    /// [`Error::BadInput`] for oneself, [`Error::NotFound`] when there is no such user.
    pub async fn set(&self, user: u64, whom: u64, wish: Wish) -> Result<()> {
        if user == whom {
            return Err(Error::bad("ONESELF", "nobody follows oneself"));
        }
        let guard = turn(&self.seawall, &keys::follow_lock(user), TURN).await?;
        let now = self.seawall.client().server_millis();
        let kept = match wish {
            Wish::Follow => store::follow(&self.db, user, whom, now).await,
            Wish::Unfollow => store::unfollow(&self.db, user, whom, now).await,
        };
        let mut owed = Ok(());
        if !matches!(kept, Ok(Kept::Unknown)) {
            // Also where nothing changed: the set may not have followed the last time, and an error
            // may have come after the commit.
            let followed = guard.is_some()
                && kept.is_ok()
                && self.follow_in_redis(user, whom, wish).await.is_ok();
            let sets = if followed { Ok(()) } else { self.forget(user).await };
            let inbox = self.inboxes.forget(user).await;
            let profiles = self.accounts.changed(&[user, whom]).await;
            owed = sets.and(inbox).and(profiles);
        }
        if let Some(guard) = guard {
            // Lost or not, everything is done.
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

    /// Somebody may have fallen below those whose notes are pulled.
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

    /// Forgets whom somebody follows, now or as soon as Redis answers.
    async fn forget(&self, user: u64) -> Result<()> {
        self.stale.add(user);
        self.repair().await;
        if self.stale.contains(user) {
            self.debts.owe(&[Debt::Follows(user)]).await?;
        }
        Ok(())
    }

    /// Forgets a set that could not follow.
    pub(crate) async fn settle(&self, user: u64) -> Result<()> {
        Ok(self.sets.of(&user)?.forget().await?)
    }

    /// Tells what could not be told: an author's notes are pushed again.
    pub(crate) async fn settle_backfill(&self, author: u64, time: i64) -> Result<()> {
        let _ = self.events.append(Event::Backfill { author, time }).await?;
        Ok(())
    }

    /// Whether somebody follows somebody.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when neither Redis nor the database can tell.
    pub async fn is_following(&self, user: u64, whom: u64) -> Result<bool> {
        if !self.stale.contains(user) {
            match self.sets.of(&user)?.is_following(&whom).await {
                Ok(following) => return Ok(following),
                Err(error) => tracing::debug!(%error, "follows are read from the database"),
            }
        }
        store::is_following(&self.db, user, whom).await
    }

    /// Which of these somebody follows: one answer each, in order.
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

    /// Whom both follow, in order of their ids; at most a hundred.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when neither Redis nor the database can tell.
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

    /// `None` when one of the sets is not to be believed.
    async fn common_in_redis(&self, one: u64, other: u64) -> Result<Option<Vec<u64>>> {
        if self.stale.contains(one) || self.stale.contains(other) {
            return Ok(None);
        }
        Ok(Some(self.sets.of(&one)?.common(&self.sets.of(&other)?, COMMON).await?))
    }

    /// Forgets sets that could not follow.
    pub(crate) async fn repair(&self) {
        self.stale.forget_all(|user| async move { self.sets.of(&user)?.forget().await }).await;
    }
}
