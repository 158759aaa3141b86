//! Routes for goods and their stock.

use axum::extract::State;
use jiff::tz::TimeZone;
use seawall::stock::Levels;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{MAX_RECEIPT, ReceiptId, Sku};
use crate::{
    app::Shared,
    error::Error,
    http::{Answer, Envelope, Id, JsonBody, PageParam, Params, PathId, Refusal, SignedIn},
    zone::rfc3339,
};

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(read))
        .routes(routes!(receive))
        .routes(routes!(levels))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct SkuView {
    id: Id,
    name: String,
    /// Price in cents.
    price: i64,
    /// Member price in cents.
    vip_price: i64,
    image: String,
    on_shelf: bool,
    create_time: String,
    update_time: String,
}

impl SkuView {
    fn new(sku: &Sku, zone: &TimeZone) -> Self {
        SkuView {
            id: Id(sku.id),
            name: sku.name.clone(),
            price: sku.price,
            vip_price: sku.vip_price,
            image: sku.image.clone(),
            on_shelf: sku.on_shelf,
            create_time: rfc3339(zone, sku.create_time),
            update_time: rfc3339(zone, sku.update_time),
        }
    }
}

/// Return the SKUs on the shelf, ten a page.
#[utoipa::path(get, path = "/sku", tag = "goods", params(PageParam),
    responses((status = 200, body = Envelope<Vec<SkuView>>)))]
async fn list(State(app): State<Shared>, Params(page): Params<PageParam>) -> Answer<Vec<SkuView>> {
    let (skus, total) = app.goods().on_shelf(page.number()?).await?;
    let zone = &app.config().zone;
    Ok(Envelope::page(skus.iter().map(|sku| SkuView::new(sku, zone)).collect(), total))
}

/// Return one SKU, on the shelf or not.
#[utoipa::path(get, path = "/sku/{id}", tag = "goods", params(("id" = Id, Path)),
    responses((status = 200, body = Envelope<SkuView>)))]
async fn read(State(app): State<Shared>, PathId(id): PathId) -> Answer<SkuView> {
    let sku = app.goods().read(id).await?;
    Ok(SkuView::new(&sku, &app.config().zone).into())
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ReceiptRequest {
    /// Identifies the delivery: it is received once.
    #[schema(pattern = "^[A-Za-z0-9._-]{1,48}$", example = "delivery-2026-17")]
    receipt_id: String,
    sku_id: Id,
    #[schema(minimum = 1, maximum = 1_000_000)]
    count: u32,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ReceiptView {
    /// `true` if it was received by this request; `false` if it was received before.
    is_new: bool,
}

/// Receive a delivery.
///
/// Only for merchants and admins.
#[utoipa::path(post, path = "/inventory/receipt", tag = "goods", request_body = ReceiptRequest,
    security(("token" = [])),
    responses((status = 200, body = Envelope<ReceiptView>),
        (status = 403, description = "FORBIDDEN", body = Refusal<'static>),
        (status = 404, description = "UNKNOWN_SKU", body = Refusal<'static>),
        (status = 409, description = "RECEIPT_DIFFERS", body = Refusal<'static>)))]
async fn receive(
    State(app): State<Shared>,
    user: SignedIn,
    JsonBody(request): JsonBody<ReceiptRequest>,
) -> Answer<ReceiptView> {
    user.merchant()?;
    let receipt = ReceiptId::parse(&request.receipt_id)?;
    if !(1..=MAX_RECEIPT).contains(&request.count) {
        return Err(Error::bad("BAD_COUNT", "count is 1 to 1000000").into());
    }
    let done = app.goods().receive(&receipt, request.sku_id.0, request.count).await?;
    Ok(ReceiptView { is_new: done.is_new }.into())
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct LevelsView {
    sku_id: Id,
    /// Units on hand in the database.
    num: i64,
    /// Sum of all shards.
    total: ShardView,
    /// One entry per shard; `null` if a shard does not answer.
    shards: Vec<Option<ShardView>>,
}

#[derive(Debug, Serialize, ToSchema)]
struct ShardView {
    received: u64,
    held: u64,
    sold: u64,
    left: u64,
}

impl From<Levels> for ShardView {
    fn from(levels: Levels) -> Self {
        let Levels { received, held, sold, left } = levels;
        ShardView { received, held, sold, left }
    }
}

/// Return the stock of a SKU, in the database and per shard.
#[utoipa::path(get, path = "/inventory/{skuId}", tag = "goods", params(("skuId" = Id, Path)),
    responses((status = 200, body = Envelope<LevelsView>)))]
async fn levels(State(app): State<Shared>, PathId(sku): PathId) -> Answer<LevelsView> {
    let levels = app.goods().levels(sku).await?;
    let view = LevelsView {
        sku_id: Id(sku),
        num: levels.num,
        total: levels.audit.total().into(),
        shards: levels.audit.shards.iter().map(|shard| shard.map(ShardView::from)).collect(),
    };
    Ok(view.into())
}
