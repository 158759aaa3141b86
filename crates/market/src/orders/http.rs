//! Routes of flash-sale orders. The user is always the session's.

use axum::{
    Router,
    extract::State,
    routing::{get, post},
};
use serde::Serialize;

use crate::{
    app::Shared,
    http::{Answer, Id, PathId, SignedIn},
    zone::rfc3339,
};

pub(crate) fn routes() -> Router<Shared> {
    Router::new()
        .route("/voucher-order/seckill/{id}", post(buy))
        .route("/voucher-order/{id}", get(read))
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OrderView {
    id: Id,
    user_id: Id,
    voucher_id: Id,
    status: &'static str,
    create_time: Option<String>,
}

async fn buy(State(app): State<Shared>, user: SignedIn, PathId(voucher): PathId) -> Answer<Id> {
    Ok(Id(app.orders().buy(user.id, voucher).await?).into())
}

async fn read(State(app): State<Shared>, user: SignedIn, PathId(id): PathId) -> Answer<OrderView> {
    let order = app.orders().find(user.id, id).await?;
    let view = OrderView {
        id: Id(order.id),
        user_id: Id(order.user_id),
        voucher_id: Id(order.voucher_id),
        status: order.status.word(),
        create_time: order.create_time.map(|time| rfc3339(&app.config().zone, time)),
    };
    Ok(view.into())
}
