//! Shops, read through the cache, changed in the database first.
//!
//! Ids that cannot exist stop at the cache's filter. Missing shops are cached as well, briefly, so
//! that made-up ids do not reach the database. When Redis is away the cache continues with its own
//! entries and with the database behind its pipeline.
//!
//! A change is committed, then the cache entry is invalidated (which also announces a new shop to
//! every process's filter and drops a negative entry), then the [map](nearby) follows.

mod draft;
pub(crate) mod http;
pub(crate) mod jobs;
mod nearby;
mod store;

use std::{collections::HashMap, sync::Arc, time::Duration};

use seawall::{
    cache::{Cache, Invalidation, KeyFilter, KeySink, Loaded},
    id::Ids,
};
use serde::{Deserialize, Serialize};

pub(crate) use self::draft::Draft;
use self::nearby::Map;
pub use self::nearby::{Circle, Near};

use crate::{
    accounts::User,
    app::Context,
    check,
    db::Db,
    debts::Debt,
    error::{Error, Result},
    submissions::IdempotencyKey,
};

/// TTL of a cached shop.
const FRESH: Duration = Duration::from_secs(30 * 60);
/// TTL of a negative entry: there is no such shop.
const MISSING: Duration = Duration::from_secs(2 * 60);

/// Initial capacity of the filter, in shops.
const EXPECTED: usize = 10_000;
/// Interval at which the filter is rebuilt, for shops that were not announced.
const REBUILD: Duration = Duration::from_secs(10 * 60);
/// TTL of the shop types: they change with a new version of the data, not by a request.
const TYPES_FRESH: Duration = Duration::from_secs(10 * 60);
/// The only key of the type cache.
const ALL_TYPES: u64 = 0;
/// Maximum length of a search name, in characters.
const MAX_NAME_CHARS: usize = 128;

/// A shop type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShopType {
    /// Id.
    pub id: u64,
    /// Name.
    pub name: String,
    /// Path of a picture.
    pub icon: String,
    /// Position in the list.
    pub sort: i64,
}

/// A shop, as stored in the database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shop {
    /// Id.
    pub id: u64,
    /// Merchant.
    pub owner_id: u64,
    /// Name.
    pub name: String,
    /// Shop type.
    pub type_id: u64,
    /// Paths of pictures, separated by commas.
    pub images: String,
    /// District.
    pub area: String,
    /// Street and number.
    pub address: String,
    /// Longitude.
    pub x: f64,
    /// Latitude.
    pub y: f64,
    /// Average price of a visit, in cents.
    pub avg_price: i64,
    /// Number sold.
    pub sold: i64,
    /// Number of comments.
    pub comments: i64,
    /// Score from 10 to 50, ten times the displayed value.
    pub score: i64,
    /// For example `10:00-22:00`.
    pub open_hours: String,
    /// Milliseconds since the epoch.
    pub create_time: i64,
    /// Milliseconds since the epoch.
    pub update_time: i64,
}

fn unknown() -> Error {
    Error::not_found("UNKNOWN_SHOP", "no such shop")
}

/// Page of a list, and its number of rows.
#[derive(Debug, Clone, Copy)]
pub struct PageOf {
    /// Page number, from 1.
    pub number: u32,
    /// Rows per page.
    pub rows: u32,
}

impl PageOf {
    fn range(self) -> std::ops::Range<usize> {
        let (number, rows) = (self.number as usize, self.rows as usize);
        let start = number.saturating_sub(1).saturating_mul(rows);
        start..start.saturating_add(rows)
    }
}

/// Shops, their cache and their map.
#[derive(Debug)]
pub struct Shops {
    context: Context,
    cache: Cache<u64, Shop>,
    types: Cache<u64, Vec<ShopType>>,
    map: Map,
    ids: Ids,
}

impl Shops {
    pub(crate) fn new(context: &Context) -> Result<Self> {
        let Context { seawall, db, config, .. } = context;
        let source = Arc::clone(db);
        let filter = KeyFilter::new(EXPECTED, move |sink: KeySink<u64>| {
            let db = Arc::clone(&source);
            async move { store::all_ids(&db, |shop| sink.add(&shop)).await }
        });
        let cache = seawall
            .cache("shop")
            .mode(config.shop_cache)
            .ttl(FRESH)
            .negative_ttl(MISSING)
            .filter(filter.rebuild_every(REBUILD))
            .build()?;
        Ok(Shops {
            cache,
            types: seawall.cache("shop-type").ttl(TYPES_FRESH).build()?,
            map: Map::new(seawall, db),
            ids: seawall.ids("shop").build()?,
            context: context.clone(),
        })
    }

    fn db(&self) -> &Arc<Db> {
        &self.context.db
    }

    /// Returns one shop.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such shop.
    pub async fn read(&self, shop: u64) -> Result<Arc<Shop>> {
        let db = Arc::clone(self.db());
        let load = move || async move { store::by_id(&db, shop).await.map(Loaded::from) };
        let read = self.cache.get_or_load(&shop, load).await?;
        read.value.ok_or_else(unknown)
    }

    /// Returns many shops, in the order of `shops`; `None` for those that do not exist.
    async fn read_many(&self, shops: &[u64]) -> Result<Vec<Option<Arc<Shop>>>> {
        let db = Arc::clone(self.db());
        let load = move |ids: Vec<u64>| {
            let db = Arc::clone(&db);
            async move {
                let found = store::by_ids(&db, &ids).await?;
                Ok::<HashMap<u64, Shop>, Error>(
                    found.into_iter().map(|shop| (shop.id, shop)).collect(),
                )
            }
        };
        let reads = self.cache.get_many(shops, load).await;
        reads.into_iter().map(|read| Ok(read?.value)).collect()
    }

    /// Returns all types, in display order.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if neither cache nor database can answer.
    pub async fn types(&self) -> Result<Arc<Vec<ShopType>>> {
        let db = Arc::clone(self.db());
        let load = move || async move { store::types(&db).await.map(Loaded::Found) };
        let read = self.types.get_or_load(&ALL_TYPES, load).await?;
        Ok(read.value.unwrap_or_default())
    }

    async fn is_type(&self, kind: u64) -> Result<bool> {
        Ok(self.types().await?.iter().any(|known| known.id == kind))
    }

    /// Returns shops whose name contains `name`, and their number on all pages; all shops if it is
    /// empty.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a name that no shop can have.
    pub async fn by_name(&self, name: &str, page: PageOf) -> Result<(Vec<Shop>, u64)> {
        let name = check::text("name", name, 0..=MAX_NAME_CHARS)?;
        store::by_name(self.db(), &name, page).await
    }

    /// Returns shops of a type, the oldest first; none past the end.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the database is away.
    pub async fn of_type(&self, kind: u64, page: PageOf) -> Result<Vec<Shop>> {
        store::of_type(self.db(), kind, page).await
    }

    /// Accepts admins and the shop's merchant.
    ///
    /// Reads the current owner from the database.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such shop, [`Error::Forbidden`] for all other users.
    pub async fn may_change(&self, user: &User, shop: u64) -> Result<()> {
        let owner = store::owner(self.db(), shop).await?.ok_or_else(unknown)?;
        owned(user, owner)
    }

    /// Adds a shop. Returns its id, the same for a repeated submission. It belongs to `user`, who
    /// must be a merchant or an admin.
    ///
    /// # Errors
    /// [`Error::BadInput`] for invalid values.
    pub(crate) async fn create(
        &self,
        user: &User,
        draft: Draft<'_>,
        key: Option<&IdempotencyKey>,
    ) -> Result<u64> {
        let change = draft.check(self.types().await?.as_slice())?;
        let id = self.ids.next().await?.as_u64();
        let shop = change.open(id, user.id, self.context.now())?;
        let written = self.cache.write(&id, store::insert(self.db(), &shop, key)).await;
        let (made, told) = written?;
        if made == id {
            self.followed(told, (&shop, None)).await?;
        } else {
            // The process that created it may have died before it told Redis.
            self.context.debts.owe(&[Debt::Shop(made), Debt::Map(shop.type_id)]).await?;
        }
        Ok(made)
    }

    /// Changes the fields of a shop that the draft contains.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Forbidden`] if the shop belongs to another user,
    /// [`Error::BadInput`] for invalid values.
    pub(crate) async fn update(&self, user: &User, shop: u64, draft: Draft<'_>) -> Result<()> {
        self.may_change(user, shop).await?;
        let change = draft.check(self.types().await?.as_slice())?;
        let (db, now) = (self.db(), self.context.now());
        let work = store::update(db, shop, now, |row| {
            owned(user, row.owner_id)?;
            Ok(change.applied(row))
        });
        let (changed, told) = self.cache.write(&shop, work).await?;
        let (before, after) = changed.ok_or_else(unknown)?;
        self.followed(told, (&after, Some(&before))).await
    }

    /// Updates the map with a shop and its previous state; records debts for what Redis did not
    /// apply.
    async fn followed(
        &self,
        told: Invalidation,
        (shop, before): (&Shop, Option<&Shop>),
    ) -> Result<()> {
        let mut debts = self.map.follow(shop, before).await;
        if told == Invalidation::Queued {
            debts.push(Debt::Shop(shop.id));
        }
        self.context.debts.owe(&debts).await
    }

    /// Drops the copy of a shop that missed a change.
    pub(crate) async fn settle(&self, shop: u64) -> Result<Invalidation> {
        Ok(self.cache.invalidate(&shop).await?)
    }

    /// Drops the map of a type that missed a change.
    pub(crate) async fn settle_map(&self, kind: u64) -> Result<()> {
        self.map.forget(kind).await
    }
}

/// Accepts admins, and merchants for their own shops.
fn owned(user: &User, owner: u64) -> Result<()> {
    if user.role == "admin" || (user.role == "merchant" && owner == user.id) {
        return Ok(());
    }
    Err(Error::Forbidden { msg: "only the shop's merchant or an admin may do this" })
}
