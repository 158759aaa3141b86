//! The gate of a flash sale in Redis: reserving, and opening a sale from the database.
//!
//! A sale that Redis does not know is opened when somebody asks for it (Redis was new, or came back
//! empty), from one look at what still waits in the queue and then one at the database:
//!
//! ```text
//! stock in Redis = stock in the database − orders that wait and are not in the database yet
//! ```
//!
//! In that order of looking the sum is right whatever the workers do meanwhile: an order that is
//! written between the two looks leaves one term and enters the other.
//!
//! Limit: a sale is opened by one script with all its buyers, so a sale of millions would hold up
//! Redis for a moment. Limit: a Redis that lost *some* of its writes admits too many; the database
//! refuses those, and they end as FAILED.

use std::{collections::HashSet, sync::Arc, time::Duration};

use seawall::{
    FromRedisValue as _, Link, Script, Seawall,
    cache::{Cache, Loaded},
    cmd,
};
use tokio::sync::Mutex;

use super::{Order, Status, store};
use crate::{
    db::Db,
    error::{Error, Result},
    keys::{self, SALE_SHARDS, Shard},
};

/// How long the keys of a sale outlive it, so that late questions are answered without the database.
const AFTERMATH: Duration = Duration::from_secs(24 * 3600);
/// How long it is remembered that a voucher has no sale.
const MISSING: Duration = Duration::from_secs(10);
/// Most orders of one shard that may wait for the database.
const MAX_WAITING: u32 = 50_000;
/// How often a reservation whose reply was lost is asked for again.
const ATTEMPTS: usize = 3;

static RESERVE: Script = Script::new(include_str!("reserve.lua"));
static PRELOAD: Script = Script::new(include_str!("preload.lua"));

/// What the gate answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Reserved {
    Yes,
    Unknown,
    NotStarted,
    Ended,
    Duplicate(u64),
    SoldOut,
    Busy,
}

/// All sales.
#[derive(Debug)]
pub(super) struct Gate {
    link: Link,
    db: Arc<Db>,
    /// One opens a sale; the others of this process wait for it.
    opening: [Mutex<()>; SALE_SHARDS as usize],
    /// Which vouchers have a sale at all, so that made-up ones do not reach the database.
    known: Cache<u64, bool>,
}

impl Gate {
    pub(super) fn new(seawall: &Seawall, db: Arc<Db>) -> Result<Self> {
        let known = seawall.cache("flash-sale").missing_for(MISSING).build()?;
        let opening = std::array::from_fn(|_| Mutex::new(()));
        Ok(Gate { link: seawall.link().clone(), db, opening, known })
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    /// Reserves a unit; opens the sale first where Redis does not know it.
    pub(super) async fn reserve(&self, user: u64, voucher: u64, order: u64) -> Result<Reserved> {
        match self.ask(user, voucher, order).await? {
            Reserved::Unknown if self.is_known(voucher).await? && self.open(voucher).await? => {
                self.ask(user, voucher, order).await
            }
            answer => Ok(answer),
        }
    }

    /// Forgets what is known of a voucher.
    pub(super) async fn forget(&self, voucher: u64) -> Result<()> {
        // What is not applied yet is over after `MISSING`.
        let _ = self.known.invalidate(&voucher).await?;
        Ok(())
    }

    async fn is_known(&self, voucher: u64) -> Result<bool> {
        let db = Arc::clone(&self.db);
        let load = move || async move {
            store::has_sale(&db, voucher).await.map(|has| Loaded::from(has.then_some(true)))
        };
        Ok(self.known.get_or_load(&voucher, load).await?.value.is_some())
    }

    async fn ask(&self, user: u64, voucher: u64, order: u64) -> Result<Reserved> {
        let shard = Shard::of(voucher);
        let keys = [keys::sale(voucher), keys::buyers(voucher), shard.orders(), shard.queued()];
        let call = RESERVE
            .on(&keys)
            .arg(user)
            .arg(order)
            .arg(voucher)
            .arg(MAX_WAITING)
            .arg(AFTERMATH.as_millis().to_string());
        let mut attempt = 1;
        let reply: Vec<String> = loop {
            match self.link.eval(&call).await {
                // The same order again is the same reservation.
                Err(error) if error.is_indeterminate() && attempt < ATTEMPTS => attempt += 1,
                reply => break reply?,
            }
        };
        let has = || reply.get(1).and_then(|order| order.parse().ok()).unwrap_or(0);
        Ok(match reply.first().map(String::as_str) {
            Some("RESERVED") => Reserved::Yes,
            Some("UNKNOWN") => Reserved::Unknown,
            Some("NOT_STARTED") => Reserved::NotStarted,
            Some("ENDED") => Reserved::Ended,
            Some("DUPLICATE") => Reserved::Duplicate(has()),
            Some("SOLD_OUT") => Reserved::SoldOut,
            Some("BUSY") => Reserved::Busy,
            other => return Err(Error::Internal(format!("the gate answered {other:?}"))),
        })
    }

    /// Opens every sale that is not over.
    pub(super) async fn open_all(&self) -> Result<()> {
        for voucher in store::sales_after(&self.db, self.link.server_millis()).await? {
            self.open(voucher).await?;
        }
        Ok(())
    }

    /// Opens a sale that Redis does not know; false when the database does not know it either.
    pub(super) async fn open(&self, voucher: u64) -> Result<bool> {
        let shard = usize::try_from(voucher % SALE_SHARDS).unwrap_or(0);
        let _one = self.opening[shard].lock().await;
        let key = keys::sale(voucher);
        if self.link.query::<i64>(&key, cmd("EXISTS").arg(&key)).await? == 1 {
            return Ok(true);
        }
        let waiting = self.waiting(voucher).await?;
        let Some(sale) = store::snapshot(&self.db, voucher).await? else { return Ok(false) };
        let written: HashSet<u64> = sale.buyers.iter().map(|(_, order)| *order).collect();
        let unwritten: Vec<_> =
            waiting.into_iter().filter(|order| !written.contains(&order.id)).collect();
        let held = i64::try_from(unwritten.len()).unwrap_or(i64::MAX);
        let stock = sale.stock.saturating_sub(held).max(0);
        let now = self.link.server_millis();
        let aftermath = i64::try_from(AFTERMATH.as_millis()).unwrap_or(i64::MAX);
        // A sale that ended long ago is still answered for a while.
        let gone = sale.end.max(now).saturating_add(aftermath);
        let mut call = PRELOAD
            .on(&[key, keys::buyers(voucher)])
            .arg(stock)
            .arg(sale.begin)
            .arg(sale.end)
            .arg(gone);
        let waiting = unwritten.iter().map(|order| (order.user_id, order.id));
        for (user, order) in sale.buyers.iter().copied().chain(waiting) {
            call = call.arg(user).arg(order);
        }
        if self.link.eval::<i64>(&call).await? == 1 {
            tracing::info!(voucher, stock, held, "sale opened from the database");
        }
        Ok(true)
    }

    /// Orders of a voucher that wait for the database.
    async fn waiting(&self, voucher: u64) -> Result<Vec<Order>> {
        let key = Shard::of(voucher).queued();
        let all: Vec<(u64, String)> = self.link.query(&key, cmd("HGETALL").arg(&key)).await?;
        let orders = all.into_iter().filter_map(|(id, what)| queued_order(id, &what));
        Ok(orders.filter(|order| order.voucher_id == voucher).collect())
    }

    /// An order that waits for the database. Its id does not say in which shard it is, so all are
    /// asked, in one pipeline.
    pub(super) async fn queued(&self, order: u64) -> Result<Option<Order>> {
        let commands = Shard::all().map(|shard| {
            let key = shard.queued();
            let mut command = cmd("HGET");
            command.arg(&key).arg(order);
            (key, command)
        });
        for reply in self.link.send_all(commands.collect()).await {
            let what = Option::<String>::from_redis_value(reply?).map_err(seawall::Error::from)?;
            if let Some(what) = what {
                return Ok(queued_order(order, &what));
            }
        }
        Ok(None)
    }
}

/// An order from what `reserve.lua` noted: `user:voucher`.
fn queued_order(id: u64, what: &str) -> Option<Order> {
    let (user, voucher) = what.split_once(':')?;
    let (user_id, voucher_id) = (user.parse().ok()?, voucher.parse().ok()?);
    Some(Order { id, user_id, voucher_id, status: Status::Queued, create_time: None })
}
