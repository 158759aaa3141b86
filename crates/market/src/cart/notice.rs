//! Tracks whether any process changes carts in the database. Processes that use Redis must then
//! check the database first.
//!
//! A process that cannot reach Redis cannot tell the others through Redis. So it announces in the
//! database that carts are changed there. Before its first change counts it waits until every
//! process has seen the announcement: all processes look several times a second and rely on what
//! they saw for [`BELIEVED`]. A process that has seen an announcement, or saw pending changes,
//! looks for the user's pending changes before each call to Redis and has Redis execute them first.
//! It also writes its own Redis changes to the database before it answers, for processes that
//! cannot reach Redis yet. So an acknowledged change is visible to its user in every process.
//!
//! Invariant: from the moment a change is acknowledged until the user's changes are executed in
//! Redis, every process looks. Exception: if the database does not answer a look, the process
//! assumes that no carts are changed there and continues with Redis.
//!
//! All times use this machine's clock: they are durations that a process waits, not timestamps that
//! it compares with others.

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

/// Interval between looks of every process.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long the result of a look is valid.
const BELIEVED: Duration = Duration::from_millis(600);
/// How long an announcement counts for processes that have seen it.
const COUNTS_FOR: Duration = Duration::from_secs(10);
/// Age after which an announcement is repeated while changes continue.
const REPEATED_AFTER: Duration = Duration::from_secs(4);
/// Age after which the previous announcement may have expired before its repetition is seen; the
/// process then waits again.
const OVER_AFTER: Duration = Duration::from_secs(8);

#[derive(Debug)]
pub(super) struct Notice {
    /// Time of this process's latest announcement; locked while announcing.
    announced: Mutex<Option<Instant>>,
    seen: Guarded<Seen>,
}

#[derive(Debug)]
struct Seen {
    /// Time until which the last look is valid; `None` before the first look ends. While a look is
    /// in progress the previous result stays valid, however long the look takes.
    until: Option<Instant>,
    is_looking: bool,
    mark: Option<i64>,
    /// Time until which the newest announcement counts.
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

    /// Returns `true` if another process may use carts in the database: changes of a user must then
    /// be looked up there, and written there.
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
    /// Ensures that every process knows that carts are changed in the database.
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

    /// Returns `true` if a user's cart was changed in the database and Redis may not have the
    /// change.
    pub(super) async fn is_pending(&self, user: u64) -> Result<bool> {
        if !self.notice.must_look() {
            return Ok(false);
        }
        match aside::is_pending(&self.context.db, user).await {
            // No process can change carts there now, and earlier changes are executed later.
            Err(Error::Unavailable { .. }) => Ok(false),
            pending => pending,
        }
    }

    /// Looks until it is told to stop. A look in progress is finished.
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
