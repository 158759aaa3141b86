//! Background jobs of flash sales: the workers that write orders, and rounds that cancel unpaid
//! orders, make refunds, settle dead letters and compare both stores.
//!
//! An entry is acknowledged after its transaction is committed and the sale was told. So if a
//! worker dies in between, the entry stays pending, and the worker of the same name after a
//! restart, or another worker after a while, claims it. Entries wait without end for a database
//! that is away; that does not count as an attempt. An entry that fails for another reason is tried
//! [`DELIVERIES`] times and then becomes a dead letter; a separate round records its order as
//! FAILED and returns its unit. Until then the order is visible as QUEUED.

use std::{collections::HashMap, sync::Arc, time::Duration};

use seawall::stream::{Delivery, EntryId, Fields, Outcome, Stream, Worker};
use tokio::sync::Mutex;

use super::{
    Order, Sales, Status, millis, persist,
    reconcile::Even,
    reservation::{VOUCHER, number},
    store,
};
use crate::{
    error::{Error, Result},
    jobs::Jobs,
};

/// The consumer group that writes orders.
const GROUP: &str = "orders";
/// Idle time after which a worker's entries are claimed; writing them twice does no harm.
const TAKE_OVER_AFTER: Duration = Duration::from_secs(10);
/// Attempts per entry.
pub const DELIVERIES: u64 = 5;
/// Entries per read, over all streams of one connection.
const BATCH: usize = 2_048;
/// Concurrent transactions: one is committed while the next is assembled.
const WRITERS: usize = 2;
/// Maximum dead letters per stream.
const MAX_PARKED: u64 = 10_000;
/// Pause after a store did not answer.
const PAUSE: Duration = Duration::from_millis(250);
/// Time limit for workers to finish their current entries at shutdown.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// Intervals of the rounds.
const TIME_OUTS: Duration = Duration::from_secs(5);
const REFUNDS: Duration = Duration::from_secs(2);
const PARKED: Duration = Duration::from_secs(15);
const COMPARISONS: Duration = Duration::from_secs(30);
/// Interval at which dead letters are read even if no order waits, in milliseconds: an entry that
/// cannot be decoded has no order.
const PARKED_ANYWAY_MS: i64 = 10 * 60_000;
/// Orders ended per transaction of a round.
const AT_ONCE: u32 = 200;
/// Transactions per round.
const STEPS: usize = 100;
/// Age up to which cancelled orders are searched for refunds.
const MONEY_BACK_WITHIN: Duration = Duration::from_secs(30 * 24 * 3600);

/// Progress in reading dead letters.
#[derive(Debug, Default)]
struct Parked {
    /// Time of the last read, by the server's clock.
    read: i64,
    /// Last entry read, by stream.
    last: HashMap<Vec<u8>, EntryId>,
}

/// The workers of this process.
#[derive(Debug)]
pub struct Workers(Worker);

impl Workers {
    /// Starts the workers. `instance` names this process, unchanged after a restart.
    pub(crate) fn start(sales: &Arc<Sales>, instance: &str) -> Result<Self> {
        let handler = {
            let sales = Arc::clone(sales);
            move |batch: Vec<Delivery<Order>>| {
                let sales = Arc::clone(&sales);
                async move { sales.handle(batch).await }
            }
        };
        let seawall = &sales.context.seawall;
        let worker = seawall
            .stream_worker(GROUP, sales.streams()?)
            .consumer(instance)
            .batch_size(BATCH)
            .concurrency(WRITERS)
            .claim_idle(TAKE_OVER_AFTER)
            .max_attempts(DELIVERIES)
            .max_dead_letters(MAX_PARKED)
            .drain_timeout(DRAIN_LIMIT)
            .spawn_batches(handler)?;
        Ok(Workers(worker))
    }

    /// Lets the workers finish their current entries, and stops them.
    pub(crate) async fn stop(self) {
        let drained = self.0.shutdown().await;
        tracing::debug!(?drained, "the order workers ended");
    }
}

/// Starts the rounds.
pub(crate) fn start(sales: &Arc<Sales>, jobs: &mut Jobs) {
    let shared = || Arc::clone(sales);
    let sales = shared();
    jobs.every("sale-time-outs", TIME_OUTS, move || {
        let sales = Arc::clone(&sales);
        async move { sales.time_out().await }
    });
    let sales = shared();
    jobs.every("sale-refunds", REFUNDS, move || {
        let sales = Arc::clone(&sales);
        async move { sales.give_back_money().await }
    });
    let (sales, seen) = (shared(), Arc::<Mutex<Parked>>::default());
    jobs.every("sale-parked", PARKED, move || {
        let (sales, seen) = (Arc::clone(&sales), Arc::clone(&seen));
        async move { sales.look_for_parked(&mut *seen.lock().await).await }
    });
    let (sales, even) = (shared(), Arc::<Mutex<Even>>::default());
    let (term, breaks) = (jobs.term(), jobs.breaks());
    jobs.every("sale-comparison", COMPARISONS, move || {
        let (sales, even) = (Arc::clone(&sales), Arc::clone(&even));
        let (term, breaks) = (term.number(), breaks.clone());
        async move {
            let mut even = even.lock().await;
            even.at(term, &breaks);
            sales.reconcile_others(&mut even).await
        }
    });
}

impl Sales {
    fn streams(&self) -> Result<Vec<Stream<Order>>> {
        let keys = self.reservations.streams()?;
        keys.into_iter().map(|key| Ok(self.context.seawall.stream_at(key, order)?)).collect()
    }

    async fn handle(&self, batch: Vec<Delivery<Order>>) -> Outcome {
        let orders: Vec<Order> = batch.into_iter().map(Delivery::into_payload).collect();
        self.pace.turn(orders.len()).await;
        match self.bring(&orders).await {
            Ok(()) => Outcome::Done,
            Err(Error::Unavailable { what, cause }) => {
                tracing::warn!(what, cause, orders = orders.len(), "orders wait");
                Outcome::Postpone(PAUSE)
            }
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }

    /// Cancels orders that were not paid in time.
    async fn time_out(&self) -> Result<()> {
        for _ in 0..STEPS {
            let before = self.context.now() - millis(self.context.config.unpaid_after);
            let late = store::since(&self.context.db, Status::Unpaid, before, AT_ONCE).await?;
            if late.is_empty() {
                break;
            }
            tracing::info!(orders = late.len(), "not paid in time");
            self.end(&late, Status::Unpaid, Status::Cancelled).await?;
        }
        Ok(())
    }

    /// Makes requested refunds, and refunds orders that ended during their payment.
    async fn give_back_money(&self) -> Result<()> {
        let (db, now) = (&*self.context.db, self.context.now());
        for order in store::since(db, Status::Refunding, now, AT_ONCE).await? {
            note(&order, self.finish_refund(&order).await);
        }
        let after = now - millis(MONEY_BACK_WITHIN);
        for order in store::charged_and_cancelled(db, after, AT_ONCE).await? {
            note(&order, self.give_money_back(&order).await);
        }
        Ok(())
    }

    /// Settles dead letters, if there may be any: the order of a dead letter waits until it is
    /// settled.
    async fn look_for_parked(&self, seen: &mut Parked) -> Result<()> {
        let now = self.context.now();
        if now >= seen.read + PARKED_ANYWAY_MS || self.reservations.anybody_waits().await? {
            self.settle_parked(&mut seen.last).await?;
            seen.read = now;
        }
        Ok(())
    }

    /// Records orders of dead letters as failed and returns their units; the entries stay for
    /// inspection. `seen` is where the last round ended.
    async fn settle_parked(&self, seen: &mut HashMap<Vec<u8>, EntryId>) -> Result<()> {
        for stream in self.streams()? {
            let after = seen.get(stream.key()).copied();
            for parked in stream.dead_letters(after).await? {
                match stream.read_dead_letter(&parked) {
                    Ok(order) => self.settle_failed(&order).await?,
                    Err(why) => tracing::error!(entry = %parked.original, why, "parked unread"),
                }
                seen.insert(stream.key().to_vec(), parked.id);
            }
        }
        Ok(())
    }

    async fn settle_failed(&self, order: &Order) -> Result<()> {
        match persist::fail(&self.context.db, order, self.context.now()).await? {
            Status::Failed => {
                let back = self.reservations.give_back(order).await?;
                tracing::error!(order = order.id, ?back, "a parked order has failed");
                Ok(())
            }
            // It was written before its worker died.
            _ => self.reservations.confirm(std::slice::from_ref(order)).await,
        }
    }
}

/// Logs a failed refund, so that one order does not block the refunds of others.
fn note(order: &Order, given_back: Result<()>) {
    if let Err(error) = given_back {
        tracing::warn!(order = order.id, %error, "a refund has to wait");
    }
}

/// Decodes the order that the toolkit appended.
fn order(fields: &Fields) -> Result<Order, String> {
    let field = |name: &str| {
        let value = fields.get(name).ok_or_else(|| format!("no field `{name}`"))?;
        number(value).ok_or_else(|| format!("`{name}` is no number"))
    };
    let time = i64::try_from(field("time")?).map_err(|_| "`time` is no time".to_owned())?;
    Ok(Order::queued(field("reference")?, field("user")?, field(VOUCHER)?, time))
}
