//! Routes for shops.

#![expect(unused_qualifications, reason = "the description's macros write paths in full")]

use axum::extract::State;
use jiff::tz::TimeZone;
use seawall::social::Point;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{Draft, PageOf, Shop, ShopType, nearby::Circle};
use crate::{
    app::Shared,
    error::{Error, Result},
    http::{
        Answer, Envelope, Id, JsonBody, Named, Nothing, PAGE_ROWS, PageParam, Params, PathId,
        Refusal, SignedIn,
    },
    zone::rfc3339,
};

/// Default search radius, in metres.
const NEAR_METRES: f64 = 5_000.0;
/// Maximum search radius, in metres.
const MAX_METRES: f64 = 50_000.0;

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(types))
        .routes(routes!(by_name))
        .routes(routes!(of_type))
        .routes(routes!(create))
        .routes(routes!(read, update))
}

fn page_of(page: PageParam) -> Result<PageOf> {
    Ok(PageOf { number: page.number()?, rows: PAGE_ROWS })
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ShopView {
    id: Id,
    owner_id: Id,
    name: String,
    type_id: Id,
    images: String,
    area: String,
    address: String,
    x: f64,
    y: f64,
    avg_price: i64,
    sold: i64,
    comments: i64,
    score: i64,
    open_hours: String,
    create_time: String,
    update_time: String,
    /// Distance in metres from the requested point; only present if a point was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    distance: Option<f64>,
}

impl ShopView {
    fn new(shop: &Shop, zone: &TimeZone) -> Self {
        ShopView {
            id: Id(shop.id),
            owner_id: Id(shop.owner_id),
            name: shop.name.clone(),
            type_id: Id(shop.type_id),
            images: shop.images.clone(),
            area: shop.area.clone(),
            address: shop.address.clone(),
            x: shop.x,
            y: shop.y,
            avg_price: shop.avg_price,
            sold: shop.sold,
            comments: shop.comments,
            score: shop.score,
            open_hours: shop.open_hours.clone(),
            create_time: rfc3339(zone, shop.create_time),
            update_time: rfc3339(zone, shop.update_time),
            distance: None,
        }
    }

    fn list<'a>(shops: impl IntoIterator<Item = &'a Shop>, zone: &TimeZone) -> Vec<Self> {
        shops.into_iter().map(|shop| ShopView::new(shop, zone)).collect()
    }
}

/// Return one shop.
#[utoipa::path(get, path = "/shop/{id}", tag = "shops", params(("id" = Id, Path)),
    responses((status = 200, body = Envelope<ShopView>)))]
async fn read(State(app): State<Shared>, PathId(id): PathId) -> Answer<ShopView> {
    let shop = app.shops().read(id).await?;
    Ok(ShopView::new(&shop, &app.config().zone).into())
}

#[derive(Debug, Serialize, ToSchema)]
struct ShopTypeView {
    id: Id,
    name: String,
    icon: String,
    sort: i64,
}

impl From<&ShopType> for ShopTypeView {
    fn from(kind: &ShopType) -> Self {
        let (name, icon) = (kind.name.clone(), kind.icon.clone());
        ShopTypeView { id: Id(kind.id), name, icon, sort: kind.sort }
    }
}

/// Return all shop types, in display order.
#[utoipa::path(get, path = "/shop-type/list", tag = "shops",
    responses((status = 200, body = Envelope<Vec<ShopTypeView>>)))]
async fn types(State(app): State<Shared>) -> Answer<Vec<ShopTypeView>> {
    let types = app.shops().types().await?;
    Ok(types.iter().map(ShopTypeView::from).collect::<Vec<_>>().into())
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct NameParam {
    /// Part of the name. Default: every shop.
    #[param(max_length = 128, nullable = false)]
    name: Option<String>,
}

/// Search shops by a part of their name.
///
/// `total` is the number of matches on all pages.
#[utoipa::path(get, path = "/shop/of/name", tag = "shops", params(NameParam, PageParam),
    responses((status = 200, body = Envelope<Vec<ShopView>>)))]
async fn by_name(
    State(app): State<Shared>,
    Params(asked): Params<NameParam>,
    Params(page): Params<PageParam>,
) -> Answer<Vec<ShopView>> {
    let name = asked.name.unwrap_or_default();
    let (shops, total) = app.shops().by_name(&name, page_of(page)?).await?;
    Ok(Envelope::page(ShopView::list(&shops, &app.config().zone), total))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
struct NearParam {
    /// Shop type.
    type_id: Id,
    /// Longitude; requires `y`.
    #[param(minimum = -180, maximum = 180, nullable = false)]
    x: Option<f64>,
    /// Latitude; requires `x`.
    #[param(minimum = -85.05, maximum = 85.05, nullable = false)]
    y: Option<f64>,
    /// Radius around the point, in metres. Default: 5,000.
    #[param(minimum = 1, maximum = 50_000, nullable = false)]
    radius: Option<f64>,
}

impl NearParam {
    fn circle(&self) -> Result<Option<Circle>> {
        let metres = self.radius.unwrap_or(NEAR_METRES);
        if !(1.0..=MAX_METRES).contains(&metres) {
            return Err(Error::bad("BAD_RADIUS", "radius is from 1 to 50000 metres"));
        }
        match (self.x, self.y) {
            (None, None) => Ok(None),
            (Some(x), Some(y)) if x.abs() <= 180.0 && y.abs() <= 85.05 => {
                let centre = Point { longitude: x, latitude: y };
                Ok(Some(Circle { centre, metres }))
            }
            _ => {
                let msg = "x and y are degrees, up to 180 and 85.05, both or none";
                Err(Error::bad("BAD_POINT", msg))
            }
        }
    }
}

/// Return shops of a type.
///
/// With a point: the nearest first, within `radius` (5 km by default), with their distance in
/// metres. Without a point: the oldest first. Past the end the list is empty.
#[utoipa::path(get, path = "/shop/of/type", tag = "shops", params(NearParam, PageParam),
    responses((status = 200, body = Envelope<Vec<ShopView>>)))]
async fn of_type(
    State(app): State<Shared>,
    Params(asked): Params<NearParam>,
    Params(page): Params<PageParam>,
) -> Answer<Vec<ShopView>> {
    let (kind, page, zone) = (asked.type_id.0, page_of(page)?, &app.config().zone);
    let Some(circle) = asked.circle()? else {
        let shops = app.shops().of_type(kind, page).await?;
        return Ok(ShopView::list(&shops, zone).into());
    };
    let near = app.shops().nearby(kind, circle, page).await?;
    let views = near.iter().map(|(shop, metres)| {
        // Centimetres are beyond the precision of the map.
        let distance = Some((metres * 10.0).round() / 10.0);
        ShopView { distance, ..ShopView::new(shop, zone) }
    });
    Ok(views.collect::<Vec<_>>().into())
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct NewShop {
    #[schema(min_length = 1, max_length = 128)]
    name: String,
    type_id: Id,
    /// Up to nine paths returned by `POST /upload/image`, separated by commas.
    #[serde(default)]
    #[schema(max_length = 1024)]
    images: String,
    #[serde(default)]
    #[schema(max_length = 128)]
    area: String,
    #[serde(default)]
    #[schema(max_length = 255)]
    address: String,
    /// Longitude.
    #[schema(minimum = -180, maximum = 180)]
    x: f64,
    /// Latitude.
    #[schema(minimum = -85.05, maximum = 85.05)]
    y: f64,
    /// Average price of a visit, in cents.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 100_000_000)]
    avg_price: i64,
    #[serde(default)]
    #[schema(max_length = 32)]
    open_hours: String,
}

/// Add a shop.
///
/// Returns its id. The shop belongs to the caller. Only for merchants and admins. A request
/// repeated with the same key adds one shop.
#[utoipa::path(post, path = "/shop", tag = "shops", request_body = NewShop,
    params(("Idempotency-Key" = Option<String>, Header,
        description = "Names the submission, so that it may be repeated for a day")),
    security(("token" = [])),
    responses((status = 200, body = Envelope<Id>),
        (status = 403, description = "Only merchants add shops.", body = Refusal<'static>)))]
async fn create(
    State(app): State<Shared>,
    user: SignedIn,
    Named(key): Named,
    JsonBody(new): JsonBody<NewShop>,
) -> Answer<Id> {
    user.merchant()?;
    let draft = Draft {
        name: Some(&new.name),
        type_id: Some(new.type_id.0),
        images: Some(&new.images),
        area: Some(&new.area),
        address: Some(&new.address),
        x: Some(new.x),
        y: Some(new.y),
        avg_price: Some(new.avg_price),
        open_hours: Some(&new.open_hours),
    };
    Ok(Id(app.shops().create(&user, draft, key.as_ref()).await?).into())
}

/// Changes of a shop; absent fields are not changed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ShopChange {
    #[schema(min_length = 1, max_length = 128)]
    name: Option<String>,
    type_id: Option<Id>,
    #[schema(max_length = 1024)]
    images: Option<String>,
    #[schema(max_length = 128)]
    area: Option<String>,
    #[schema(max_length = 255)]
    address: Option<String>,
    #[schema(minimum = -180, maximum = 180)]
    x: Option<f64>,
    #[schema(minimum = -85.05, maximum = 85.05)]
    y: Option<f64>,
    #[schema(minimum = 0, maximum = 100_000_000)]
    avg_price: Option<i64>,
    #[schema(max_length = 32)]
    open_hours: Option<String>,
}

/// Change a shop.
///
/// Only for its merchant and admins.
#[utoipa::path(put, path = "/shop/{id}", tag = "shops", params(("id" = Id, Path)),
    request_body = ShopChange, security(("token" = [])),
    responses((status = 200, body = Envelope<Nothing>),
        (status = 403, description = "It is not your shop.", body = Refusal<'static>)))]
async fn update(
    State(app): State<Shared>,
    user: SignedIn,
    PathId(shop): PathId,
    JsonBody(change): JsonBody<ShopChange>,
) -> Answer<Nothing> {
    let draft = Draft {
        name: change.name.as_deref(),
        type_id: change.type_id.map(|kind| kind.0),
        images: change.images.as_deref(),
        area: change.area.as_deref(),
        address: change.address.as_deref(),
        x: change.x,
        y: change.y,
        avg_price: change.avg_price,
        open_hours: change.open_hours.as_deref(),
    };
    app.shops().update(&user, shop, draft).await?;
    Ok(Nothing.into())
}
