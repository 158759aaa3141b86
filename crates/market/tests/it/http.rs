//! What counts on every path: the envelope, the headers, the bounds, the page.

use std::collections::BTreeSet;

use axum::{
    body::Body,
    http::{Method, header},
};
use seawall_testkit::backend::Backend;

use crate::{
    market::{Market, on_each_backend, request},
    outage::Outage,
};

on_each_backend!(what_is_not_available_says_when_to_come_back);

async fn what_is_not_available_says_when_to_come_back(backend: Backend) {
    let (market, outage) = Outage::of(backend).await;
    let token = market.log_in("10000000001").await;
    assert!(!market.get("/readyz", "").await.ok().headers.contains_key(header::RETRY_AFTER));
    outage.begin();
    let answers = [
        (market.get("/readyz", "").await, "NOT_READY"),
        (market.post("/user/logout", &token).await, "UNAVAILABLE"),
    ];
    for (answer, code) in answers {
        answer.refused(503, code);
        let seconds = answer.headers[header::RETRY_AFTER].to_str().expect("text").parse::<u64>();
        assert!(seconds.is_ok_and(|seconds| (1..=60).contains(&seconds)), "{answer:?}");
    }
    outage.end(&market).await;
    market.shutdown().await;
}

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
async fn every_metric_that_the_exporter_shows_has_a_help_text() {
    seawall_market::http::metrics::install();
    let market = Market::on(Backend::Embedded).await;
    let token = market.log_in("10000000001").await;
    for path in ["/shop/1", "/user/me", "/nothing/here"] {
        market.get(path, &token).await;
    }
    let page = market.get("/metrics", "").await;
    let text = page.body.as_str().expect("text");
    let named = |kind: &str| -> BTreeSet<&str> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(kind));
        lines.filter_map(|line| line.split(' ').next()).collect()
    };
    let (types, helps) = (named("# TYPE "), named("# HELP "));
    assert!(types.contains("seawall_cache_hits_total"), "{text}");
    assert_eq!(types, helps);
    assert!(text.contains("market_request_seconds_bucket{le=\"0.0001\"}"), "{text}");
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
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(policy.contains("script-src 'self'"), path == "/", "{path} {policy}");
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(headers[header::X_FRAME_OPTIONS], "DENY");
    }
    market.shutdown().await;
}

/// The path that a reference in a file means; nothing for words that are no references.
fn referred(from: &str, word: &str) -> Option<String> {
    if word.starts_with("/web/") {
        return Some(word.to_owned());
    }
    if !word.starts_with("./") && !word.starts_with("../") {
        return None;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in word.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[tokio::test]
async fn the_page_and_all_it_refers_to_are_there() {
    let market = Market::on(Backend::Embedded).await;
    let mut open = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for path in ["/", "/docs"] {
        let page = market.get(path, "").await;
        assert_eq!(page.headers[header::CONTENT_TYPE], "text/html; charset=utf-8");
        assert_eq!(page.headers[header::CACHE_CONTROL], "no-cache");
        let html = page.body.as_str().expect("text").to_owned();
        for inline in ["<style", "onclick", " style="] {
            assert!(!html.contains(inline), "the policy forbids inline code");
        }
        open.push((path.to_owned(), html));
    }
    let kinds = [("js", "text/javascript"), ("css", "text/css"), ("svg", "image/svg+xml")];
    while let Some((from, content)) = open.pop() {
        for word in content.split(['"', '\'']) {
            let Some(path) = referred(&from, word) else { continue };
            if !seen.insert(path.clone()) {
                continue;
            }
            let file = market.get(&path, "").await;
            assert_eq!(file.status, 200, "{path} of {from}");
            let ending = path.rsplit('.').next().expect("an ending");
            let (_, kind) = kinds.iter().find(|(known, _)| *known == ending).expect("a known kind");
            let said = file.headers[header::CONTENT_TYPE].to_str().unwrap();
            assert!(said.starts_with(kind), "{path}");
            // All stand under one hash, which is never used again.
            let keep = file.headers[header::CACHE_CONTROL].to_str().unwrap();
            assert!(keep.ends_with("immutable"), "{path}: {keep}");
            open.push((path, file.body.as_str().expect("text").to_owned()));
        }
    }
    assert!(seen.len() >= 50, "the page refers to its files: {}", seen.len());
    let plain = market.get("/web/app.js", "").await;
    assert_eq!(
        (plain.status.as_u16(), &plain.headers[header::CACHE_CONTROL]),
        (200, &"no-cache".parse().unwrap())
    );
    for gone in ["/web/0123456789abcdef/app.js", "/web/../Cargo.toml", "/web/", "/web/nothing.js"] {
        market.get(gone, "").await.refused(404, "NO_SUCH_PATH");
    }
    market.shutdown().await;
}
