//! Shops: what is read most. The cache goes into [`Shops::read`].

pub(crate) mod http;
pub(crate) mod store;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    db::Db,
    error::{Error, Result},
};

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

/// Shops.
#[derive(Debug)]
pub struct Shops {
    db: Arc<Db>,
}

impl Shops {
    pub(crate) fn new(db: Arc<Db>) -> Self {
        Shops { db }
    }

    /// One shop.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub async fn read(&self, shop: u64) -> Result<Shop> {
        let found = store::by_id(&self.db, shop).await?;
        found.ok_or_else(|| Error::not_found("UNKNOWN_SHOP", "no such shop"))
    }
}
