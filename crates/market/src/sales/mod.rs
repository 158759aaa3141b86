//! Buying in a flash sale: reserved in Redis, decided by the database.
//!
//! ```text
//! request → toolkit's FlashSale ─ unit, buyer, stream, waiting ─→ answer: order id (QUEUED)
//!                                        │
//!                     toolkit's stream worker (jobs): many orders at once, paced
//!                                        │ one transaction: stock − n where ≥ n, insert (place)
//!                                        ▼
//!              FlashSale: confirm what stands, give back what was refused; acknowledge
//! ```
//!
//! Redis absorbs the load; the conditional update and the unique key in the database decide
//! finally. Invariants: until an order has a row it is in the stream *and* among the waiting
//! orders, and it leaves both after the row is committed, so an id that a client received can
//! always be found, whatever is killed in between; and in the database `stock + live orders` never
//! changes. Redis follows the database: at once, and through [`reconcile`] where that failed.
//!
//! Deliberately absent: redeeming a voucher at the shop (USED is a status that nothing sets yet).

pub(crate) mod http;
pub mod jobs;
mod lifecycle;
mod order;
mod pace;
mod persist;
pub(crate) mod reconcile;
mod reservation;
mod store;

use std::{cmp::Reverse, time::Duration};

use seawall::stock::Reserved;

pub use self::order::{Order, Status};
use self::{
    pace::Pace,
    persist::{AllPersisted, Persisted},
    reservation::{Opening, Reservations},
};
use crate::{
    app::Context,
    error::{Error, Result},
};

/// Maximum sales opened at start, compared in one round, or searched for one user.
const MOST_SALES: u32 = 10_000;
/// Maximum running sales whose queue is searched for a user's list.
const MOST_LISTED: u32 = 200;
/// Time after the end of a sale during which its orders may still be on their way.
const AFTER_THE_END: Duration = Duration::from_secs(600);

/// Orders of flash sales.
#[derive(Debug)]
pub struct Sales {
    context: Context,
    reservations: Reservations,
    ids: seawall::id::Ids,
    pace: Pace,
}

impl Sales {
    pub(crate) fn new(context: &Context) -> Result<Self> {
        let reservations = Reservations::new(context)?;
        let ids = context.seawall.ids("order").build()?;
        let pace = Pace::new(context.config.orders_per_second);
        Ok(Sales { context: context.clone(), reservations, ids, pace })
    }

    /// Opens every sale that is not over, from the database, if Redis does not have it.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if a store is away.
    pub async fn open_sales(&self) -> Result<()> {
        let now = self.context.now();
        for voucher in store::sales_after(&self.context.db, now, MOST_SALES).await? {
            let _: Opening = self.reservations.open(voucher).await?;
        }
        Ok(())
    }

    /// Opens a voucher's sale from the database if Redis does not have it. Call it after the
    /// voucher was created. Idempotent.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if a store is away; the first buyer opens the sale then.
    pub(crate) async fn open(&self, voucher: u64) -> Result<()> {
        self.reservations.forget(voucher).await?;
        let _: Opening = self.reservations.open(voucher).await?;
        Ok(())
    }

    /// Reserves a voucher for a user.
    ///
    /// Returns the id of the order.
    ///
    /// # Errors
    /// [`Error::Conflict`] (not started, ended, sold out, duplicate), [`Error::NotFound`] for a
    /// voucher without a sale, [`Error::Unavailable`] if Redis is away: buying fails closed.
    /// [`Error::Undecided`] with the order's id if it may have been reserved.
    pub async fn buy(&self, user: u64, voucher: u64) -> Result<u64> {
        let order = self.ids.next().await?.as_u64();
        match self.reservations.reserve(user, voucher, order).await? {
            Reserved::Reserved(_) | Reserved::AlreadyYours(_) => Ok(order),
            Reserved::NotStarted { .. } => {
                Err(Error::conflict("NOT_STARTED", "the sale has not begun"))
            }
            Reserved::Ended => Err(Error::conflict("ENDED", "the sale is over")),
            Reserved::SoldOut => Err(Error::conflict("SOLD_OUT", "sold out")),
            Reserved::Duplicate { reference } => Err(Error::Conflict {
                code: "DUPLICATE_ORDER",
                msg: "you have this voucher already",
                data: reservation::number(&reference),
            }),
            Reserved::Unknown => Err(Error::not_found("UNKNOWN_VOUCHER", "no such flash sale")),
            Reserved::Busy => Err(Error::Unavailable {
                what: "the order queue",
                cause: "too many orders wait for the database".into(),
            }),
            Reserved::Unverified => Err(Error::Unavailable {
                what: "the sale",
                cause: "Redis was restarted and is being compared with the database".into(),
            }),
            other => Err(Error::Internal(format!("a new order was answered {other:?}"))),
        }
    }

    /// Returns an order of this user.
    ///
    /// # Errors
    /// [`Error::NotFound`] if it does not exist or belongs to another user.
    pub async fn find(&self, user: u64, order: u64) -> Result<Order> {
        // An order may move from the queue to the database between the two lookups.
        let db = &*self.context.db;
        if let Some(found) = store::by_id(db, user, order).await? {
            return Ok(found);
        }
        if let Some(queued) = self.reservations.queued(order).await? {
            if queued.user_id == user {
                return Ok(queued);
            }
        } else if let Some(found) = store::by_id(db, user, order).await? {
            return Ok(found);
        }
        Err(Error::not_found("UNKNOWN_ORDER", "no such order"))
    }

    /// Returns orders of a user after one of them, the newest first.
    ///
    /// Includes orders that the database does not know yet, while Redis answers.
    ///
    /// # Errors
    /// [`Error::NotFound`] if that order is not the user's, [`Error::Unavailable`] if the database
    /// is away.
    pub async fn list(&self, user: u64, last: Option<u64>, most: u32) -> Result<Vec<Order>> {
        let place = |order: &Order| (order.create_time, order.id);
        let after = match last {
            Some(last) => Some(place(&self.find(user, last).await?)),
            None => None,
        };
        // Before the database: an order that moves meanwhile is seen at least once.
        let queued = match self.queued_of(user).await {
            Ok(queued) => queued,
            Err(error) => {
                tracing::debug!(%error, "a list without what is queued");
                Vec::new()
            }
        };
        let mut orders = store::of_user(&self.context.db, user, after, most).await?;
        for order in queued {
            let is_after = after.is_none_or(|after| place(&order) < after);
            if is_after && orders.iter().all(|known| known.id != order.id) {
                orders.push(order);
            }
        }
        orders.sort_by_key(|order| Reverse(place(order)));
        orders.truncate(most as usize);
        Ok(orders)
    }

    async fn queued_of(&self, user: u64) -> Result<Vec<Order>> {
        let after = self.context.now() - millis(AFTER_THE_END);
        let vouchers = store::sales_after(&self.context.db, after, MOST_LISTED).await?;
        let mut queued = Vec::new();
        for order in self.reservations.of_user(user, &vouchers).await? {
            queued.extend(
                self.reservations.queued(order).await?.filter(|order| order.user_id == user),
            );
        }
        Ok(queued)
    }

    /// Writes reservations to the database and reports the results to the sales. Idempotent.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: a store is away, nothing is lost. Others: one of the orders cannot
    /// be written; the rest is settled.
    async fn bring(&self, orders: &[Order]) -> Result<()> {
        let db = &*self.context.db;
        match persist::persist_all(db, orders, self.context.now()).await? {
            AllPersisted::Kept => return self.reservations.confirm(orders).await,
            AllPersisted::OneByOne => {}
        }
        let mut failed = Ok(());
        for order in orders {
            match self.bring_one(order).await {
                Ok(()) => {}
                Err(error) if !matches!(error, Error::Unavailable { .. }) => {
                    tracing::error!(order = order.id, %error, "an order cannot be written");
                    failed = Err(error);
                }
                Err(error) => return Err(error),
            }
        }
        failed
    }

    async fn bring_one(&self, order: &Order) -> Result<()> {
        match persist::persist(&self.context.db, order, self.context.now()).await? {
            Persisted::Kept => self.reservations.confirm(std::slice::from_ref(order)).await,
            Persisted::Duplicate { has } => self.reservations.refuse_duplicate(order, has).await,
            Persisted::SoldOut => self.reservations.refuse_sold_out(order).await,
        }
    }
}

/// Converts a duration to the database's milliseconds.
fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
