//! Goods and their stock: SKUs on the shelf, deliveries and stock levels.
//!
//! SKUs are read through the cache. Stock is in Redis, spread over shards, and follows the
//! database's log of movements; [`stock`] explains how the two are kept in step.

pub(crate) mod http;
mod jobs;
mod ledger;
pub(crate) mod movement;
pub(crate) mod stock;
pub(crate) mod store;

use std::{collections::HashMap, sync::Arc, time::Duration};

use seawall::{cache::Cache, id::Ids, stock::Audit};
use serde::{Deserialize, Serialize};

use self::{
    movement::{Movement, Reason},
    stock::Stocks,
};
use crate::{
    app::Context,
    error::{Error, Result},
};

/// TTL of a cached SKU.
const FRESH: Duration = Duration::from_secs(60);
/// TTL of a negative entry: there is no such SKU.
const MISSING: Duration = Duration::from_secs(30);
/// Maximum units of one receipt.
pub(crate) const MAX_RECEIPT: u32 = 1_000_000;
/// Maximum length of a receipt id.
const RECEIPT_CHARS: usize = 48;

/// A SKU, as stored in the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sku {
    /// Id.
    pub id: u64,
    /// Name.
    pub name: String,
    /// Price in cents.
    pub price: i64,
    /// Member price in cents.
    pub vip_price: i64,
    /// Path of a picture.
    pub image: String,
    /// Whether it can be bought.
    pub on_shelf: bool,
    /// Milliseconds since the epoch.
    pub create_time: i64,
    /// Milliseconds since the epoch.
    pub update_time: i64,
}

/// Id of a delivery, which makes it count once: up to 48 letters, digits, dots, dashes and
/// underscores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptId(String);

impl ReceiptId {
    /// Parses a receipt id.
    ///
    /// # Errors
    /// [`Error::BadInput`] if it is empty, too long or has other characters.
    pub fn parse(text: &str) -> Result<Self> {
        let fits = (1..=RECEIPT_CHARS).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if fits {
            return Ok(ReceiptId(text.to_owned()));
        }
        let msg = "receiptId is 1 to 48 letters, digits, dots, dashes and underscores";
        Err(Error::bad("BAD_RECEIPT_ID", msg))
    }
}

/// Outcome of [`Goods::receive`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiptDone {
    /// Whether this call recorded it.
    pub is_new: bool,
}

/// Stock of a SKU.
#[derive(Debug)]
pub struct StockLevels {
    /// Units on hand in the database.
    pub num: i64,
    /// Units in Redis, per shard.
    pub audit: Audit,
}

/// Goods and their stock.
#[derive(Debug)]
pub struct Goods {
    context: Context,
    cache: Cache<u64, Sku>,
    ids: Ids,
    stocks: Stocks,
}

impl Goods {
    pub(crate) fn new(context: &Context) -> Result<Self> {
        let cache = context.seawall.cache("sku").ttl(FRESH).negative_ttl(MISSING).build()?;
        Ok(Goods {
            cache,
            ids: context.seawall.ids("inventory-log").build()?,
            stocks: Stocks::new(context),
            context: context.clone(),
        })
    }

    pub(crate) fn stocks(&self) -> &Stocks {
        &self.stocks
    }

    /// Returns one SKU.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such SKU.
    pub async fn read(&self, sku: u64) -> Result<Arc<Sku>> {
        self.read_many(&[sku]).await?.remove(&sku).ok_or_else(unknown)
    }

    /// Returns SKUs by id through the cache; those that do not exist are omitted.
    pub(crate) async fn read_many(&self, skus: &[u64]) -> Result<HashMap<u64, Arc<Sku>>> {
        let db = Arc::clone(&self.context.db);
        let load = move |missing: Vec<u64>| {
            let db = Arc::clone(&db);
            async move { store::skus(&db, &missing).await }
        };
        let answers = self.cache.get_many(skus, load).await;
        let mut found = HashMap::new();
        for (sku, answer) in skus.iter().zip(answers) {
            if let Some(value) = answer?.value {
                found.insert(*sku, value);
            }
        }
        Ok(found)
    }

    /// Returns SKUs from the database: prices that are charged do not come from a cache.
    pub(crate) async fn read_now(&self, skus: &[u64]) -> Result<HashMap<u64, Sku>> {
        store::skus(&self.context.db, skus).await
    }

    /// Returns a page of the SKUs on the shelf, and their number.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the database is away.
    pub async fn on_shelf(&self, page: u32) -> Result<(Vec<Sku>, u64)> {
        store::on_shelf(&self.context.db, page).await
    }

    /// Receives a delivery, once for each receipt and SKU.
    ///
    /// On return it is in the database, and for sale now or, if Redis does not answer, as soon as
    /// it does.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such SKU, [`Error::Conflict`] if the receipt was recorded
    /// with another count.
    pub async fn receive(&self, receipt: &ReceiptId, sku: u64, count: u32) -> Result<ReceiptDone> {
        self.read(sku).await?;
        let delta = i64::from(count);
        let movement = Movement {
            id: self.ids.next().await?.as_u64(),
            sku,
            delta,
            reason: Reason::Receipt,
            reference: receipt.0.clone(),
        };
        let before = store::receive(&self.context.db, &movement, self.context.now()).await?;
        if before.is_some_and(|units| units != delta) {
            let msg = "this receipt came with another number before";
            return Err(Error::conflict("RECEIPT_DIFFERS", msg));
        }
        self.stocks.follow(&[movement]).await;
        Ok(ReceiptDone { is_new: before.is_none() })
    }

    /// Returns the stock of a SKU in the database and in Redis.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such SKU.
    pub async fn levels(&self, sku: u64) -> Result<StockLevels> {
        self.read(sku).await?;
        let audit = self.stocks.audit(sku).await?;
        let num = store::level(&self.context.db, sku).await?.num;
        Ok(StockLevels { num, audit })
    }

    /// Generates ids for log rows.
    pub(crate) async fn log_ids(&self, count: usize) -> Result<Vec<u64>> {
        let mut ids = Vec::with_capacity(count);
        for _ in 0..count {
            ids.push(self.ids.next().await?.as_u64());
        }
        Ok(ids)
    }
}

pub(crate) fn unknown() -> Error {
    Error::not_found("UNKNOWN_SKU", "no such SKU")
}
