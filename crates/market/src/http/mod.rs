//! The market over HTTP: one router, one response envelope, one API description.
//!
//! Only this folder and the features' own `http.rs` use axum.

mod api;
mod envelope;
mod extract;
mod filters;
mod health;
mod id;
pub mod metrics;
mod page;
mod request_tracker;
pub mod serve;

use axum::{
    Router,
    body::Bytes,
    http::{StatusCode, header},
    middleware,
    routing::get,
};
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;

pub(crate) use self::{
    envelope::{Answer, Envelope, Failure, Nothing, Refusal},
    extract::{
        After, ClientIp, FormBody, JsonBody, MaybeSignedIn, Named, PAGE_ROWS, PageParam, Params,
        PathId, Shown, SignedIn,
    },
    id::Id,
    request_tracker::RequestTracker,
};
use crate::{
    accounts, app::Shared, cart, checkins, feed, follows, home, inventory, notes, orders, pictures,
    sales, shops, stats, uploads, vouchers,
};

/// Returns the router with every route of the service.
pub(crate) fn router(app: Shared) -> Router {
    let (described, api) = described().split_for_parts();
    described
        .merge(description(&api::complete(api)))
        .merge(page::routes())
        .fallback(async || {
            Failure::Http(StatusCode::NOT_FOUND, "NO_SUCH_PATH", "there is nothing here".into())
        })
        .method_not_allowed_fallback(async || {
            let msg = "this path does not take that method".to_owned();
            Failure::Http(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", msg)
        })
        .layer(middleware::from_fn_with_state(app.clone(), filters::every_request))
        .with_state(app)
}

/// Returns the API routes with their descriptions.
fn described() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(api::Description::openapi())
        .merge(accounts::http::routes())
        .merge(checkins::http::routes())
        .merge(stats::http::routes())
        .merge(shops::http::routes())
        .merge(vouchers::http::routes())
        .merge(uploads::http::routes())
        .merge(pictures::http::routes())
        .merge(home::http::routes())
        .merge(sales::http::routes())
        .merge(notes::http::routes())
        .merge(inventory::http::routes())
        .merge(cart::http::routes())
        .merge(follows::http::routes())
        .merge(feed::http::routes())
        .merge(orders::http::routes())
        .merge(health::routes())
        .merge(metrics::routes())
}

/// Serves the description itself, for the page at `/docs` and other programs.
fn description(api: &utoipa::openapi::OpenApi) -> Router<Shared> {
    let text = api.to_json().expect("a description is made of plain values");
    let text = Bytes::from(text);
    let kind = [(header::CONTENT_TYPE, "application/json")];
    Router::new().route("/openapi.json", get(move || async move { (kind, text) }))
}
