//! The layer for tower, around a service that is strict about being asked first.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response, StatusCode};
use seawall::{
    limit::{LimitLayer, Rate},
    testing::TestServer,
};
use tower_layer::Layer;
use tower_service::Service;

/// Answers with the request's body; panics when it was not polled ready.
#[derive(Default)]
struct Echo {
    ready: bool,
}

impl Clone for Echo {
    fn clone(&self) -> Self {
        // As with a buffer or a concurrency limit: a clone has no place reserved.
        Echo { ready: false }
    }
}

impl Service<Request<String>> for Echo {
    type Response = Response<String>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<String>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without being ready");
        Box::pin(async move { Ok(Response::new(request.into_body())) })
    }
}

async fn ask<S>(service: &mut S, user: &str) -> Response<String>
where
    S: Service<Request<String>, Response = Response<String>, Error = std::convert::Infallible>,
{
    poll_fn(|cx| service.poll_ready(cx)).await.expect("infallible");
    let request = Request::builder().header("x-user", user).body("hello".to_owned());
    service.call(request.expect("valid")).await.expect("infallible")
}

fn header<'a>(answer: &'a Response<String>, name: &str) -> &'a str {
    answer.headers().get(name).map_or("", |value| value.to_str().expect("text"))
}

#[tokio::test]
async fn refusals_are_429_with_the_standard_headers() {
    let test_server = TestServer::start().await.expect("it starts");
    let rate = Rate::per_minute(6).burst(2);
    let limiter = test_server.seawall().limiter("api", rate).build().expect("valid");
    let layer = LimitLayer::new(limiter, |head| {
        head.headers.get("x-user").map(|user| user.as_bytes().to_vec()).unwrap_or_default()
    });
    assert!(layer.clone().cost(3).is_err());
    let mut service = layer.layer(Echo::default());

    let first = ask(&mut service, "a").await;
    assert_eq!((first.status(), first.body().as_str()), (StatusCode::OK, "hello"));
    assert_eq!(header(&first, "ratelimit-policy"), "\"api\";q=2;w=20");
    assert_eq!(header(&first, "ratelimit"), "\"api\";r=1;t=10");
    assert_eq!(ask(&mut service.clone(), "a").await.status(), StatusCode::OK);

    let refused = ask(&mut service, "a").await;
    assert_eq!((refused.status(), refused.body().as_str()), (StatusCode::TOO_MANY_REQUESTS, ""));
    assert_eq!(header(&refused, "retry-after"), "10");
    assert_eq!(header(&refused, "ratelimit"), "\"api\";r=0;t=10");
    assert_eq!(ask(&mut service, "b").await.status(), StatusCode::OK, "others are not concerned");
    assert_eq!(ask(&mut service, "").await.status(), StatusCode::BAD_REQUEST);

    test_server.advance(Duration::from_secs(10)).await;
    assert_eq!(ask(&mut service, "a").await.status(), StatusCode::OK);
    test_server.shutdown().await;
    assert_eq!(ask(&mut service, "c").await.status(), StatusCode::SERVICE_UNAVAILABLE);
}
