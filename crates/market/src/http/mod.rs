//! The market over HTTP: one router, one shape of answer.
//!
//! Only this folder and the features' own `http.rs` know axum.

mod envelope;
mod extract;
mod filters;
mod health;
mod page;
pub mod serve;

use axum::{Router, extract::DefaultBodyLimit, http::StatusCode, middleware};

pub(crate) use self::{
    envelope::{Answer, Failure, Id},
    extract::{ClientIp, FormBody, JsonBody, PathId, Shown, SignedIn},
};
use crate::{accounts, app::Shared, orders, shops, vouchers};

/// Largest body of a request.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// Every route of the service.
pub(crate) fn router(app: Shared) -> Router {
    let visitor = middleware::from_fn_with_state(app.clone(), filters::visitor);
    Router::new()
        .merge(accounts::http::routes())
        .merge(shops::http::routes())
        .merge(vouchers::http::routes())
        .merge(orders::http::routes())
        .merge(health::routes())
        .merge(page::routes())
        .fallback(async || {
            Failure::Http(StatusCode::NOT_FOUND, "NO_SUCH_PATH", "there is nothing here".into())
        })
        .method_not_allowed_fallback(async || {
            let msg = "this path does not take that method".to_owned();
            Failure::Http(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", msg)
        })
        .layer(visitor)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(middleware::from_fn(filters::protect))
        .layer(middleware::from_fn(filters::request))
        .with_state(app)
}
