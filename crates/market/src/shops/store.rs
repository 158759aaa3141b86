//! Shops in the database.

use sqlx::Row as _;

use super::Shop;
use crate::{
    db::{Db, id, unsigned},
    error::Result,
};

/// One shop.
pub(super) async fn by_id(db: &Db, shop: u64) -> Result<Option<Shop>> {
    let row = sqlx::query(
        "SELECT id, owner_id, name, type_id, images, area, address, x, y, avg_price, sold, \
         comments, score, open_hours, create_time, update_time FROM shop WHERE id = ?",
    )
    .bind(id(shop))
    .fetch_optional(db.read())
    .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Shop {
        id: unsigned(row.try_get("id")?),
        owner_id: unsigned(row.try_get("owner_id")?),
        name: row.try_get("name")?,
        type_id: unsigned(row.try_get("type_id")?),
        images: row.try_get("images")?,
        area: row.try_get("area")?,
        address: row.try_get("address")?,
        x: row.try_get("x")?,
        y: row.try_get("y")?,
        avg_price: row.try_get("avg_price")?,
        sold: row.try_get("sold")?,
        comments: row.try_get("comments")?,
        score: row.try_get("score")?,
        open_hours: row.try_get("open_hours")?,
        create_time: row.try_get("create_time")?,
        update_time: row.try_get("update_time")?,
    }))
}

/// Whose shop it is.
pub(super) async fn owner(db: &Db, shop: u64) -> Result<Option<u64>> {
    let row = sqlx::query("SELECT owner_id FROM shop WHERE id = ?")
        .bind(id(shop))
        .fetch_optional(db.read())
        .await?;
    row.map(|row| Ok(unsigned(row.try_get("owner_id")?))).transpose()
}
