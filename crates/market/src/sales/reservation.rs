//! Reservations of a flash sale in Redis: the toolkit's sale, opened from the database.
//!
//! A sale that Redis does not know (Redis was new, or came back empty) is opened on the first
//! request, from one look at the waiting orders and then one at the database:
//!
//! ```text
//! stock in Redis = stock in the database − orders that wait and are not in the database yet
//! ```
//!
//! With this order of the looks the sum is correct whatever the workers do meanwhile: an order that
//! is written between the two looks leaves one term and enters the other.
//!
//! A Redis that was restarted, or took over from another one, may have lost *some* of its writes
//! and would admit too many buyers. Nothing is sold on it until the sale was compared with the
//! database ([`reconcile`](super::reconcile)); the toolkit detects this and refuses (`verified`).

use std::{
    collections::{HashMap, HashSet},
    sync::PoisonError,
    time::{Duration, UNIX_EPOCH},
};

use futures_util::future::try_join_all;
use seawall::{
    Topology,
    cache::{Cache, Loaded},
    cmd,
    lock::AcquireOutcome,
    stock::{
        CancelOutcome, FlashSale, Opened, OrderFields, Reserved, SaleWindow, WaitingOrder,
        WaitingOrders,
    },
};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::{Order, reconcile, store};
use crate::{
    app::Context,
    error::{Error, Result},
    keys::{self, SALE_SHARDS},
};

/// TTL of a negative entry: the voucher has no sale.
const MISSING: Duration = Duration::from_secs(10);
/// Maximum wait for another process to open a sale.
const OPENING: Duration = Duration::from_secs(5);
/// Maximum cached sale handles.
const MOST_HANDLES: usize = 4_096;
/// Maximum orders of one group that may wait for the database.
const MAX_WAITING: u64 = 200_000;
/// Field of an order in the stream that names its voucher.
pub(super) const VOUCHER: &str = "voucher";

/// Start and end of a sale, in milliseconds since the epoch.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Window {
    pub(super) begin: i64,
    pub(super) end: i64,
}

/// Whether a sale is open in Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Opening {
    Open,
    /// It is over: Redis need not know it.
    Over,
    /// The database does not know it.
    Unknown,
}

/// Reservations of all sales.
#[derive(Debug)]
pub(super) struct Reservations {
    context: Context,
    /// One task opens a sale; the other tasks of this process wait for it.
    opening: [Mutex<()>; SALE_SHARDS as usize],
    /// Vouchers that have a sale, so that made-up ones do not reach the database.
    known: Cache<u64, Window>,
    /// Orders that wait for the database, by group.
    waiting: Vec<WaitingOrders>,
    /// Sales that were requested, each with what it knows of its server.
    sales: std::sync::Mutex<HashMap<u64, FlashSale>>,
}

impl Reservations {
    pub(super) fn new(context: &Context) -> Result<Self> {
        let seawall = &context.seawall;
        let known = seawall.cache("flash-sale").negative_ttl(MISSING).build()?;
        let opening = std::array::from_fn(|_| Mutex::new(()));
        let waiting = (0..SALE_SHARDS).map(|group| seawall.waiting_orders(&group));
        let waiting = waiting.collect::<seawall::Result<_>>()?;
        let sales = std::sync::Mutex::default();
        Ok(Reservations { context: context.clone(), opening, known, waiting, sales })
    }

    /// Returns the handle of a voucher's sale, without I/O.
    pub(super) fn sale(&self, voucher: u64) -> Result<FlashSale> {
        let mut sales = self.sales.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sale) = sales.get(&voucher) {
            return Ok(sale.clone());
        }
        let sale = self.context.seawall.flash_sale(&voucher).group(&(voucher % SALE_SHARDS));
        let sale = sale.orders(MAX_WAITING).findable().verified().build()?;
        if sales.len() >= MOST_HANDLES {
            // Filled by guessed numbers; the handles in use are soon recreated.
            sales.clear();
        }
        sales.insert(voucher, sale.clone());
        Ok(sale)
    }

    /// Returns the streams of orders, one per group.
    pub(super) fn streams(&self) -> Result<Vec<Vec<u8>>> {
        // Any sale of a group knows its stream.
        (0..SALE_SHARDS).map(|group| Ok(self.sale(group)?.stream_key().to_vec())).collect()
    }

    /// Reserves a unit. Opens or compares the sale first if Redis does not know it or may have lost
    /// a part of it. If the result is unknown, returns an error with the order's id; if it was
    /// reserved, the order proceeds like any other.
    pub(super) async fn reserve(&self, user: u64, voucher: u64, order: u64) -> Result<Reserved> {
        let sale = self.sale(voucher)?;
        let fields = OrderFields::new().field(VOUCHER, voucher);
        let reserve = async || match sale.reserve(&user, &order, &fields).await {
            Err(error) if error.is_indeterminate() => Err(undecided(order, &error)),
            answer => Ok(answer?),
        };
        let answer = reserve().await?;
        if !matches!(answer, Reserved::Unknown | Reserved::Unverified) {
            return Ok(answer);
        }
        match self.window(voucher).await? {
            None => Ok(Reserved::Unknown),
            Some(window) if window.end <= self.context.now() => Ok(Reserved::Ended),
            Some(_) => match self.open(voucher).await? {
                Opening::Open => reserve().await,
                Opening::Over => Ok(Reserved::Ended),
                Opening::Unknown => Ok(Reserved::Unknown),
            },
        }
    }

    async fn window(&self, voucher: u64) -> Result<Option<Window>> {
        let db = self.context.db.clone();
        let load = move || async move { store::window(&db, voucher).await.map(Loaded::from) };
        let found = self.known.get_or_load(&voucher, load).await?;
        Ok(found.value.as_deref().copied())
    }

    /// Drops the cached knowledge of a voucher.
    pub(super) async fn forget(&self, voucher: u64) -> Result<()> {
        // If the invalidation is not applied yet, the entry expires after `MISSING`.
        let _ = self.known.invalidate(&voucher).await?;
        Ok(())
    }

    /// Opens a sale that Redis does not know, and compares one of which Redis may have lost a part.
    pub(super) async fn open(&self, voucher: u64) -> Result<Opening> {
        let shard = usize::try_from(voucher % SALE_SHARDS).unwrap_or(0);
        let _one = self.opening[shard].lock().await;
        let sale = self.sale(voucher)?;
        if sale.is_verified().await? {
            return Ok(Opening::Open);
        }
        let lock = self.context.seawall.lock(keys::sale_lock(voucher));
        let AcquireOutcome::Acquired(guard) = lock.acquire(OPENING).await? else {
            return Err(Error::Unavailable {
                what: "the sale",
                cause: "another process is opening it".into(),
            });
        };
        let opened = sale.verify(self.open_alone(&sale, voucher)).await;
        // The next caller finds it open, with or without the lock.
        let _ = guard.release().await;
        Ok(opened?.unwrap_or(Opening::Open))
    }

    async fn open_alone(&self, sale: &FlashSale, voucher: u64) -> Result<Opening> {
        if sale.status().await?.is_some() {
            let report = reconcile::even_out(&self.context.db, sale, voucher).await?;
            tracing::info!(voucher, ?report, "sale compared with the database before it sells on");
            return report.finished(Opening::Open);
        }
        let waiting = self.waiting_for(voucher).await?;
        let Some(snapshot) = store::snapshot(&self.context.db, voucher).await? else {
            return Ok(Opening::Unknown);
        };
        if snapshot.window.end <= self.context.now() {
            return Ok(Opening::Over);
        }
        let written: HashSet<u64> = snapshot.orders.iter().map(|order| order.id).collect();
        let live = snapshot.orders.iter().filter(|order| order.live);
        let mut buyers: Vec<(u64, u64)> = live.map(|order| (order.user_id, order.id)).collect();
        let unwritten = waiting.iter().filter(|order| !written.contains(&order.id));
        buyers.extend(unwritten.map(|order| (order.user_id, order.id)));
        let stock =
            u64::try_from(snapshot.total()).unwrap_or(0).saturating_sub(buyers.len() as u64);
        let window = SaleWindow::between(time(snapshot.window.begin), time(snapshot.window.end))?;
        let opened = sale.open_with("database", window, stock, buyers).await?;
        if opened == Opened::Ended {
            // By the server's clock, which is authoritative.
            return Ok(Opening::Over);
        }
        tracing::info!(voucher, stock, ?opened, "sale opened from the database");
        Ok(Opening::Open)
    }

    /// Returns orders of a voucher that wait for the database.
    async fn waiting_for(&self, voucher: u64) -> Result<Vec<Order>> {
        let group = usize::try_from(voucher % SALE_SHARDS).unwrap_or(0);
        let all = self.waiting[group].all().await?;
        Ok(all.iter().filter_map(queued).filter(|order| order.voucher_id == voucher).collect())
    }

    /// Returns `true` if any order waits for the database. One command for all groups, except on a
    /// Cluster, where they are on different nodes.
    pub(super) async fn anybody_waits(&self) -> Result<bool> {
        let client = self.context.seawall.client();
        let streams = self.streams()?;
        let keys: Vec<Vec<u8>> = streams.iter().map(|key| keys::sale_waiting(key)).collect();
        let together = if client.topology() == Topology::Cluster { 1 } else { keys.len() };
        let asked = keys.chunks(together).map(async |keys| {
            let exists: u64 = client.query(&keys[0], cmd("EXISTS").arg(keys)).await?;
            Ok::<_, Error>(exists > 0)
        });
        Ok(try_join_all(asked).await?.contains(&true))
    }

    /// Returns orders of all vouchers that have waited since before a time.
    pub(super) async fn waiting_since(&self, time: i64) -> Result<Vec<Order>> {
        let all = try_join_all(self.waiting.iter().map(WaitingOrders::all)).await?;
        let old = all.iter().flatten().filter(|order| order.at_millis < time);
        Ok(old.filter_map(queued).collect())
    }

    /// Returns an order that waits for the database. Its id does not reveal its group, so all
    /// groups are queried concurrently.
    pub(super) async fn queued(&self, order: u64) -> Result<Option<Order>> {
        let asked = self.waiting.iter().map(|waiting| waiting.find(&order));
        let found = try_join_all(asked).await?.into_iter().flatten().next();
        Ok(found.as_ref().and_then(queued))
    }

    /// Returns a user's orders in these sales, whether or not the database knows them.
    pub(super) async fn of_user(&self, user: u64, vouchers: &[u64]) -> Result<Vec<u64>> {
        let asked = vouchers.iter().map(|&voucher| async move {
            Ok::<_, Error>(self.sale(voucher)?.reference_of(&user).await?)
        });
        let found = try_join_all(asked).await?.into_iter().flatten();
        Ok(found.filter_map(|reference| number(&reference)).collect())
    }

    /// Tells the sales that the database has these orders.
    pub(super) async fn confirm(&self, orders: &[Order]) -> Result<()> {
        let mut by_voucher: HashMap<u64, Vec<u64>> = HashMap::new();
        for order in orders {
            by_voucher.entry(order.voucher_id).or_default().push(order.id);
        }
        let told = by_voucher.iter().map(|(&voucher, ids)| async move {
            Ok::<_, Error>(self.sale(voucher)?.confirm_all(ids).await?)
        });
        try_join_all(told).await?;
        Ok(())
    }

    /// Tells a sale that the database refused an order because the user has another one.
    pub(super) async fn refuse_duplicate(&self, order: &Order, has: u64) -> Result<()> {
        let sale = self.sale(order.voucher_id)?;
        let back = sale.give_back(&order.id).await?;
        let other = sale.adopt(&order.user_id, &has).await?;
        tracing::warn!(order = order.id, has, ?back, ?other, "the database has another order");
        Ok(())
    }

    /// Tells a sale that the database refused an order because no unit was left.
    pub(super) async fn refuse_sold_out(&self, order: &Order) -> Result<()> {
        let void = self.sale(order.voucher_id)?.void(&order.id).await?;
        tracing::warn!(order = order.id, ?void, "the database had no unit left");
        Ok(())
    }

    /// Tells a sale that an order ended: its unit is for sale again, and its user may buy again.
    pub(super) async fn give_back(&self, order: &Order) -> Result<CancelOutcome> {
        Ok(self.sale(order.voucher_id)?.give_back(&order.id).await?)
    }
}

/// Decodes an order that the toolkit recorded.
fn queued(waiting: &WaitingOrder) -> Option<Order> {
    let (order, voucher) = (number(&waiting.reference)?, number(&waiting.sale)?);
    Some(Order::queued(order, number(&waiting.user)?, voucher, waiting.at_millis))
}

/// Parses a number that the toolkit wrote as text.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Returns the error for an order that may or may not have been reserved.
fn undecided(order: u64, error: &seawall::Error) -> Error {
    Error::Undecided {
        code: "ORDER_UNDECIDED",
        msg: "it is being decided whether you have it; look at the order with this id",
        data: order,
        cause: error.to_string(),
    }
}

fn time(millis: i64) -> std::time::SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}
