//! Shops, read through the cache.
//!
//! What does not exist is cached as well, briefly, so that made-up ids do not reach the database.
//! When Redis is away the cache goes on with what it has and with the database behind its governor.

pub(crate) mod http;
pub(crate) mod store;

use std::{sync::Arc, time::Duration};

use seawall::cache::{Cache, Loaded};
use serde::{Deserialize, Serialize};

use crate::{
    accounts::User,
    app::Context,
    db::Db,
    error::{Error, Result},
};

/// How long a shop is fresh.
const FRESH: Duration = Duration::from_secs(30 * 60);
/// How long it is remembered that there is no such shop.
const MISSING: Duration = Duration::from_secs(2 * 60);

/// A shop, as the database has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shop {
    /// Id.
    pub id: u64,
    /// The merchant.
    pub owner_id: u64,
    /// Name.
    pub name: String,
    /// Kind of shop.
    pub type_id: u64,
    /// Paths of pictures, separated by commas.
    pub images: String,
    /// Quarter.
    pub area: String,
    /// Street and number.
    pub address: String,
    /// Longitude.
    pub x: f64,
    /// Latitude.
    pub y: f64,
    /// What a visit costs, in cents.
    pub avg_price: i64,
    /// Sold so far.
    pub sold: i64,
    /// Comments so far.
    pub comments: i64,
    /// Score from 10 to 50, ten times what is shown.
    pub score: i64,
    /// Such as `10:00-22:00`.
    pub open_hours: String,
    /// Milliseconds since the epoch.
    pub create_time: i64,
    /// Milliseconds since the epoch.
    pub update_time: i64,
}

fn unknown() -> Error {
    Error::not_found("UNKNOWN_SHOP", "no such shop")
}

/// Shops and their cache.
#[derive(Debug)]
pub struct Shops {
    db: Arc<Db>,
    cache: Cache<u64, Shop>,
}

impl Shops {
    pub(crate) fn new(context: &Context) -> Result<Self> {
        let db = Arc::clone(&context.db);
        let cache = context
            .seawall
            .cache("shop")
            .mode(context.config.shop_cache)
            .fresh_for(FRESH)
            .missing_for(MISSING)
            .build()?;
        Ok(Shops { db, cache })
    }

    /// One shop.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub async fn read(&self, shop: u64) -> Result<Arc<Shop>> {
        let db = Arc::clone(&self.db);
        let load = move || async move { store::by_id(&db, shop).await.map(Loaded::from) };
        let read = self.cache.get_or_load(&shop, load).await?;
        read.value.ok_or_else(unknown)
    }

    /// Passes admins, and the merchant whose shop it is; by the database, which knows who owns it
    /// now.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such shop, [`Error::Forbidden`] for everybody else.
    pub async fn may_change(&self, user: &User, shop: u64) -> Result<()> {
        let owner = store::owner(&self.db, shop).await?.ok_or_else(unknown)?;
        if user.role == "admin" || (user.role == "merchant" && owner == user.id) {
            return Ok(());
        }
        Err(Error::Forbidden { msg: "only the shop's merchant or an admin may do this" })
    }
}
