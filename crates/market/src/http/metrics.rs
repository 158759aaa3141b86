//! `/metrics`: what the process counts, for Prometheus.
//!
//! The recorder is one for the process, so it is installed by whoever owns the process
//! ([`install`]); where nobody did, as in tests with several markets in one process, the page says so.

use std::sync::OnceLock;

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::Failure;
use crate::app::Shared;

/// Upper edges of what takes time, in seconds.
const SECONDS: [f64; 12] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0];
/// Names that end so are times.
const SECONDS_SUFFIX: &str = "_seconds";

static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

/// Begins to count, for the rest of the process' life; the first call decides.
pub fn install() {
    let matcher = Matcher::Suffix(SECONDS_SUFFIX.to_owned());
    let builder = PrometheusBuilder::new().set_buckets_for_metric(matcher, &SECONDS);
    match builder.map(PrometheusBuilder::install_recorder) {
        Ok(Ok(handle)) => drop(RECORDER.set(handle)),
        Ok(Err(error)) => tracing::warn!(%error, "somebody else counts already"),
        Err(error) => tracing::warn!(%error, "nothing is counted"),
    }
}

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(read))
}

/// What the process counts, in Prometheus' text format.
#[utoipa::path(get, path = "/metrics", tag = "service",
    responses((status = 200, body = String, content_type = "text/plain")))]
async fn read() -> Response {
    let Some(handle) = RECORDER.get() else {
        let msg = "nothing is counted in this process".to_owned();
        return Failure::Http(StatusCode::NOT_FOUND, "NO_METRICS", msg).into_response();
    };
    handle.run_upkeep();
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, handle.render()).into_response()
}
