//! Whether somebody changes carts in the database: who uses Redis has to look there first.
//!
//! A process that cannot reach Redis cannot tell the others so through it. So it announces in the
//! database that carts are changed there, and waits, before its first change counts, until every
//! process has seen that: they all look several times a second, and believe what they saw for
//! [`BELIEVED`]. Whoever has seen it, or saw that changes are pending, looks for those of a user before
//! each call to Redis, and carries them out first; and what it changes in Redis it writes to the database
//! before it answers, for those who do not reach Redis yet. So a user who is told that a change was made finds
//! it everywhere, whichever process answers.
//!
//! Invariant: from the moment a change is acknowledged until its user's changes are carried out in Redis,
//! every process looks. An exception is made for a database that does not answer a look: nobody is
//! taken to change carts there, and carts go on in Redis.
//!
//! All by the clock of this machine: these are spans that a process waits, not times that it compares.

use std::{
    sync::{Mutex as Guarded, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Mutex, time::Instant};

use super::{Carts, aside};
use crate::{
    error::{Error, Result},
    jobs::Stop,
};

/// How often every process looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long what was seen is believed.
const BELIEVED: Duration = Duration::from_millis(600);
/// How long an announcement counts for those who have seen it.
const COUNTS_FOR: Duration = Duration::from_secs(10);
/// An announcement is repeated after this time, while changes are made.
const REPEATED_AFTER: Duration = Duration::from_secs(4);
/// After this time it may not count any more when the repetition is seen: it is waited for again.
const OVER_AFTER: Duration = Duration::from_secs(8);

#[derive(Debug)]
pub(super) struct Notice {
    /// When this process announced last; held while it does.
    announced: Mutex<Option<Instant>>,
    seen: Guarded<Seen>,
}

#[derive(Debug)]
struct Seen {
    /// Until when it is believed that nobody changes carts there; always while a look is under way
    /// that takes longer, and never before the first.
    until: Option<Instant>,
    is_looking: bool,
    mark: Option<i64>,
    /// Until when the newest announcement counts.
    counts_until: Option<Instant>,
    is_pending: bool,
}

impl Notice {
    pub(super) fn new() -> Self {
        let seen = Seen {
            until: None,
            is_looking: false,
            mark: None,
            counts_until: None,
            is_pending: false,
        };
        Notice { announced: Mutex::new(None), seen: Guarded::new(seen) }
    }

    /// Whether somebody may use carts in the database: changes of a user have to be looked for there,
    /// and shown there.
    pub(super) fn must_look(&self) -> bool {
        let (now, seen) = (Instant::now(), self.lock());
        seen.is_pending
            || seen.counts_until.is_some_and(|until| now < until)
            || (!seen.is_looking && seen.until.is_none_or(|until| now >= until))
    }

    fn begin_look(&self) -> Instant {
        self.lock().is_looking = true;
        Instant::now()
    }

    fn end_look(&self, began: Instant, look: &Result<(i64, bool)>) {
        let mut seen = self.lock();
        seen.is_looking = false;
        seen.until = Some(began + BELIEVED);
        match look {
            Ok((mark, is_pending)) => {
                if seen.mark.replace(*mark).is_none_or(|before| before != *mark) {
                    seen.counts_until = Some(Instant::now() + COUNTS_FOR);
                }
                seen.is_pending = *is_pending;
            }
            Err(error) => {
                tracing::debug!(%error, "the database does not say whether carts are changed there");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Carts {
    /// Sees to it that every process knows that carts are changed in the database.
    pub(super) async fn announce(&self) -> Result<()> {
        let mut announced = self.notice.announced.lock().await;
        let age = announced.map(|at| at.elapsed());
        if age.is_some_and(|age| age < REPEATED_AFTER) {
            return Ok(());
        }
        let began = Instant::now();
        aside::announce(&self.context.db, self.context.now()).await?;
        self.notice.lock().counts_until = Some(Instant::now() + COUNTS_FOR);
        if age.is_none_or(|age| age >= OVER_AFTER) {
            tokio::time::sleep(BELIEVED).await;
        }
        *announced = Some(began);
        Ok(())
    }

    /// Whether a user's cart was changed in the database and Redis may not have it.
    pub(super) async fn is_pending(&self, user: u64) -> Result<bool> {
        if !self.notice.must_look() {
            return Ok(false);
        }
        match aside::is_pending(&self.context.db, user).await {
            // Nobody changes carts there now, and what was changed is carried out later.
            Err(Error::Unavailable { .. }) => Ok(false),
            pending => pending,
        }
    }

    /// Looks, until it is told to stop. A look in hand is finished.
    pub(super) async fn keep_looking(&self, mut stop: Stop) {
        while !stop.is_asked() {
            let began = self.notice.begin_look();
            let look = aside::look(&self.context.db).await;
            self.notice.end_look(began, &look);
            tokio::select! {
                () = stop.asked() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }
}
