//! Routes for flash-sale orders. The user always comes from the session.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{Order, Status};
use crate::{
    app::Shared,
    config::Config,
    http::{After, Answer, Envelope, Id, PAGE_ROWS, Params, PathId, Refusal, SignedIn},
    zone::rfc3339,
};

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(buy))
        .routes(routes!(list))
        .routes(routes!(read))
        .routes(routes!(pay))
        .routes(routes!(cancel))
        .routes(routes!(refund))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct OrderView {
    id: Id,
    user_id: Id,
    voucher_id: Id,
    /// QUEUED, UNPAID, PAID, USED, CANCELLED, REFUNDING, REFUNDED or FAILED.
    status: &'static str,
    create_time: String,
    /// Payment deadline, while it is UNPAID.
    pay_before: Option<String>,
    pay_time: Option<String>,
    use_time: Option<String>,
    /// Time of the refund, also of a payment that came too late.
    refund_time: Option<String>,
}

impl OrderView {
    fn new(order: &Order, config: &Config) -> Self {
        let text = |time| rfc3339(&config.zone, time);
        let is_unpaid = order.status == Status::Unpaid;
        OrderView {
            id: Id(order.id),
            user_id: Id(order.user_id),
            voucher_id: Id(order.voucher_id),
            status: order.status.word(),
            create_time: text(order.create_time),
            pay_before: is_unpaid.then(|| text(config.paid_before(order.create_time))),
            pay_time: order.pay_time.map(text),
            use_time: order.use_time.map(text),
            refund_time: order.refund_time.map(text),
        }
    }
}

/// Buy a voucher in a flash sale.
///
/// Returns the id of the order, which is then queued.
#[utoipa::path(post, path = "/voucher-order/seckill/{id}", tag = "vouchers",
    params(("id" = Id, Path, description = "The voucher")), security(("token" = [])),
    responses((status = 200, body = Envelope<Id>),
        (status = 202, description = "ORDER_UNDECIDED: the answer of Redis was lost. The order with the id \
            in `data` exists, will or will not", body = Refusal<'static>),
        (status = 409, description = "NOT_STARTED, ENDED, SOLD_OUT or DUPLICATE_ORDER",
            body = Refusal<'static>)))]
async fn buy(State(app): State<Shared>, user: SignedIn, PathId(voucher): PathId) -> Answer<Id> {
    Ok(Id(app.sales().buy(user.id, voucher).await?).into())
}

/// Return your orders, the newest first.
#[utoipa::path(get, path = "/voucher-order", tag = "vouchers", params(After),
    security(("token" = [])), responses((status = 200, body = Envelope<Vec<OrderView>>),
        (status = 404, description = "UNKNOWN_ORDER: `lastId` is not an order of this user",
            body = Refusal<'static>)))]
async fn list(
    State(app): State<Shared>,
    user: SignedIn,
    Params(after): Params<After>,
) -> Answer<Vec<OrderView>> {
    let orders = app.sales().list(user.id, after.id(), PAGE_ROWS).await?;
    let config = app.config();
    Ok(orders.iter().map(|order| OrderView::new(order, config)).collect::<Vec<_>>().into())
}

/// Return one of your orders.
#[utoipa::path(get, path = "/voucher-order/{id}", tag = "vouchers", params(("id" = Id, Path)),
    security(("token" = [])), responses((status = 200, body = Envelope<OrderView>)))]
async fn read(State(app): State<Shared>, user: SignedIn, PathId(id): PathId) -> Answer<OrderView> {
    let order = app.sales().find(user.id, id).await?;
    Ok(OrderView::new(&order, app.config()).into())
}

/// Pay for an order.
///
/// A payment that arrives after the order has ended is refunded.
#[utoipa::path(post, path = "/voucher-order/{id}/pay", tag = "vouchers",
    params(("id" = Id, Path)), security(("token" = [])),
    responses((status = 200, body = Envelope<OrderView>),
        (status = 409, description = "ORDER_QUEUED, PAID_LATE, PAYMENT_DECLINED or NOT_UNPAID",
            body = Refusal<'static>)))]
async fn pay(State(app): State<Shared>, user: SignedIn, PathId(id): PathId) -> Answer<OrderView> {
    let order = app.sales().pay(user.id, id).await?;
    Ok(OrderView::new(&order, app.config()).into())
}

/// Cancel an unpaid order.
///
/// The voucher can be bought again afterwards.
#[utoipa::path(post, path = "/voucher-order/{id}/cancel", tag = "vouchers",
    params(("id" = Id, Path)), security(("token" = [])),
    responses((status = 200, body = Envelope<OrderView>),
        (status = 409, description = "ORDER_QUEUED or NOT_UNPAID", body = Refusal<'static>)))]
async fn cancel(
    State(app): State<Shared>,
    user: SignedIn,
    PathId(id): PathId,
) -> Answer<OrderView> {
    let order = app.sales().cancel(user.id, id).await?;
    Ok(OrderView::new(&order, app.config()).into())
}

/// Request a refund of a paid order.
///
/// The order is REFUNDING until the money is refunded.
#[utoipa::path(post, path = "/voucher-order/{id}/refund", tag = "vouchers",
    params(("id" = Id, Path)), security(("token" = [])),
    responses((status = 200, body = Envelope<OrderView>),
        (status = 409, description = "ORDER_QUEUED or NOT_PAID", body = Refusal<'static>)))]
async fn refund(
    State(app): State<Shared>,
    user: SignedIn,
    PathId(id): PathId,
) -> Answer<OrderView> {
    let order = app.sales().refund(user.id, id).await?;
    Ok(OrderView::new(&order, app.config()).into())
}
