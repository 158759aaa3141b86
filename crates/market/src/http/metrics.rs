//! `/metrics`: the metrics of the process, for Prometheus.
//!
//! There is one recorder per process, so the owner of the process installs it ([`install`]). If it
//! is not installed, as in tests with several markets in one process, the endpoint says so.
//!
//! Measurements wait in memory until they are sorted into buckets. A [task](start) does that even
//! if the endpoint is never called.

use std::{sync::OnceLock, time::Duration};

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use metrics::{Counter, Histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use seawall::{Seawall, observe::MetricKind};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::Failure;
use crate::{app::Shared, jobs::Jobs, metrics::METRICS};

/// Interval at which measurements are sorted into buckets.
const UPKEEP: Duration = Duration::from_secs(5);
/// Status classes, by first digit.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

/// Installs the recorder for the lifetime of the process; only the first call has an effect.
pub fn install() {
    let all = || seawall::observe::metrics().chain(METRICS);
    let builder = all().try_fold(PrometheusBuilder::new(), |builder, metric| match metric.kind {
        MetricKind::Histogram(buckets) => {
            builder.set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), buckets)
        }
        _ => Ok(builder),
    });
    match builder.map(PrometheusBuilder::install_recorder) {
        Ok(Ok(handle)) => {
            drop(RECORDER.set(handle));
            seawall::observe::describe(all());
        }
        Ok(Err(error)) => tracing::warn!(%error, "another metrics recorder is installed"),
        Err(error) => tracing::warn!(%error, "nothing is counted"),
    }
}

/// Starts the task that keeps measurements from accumulating.
pub(crate) fn start(jobs: &mut Jobs, seawall: &Seawall) {
    let clock = seawall.clock().clone();
    jobs.spawn("metrics", |mut stop| async move {
        while !stop.is_asked() {
            if let Some(handle) = RECORDER.get() {
                handle.run_upkeep();
            }
            tokio::select! {
                () = stop.asked() => {}
                () = clock.sleep(UPKEEP) => {}
            }
        }
    });
}

/// Counts requests: `market_requests_total` by status class, and `market_request_seconds`. The
/// handles are looked up once, because every request uses them.
#[derive(Debug)]
pub(crate) struct Requests {
    by_class: [Counter; CLASSES.len()],
    seconds: Histogram,
}

impl Requests {
    pub(crate) fn new() -> Self {
        let counter = |class| metrics::counter!("market_requests_total", "status" => class);
        let seconds = metrics::histogram!("market_request_seconds");
        Requests { by_class: CLASSES.map(counter), seconds }
    }

    pub(super) fn note(&self, status: StatusCode, elapsed: Duration) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        if let Some(counter) = self.by_class.get(class) {
            counter.increment(1);
        }
        self.seconds.record(elapsed);
    }
}

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(read))
}

/// Return the process metrics in the Prometheus text format.
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
