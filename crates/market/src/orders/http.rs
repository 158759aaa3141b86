//! Routes for orders of goods. The user always comes from the session.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{Order, Status};
use crate::{
    app::Shared,
    error::Error,
    http::{After, Answer, Envelope, Id, JsonBody, Named, Params, PathId, Refusal, SignedIn},
    zone::rfc3339,
};

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list, place))
        .routes(routes!(read))
        .routes(routes!(pay))
        .routes(routes!(cancel))
        .routes(routes!(refund))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct GoodsOrderView {
    id: Id,
    user_id: Id,
    /// `UNPAID`, `PAID`, `CANCELLED`, `REFUNDING` or `REFUNDED`.
    status: &'static str,
    /// Total in cents.
    total: i64,
    /// Payment deadline, while it is `UNPAID`.
    pay_before: Option<String>,
    pay_time: Option<String>,
    refund_time: Option<String>,
    create_time: String,
    items: Vec<OrderItemView>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct OrderItemView {
    sku_id: Id,
    name: String,
    count: u32,
    /// Unit price in cents.
    price: i64,
}

impl GoodsOrderView {
    fn new(app: &Shared, order: &Order) -> Self {
        let time = |millis: i64| rfc3339(&app.config().zone, millis);
        let is_unpaid = order.status == Status::Unpaid;
        let items = order.items.iter().map(|item| OrderItemView {
            sku_id: Id(item.sku),
            name: item.name.clone(),
            count: item.count,
            price: item.price,
        });
        GoodsOrderView {
            id: Id(order.id),
            user_id: Id(order.user),
            status: order.status.word(),
            total: order.total,
            pay_before: is_unpaid.then(|| time(app.config().paid_before(order.create_time))),
            pay_time: order.pay_time.map(time),
            refund_time: order.refund_time.map(time),
            create_time: time(order.create_time),
            items: items.collect(),
        }
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct PlaceRequest {
    checkout_id: Id,
}

/// Place an order from a quote.
///
/// Returns the id of the order. A request repeated with the same key returns the same id.
#[utoipa::path(post, path = "/order", tag = "orders", security(("token" = [])),
    params(("Idempotency-Key" = String, Header, description = "1 to 64 printable characters")),
    request_body = PlaceRequest,
    responses((status = 200, body = Envelope<Id>),
        (status = 409, description = "SOLD_OUT with the SKU in `data`, CHECKOUT_EXPIRED, \
            CHECKOUT_USED or IDEMPOTENCY_KEY_REUSED with the order in `data`",
            body = Refusal<'static>)))]
async fn place(
    State(app): State<Shared>,
    user: SignedIn,
    Named(key): Named,
    JsonBody(request): JsonBody<PlaceRequest>,
) -> Answer<Id> {
    let key = key
        .ok_or_else(|| Error::bad("NO_IDEMPOTENCY_KEY", "the header Idempotency-Key is needed"))?;
    Ok(Id(app.orders().place(user.id, request.checkout_id.0, &key).await?).into())
}

/// Return your orders, the newest first, ten a page.
#[utoipa::path(get, path = "/order", tag = "orders", security(("token" = [])), params(After),
    responses((status = 200, body = Envelope<Vec<GoodsOrderView>>),
        (status = 404, description = "UNKNOWN_ORDER: `lastId` is not an order of this user",
            body = Refusal<'static>)))]
async fn list(
    State(app): State<Shared>,
    user: SignedIn,
    Params(after): Params<After>,
) -> Answer<Vec<GoodsOrderView>> {
    let orders = app.orders().page(user.id, after.id()).await?;
    Ok(orders.iter().map(|order| GoodsOrderView::new(&app, order)).collect::<Vec<_>>().into())
}

/// Return one of your orders.
#[utoipa::path(get, path = "/order/{id}", tag = "orders", params(("id" = Id, Path)),
    security(("token" = [])), responses((status = 200, body = Envelope<GoodsOrderView>)))]
async fn read(
    State(app): State<Shared>,
    user: SignedIn,
    PathId(id): PathId,
) -> Answer<GoodsOrderView> {
    let order = app.orders().find(user.id, id).await?;
    Ok(GoodsOrderView::new(&app, &order).into())
}

/// Pay for an order.
#[utoipa::path(post, path = "/order/{id}/pay", tag = "orders", params(("id" = Id, Path)),
    security(("token" = [])),
    responses((status = 200, body = Envelope<GoodsOrderView>),
        (status = 409, description = "PAID_LATE (refunded), NOT_UNPAID or \
            PAYMENT_DECLINED", body = Refusal<'static>)))]
async fn pay(
    State(app): State<Shared>,
    user: SignedIn,
    PathId(id): PathId,
) -> Answer<GoodsOrderView> {
    let order = app.orders().pay(user.id, id).await?;
    Ok(GoodsOrderView::new(&app, &order).into())
}

/// Cancel an unpaid order.
#[utoipa::path(post, path = "/order/{id}/cancel", tag = "orders", params(("id" = Id, Path)),
    security(("token" = [])),
    responses((status = 200, body = Envelope<GoodsOrderView>),
        (status = 409, description = "NOT_UNPAID", body = Refusal<'static>)))]
async fn cancel(
    State(app): State<Shared>,
    user: SignedIn,
    PathId(id): PathId,
) -> Answer<GoodsOrderView> {
    let order = app.orders().cancel(user.id, id).await?;
    Ok(GoodsOrderView::new(&app, &order).into())
}

/// Return a paid order and refund the money.
#[utoipa::path(post, path = "/order/{id}/refund", tag = "orders", params(("id" = Id, Path)),
    security(("token" = [])),
    responses((status = 200, body = Envelope<GoodsOrderView>),
        (status = 409, description = "NOT_PAID", body = Refusal<'static>)))]
async fn refund(
    State(app): State<Shared>,
    user: SignedIn,
    PathId(id): PathId,
) -> Answer<GoodsOrderView> {
    let order = app.orders().refund(user.id, id).await?;
    Ok(GoodsOrderView::new(&app, &order).into())
}
