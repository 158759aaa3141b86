//! Writing carts behind: changes that scripts have noted go to the database, many at a time.
//!
//! Entries carry whole states with versions, so that any number of deliveries, in any order, have the
//! effect of one; of several states of an item in one batch only the newest is written. States are
//! written in one order everywhere, so that two workers do not wait for each other in a circle.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use seawall::stream::{Delivery, Outcome, Retention, Worker};

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

impl Carts {
    /// Starts the worker of this process.
    pub(super) fn start_worker(self: &Arc<Self>) -> Result<Worker> {
        let carts = Arc::clone(self);
        let worker = self.context.seawall.stream_worker("cart", self.redis.streams());
        let worker = worker
            .consumer(&*self.context.instance)
            .batch(BATCH)
            .claim_after(CLAIM_AFTER)
            .retain(Retention::For(KEPT))
            .run_batches(move |batch: Vec<Delivery<Noted>>| {
                let carts = Arc::clone(&carts);
                async move { carts.write_behind(batch).await }
            })?;
        Ok(worker)
    }

    async fn write_behind(&self, batch: Vec<Delivery<Noted>>) -> Outcome {
        let mut newest: BTreeMap<(u64, u64), Noted> = BTreeMap::new();
        let mut submissions = Vec::new();
        for delivery in batch {
            let mut noted = delivery.into_payload();
            // Of a state that a newer one replaces, too.
            submissions.extend(noted.submission.take().map(|key| (noted.user, key)));
            let place = (noted.user, noted.item.sku);
            let before = newest.get(&place).map_or(i64::MIN, |state| state.item.version);
            if noted.item.version > before {
                newest.insert(place, noted);
            }
        }
        let states: Vec<Noted> = newest.into_values().collect();
        match store::write(&self.context.db, &states, &submissions, self.context.now()).await {
            Err(Error::Unavailable { cause, .. }) => {
                tracing::warn!(cause, "carts wait for the database");
                Outcome::Postpone(PAUSE)
            }
            written => written.into(),
        }
    }
}
