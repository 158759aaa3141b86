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
//! The gate in Redis keeps the crowd off; the conditional update and the unique key in the database
//! have the last word. Invariants: until an order has a row it stands in the stream *and* among the
//! waiting, and it leaves both after the row is committed, so an id that a client was given can always
//! be found, whatever is killed in between; and in the database `stock + orders that stand` never
//! changes. Redis follows the database: at once, and by [`reconcile`] where that failed.
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

/// Most sales that are opened at start, compared in one round, or asked about one user.
const MOST_SALES: u32 = 10_000;
/// Most running sales whose queue is asked for a user's own list.
const MOST_LISTED: u32 = 200;
/// Orders of a sale that is over can still be on their way for so long.
const AFTER_THE_END: Duration = Duration::from_secs(600);

/// Flash-sale orders.
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

    /// Opens every sale that is not over, from the database, where Redis does not have it.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when a store is away.
    pub async fn open_sales(&self) -> Result<()> {
        let now = self.context.now();
        for voucher in store::sales_after(&self.context.db, now, MOST_SALES).await? {
            let _: Opening = self.reservations.open(voucher).await?;
        }
        Ok(())
    }

    /// Opens a voucher's sale from the database, where Redis does not have it: after the voucher was
    /// created. It may be repeated.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when a store is away; the first buyer opens it then.
    pub(crate) async fn open(&self, voucher: u64) -> Result<()> {
        self.reservations.forget(voucher).await?;
        let _: Opening = self.reservations.open(voucher).await?;
        Ok(())
    }

    /// Reserves a voucher for a user: the id of the order.
    ///
    /// # Errors
    /// [`Error::Conflict`] (not started, ended, sold out, duplicate), [`Error::NotFound`] for a
    /// voucher that is in no sale, [`Error::Unavailable`] when Redis is away: buying fails closed.
    /// [`Error::Undecided`] with the order's id when it may have been reserved.
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

    /// An order of this user.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none, or it is somebody else's.
    pub async fn find(&self, user: u64, order: u64) -> Result<Order> {
        // Between the two looks an order may have moved from the queue into the database.
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

    /// Orders of a user after one of them, the newest first; also those that the database does not
    /// know yet, while Redis answers.
    ///
    /// # Errors
    /// [`Error::NotFound`] when that one is not theirs, [`Error::Unavailable`] when the database is
    /// away.
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

    /// Brings reservations to the database and its answers back to the sales. May be repeated.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: a store is away, nothing is lost. Others: one of them cannot be written;
    /// the rest is settled.
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

/// A time as the database counts it.
fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
