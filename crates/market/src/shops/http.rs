//! Routes of shops.

use axum::extract::State;
use jiff::tz::TimeZone;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::Shop;
use crate::{
    app::Shared,
    http::{Answer, Envelope, Id, PathId},
    zone::rfc3339,
};

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(read))
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
        }
    }
}

/// One shop.
#[utoipa::path(get, path = "/shop/{id}", tag = "shops", params(("id" = Id, Path)),
    responses((status = 200, body = Envelope<ShopView>)))]
async fn read(State(app): State<Shared>, PathId(id): PathId) -> Answer<ShopView> {
    let shop = app.shops().read(id).await?;
    Ok(ShopView::new(&shop, &app.config().zone).into())
}
