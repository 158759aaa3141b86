//! Stock of every SKU in Redis: opened on first use, and kept in step with the database.
//!
//! Redis decides quickly who gets a unit; the database decides finally. An order holds its units in
//! Redis, is written to the database, and then sells what it holds. Receipts and returns are
//! written to the database first. So each log row is a movement that Redis must follow, and the row
//! records whether it did. If a process dies in between, [`Stocks::follow`] catches up; it can be
//! repeated at any time, because every movement has a reference.
//!
//! Invariant: `left + held` in Redis equals `num` in the database, except for rows that are not
//! followed yet. If that does not hold for a while ([`Stocks::gap`]: Redis lost data, or came back
//! empty), the SKU is rebuilt from the log. A rebuild loses holds in progress; their orders are
//! refused, or followed like all others, because the database never sells a unit twice.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::join_all;
use seawall::{
    lock::AcquireOutcome,
    stock::{Audit, Held, Inventory, Received, Repair, Settled, Standing},
};
use tokio::sync::OnceCell;

use super::{
    ledger::SkuLedger,
    movement::{Movement, Reason, reference},
    store,
};
use crate::{
    app::Context,
    error::{Error, Result},
    keys,
};

/// Time that Redis remembers references after they ended.
pub(super) const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 3600);
/// Maximum time of an order from its hold to its row in the database.
const HOLD_FOR: Duration = Duration::from_secs(60);
/// Interval at which each inventory releases expired holds, besides its movements and comparisons.
/// An expired hold blocks no sale, because "sold out" is only reported after expired holds were
/// returned.
const SWEEP_EVERY: Duration = Duration::from_secs(30 * 60);
/// Attempts of a hold while other orders collect the last units.
const HOLD_ATTEMPTS: usize = 4;
/// Pause between these attempts.
const HOLD_PAUSE: Duration = Duration::from_millis(30);
/// Number of looks before a difference is trusted.
const LOOKS: usize = 3;
/// Pause between looks, in which movements on their way arrive.
const LOOK_PAUSE: Duration = Duration::from_millis(300);
/// Rows followed in one step, and how many of them concurrently.
const FOLLOW_ROWS: u32 = 200;
const FOLLOW_AT_ONCE: usize = 16;
/// Maximum differences of one SKU written to the log.
const REPORTED: usize = 10;

/// Stock of all SKUs; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Stocks {
    context: Context,
    open: Arc<Mutex<HashMap<u64, Arc<OnceCell<Inventory>>>>>,
}

/// Outcome of [`Stocks::hold`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Holding {
    /// The units are held, and this shard decides about them.
    Held { home: usize },
    /// There are not enough units.
    SoldOut,
    /// An earlier hold of this order has ended.
    Over,
}

/// Difference between Redis and the database for a SKU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gap {
    /// No difference, or one that is still on its way.
    None,
    /// Redis has this many units too many, or too few if negative.
    Units(i64),
    /// Shards report that they have lost their data, that a rebuild was not finished, or that they
    /// hold units without a known owner.
    Lost,
    /// Shards do not answer: nothing is known, and their units come back with them.
    Away,
}

/// Reason for rebuilding a SKU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Because {
    /// Redis and the database differ; checked again under the lock, because another process may
    /// have repaired it.
    Gap,
    /// A log row cannot be followed by any movement.
    Astray,
}

/// Whether Redis has followed a movement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Followed {
    Yes,
    /// Redis cannot be reached; retried later.
    Later,
    /// No movement can do it: the SKU must be rebuilt.
    Astray,
}

impl Stocks {
    pub(super) fn new(context: &Context) -> Self {
        Stocks { context: context.clone(), open: Arc::default() }
    }

    /// Returns the stock of a SKU. The first call of this process makes sure that it is correct.
    pub(super) async fn of(&self, sku: u64) -> Result<Inventory> {
        let cell = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(open.entry(sku).or_default())
        };
        let stock = cell.get_or_try_init(|| async {
            let stock = self.opened(sku).await?;
            self.follow_open(&stock, Some(sku), self.context.now()).await?;
            match self.lasting_gap(sku, &stock).await? {
                Gap::None => {}
                Gap::Away => return Err(away(sku)),
                Gap::Units(_) | Gap::Lost => self.rebuild(sku, &stock, Because::Gap).await?,
            }
            Ok::<_, Error>(stock)
        });
        stock.await.cloned()
    }

    /// Creates a SKU's stock if it does not exist.
    async fn opened(&self, sku: u64) -> Result<Inventory> {
        let builder = self.context.seawall.inventory(&("sku", sku));
        let shards = usize::from(self.context.config.stock_shards);
        Ok(builder
            .shards(shards)
            .reference_ttl(REMEMBERED)
            .sweep_interval(SWEEP_EVERY)
            .open()
            .await?)
    }

    /// Holds units for an order. Starts at a shard given by the order id, and continues with the
    /// next one if a shard does not answer. Idempotent per order.
    pub(crate) async fn hold(&self, sku: u64, order: u64, units: u64) -> Result<Holding> {
        let stock = self.of(sku).await?;
        for attempt in 1..=HOLD_ATTEMPTS {
            match hold_somewhere(&stock, order, units).await? {
                (_, Held::SoldOut { .. }) => return Ok(Holding::SoldOut),
                (_, Held::Over(_)) => return Ok(Holding::Over),
                (home, held) if held.is_yours() => return Ok(Holding::Held { home }),
                // Waiting does not fill empty shards.
                (_, Held::Unavailable) if attempt == 1 => self.revive(sku, &stock).await?,
                _ => self.context.seawall.clock().sleep(HOLD_PAUSE).await,
            }
        }
        Err(away(sku))
    }

    /// Rebuilds a SKU whose shards have lost their data.
    async fn revive(&self, sku: u64, stock: &Inventory) -> Result<()> {
        if self.gap(sku, stock).await? == Gap::Lost {
            self.rebuild(sku, stock, Because::Gap).await?;
        }
        Ok(())
    }

    /// Releases the hold of an order; if Redis cannot be told, the hold expires.
    pub(crate) async fn release(&self, sku: u64, order: u64, home: usize) {
        let released = async {
            let movement = seawall::stock::Reference::new(reference(order, home))?;
            Ok::<_, Error>(self.of(sku).await?.release(&movement).await?)
        };
        match released.await {
            Ok(settled) => tracing::debug!(sku, order, ?settled, "a hold was let go"),
            Err(error) => tracing::warn!(sku, order, %error, "a hold ends by itself"),
        }
    }

    /// Returns the state of a SKU's shards.
    pub(super) async fn audit(&self, sku: u64) -> Result<Audit> {
        Ok(self.of(sku).await?.audit().await?)
    }

    /// Makes Redis follow movements that were just recorded. Failures are followed later.
    pub(crate) async fn follow(&self, movements: &[Movement]) {
        for movement in movements {
            let followed = async {
                let stock = self.of(movement.sku).await?;
                self.follow_one(&stock, movement).await
            };
            match followed.await {
                Ok(Followed::Yes) => {}
                Ok(followed) => tracing::warn!(?movement, ?followed, "the stock follows later"),
                Err(error) => tracing::warn!(?movement, %error, "the stock follows later"),
            }
        }
    }

    /// Follows log rows that are not marked as followed. Returns their number.
    pub(super) async fn follow_all(&self, before: i64) -> Result<usize> {
        let rows = store::open_movements(&self.context.db, None, before, FOLLOW_ROWS).await?;
        let count = rows.len();
        let mut by_sku: HashMap<u64, Vec<Movement>> = HashMap::new();
        for row in rows {
            by_sku.entry(row.sku).or_default().push(row);
        }
        for (sku, rows) in by_sku {
            let stock = self.of(sku).await?;
            self.follow_rows(&stock, sku, rows).await?;
        }
        Ok(count)
    }

    async fn follow_open(&self, stock: &Inventory, of: Option<u64>, before: i64) -> Result<()> {
        let rows = store::open_movements(&self.context.db, of, before, FOLLOW_ROWS).await?;
        let Some(sku) = rows.first().map(|row| row.sku) else { return Ok(()) };
        self.follow_rows(stock, sku, rows).await
    }

    /// Follows rows of one SKU, and marks those that succeeded.
    async fn follow_rows(
        &self,
        stock: &Inventory,
        sku: u64,
        mut rows: Vec<Movement>,
    ) -> Result<()> {
        // Units are received before they are sold, and sold before they are returned.
        rows.sort_by_key(|row| row.reason);
        let mut done = Vec::new();
        let mut astray = false;
        for some in rows
            .chunk_by(|one, next| one.reason == next.reason)
            .flat_map(|alike| alike.chunks(FOLLOW_AT_ONCE))
        {
            let mut following = Vec::with_capacity(some.len());
            for movement in some {
                following.push(self.follow_one(stock, movement));
            }
            for (movement, followed) in some.iter().zip(join_all(following).await) {
                match followed? {
                    Followed::Yes => done.push(movement.id),
                    Followed::Astray => astray = true,
                    Followed::Later => {}
                }
            }
        }
        store::close_movements(&self.context.db, &done, self.context.now()).await?;
        if astray {
            // The log contains all of them, and they are marked when they are followed again.
            self.rebuild(sku, stock, Because::Astray).await?;
        }
        Ok(())
    }

    /// Executes one movement. Idempotent.
    async fn follow_one(&self, stock: &Inventory, movement: &Movement) -> Result<Followed> {
        let units = movement.units();
        let followed = match movement.reason {
            Reason::Receipt => arrive(stock, &movement.receipt(), units).await,
            Reason::Sale => sell(stock, movement).await,
            Reason::Return => give_back(stock, movement).await,
        };
        match followed {
            Err(error) if error.is_away() => {
                tracing::debug!(?movement, %error, "the stock cannot follow now");
                Ok(Followed::Later)
            }
            followed => Ok(followed?),
        }
    }

    /// Returns the current difference between Redis and the database.
    pub(super) async fn gap(&self, sku: u64, stock: &Inventory) -> Result<Gap> {
        let level = store::level(&self.context.db, sku).await?;
        let audit = stock.audit().await?;
        if !audit.is_complete() {
            let missing = audit.shards.iter().filter(|levels| levels.is_none()).count();
            return Ok(if missing == audit.closed.len() { Gap::Lost } else { Gap::Away });
        }
        if audit.astray > 0 {
            return Ok(Gap::Lost);
        }
        let total = audit.total();
        let there = i64::try_from(total.left + total.held).unwrap_or(i64::MAX);
        let (least, most) = (level.num - level.coming, level.num + level.going);
        Ok(match there {
            there if there < least => Gap::Units(there - least),
            there if there > most => Gap::Units(there - most),
            _ => Gap::None,
        })
    }

    /// Returns the difference if it stays the same over several looks: movements on their way
    /// between Redis and the database change it.
    pub(super) async fn lasting_gap(&self, sku: u64, stock: &Inventory) -> Result<Gap> {
        let mut last = self.gap(sku, stock).await?;
        for _ in 1..LOOKS {
            if last == Gap::None {
                return Ok(last);
            }
            // Parts of a hold that have not heard of their order's end make a difference, too.
            if let Err(error) = stock.sweep().await {
                tracing::debug!(sku, %error, "not everything was swept");
            }
            self.context.seawall.clock().sleep(LOOK_PAUSE).await;
            let now = self.gap(sku, stock).await?;
            if now != last {
                return Ok(Gap::None);
            }
            last = now;
        }
        Ok(last)
    }

    /// Rebuilds the stock of a SKU from the database: one process at a time.
    pub(super) async fn rebuild(
        &self,
        sku: u64,
        stock: &Inventory,
        because: Because,
    ) -> Result<()> {
        let lock = self.context.seawall.lock(keys::stock_lock(sku));
        let AcquireOutcome::Acquired(guard) = lock.try_acquire().await? else {
            return Err(away(sku));
        };
        let rebuilt = self.rebuild_alone(sku, stock, because).await;
        // If the lock was lost, its new owner does the same: no harm.
        let _ = guard.release().await;
        rebuilt
    }

    async fn rebuild_alone(&self, sku: u64, stock: &Inventory, because: Because) -> Result<()> {
        let gap = self.gap(sku, stock).await?;
        match gap {
            Gap::Away => return Err(away(sku)),
            Gap::None if because == Because::Gap => {
                tracing::debug!(sku, "the stock is right again: it is not rebuilt");
                return Ok(());
            }
            Gap::None | Gap::Units(_) | Gap::Lost => {}
        }
        // Recreates the inventory's definition if it was lost too, so that other processes find the
        // same shards.
        drop(self.opened(sku).await?);
        let remembered = i64::try_from(REMEMBERED.as_millis()).unwrap_or(i64::MAX);
        let since = self.context.now() - remembered;
        let ledger = SkuLedger { db: Arc::clone(&self.context.db), sku, since };
        if gap != Gap::Lost {
            for difference in
                stock.reconcile(&ledger, Repair::Report).await?.into_iter().take(REPORTED)
            {
                tracing::warn!(sku, ?difference, "stock and database differ");
            }
        }
        stock.rebuild(&ledger).await?;
        metrics::counter!("seawall_stock_rebuilds_total").increment(1);
        tracing::warn!(sku, ?gap, "the stock was rebuilt from the database");
        Ok(())
    }
}

async fn hold_somewhere(stock: &Inventory, order: u64, units: u64) -> Result<(usize, Held)> {
    let shards = stock.shards();
    let first = usize::try_from(order % shards as u64).unwrap_or(0);
    for home in (0..shards).map(|step| (first + step) % shards) {
        let reference = seawall::stock::Reference::new(reference(order, home))?;
        match stock.hold(&reference, units, HOLD_FOR).await? {
            Held::Unavailable => {}
            held => return Ok((home, held)),
        }
    }
    Ok((first, Held::Unavailable))
}

async fn arrive(stock: &Inventory, receipt: &str, units: u64) -> seawall::Result<Followed> {
    Ok(match stock.receive(receipt, units).await? {
        Received::Complete { .. } => Followed::Yes,
        Received::Partly { .. } => Followed::Later,
        // The log has one count per receipt, but Redis recorded another one.
        _ => Followed::Astray,
    })
}

async fn sell(stock: &Inventory, movement: &Movement) -> seawall::Result<Followed> {
    let reference = seawall::stock::Reference::new(movement.reference.clone())?;
    Ok(match stock.sell(&reference).await? {
        // Taken back: a return of the same order was followed first.
        Settled::Now { .. } | Settled::Before { .. } | Settled::Not(Standing::TakenBack) => {
            Followed::Yes
        }
        Settled::Not(Standing::Unknown) => {
            match stock.sell_now(&reference, movement.units()).await? {
                held if held.is_yours() => Followed::Yes,
                Held::Unavailable | Held::Partial { .. } => Followed::Later,
                _ => Followed::Astray,
            }
        }
        Settled::Unavailable => Followed::Later,
        // Its hold ended before the database had the order.
        _ => Followed::Astray,
    })
}

async fn give_back(stock: &Inventory, movement: &Movement) -> seawall::Result<Followed> {
    let reference = seawall::stock::Reference::new(movement.reference.clone())?;
    Ok(match stock.take_back(&reference).await? {
        Settled::Not(Standing::Held) => match stock.release(&reference).await? {
            Settled::Unavailable => Followed::Later,
            _ => Followed::Yes,
        },
        // Sold so long ago that Redis has forgotten it.
        Settled::Not(Standing::Unknown) => {
            return arrive(stock, &movement.returned(), movement.units()).await;
        }
        Settled::Unavailable => Followed::Later,
        _ => Followed::Yes,
    })
}

fn away(sku: u64) -> Error {
    Error::Unavailable { what: "stock", cause: format!("not all shards of SKU {sku} answer") }
}
