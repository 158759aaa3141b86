//! Tests the layers on a service that must be polled ready before each call.

use std::{convert::Infallible, future::poll_fn};

use futures_util::poll;
use http::Request;

use super::*;
use crate::{
    Breaker, BreakerState, Bulkhead, ShedReason,
    clock::{Clock, ManualTime},
};

const SECOND: Duration = Duration::from_secs(1);

/// Panics if it is called without having been polled ready; a clone is not ready.
struct Strict {
    ready: bool,
    status: StatusCode,
    hang: bool,
}

impl Strict {
    fn new(status: StatusCode) -> Self {
        Self { ready: false, status, hang: false }
    }
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self { ready: false, ..*self }
    }
}

impl Service<Request<String>> for Strict {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = BoxFuture<Response<String>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<String>) -> Self::Future {
        assert!(mem::take(&mut self.ready), "called without poll_ready");
        let (status, hang) = (self.status, self.hang);
        Box::pin(async move {
            if hang {
                std::future::pending::<()>().await;
            }
            let mut response = Response::new(request.into_body());
            *response.status_mut() = status;
            Ok(response)
        })
    }
}

async fn ask<S: Service<Request<String>>>(service: &mut S) -> S::Future {
    assert!(poll_fn(|cx| service.poll_ready(cx)).await.is_ok());
    service.call(Request::new("hello".into()))
}

fn pipeline() -> (ResiliencePipeline, Breaker, Bulkhead, ManualTime) {
    let (clock, time) = Clock::manual();
    let breaker = Breaker::builder("test").clock(clock.clone()).build().unwrap();
    let bulkhead = Bulkhead::builder("test", 1).max_queue(0).clock(clock.clone()).build().unwrap();
    let pipeline = ResiliencePipeline::builder("test")
        .breaker(breaker.clone())
        .bulkhead(bulkhead.clone())
        .clock(clock)
        .build()
        .unwrap();
    (pipeline, breaker, bulkhead, time)
}

fn answer(refused: Refused) -> Response<String> {
    let mut response = Response::new(String::new());
    *response.status_mut() = match refused {
        Refused::Shed(_) => StatusCode::SERVICE_UNAVAILABLE,
        Refused::DeadlineExceeded { .. } => StatusCode::GATEWAY_TIMEOUT,
    };
    response
}

#[tokio::test]
async fn fails_with_a_typed_error() {
    let (pipeline, _, bulkhead, time) = pipeline();
    let mut service = GuardLayer::new(pipeline, SECOND).layer(Strict::new(StatusCode::OK));
    for _ in 0..3 {
        assert_eq!(ask(&mut service).await.await.unwrap().body(), "hello");
    }
    service.inner.hang = true;
    let mut hanging = ask(&mut service).await;
    assert!(poll!(&mut hanging).is_pending());
    let refused = ask(&mut service).await.await.unwrap_err();
    assert_eq!(refused.shed().unwrap().reason, ShedReason::Concurrency);
    time.advance(SECOND);
    assert!(matches!(hanging.await, Err(CallError::DeadlineExceeded { ran: SECOND })));
    assert_eq!(bulkhead.in_flight(), 0);
}

#[tokio::test]
async fn answers_instead_when_told_how() {
    let (pipeline, breaker, _, time) = pipeline();
    let layer = GuardLayer::new(pipeline, SECOND).judge(ByStatus).respond(answer);
    let mut service = layer.layer(Strict::new(StatusCode::BAD_GATEWAY));
    for _ in 0..3 {
        let response = ask(&mut service).await.await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_GATEWAY, "passed on as it is");
    }
    assert_eq!(breaker.state(), BreakerState::Open);
    let response = ask(&mut service).await.await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);

    let mut service = layer.layer(Strict::new(StatusCode::OK));
    time.advance(SECOND);
    assert_eq!(ask(&mut service).await.await.unwrap().status(), StatusCode::OK);
    assert_eq!(breaker.state(), BreakerState::Closed);
    service.guarded.inner.hang = true;
    let mut hanging = ask(&mut service).await;
    assert!(poll!(&mut hanging).is_pending());
    time.advance(SECOND);
    assert_eq!(hanging.await.unwrap().status(), StatusCode::GATEWAY_TIMEOUT);
}

#[tokio::test]
async fn a_dropped_request_gives_its_slot_back() {
    let (pipeline, _, bulkhead, _) = pipeline();
    let mut service = GuardLayer::new(pipeline, SECOND).layer(Strict::new(StatusCode::OK));
    service.inner.hang = true;
    let mut hanging = ask(&mut service).await;
    assert!(poll!(&mut hanging).is_pending());
    assert_eq!(bulkhead.in_flight(), 1);
    drop(hanging);
    assert_eq!(bulkhead.in_flight(), 0);
}

#[tokio::test]
async fn closures_judge_too() {
    let (pipeline, breaker, _, _) = pipeline();
    let judge = |result: &Result<Response<String>, Infallible>| match result {
        Ok(response) if response.status() == StatusCode::OK => Outcome::Failed,
        _ => Outcome::Ignored,
    };
    let layer = GuardLayer::new(pipeline, SECOND).judge(judge);
    let mut service = layer.layer(Strict::new(StatusCode::OK));
    for _ in 0..3 {
        ask(&mut service).await.await.unwrap();
    }
    assert_eq!(breaker.state(), BreakerState::Open);
}

#[test]
fn status_codes_are_judged_by_what_they_say_of_the_server() {
    for (status, wanted) in [
        (200, Outcome::Ok),
        (404, Outcome::Ok),
        (429, Outcome::Ok),
        (500, Outcome::Failed),
        (501, Outcome::Ok),
        (503, Outcome::Failed),
    ] {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        assert_eq!(ByStatus.judge(&Ok::<_, Infallible>(response)), wanted, "{status}");
    }
    assert_eq!(ByStatus.judge(&Err::<Response<()>, _>("gone")), Outcome::Failed);
}

/// Checks what axum's `Router::layer` requires of a layer.
#[test]
fn fits_axum() {
    fn axum_layer<L>(_: L)
    where
        L: Layer<Strict> + Clone + Send + Sync + 'static,
        L::Service: Service<Request<String>> + Clone + Send + Sync + 'static,
        <L::Service as Service<Request<String>>>::Error: Into<Infallible> + 'static,
        <L::Service as Service<Request<String>>>::Future: Send + 'static,
    {
    }
    let (pipeline, ..) = pipeline();
    axum_layer(GuardLayer::new(pipeline, SECOND).judge(ByStatus).respond(answer));
}
