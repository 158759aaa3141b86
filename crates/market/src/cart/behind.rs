//! Writing carts behind: changes that scripts have noted go to the database, many at a time.
//!
//! Entries carry whole states with versions, so that any number of deliveries, in any order, have the
//! effect of one; of several states of an item in one batch only the newest is written. States are
//! written in one order everywhere, so that two workers do not wait for each other in a circle.
//!
//! This process also remembers for a while what its own changes noted ([`Recent`]). When Redis goes
//! away it writes that itself before it looks at the database: what a user was told is done is seen by
//! the next request, and stays also if Redis comes back without it.

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

/// How long entries wait while the database is away.
const PAUSE: Duration = Duration::from_secs(1);
/// After so long without a sign of life, another process takes over.
const CLAIM_AFTER: Duration = Duration::from_secs(15);
/// How long changes are kept beyond their writing: a cart that is loaded anew looks at rows first and
/// at changes then, and what was written between the two looks must be in one of them.
const KEPT: Duration = Duration::from_secs(20);
/// States of one transaction.
const BATCH: usize = 100;
/// How long this process remembers its own changes at least: far longer than they take to be written.
const REMEMBERED: Duration = Duration::from_secs(30);
/// Users whose changes are remembered, twice at most.
const MAX_REMEMBERED: usize = 50_000;
/// States of one user that are remembered.
const MAX_STATES: usize = 1_000;

/// The newest state of what this process changed a moment ago, of two spans of time.
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

    /// Remembers what a change of this user noted.
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
            // Clients repeat what they have named; our own names are of one attempt, which is over.
            state.name = state.name.filter(|name| name.given().is_some());
            // A name stays with its state; of states without one the newest is enough.
            let replaces = |old: &Noted| old.name.is_none() && old.item.sku == state.item.sku;
            states.retain(|old| !replaces(old));
            states.push(state);
        }
        let more = states.len().saturating_sub(MAX_STATES);
        states.drain(..more);
    }

    /// What is remembered of a user, taken out.
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
            .run_batches(move |batch: Vec<Delivery<Noted>>| {
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

    /// Writes what this process noted for a user a moment ago, unless it did before.
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
            // Of a state that a newer one replaces, too.
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
