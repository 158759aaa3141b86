//! Checkouts: quotes of the selected items at current prices, kept for a while.
//!
//! Prices come from the database. An order placed from a checkout has the checkout's id, so one
//! checkout makes one order, however often requests are repeated.

use std::{collections::HashMap, time::Duration};

use seawall::{Seawall, cmd, id::Ids};
use serde::{Deserialize, Serialize};

use super::{Item, off_shelf};
use crate::{
    error::{Error, Result},
    inventory::Sku,
    keys,
};

/// Lifetime of a quote.
const KEPT: Duration = Duration::from_secs(15 * 60);

/// A quote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkout {
    /// Id; also the id of the order placed from it.
    pub id: u64,
    /// Owner.
    pub user: u64,
    /// Items, sorted by SKU.
    pub items: Vec<Quoted>,
    /// Total in cents.
    pub total: i64,
}

/// An item of a quote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quoted {
    /// SKU.
    pub sku: u64,
    /// Name of the SKU.
    pub name: String,
    /// Number of units.
    pub count: u32,
    /// Unit price in cents.
    pub price: i64,
    /// Version of the quoted cart item.
    pub version: i64,
}

#[derive(Debug)]
pub(super) struct Checkouts {
    seawall: Seawall,
    ids: Ids,
}

impl Checkouts {
    pub(super) fn new(seawall: &Seawall) -> Result<Self> {
        Ok(Checkouts { seawall: seawall.clone(), ids: seawall.ids("order").build()? })
    }

    /// Quotes items and stores the quote.
    pub(super) async fn quote(
        &self,
        user: u64,
        items: &[Item],
        skus: &HashMap<u64, Sku>,
    ) -> Result<Checkout> {
        let mut quoted = Vec::with_capacity(items.len());
        let mut total: i64 = 0;
        for item in items {
            let sku = skus.get(&item.sku).filter(|sku| sku.on_shelf);
            let sku = sku.ok_or_else(|| off_shelf(item.sku))?;
            let cost = sku.price.checked_mul(i64::from(item.count));
            total = cost
                .and_then(|cost| total.checked_add(cost))
                .ok_or_else(|| Error::conflict("TOO_MUCH", "no order can cost that much"))?;
            quoted.push(Quoted {
                sku: item.sku,
                name: sku.name.clone(),
                count: item.count,
                price: sku.price,
                version: item.version,
            });
        }
        quoted.sort_by_key(|item| item.sku);
        let id = self.ids.next().await?.as_u64();
        let checkout = Checkout { id, user, items: quoted, total };
        let text = serde_json::to_string(&checkout)
            .map_err(|error| Error::Internal(format!("a checkout cannot be written: {error}")))?;
        let key = keys::checkout(id);
        let mut set = cmd("SET");
        set.arg(&key).arg(text).arg("PX").arg(KEPT.as_millis() as u64);
        self.seawall.client().send(&key, &set).await?;
        Ok(checkout)
    }

    /// Returns a stored quote of this user.
    pub(super) async fn find(&self, user: u64, id: u64) -> Result<Option<Checkout>> {
        let key = keys::checkout(id);
        let text: Option<String> = self.seawall.client().query(&key, cmd("GET").arg(&key)).await?;
        let Some(text) = text else { return Ok(None) };
        let checkout: Checkout = serde_json::from_str(&text)
            .map_err(|error| Error::Internal(format!("a checkout cannot be read: {error}")))?;
        Ok(Some(checkout).filter(|checkout| checkout.user == user))
    }

    pub(super) async fn forget(&self, id: u64) -> Result<()> {
        let key = keys::checkout(id);
        self.seawall.client().send(&key, cmd("DEL").arg(&key)).await?;
        Ok(())
    }
}
