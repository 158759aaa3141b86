//! Nearby shops: one geo set per shop type, beside the database.
//!
//! The set is a copy. If Redis does not have it, the toolkit reads it from the database, so a Redis
//! that came back empty answers correctly at once. A [job](super::jobs) that compares the two finds
//! changes that did not reach the set. A member whose shop is gone, or has another type by now, is
//! skipped and removed; the database is asked first, because a cache may be outdated.
//!
//! When Redis is away the database answers: it selects a box of degrees around the point, and
//! distances are computed here with the same formula and earth radius as in Redis. It considers at
//! most [`MAX_LOOKED_AT`] shops.

use std::sync::Arc;

use seawall::{
    Seawall,
    social::{Places, PlacesIn, Point},
};

use super::{PageOf, Shop, Shops, store};
use crate::{
    db::Db,
    debts::Debt,
    error::{Error, Result},
};

/// Earth radius used by Redis, in metres.
const EARTH: f64 = 6_372_797.560_856;
/// Maximum number of nearest shops that pages can reach.
const REACH: usize = 1_000;
/// Maximum rows considered when the database answers.
pub(super) const MAX_LOOKED_AT: i64 = 5_000;

/// A shop, and its distance in metres.
pub type Near = (Arc<Shop>, f64);

/// A circle on the map.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Circle {
    /// Centre.
    pub centre: Point,
    /// Radius in metres.
    pub metres: f64,
}

/// Locations of shops, by type.
#[derive(Debug)]
pub(super) struct Map {
    db: Arc<Db>,
    places: Places<u64>,
}

impl Map {
    pub(super) fn new(seawall: &Seawall, db: &Arc<Db>) -> Self {
        Map { db: Arc::clone(db), places: seawall.places("shop") }
    }

    fn kind(&self, kind: u64) -> Result<PlacesIn<u64>> {
        let db = Arc::clone(&self.db);
        let load = move || {
            let db = Arc::clone(&db);
            async move { store::points(&db, kind).await }
        };
        Ok(self.places.kind(&kind)?.source(load))
    }

    /// Updates the location of a shop from the database. Returns debts for the maps that could not
    /// be updated.
    pub(super) async fn follow(&self, shop: &Shop, before: Option<&Shop>) -> Vec<Debt> {
        let Err(error) = self.try_follow(shop, before).await else { return Vec::new() };
        tracing::warn!(shop = shop.id, %error, "the map does not follow a shop yet");
        std::iter::once(shop).chain(before).map(|shop| Debt::Map(shop.type_id)).collect()
    }

    /// Deletes the map of a type: it is rebuilt from the database on the next read.
    pub(super) async fn forget(&self, kind: u64) -> Result<()> {
        Ok(self.kind(kind)?.forget().await?)
    }

    async fn try_follow(&self, shop: &Shop, before: Option<&Shop>) -> Result<()> {
        let point = Point { longitude: shop.x, latitude: shop.y };
        self.kind(shop.type_id)?.add(&[(shop.id, point)]).await?;
        if let Some(before) = before.filter(|before| before.type_id != shop.type_id) {
            self.kind(before.type_id)?.remove(&[shop.id]).await?;
        }
        Ok(())
    }

    /// Compares one type with the database and rebuilds its map if they differ.
    pub(super) async fn compare(&self, kind: u64) -> Result<()> {
        let places = self.kind(kind)?;
        let audit = places.audit().await?;
        if !audit.is_right() {
            let (missing, surplus, moved) =
                (audit.missing.len(), audit.surplus.len(), audit.moved.len());
            tracing::warn!(kind, missing, surplus, moved, "the map was repaired");
        }
        Ok(())
    }
}

impl Shops {
    /// Returns shops of a type in a circle, the nearest first; none past the end.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the database is away.
    pub async fn nearby(&self, kind: u64, circle: Circle, page: PageOf) -> Result<Vec<Near>> {
        let range = page.range();
        // A made-up type would leave a key behind.
        if range.end > REACH || !self.is_type(kind).await? {
            return Ok(Vec::new());
        }
        match self.on_map(kind, circle, range.clone()).await {
            Err(Error::Unavailable { what, cause }) => {
                tracing::debug!(what, cause, "the database answers what is near");
                self.by_database(kind, circle, range).await
            }
            answer => answer,
        }
    }

    async fn on_map(
        &self,
        kind: u64,
        circle: Circle,
        range: std::ops::Range<usize>,
    ) -> Result<Vec<Near>> {
        let places = self.map.kind(kind)?;
        let near = places.nearby(circle.centre, circle.metres, range).await?;
        let resolved = near.resolve(|ids| self.of_kind(kind, ids)).await?;
        if !resolved.dangling.is_empty() {
            let dangling = &resolved.dangling;
            tracing::info!(kind, ?dangling, "shops that are gone are taken off the map");
            // On failure the next reader does it again.
            let _ = places.remove(dangling).await;
        }
        Ok(resolved.found)
    }

    /// Returns those of these shops that have this type, from the cache, otherwise from the
    /// database.
    async fn of_kind(&self, kind: u64, ids: Vec<u64>) -> Result<Vec<Option<Arc<Shop>>>> {
        let is_here = |shop: &Arc<Shop>| shop.type_id == kind;
        let mut shops: Vec<_> =
            self.read_many(&ids).await?.into_iter().map(|shop| shop.filter(is_here)).collect();
        let doubtful: Vec<u64> =
            ids.iter().zip(&shops).filter(|(_, shop)| shop.is_none()).map(|(id, _)| *id).collect();
        if doubtful.is_empty() {
            return Ok(shops);
        }
        let known = store::by_ids(self.db(), &doubtful).await?;
        for (id, shop) in ids.iter().zip(&mut shops).filter(|(_, shop)| shop.is_none()) {
            let found = known.iter().find(|known| known.id == *id);
            *shop = found.cloned().map(Arc::new).filter(is_here);
        }
        Ok(shops)
    }

    async fn by_database(
        &self,
        kind: u64,
        circle: Circle,
        range: std::ops::Range<usize>,
    ) -> Result<Vec<Near>> {
        let rows = store::in_box(self.db(), kind, surround(circle)).await?;
        let mut near: Vec<Near> = rows
            .into_iter()
            .map(|shop| {
                let there = Point { longitude: shop.x, latitude: shop.y };
                (Arc::new(shop), distance(circle.centre, there))
            })
            .filter(|(_, metres)| *metres <= circle.metres)
            .collect();
        near.sort_by(|one, other| one.1.total_cmp(&other.1));
        Ok(near.into_iter().skip(range.start).take(range.len()).collect())
    }

    /// Compares the map with the database, one type after the other.
    pub(super) async fn compare_map(&self) -> Result<()> {
        for kind in store::types(self.db()).await? {
            self.map.compare(kind.id).await?;
        }
        Ok(())
    }
}

/// Returns a box of degrees that contains the whole circle: smallest and largest point.
fn surround(circle: Circle) -> [Point; 2] {
    let Point { longitude, latitude } = circle.centre;
    let north = (circle.metres / EARTH).to_degrees();
    // Degrees of longitude get shorter towards the poles; the box is as wide as needed at the
    // circle's latitude nearest to a pole.
    let narrowest = (latitude.abs() + north).min(89.0).to_radians().cos();
    let east = north / narrowest;
    [
        Point { longitude: longitude - east, latitude: latitude - north },
        Point { longitude: longitude + east, latitude: latitude + north },
    ]
}

/// Returns the distance of two points in metres, with the earth radius of Redis.
fn distance(one: Point, other: Point) -> f64 {
    let half = |a: f64, b: f64| ((b - a).to_radians() / 2.0).sin().powi(2);
    let along = half(one.latitude, other.latitude);
    let across = half(one.longitude, other.longitude);
    let (low, high) = (one.latitude.to_radians().cos(), other.latitude.to_radians().cos());
    2.0 * EARTH * (along + low * high * across).sqrt().min(1.0).asin()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_the_documents() {
        let at = |longitude, latitude| Point { longitude, latitude };
        let (west, main) = (at(116.322287, 39.893729), at(116.42803, 39.903738));
        // The map rounds points to its cells, which accounts for a few centimetres.
        assert!((distance(west, main) - 9091.5648).abs() < 1.0);
        assert_eq!(distance(main, main), 0.0);
        let [least, most] = surround(Circle { centre: main, metres: 9_500.0 });
        assert!((least.longitude..most.longitude).contains(&west.longitude));
        assert!((least.latitude..most.latitude).contains(&west.latitude));
    }
}
