//! Goods and their stock: what is on the shelf, what came in, how much there is.
//!
//! SKUs are read through the cache. Stock lies in Redis, spread over shards, and follows the
//! database's log of movements; how the two are kept together is told in [`stock`].

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

/// How long a SKU is fresh.
const FRESH: Duration = Duration::from_secs(60);
/// How long it is remembered that there is no such SKU.
const MISSING: Duration = Duration::from_secs(30);
/// Most units of one receipt.
pub(crate) const MAX_RECEIPT: u32 = 1_000_000;
/// Longest id of a receipt.
const RECEIPT_CHARS: usize = 48;

/// Something that can be bought, as the database has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sku {
    /// Id.
    pub id: u64,
    /// Name.
    pub name: String,
    /// Price in cents.
    pub price: i64,
    /// Price for members, in cents.
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

/// The id of a delivery, which makes it come in once: up to 48 letters, digits, dots, dashes and
/// underscores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptId(String);

impl ReceiptId {
    /// Checks an id.
    ///
    /// # Errors
    /// [`Error::BadInput`] when it has other characters, or none, or too many.
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

/// What became of a receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiptDone {
    /// Whether it was recorded by this call.
    pub is_new: bool,
}

/// A SKU's stock.
#[derive(Debug)]
pub struct StockLevels {
    /// Units on hand by the database.
    pub num: i64,
    /// By Redis, shard by shard.
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

    /// One SKU.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub async fn read(&self, sku: u64) -> Result<Arc<Sku>> {
        self.read_many(&[sku]).await?.remove(&sku).ok_or_else(unknown)
    }

    /// SKUs by their ids, through the cache; those that do not exist are left out.
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

    /// SKUs as the database has them now: what is paid for is not taken from a cache.
    pub(crate) async fn read_now(&self, skus: &[u64]) -> Result<HashMap<u64, Sku>> {
        store::skus(&self.context.db, skus).await
    }

    /// A page of what is on the shelf, and how many there are.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the database is away.
    pub async fn on_shelf(&self, page: u32) -> Result<(Vec<Sku>, u64)> {
        store::on_shelf(&self.context.db, page).await
    }

    /// Takes a delivery in, once for each receipt and SKU. It is in the database when this returns,
    /// and for sale then or, when Redis does not answer, as soon as it does.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such SKU, [`Error::Conflict`] when the receipt came with
    /// another number before.
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

    /// The stock of a SKU, by the database and by Redis.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such SKU.
    pub async fn levels(&self, sku: u64) -> Result<StockLevels> {
        self.read(sku).await?;
        let audit = self.stocks.audit(sku).await?;
        let num = store::level(&self.context.db, sku).await?.num;
        Ok(StockLevels { num, audit })
    }

    /// Numbers for rows of the log.
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
