//! What runs in the background for flash sales: the workers that write orders, and rounds that end
//! what nobody paid for, give money back, settle what was parked and compare both stores.
//!
//! An order is acknowledged after its transaction is committed and the sale was told, so that a worker
//! that dies in between leaves it pending, and the same name after a restart, or another worker after a
//! while, takes it up. A database that is away is waited for, without end; that is not the order's
//! fault. What fails for another reason is tried [`DELIVERIES`] times and then parked; a round of its
//! own writes it down as FAILED and gives its unit back. Until then it is found as QUEUED.

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

/// The one group that writes orders.
const GROUP: &str = "orders";
/// After how long without a sign of life a worker's orders are taken over; writing them twice does no
/// harm.
const TAKE_OVER_AFTER: Duration = Duration::from_secs(10);
/// How often an entry is tried.
pub const DELIVERIES: u64 = 5;
/// Entries of one read, over all streams of one connection.
const BATCH: usize = 2_048;
/// Transactions at once: one is committed while the next is put together.
const WRITERS: usize = 2;
/// Dead letters that are kept for each stream.
const MAX_PARKED: u64 = 10_000;
/// The pause after a store did not answer.
const PAUSE: Duration = Duration::from_millis(250);
/// How long workers may go on with what they have in hand, once they are told to end.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// How often each round is made.
const TIME_OUTS: Duration = Duration::from_secs(5);
const REFUNDS: Duration = Duration::from_secs(2);
const PARKED: Duration = Duration::from_secs(15);
const COMPARISONS: Duration = Duration::from_secs(30);
/// How often parked entries are read although no order waits, in milliseconds: what cannot be
/// understood has none.
const PARKED_ANYWAY_MS: i64 = 10 * 60_000;
/// Orders that one transaction of a round ends.
const AT_ONCE: u32 = 200;
/// Transactions of one round.
const STEPS: usize = 100;
/// Cancelled orders as old as this are not looked through for money any more.
const MONEY_BACK_WITHIN: Duration = Duration::from_secs(30 * 24 * 3600);

/// What was read of the parked entries.
#[derive(Debug, Default)]
struct Parked {
    /// When they were read, by the server's clock.
    read: i64,
    /// By stream: the last one.
    last: HashMap<Vec<u8>, EntryId>,
}

/// The workers of this process.
#[derive(Debug)]
pub struct Workers(Worker);

impl Workers {
    /// Starts them. `instance` names this process, the same after a restart.
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
            .run_batches(handler)?;
        Ok(Workers(worker))
    }

    /// Lets the workers write what they have in hand, and ends them.
    pub(crate) async fn stop(self) {
        let drained = self.0.stop().await;
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

    /// Ends orders that nobody paid for in time.
    async fn time_out(&self) -> Result<()> {
        for _ in 0..STEPS {
            let before = self.context.now() - millis(self.context.config.unpaid_after);
            let late = store::since(&self.context.db, Status::Unpaid, before, AT_ONCE).await?;
            if late.is_empty() {
                break;
            }
            tracing::info!(orders = late.len(), "nobody paid in time");
            self.end(&late, Status::Unpaid, Status::Cancelled).await?;
        }
        Ok(())
    }

    /// Gives money back that was asked for, and money of orders that ended while somebody paid.
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

    /// Settles parked orders, if there may be any: one that is parked waits until it is settled.
    async fn look_for_parked(&self, seen: &mut Parked) -> Result<()> {
        let now = self.context.now();
        if now >= seen.read + PARKED_ANYWAY_MS || self.reservations.anybody_waits().await? {
            self.settle_parked(&mut seen.last).await?;
            seen.read = now;
        }
        Ok(())
    }

    /// Writes down parked orders as failed and gives their units back; their entries stay for people
    /// to look at. `seen` is where the last round ended.
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

/// One whose money a provider will not give back must not keep the others from theirs.
fn note(order: &Order, given_back: Result<()>) {
    if let Err(error) = given_back {
        tracing::warn!(order = order.id, %error, "a refund has to wait");
    }
}

/// The order that the toolkit appended.
fn order(fields: &Fields) -> Result<Order, String> {
    let field = |name: &str| {
        let value = fields.get(name).ok_or_else(|| format!("no field `{name}`"))?;
        number(value).ok_or_else(|| format!("`{name}` is no number"))
    };
    let time = i64::try_from(field("time")?).map_err(|_| "`time` is no time".to_owned())?;
    Ok(Order::queued(field("reference")?, field("user")?, field(VOUCHER)?, time))
}
