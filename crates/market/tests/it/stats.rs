//! Page views and visitors, by day.

use axum::{
    body::Body,
    http::{Method, Request, header},
};
use futures_util::future::join_all;
use seawall::testing::TestServer;
use seawall_testkit::backend::Backend;

use crate::market::{Market, on_each_backend, request};

on_each_backend!(
    views_and_visitors_of_the_page_are_counted,
    ranges_are_a_union_of_days,
    ranges_that_make_no_sense_are_refused,
);

impl Market {
    async fn counted(&self, what: &str, range: &str) -> u64 {
        let answer = self.get(&format!("/stats/{what}{range}"), "").await.ok();
        answer.body["data"].as_u64().expect("a number")
    }

    async fn until_viewed(&self, views: u64) {
        let what = format!("{views} page views");
        self.until(&what, async |market| market.counted("pv", "").await >= views).await;
        assert_eq!(self.counted("pv", "").await, views);
    }
}

fn page(agent: &str) -> Request<Body> {
    let mut request = request(Method::GET, "/", "", Body::empty());
    let agent = agent.parse().expect("a header");
    request.headers_mut().insert(header::USER_AGENT, agent);
    request
}

async fn views_and_visitors_of_the_page_are_counted(backend: Backend) {
    let market = Market::on(backend).await;
    assert_eq!((market.counted("pv", "").await, market.counted("uv", "").await), (0, 0));
    for agent in ["one", "two", "two"] {
        assert_eq!(market.call(page(agent)).await.status, 200);
    }
    let token = market.log_in("10000000001").await;
    for _ in 0..4 {
        market.post("/stats/view", &token).await.ok();
    }
    // Neither other paths nor what is not there are views.
    market.get("/shop/1", &token).await.ok();
    market.get("/nothing", "").await.refused(404, "NO_SUCH_PATH");
    market.until_viewed(7).await;
    assert_eq!(market.counted("uv", "").await, 3, "two guests and a user");
    market.shutdown().await;
}

/// The demo town has a week of page views up to yesterday.
async fn ranges_are_a_union_of_days(backend: Backend) {
    let market = Market::on(backend).await;
    let today = seawall_market::zone::day(&jiff_zone(), market.seawall.client().server_millis());
    let days: Vec<_> = std::iter::successors(Some(today), |day| day.previous()).take(9).collect();
    let dashed: Vec<String> = days.iter().map(|day| day.dashed()).collect();
    let mut sum = 0;
    for day in &dashed[1..=7] {
        let one = format!("?from={day}&to={day}");
        let (views, visitors) =
            (market.counted("pv", &one).await, market.counted("uv", &one).await);
        assert!(views > 100, "{day} has {views}");
        assert!(visitors.abs_diff(views) <= views / 40, "{visitors} of {views}");
        sum += views;
    }
    let week = format!("?from={}&to={}", dashed[7], dashed[1]);
    assert_eq!(market.counted("pv", &week).await, sum);
    let visitors = market.counted("uv", &week).await;
    assert!(visitors < sum / 2, "{visitors}: who comes twice is one visitor, not two");
    assert_eq!(market.counted("pv", &format!("?from={0}&to={0}", dashed[8])).await, 0);
    market.shutdown().await;
}

fn jiff_zone() -> jiff::tz::TimeZone {
    jiff::tz::TimeZone::get("Asia/Shanghai").expect("it is built in")
}

async fn ranges_that_make_no_sense_are_refused(backend: Backend) {
    let market = Market::on(backend).await;
    for what in ["uv", "pv"] {
        for (range, code) in [
            ("?from=yesterday", "BAD_DAY"),
            ("?to=2026-02-29", "BAD_DAY"),
            ("?from=2026-01-02&to=2026-01-01", "BAD_RANGE"),
            ("?from=2025-01-01&to=2026-01-02", "BAD_RANGE"),
        ] {
            let answer = market.get(&format!("/stats/{what}{range}"), "").await;
            answer.refused(400, code);
        }
        assert_eq!(market.counted(what, "?from=2001-01-01&to=2002-01-01").await, 0, "366 days");
    }
    market.shutdown().await;
}

#[tokio::test]
async fn counting_never_fails_a_request() {
    let test_server = TestServer::start().await.expect("an engine");
    let market = Market::on_test_server(&test_server).await;
    test_server.faults().begin_outage();
    let answers = join_all((0..200).map(|_| market.call(page("one")))).await;
    assert!(answers.iter().all(|answer| answer.status == 200));
    market.post("/stats/view", "").await.ok();
    market.get("/stats/pv", "").await.refused(503, "UNAVAILABLE");
    test_server.faults().end_outage();
    let before = market.counted("pv", "").await;
    market.post("/stats/view", "").await.ok();
    market.until("the next view", async |market| market.counted("pv", "").await > before).await;
    market.shutdown().await;
}
