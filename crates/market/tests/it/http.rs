//! What counts on every path: the envelope, the headers, the bounds, the page.

use axum::{
    body::Body,
    http::{Method, header},
};
use seawall_testkit::backend::Backend;

use crate::market::{Market, request};

#[tokio::test]
async fn everything_answers_in_the_envelope() {
    let market = Market::on(Backend::Embedded).await;
    market.get("/nothing/here", "").await.refused(404, "NO_SUCH_PATH");
    market
        .call(request(Method::DELETE, "/shop/1", "", Body::empty()))
        .await
        .refused(405, "METHOD_NOT_ALLOWED");
    let mut large = request(Method::POST, "/user/login", "", Body::from(vec![b'x'; 70_000]));
    large.headers_mut().insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
    market.call(large).await.refused(413, "TOO_LARGE");
    let mut broken = request(Method::POST, "/user/login", "", Body::from("{\"phone\":"));
    broken.headers_mut().insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
    market.call(broken).await.refused(400, "BAD_BODY");
    let healthy = market.get("/healthz", "").await.ok();
    assert_eq!(healthy.body["msg"], "");
    market.get("/readyz", "").await.ok();
    market.shutdown().await;
}

#[tokio::test]
async fn requests_have_ids_and_answers_protect_the_browser() {
    let market = Market::on(Backend::Embedded).await;
    let mut named = request(Method::GET, "/healthz", "", Body::empty());
    named.headers_mut().insert("x-request-id", "trace-7".parse().unwrap());
    assert_eq!(market.call(named).await.headers["x-request-id"], "trace-7");
    let mut nasty = request(Method::GET, "/healthz", "", Body::empty());
    nasty.headers_mut().insert("x-request-id", "a b;c".parse().unwrap());
    let answer = market.call(nasty).await;
    assert_eq!(answer.headers["x-request-id"].len(), 16, "a new one");
    for path in ["/", "/healthz", "/user/me", "/nothing"] {
        let headers = market.get(path, "").await.headers;
        let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(headers[header::X_FRAME_OPTIONS], "DENY");
    }
    market.shutdown().await;
}

#[tokio::test]
async fn the_page_and_all_it_refers_to_are_there() {
    let market = Market::on(Backend::Embedded).await;
    let mut html = String::new();
    for path in ["/", "/docs"] {
        let page = market.get(path, "").await;
        assert_eq!(page.headers[header::CONTENT_TYPE], "text/html; charset=utf-8");
        html.push_str(page.body.as_str().expect("text"));
    }
    assert!(
        !html.contains("<style") && !html.contains("onclick"),
        "the policy forbids inline code"
    );
    let kinds = [("js", "text/javascript"), ("css", "text/css"), ("svg", "image/svg+xml")];
    let mut seen = 0;
    for script in ["/web/main.js", "/web/docs.js"] {
        html.push_str(market.get(script, "").await.body.as_str().expect("text"));
    }
    for word in html.split(['"', '\'']).filter(|word| word.starts_with("/web/")) {
        let file = market.get(word, "").await;
        assert_eq!(file.status, 200, "{word}");
        let ending = word.rsplit('.').next().expect("an ending");
        let (_, kind) = kinds.iter().find(|(known, _)| *known == ending).expect("a known kind");
        assert!(file.headers[header::CONTENT_TYPE].to_str().unwrap().starts_with(kind), "{word}");
        seen += 1;
    }
    assert!(seen >= 9, "the page refers to its files");
    market.shutdown().await;
}
