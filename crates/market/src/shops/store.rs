//! Shops in the database.

use seawall::social::Point;
use sqlx::{
    Any, QueryBuilder, Row as _,
    any::{AnyArguments, AnyRow},
    query::Query,
};

use super::{PageOf, Shop, ShopType, nearby::MAX_LOOKED_AT};
use crate::{
    db::{Db, WriteTx, folded, id, unsigned},
    error::Result,
    submissions::{self, IdempotencyKey, Kind, Noted, Submission},
};

/// Ids per query.
const SLICE: i64 = 1_000;
/// Maximum shop types.
const MAX_TYPES: i64 = 1_000;

/// Builds a query of complete rows.
macro_rules! shops {
    ($rest:literal) => {
        concat!(
            "SELECT id, owner_id, name, type_id, images, area, address, x, y, avg_price, sold, \
             comments, score, open_hours, create_time, update_time FROM shop ",
            $rest
        )
    };
}

fn decode(row: &AnyRow) -> Result<Shop> {
    Ok(Shop {
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
    })
}

/// Returns one shop.
pub(super) async fn by_id(db: &Db, shop: u64) -> Result<Option<Shop>> {
    let row = sqlx::query(shops!("WHERE id = ?")).bind(id(shop)).fetch_optional(db.read()).await?;
    row.as_ref().map(decode).transpose()
}

/// Returns those of these shops that exist, in no order. At most one page of ids.
pub(super) async fn by_ids(db: &Db, shops: &[u64]) -> Result<Vec<Shop>> {
    if shops.is_empty() {
        return Ok(Vec::new());
    }
    let mut query = QueryBuilder::<Any>::new(shops!("WHERE id IN ("));
    let mut list = query.separated(", ");
    for shop in shops {
        list.push_bind(id(*shop));
    }
    list.push_unseparated(")");
    query.build().fetch_all(db.read()).await?.iter().map(decode).collect()
}

/// Returns shops whose name contains `name`, ignoring case, and their number. Rows that an older
/// version wrote without a folded name are compared with the database's own case folding.
pub(super) async fn by_name(db: &Db, name: &str, page: PageOf) -> Result<(Vec<Shop>, u64)> {
    let pattern = pattern(&folded(name));
    let total = sqlx::query(
        "SELECT COUNT(*) AS shops FROM shop \
         WHERE COALESCE(search_name, LOWER(name)) LIKE ? ESCAPE '!'",
    )
    .bind(pattern.as_str())
    .fetch_one(db.read())
    .await?;
    let rows = sqlx::query(shops!(
        "WHERE COALESCE(search_name, LOWER(name)) LIKE ? ESCAPE '!' ORDER BY id LIMIT ? OFFSET ?"
    ))
    .bind(pattern.as_str())
    .bind(i64::from(page.rows))
    .bind(offset(page))
    .fetch_all(db.read())
    .await?;
    let shops: Result<_> = rows.iter().map(decode).collect();
    Ok((shops?, unsigned(total.try_get("shops")?)))
}

/// Returns a LIKE pattern for a substring, with wildcards escaped.
fn pattern(name: &str) -> String {
    let mut pattern = String::from("%");
    for one in name.chars() {
        if matches!(one, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(one);
    }
    pattern.push('%');
    pattern
}

fn offset(page: PageOf) -> i64 {
    i64::try_from(page.range().start).unwrap_or(i64::MAX)
}

/// Returns shops of a type, the oldest first.
pub(super) async fn of_type(db: &Db, kind: u64, page: PageOf) -> Result<Vec<Shop>> {
    let rows = sqlx::query(shops!("WHERE type_id = ? ORDER BY id LIMIT ? OFFSET ?"))
        .bind(id(kind))
        .bind(i64::from(page.rows))
        .bind(offset(page))
        .fetch_all(db.read())
        .await?;
    rows.iter().map(decode).collect()
}

/// Returns shops of a type between two corners of the map.
pub(super) async fn in_box(db: &Db, kind: u64, corners: [Point; 2]) -> Result<Vec<Shop>> {
    let [least, most] = corners;
    let rows = sqlx::query(shops!(
        "WHERE type_id = ? AND x BETWEEN ? AND ? AND y BETWEEN ? AND ? ORDER BY id LIMIT ?"
    ))
    .bind(id(kind))
    .bind(least.longitude)
    .bind(most.longitude)
    .bind(least.latitude)
    .bind(most.latitude)
    .bind(MAX_LOOKED_AT)
    .fetch_all(db.read())
    .await?;
    rows.iter().map(decode).collect()
}

/// Returns the locations of all shops of a type. Rows outside the map are omitted: one of them
/// would make the whole set fail.
pub(super) async fn points(db: &Db, kind: u64) -> Result<Vec<(u64, Point)>> {
    let rows = sqlx::query(
        "SELECT id, x, y FROM shop WHERE type_id = ? AND x BETWEEN -180 AND 180 \
         AND y BETWEEN -85.05112878 AND 85.05112878",
    )
    .bind(id(kind))
    .fetch_all(db.read())
    .await?;
    rows.iter()
        .map(|row| {
            let point = Point { longitude: row.try_get("x")?, latitude: row.try_get("y")? };
            Ok((unsigned(row.try_get("id")?), point))
        })
        .collect()
}

/// Passes every id to `show`, in batches.
pub(super) async fn all_ids(db: &Db, mut show: impl FnMut(u64)) -> Result<()> {
    let mut last = -1_i64;
    loop {
        let rows = sqlx::query("SELECT id FROM shop WHERE id > ? ORDER BY id LIMIT ?")
            .bind(last)
            .bind(SLICE)
            .fetch_all(db.read())
            .await?;
        // Ends with the table: each batch begins after the previous one.
        let Some(newest) = rows.last() else { return Ok(()) };
        last = newest.try_get("id")?;
        for row in &rows {
            show(unsigned(row.try_get("id")?));
        }
    }
}

/// Returns all types, in display order.
pub(super) async fn types(db: &Db) -> Result<Vec<ShopType>> {
    let rows = sqlx::query("SELECT id, name, icon, sort FROM shop_type ORDER BY sort, id LIMIT ?")
        .bind(MAX_TYPES)
        .fetch_all(db.read())
        .await?;
    rows.iter()
        .map(|row| {
            Ok(ShopType {
                id: unsigned(row.try_get("id")?),
                name: row.try_get("name")?,
                icon: row.try_get("icon")?,
                sort: row.try_get("sort")?,
            })
        })
        .collect()
}

/// Returns the owner of a shop.
pub(super) async fn owner(db: &Db, shop: u64) -> Result<Option<u64>> {
    let row = sqlx::query("SELECT owner_id FROM shop WHERE id = ?")
        .bind(id(shop))
        .fetch_optional(db.read())
        .await?;
    row.map(|row| Ok(unsigned(row.try_get("owner_id")?))).transpose()
}

/// Inserts a shop, once per idempotency key. Returns its id.
pub(super) async fn insert(db: &Db, shop: &Shop, key: Option<&IdempotencyKey>) -> Result<u64> {
    let now = shop.create_time;
    let mut tx = db.write().await?;
    let submission = Submission { user: shop.owner_id, kind: Kind::Shop, key };
    if let Noted::Before(first) = submissions::note(tx.query(), submission, shop.id, now).await? {
        return tx.roll_back().await.map(|()| first);
    }
    let insert = sqlx::query(
        "INSERT INTO shop (name, search_name, type_id, images, area, address, x, y, avg_price, \
         open_hours, id, owner_id, sold, comments, score, create_time, update_time) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    );
    bind_changeable(insert, shop)
        .bind(id(shop.id))
        .bind(id(shop.owner_id))
        .bind(shop.sold)
        .bind(shop.comments)
        .bind(shop.score)
        .bind(now)
        .bind(shop.update_time)
        .execute(tx.query())
        .await?;
    tx.commit().await.map(|()| shop.id)
}

/// Binds the fields that a merchant can set, from name to hours.
fn bind_changeable<'q>(
    query: Query<'q, Any, AnyArguments>,
    shop: &Shop,
) -> Query<'q, Any, AnyArguments> {
    query
        .bind(shop.name.as_str())
        .bind(folded(&shop.name))
        .bind(id(shop.type_id))
        .bind(shop.images.as_str())
        .bind(shop.area.as_str())
        .bind(shop.address.as_str())
        .bind(shop.x)
        .bind(shop.y)
        .bind(shop.avg_price)
        .bind(shop.open_hours.as_str())
}

/// Changes a shop. Returns its previous and new state; `None` if there is no such shop. The first
/// statement locks the row, so that two concurrent changes both count.
pub(super) async fn update(
    db: &Db,
    shop: u64,
    now: i64,
    change: impl FnOnce(Shop) -> Result<Shop>,
) -> Result<Option<(Shop, Shop)>> {
    let mut tx = db.write().await?;
    let touched = sqlx::query("UPDATE shop SET update_time = ? WHERE id = ?")
        .bind(now)
        .bind(id(shop))
        .execute(tx.query())
        .await?;
    if touched.rows_affected() == 0 {
        tx.roll_back().await?;
        return Ok(None);
    }
    let row = sqlx::query(shops!("WHERE id = ?")).bind(id(shop)).fetch_one(tx.query()).await?;
    let before = decode(&row)?;
    match change(before.clone()) {
        Ok(after) => {
            write(&mut tx, &after).await?;
            tx.commit().await?;
            Ok(Some((before, after)))
        }
        Err(refused) => {
            tx.roll_back().await?;
            Err(refused)
        }
    }
}

/// Writes the fields that a merchant can change.
async fn write(tx: &mut WriteTx<'_>, shop: &Shop) -> Result<()> {
    let update = sqlx::query(
        "UPDATE shop SET name = ?, search_name = ?, type_id = ?, images = ?, area = ?, address = ?, \
         x = ?, y = ?, avg_price = ?, open_hours = ? WHERE id = ?",
    );
    bind_changeable(update, shop).bind(id(shop.id)).execute(tx.query()).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_stand_for_themselves() {
        assert_eq!(pattern("50%_!"), "%50!%!_!!%");
        assert_eq!(pattern(""), "%%");
    }
}
