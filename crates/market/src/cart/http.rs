//! Routes for carts. The user always comes from the session, prices from the database.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{Line, MAX_COUNT, checkout::Quoted};
use crate::{
    app::Shared,
    error::{Error, Result},
    http::{Answer, Envelope, Id, JsonBody, Named, Nothing, PathId, Refusal, SignedIn},
    zone::rfc3339,
};

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(read, add))
        .routes(routes!(change, remove))
        .routes(routes!(check_out))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct LineView {
    sku_id: Id,
    name: String,
    image: String,
    count: u32,
    selected: bool,
    /// Current price in cents.
    price: i64,
    /// Price in cents when the item was added.
    add_price: i64,
    /// Whether the item can be bought.
    on_shelf: bool,
    add_time: String,
}

impl LineView {
    fn new(app: &Shared, line: &Line) -> Self {
        let (item, sku) = (&line.item, line.sku.as_deref());
        LineView {
            sku_id: Id(item.sku),
            name: sku.map_or_else(String::new, |sku| sku.name.clone()),
            image: sku.map_or_else(String::new, |sku| sku.image.clone()),
            count: item.count,
            selected: item.selected,
            price: sku.map_or(item.add_price, |sku| sku.price),
            add_price: item.add_price,
            on_shelf: sku.is_some_and(|sku| sku.on_shelf),
            add_time: rfc3339(&app.config().zone, item.added),
        }
    }
}

/// Return your cart, the newest item first.
#[utoipa::path(get, path = "/cart", tag = "cart", security(("token" = [])),
    responses((status = 200, body = Envelope<Vec<LineView>>)))]
async fn read(State(app): State<Shared>, user: SignedIn) -> Answer<Vec<LineView>> {
    let lines = app.carts().read(user.id).await?;
    Ok(lines.iter().map(|line| LineView::new(&app, line)).collect::<Vec<_>>().into())
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct AddRequest {
    sku_id: Id,
    #[schema(minimum = 1, maximum = 999)]
    count: u32,
}

/// Add units of a SKU to the cart.
///
/// The units are added to those already in the cart. A request repeated with the same key adds them
/// once.
#[utoipa::path(post, path = "/cart", tag = "cart", security(("token" = [])),
    params(("Idempotency-Key" = Option<String>, Header,
        description = "Names the submission, so that it may be repeated for a day")),
    request_body = AddRequest,
    responses((status = 200, body = Envelope<Nothing>),
        (status = 404, description = "UNKNOWN_SKU", body = Refusal<'static>),
        (status = 409, description = "OFF_SHELF, CART_FULL or TOO_MANY_UNITS",
            body = Refusal<'static>)))]
async fn add(
    State(app): State<Shared>,
    user: SignedIn,
    Named(key): Named,
    JsonBody(request): JsonBody<AddRequest>,
) -> Answer<Nothing> {
    if request.count == 0 {
        return Err(bad_count().into());
    }
    app.carts().add(user.id, request.sku_id.0, counted(request.count)?, key).await?;
    Ok(Nothing.into())
}

#[derive(Debug, Deserialize, ToSchema)]
struct CartChange {
    /// New number of units; 0 removes the item.
    #[schema(minimum = 0, maximum = 999)]
    count: Option<u32>,
    /// Whether the item is selected for checkout.
    selected: Option<bool>,
}

/// Change the count of an item, or whether it is selected.
#[utoipa::path(put, path = "/cart/{skuId}", tag = "cart", params(("skuId" = Id, Path)),
    security(("token" = [])), request_body = CartChange,
    responses((status = 200, body = Envelope<Nothing>)))]
async fn change(
    State(app): State<Shared>,
    user: SignedIn,
    PathId(sku): PathId,
    JsonBody(request): JsonBody<CartChange>,
) -> Answer<Nothing> {
    if request.count.is_none() && request.selected.is_none() {
        return Err(Error::bad("NOTHING_TO_CHANGE", "count or selected is needed").into());
    }
    let count = request.count.map(counted).transpose()?;
    app.carts().set(user.id, sku, count, request.selected).await?;
    Ok(Nothing.into())
}

/// Remove an item from the cart.
#[utoipa::path(delete, path = "/cart/{skuId}", tag = "cart", params(("skuId" = Id, Path)),
    security(("token" = [])), responses((status = 200, body = Envelope<Nothing>)))]
async fn remove(State(app): State<Shared>, user: SignedIn, PathId(sku): PathId) -> Answer<Nothing> {
    app.carts().remove(user.id, sku).await?;
    Ok(Nothing.into())
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct CheckoutView {
    checkout_id: Id,
    items: Vec<QuotedView>,
    /// Total in cents.
    total: i64,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct QuotedView {
    sku_id: Id,
    name: String,
    count: u32,
    /// Unit price in cents.
    price: i64,
}

impl From<Quoted> for QuotedView {
    fn from(quoted: Quoted) -> Self {
        let Quoted { sku, name, count, price, .. } = quoted;
        QuotedView { sku_id: Id(sku), name, count, price }
    }
}

/// Quote the selected items at current prices.
///
/// The quote is valid for 15 minutes.
#[utoipa::path(post, path = "/cart/checkout", tag = "cart", security(("token" = [])),
    responses((status = 200, body = Envelope<CheckoutView>),
        (status = 409, description = "NOTHING_SELECTED, or OFF_SHELF with the SKU in `data`",
            body = Refusal<'static>)))]
async fn check_out(State(app): State<Shared>, user: SignedIn) -> Answer<CheckoutView> {
    let checkout = app.carts().check_out(user.id).await?;
    let items = checkout.items.into_iter().map(QuotedView::from).collect();
    Ok(CheckoutView { checkout_id: Id(checkout.id), items, total: checkout.total }.into())
}

fn counted(count: u32) -> Result<u32> {
    if count > MAX_COUNT { Err(bad_count()) } else { Ok(count) }
}

fn bad_count() -> Error {
    Error::bad("BAD_COUNT", "count is a whole number up to 999")
}
