//! Routes of flash-sale orders. The user is always the session's.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    app::Shared,
    http::{Answer, Envelope, Id, PathId, Refusal, SignedIn},
    zone::rfc3339,
};

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(buy)).routes(routes!(read))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct OrderView {
    id: Id,
    user_id: Id,
    voucher_id: Id,
    status: &'static str,
    create_time: Option<String>,
}

/// Buy a voucher in a flash sale: the id of the order, which is queued from then on.
#[utoipa::path(post, path = "/voucher-order/seckill/{id}", tag = "vouchers",
    params(("id" = Id, Path, description = "The voucher")), security(("token" = [])),
    responses((status = 200, body = Envelope<Id>),
        (status = 409, description = "NOT_STARTED, ENDED, SOLD_OUT or DUPLICATE_ORDER",
            body = Refusal<'static>)))]
async fn buy(State(app): State<Shared>, user: SignedIn, PathId(voucher): PathId) -> Answer<Id> {
    Ok(Id(app.sales().buy(user.id, voucher).await?).into())
}

/// One of one's own orders.
#[utoipa::path(get, path = "/voucher-order/{id}", tag = "vouchers", params(("id" = Id, Path)),
    security(("token" = [])), responses((status = 200, body = Envelope<OrderView>)))]
async fn read(State(app): State<Shared>, user: SignedIn, PathId(id): PathId) -> Answer<OrderView> {
    let order = app.sales().find(user.id, id).await?;
    let view = OrderView {
        id: Id(order.id),
        user_id: Id(order.user_id),
        voucher_id: Id(order.voucher_id),
        status: order.status.word(),
        create_time: order.create_time.map(|time| rfc3339(&app.config().zone, time)),
    };
    Ok(view.into())
}
