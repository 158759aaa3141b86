//! Health checks.
//!
//! `/healthz` reports that the process serves requests. `/readyz` reports that it can do its work:
//! both stores answer and it is not shutting down. Load balancers use the latter.

use std::time::Duration;

use axum::{extract::State, http::StatusCode};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{Answer, Envelope, Failure};
use crate::app::Shared;

/// Time limit for the stores to answer.
const LIMIT: Duration = Duration::from_secs(2);

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(healthz)).routes(routes!(readyz))
}

#[derive(Debug, Serialize, ToSchema)]
struct Health {
    status: &'static str,
    version: &'static str,
}

/// Check that the process serves requests.
#[utoipa::path(get, path = "/healthz", tag = "service",
    responses((status = 200, body = Envelope<Health>)))]
async fn healthz() -> Answer<Health> {
    Ok(Health { status: "up", version: env!("CARGO_PKG_VERSION") }.into())
}

/// Check that the process is ready.
///
/// Ready means that both stores answer and the process is not shutting down.
#[utoipa::path(get, path = "/readyz", tag = "service",
    responses((status = 200, body = Envelope<Health>)))]
async fn readyz(State(app): State<Shared>) -> Answer<Health> {
    let not_ready = |what: &str| {
        Failure::Http(
            StatusCode::SERVICE_UNAVAILABLE,
            "NOT_READY",
            format!("{what} does not answer"),
        )
    };
    if app.is_draining() {
        let msg = "the process is ending".to_owned();
        return Err(Failure::Http(StatusCode::SERVICE_UNAVAILABLE, "DRAINING", msg));
    }
    let answers = async |check: &mut (dyn Future<Output = bool> + Send + Unpin)| {
        tokio::time::timeout(LIMIT, check).await.unwrap_or(false)
    };
    let mut redis = Box::pin(app.redis_answers());
    let mut database = Box::pin(app.database_answers());
    let (redis, database) = tokio::join!(answers(&mut redis), answers(&mut database));
    match (redis, database) {
        (true, true) => Ok(Health { status: "ready", version: env!("CARGO_PKG_VERSION") }.into()),
        (false, _) => Err(not_ready("Redis")),
        (true, false) => Err(not_ready("the database")),
    }
}
