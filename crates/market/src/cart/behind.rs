//! Write-behind: changes that the scripts append to streams are written to the database in batches.
//!
//! Entries carry complete states with versions, so any number of deliveries, in any order, have the
//! effect of one. Of several states of an item in one batch only the newest is written. All workers
//! write states in the same order, so that two workers cannot deadlock.
//!
//! This process also remembers for a while what its own changes appended ([`Recent`]). When Redis
//! goes away, the process writes these states itself before it reads the database. So a change
//! acknowledged to a user is visible to the next request, and survives even if Redis comes back
//! without it.

use std::{
    collections::{BTreeMap, HashMap},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use seawall::stream::{Delivery, Outcome, Retention, Worker};
use tokio::time::Instant;

use super::{Carts, redis::Noted, store};
use crate::error::{Error, Result};

/// Retry delay of entries while the database is away.
const PAUSE: Duration = Duration::from_secs(1);
/// Idle time after which another process claims entries.
const CLAIM_AFTER: Duration = Duration::from_secs(15);
/// Time that changes are kept after they are written. Reloading a cart reads rows first and changes
/// second; a change written between the two reads must be in one of them.
const KEPT: Duration = Duration::from_secs(20);
/// States per transaction.
const BATCH: usize = 100;
/// Minimum time that this process remembers its own changes; far longer than writing them takes.
const REMEMBERED: Duration = Duration::from_secs(30);
/// Maximum users remembered per time span; there are two spans.
const MAX_REMEMBERED: usize = 50_000;
/// Maximum states remembered per user.
const MAX_STATES: usize = 1_000;

/// The newest states of this process's recent changes, in two time spans.
#[derive(Debug)]
pub(super) struct Recent(Mutex<Spans>);

#[derive(Debug)]
struct Spans {
    began: Instant,
    now: HashMap<u64, Vec<Noted>>,
    before: HashMap<u64, Vec<Noted>>,
}

impl Recent {
    pub(super) fn new() -> Self {
        let (now, before) = (HashMap::new(), HashMap::new());
        Recent(Mutex::new(Spans { began: Instant::now(), now, before }))
    }

    /// Remembers the states that a change of this user appended.
    pub(super) fn add(&self, user: u64, noted: Vec<Noted>) {
        if noted.is_empty() {
            return;
        }
        let mut spans = self.lock();
        if spans.began.elapsed() >= REMEMBERED || spans.now.len() >= MAX_REMEMBERED {
            spans.before = mem::take(&mut spans.now);
            spans.began = Instant::now();
        }
        let states = spans.now.entry(user).or_default();
        for mut state in noted {
            // Clients repeat requests under their own names. A generated name belongs to one
            // attempt, which is over.
            state.name = state.name.filter(|name| name.given().is_some());
            // A state with a name is kept; of states without a name only the newest is needed.
            let replaces = |old: &Noted| old.name.is_none() && old.item.sku == state.item.sku;
            states.retain(|old| !replaces(old));
            states.push(state);
        }
        let more = states.len().saturating_sub(MAX_STATES);
        states.drain(..more);
    }

    /// Removes and returns the remembered states of a user.
    fn take(&self, user: u64) -> Vec<Noted> {
        let mut spans = self.lock();
        let mut states = spans.before.remove(&user).unwrap_or_default();
        states.extend(spans.now.remove(&user).unwrap_or_default());
        states
    }

    fn lock(&self) -> MutexGuard<'_, Spans> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Carts {
    /// Starts the worker of this process.
    pub(super) fn start_worker(self: &Arc<Self>) -> Result<Worker> {
        let carts = Arc::clone(self);
        let worker = self.context.seawall.stream_worker("cart", self.redis.streams());
        let worker = worker
            .consumer(&*self.context.instance)
            .batch_size(BATCH)
            .claim_idle(CLAIM_AFTER)
            .retention(Retention::For(KEPT))
            .spawn_batches(move |batch: Vec<Delivery<Noted>>| {
                let carts = Arc::clone(&carts);
                async move { carts.write_behind(batch).await }
            })?;
        Ok(worker)
    }

    async fn write_behind(&self, batch: Vec<Delivery<Noted>>) -> Outcome {
        let noted = batch.into_iter().map(Delivery::into_payload).collect();
        match self.write_noted(noted).await {
            Err(Error::Unavailable { cause, .. }) => {
                tracing::warn!(cause, "carts wait for the database");
                Outcome::Postpone(PAUSE)
            }
            written => written.into(),
        }
    }

    /// Writes the recent states of a user that this process has not written yet.
    pub(super) async fn write_recent(&self, user: u64) -> Result<()> {
        let noted = self.recent.take(user);
        let written = self.write_noted(noted.clone()).await;
        if written.is_err() {
            self.recent.add(user, noted);
        }
        written
    }

    pub(super) async fn write_noted(&self, noted: Vec<Noted>) -> Result<()> {
        let mut newest: BTreeMap<(u64, u64), Noted> = BTreeMap::new();
        let mut names = Vec::new();
        for mut noted in noted {
            // The name of a superseded state is kept too.
            names.extend(noted.name.take().map(|name| (noted.user, name)));
            let place = (noted.user, noted.item.sku);
            match newest.get_mut(&place) {
                None => {
                    newest.insert(place, noted);
                }
                Some(state) => {
                    let replayed = state.replayed.max(noted.replayed);
                    if noted.item.version > state.item.version {
                        *state = noted;
                    }
                    state.replayed = replayed;
                }
            }
        }
        let states: Vec<Noted> = newest.into_values().collect();
        store::write(&self.context.db, &states, &names, self.context.now()).await
    }
}
