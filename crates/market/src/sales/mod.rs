//! Buying in a flash sale: reserved in Redis, decided by the database.
//!
//! ```text
//! request → reserve.lua ─ stock − 1, buyer, stream ─→ answer: order id (QUEUED)
//!                                       │
//!                    worker of the consumer group (jobs)
//!                                       │ one transaction: stock − 1 where ≥ 1, insert the order
//!                                       ▼
//!                     settle.lua ─ acknowledge, take out of the queue, give back what was refused
//! ```
//!
//! The gate in Redis keeps the crowd off; the conditional update and the unique key in the database
//! have the last word. Invariant: until an order has a row it stands in the stream *and* among the
//! queued, and it leaves both in one step after the row is committed. So an id that a client was
//! given can always be found, whatever is killed in between.
//!
//! Paying, cancelling and refunding are not here yet.

mod gate;
pub(crate) mod http;
pub mod jobs;
mod queue;
mod store;

use std::{fmt, sync::Arc};

use self::gate::{Gate, Reserved};
use crate::{
    app::Context,
    db::Db,
    error::{Error, Result},
};

/// How far an order is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Reserved; the database has not decided yet.
    Queued,
    /// Waits to be paid for.
    Unpaid,
    /// The database refused it: sold out, or the user has one already.
    Failed,
}

impl Status {
    /// The word that clients and the database know.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Status::Queued => "QUEUED",
            Status::Unpaid => "UNPAID",
            Status::Failed => "FAILED",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Status::Queued, Status::Unpaid, Status::Failed]
            .into_iter()
            .find(|status| status.word() == word)
    }
}

/// An order as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Id.
    pub id: u64,
    /// Who ordered.
    pub user_id: u64,
    /// What.
    pub voucher_id: u64,
    /// How far it is.
    pub status: Status,
    /// Milliseconds since the epoch; unknown while it is queued.
    pub create_time: Option<i64>,
}

/// Where a worker may be killed, for tests that do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashPoint {
    /// The order's row is written, not committed.
    BeforeCommit,
    /// The row is committed, the entry not yet settled.
    AfterCommit,
}

/// Decides at each crash point whether the worker ends there, as if it were killed.
#[derive(Clone)]
pub struct CrashPoints(Arc<dyn Fn(CrashPoint) -> bool + Send + Sync>);

impl CrashPoints {
    /// Ends a worker wherever `kills` says so.
    pub fn new(kills: impl Fn(CrashPoint) -> bool + Send + Sync + 'static) -> Self {
        CrashPoints(Arc::new(kills))
    }

    fn kills(&self, point: CrashPoint) -> bool {
        (self.0)(point)
    }
}

impl Default for CrashPoints {
    fn default() -> Self {
        CrashPoints::new(|_| false)
    }
}

impl fmt::Debug for CrashPoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CrashPoints")
    }
}

/// Flash-sale orders.
#[derive(Debug)]
pub struct Sales {
    db: Arc<Db>,
    gate: Gate,
    ids: seawall::id::Ids,
    crash_points: CrashPoints,
}

impl Sales {
    pub(crate) fn new(context: &Context, crash_points: CrashPoints) -> Result<Self> {
        let (seawall, db) = (&context.seawall, Arc::clone(&context.db));
        let gate = Gate::new(seawall, Arc::clone(&db))?;
        Ok(Sales { ids: seawall.ids("order").build()?, db, gate, crash_points })
    }

    /// Opens every sale that is not over, from the database, where Redis does not have it.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when a store is away.
    pub async fn open_sales(&self) -> Result<()> {
        self.gate.open_all().await
    }

    /// Opens a voucher's sale from the database, where Redis does not have it: after the voucher was
    /// created. It may be repeated.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when a store is away; the first buyer opens it then.
    pub(crate) async fn open(&self, voucher: u64) -> Result<()> {
        self.gate.forget(voucher).await?;
        self.gate.open(voucher).await?;
        Ok(())
    }

    /// Reserves a voucher for a user: the id of the order.
    ///
    /// # Errors
    /// [`Error::Conflict`] (not started, ended, sold out, duplicate), [`Error::NotFound`] for a
    /// voucher that is in no sale, [`Error::Unavailable`] when Redis is away: buying fails closed.
    pub async fn buy(&self, user: u64, voucher: u64) -> Result<u64> {
        let order = self.ids.next().await?.as_u64();
        match self.gate.reserve(user, voucher, order).await? {
            Reserved::Yes => Ok(order),
            Reserved::NotStarted => Err(Error::conflict("NOT_STARTED", "the sale has not begun")),
            Reserved::Ended => Err(Error::conflict("ENDED", "the sale is over")),
            Reserved::SoldOut => Err(Error::conflict("SOLD_OUT", "sold out")),
            Reserved::Duplicate(order) => Err(Error::Conflict {
                code: "DUPLICATE_ORDER",
                msg: "you have this voucher already",
                data: Some(order),
            }),
            Reserved::Unknown => Err(Error::not_found("UNKNOWN_VOUCHER", "no such flash sale")),
            Reserved::Busy => Err(Error::Unavailable {
                what: "the order queue",
                cause: "too many orders wait for the database".into(),
            }),
        }
    }

    /// An order of this user.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none, or it is somebody else's.
    pub async fn find(&self, user: u64, order: u64) -> Result<Order> {
        // Between the two looks an order may have moved from the queue into the database.
        if let Some(found) = store::by_id(&self.db, user, order).await? {
            return Ok(found);
        }
        if let Some(queued) = self.gate.queued(order).await? {
            if queued.user_id == user {
                return Ok(queued);
            }
        } else if let Some(found) = store::by_id(&self.db, user, order).await? {
            return Ok(found);
        }
        Err(Error::not_found("UNKNOWN_ORDER", "no such order"))
    }
}
