//! Sign-ins: once a day, streaks, calendars, and what is left of them without Redis.

use std::time::Duration;

use futures_util::future::join_all;
use seawall::testing::TestServer;
use seawall_testkit::backend::Backend;
use serde_json::json;

use crate::market::{Market, on_each_backend};

const DAY: Duration = Duration::from_secs(24 * 3600);

on_each_backend!(
    a_day_counts_once_however_many_try,
    a_streak_crosses_the_end_of_months,
    redis_may_lose_everything,
    months_that_are_none_are_refused,
);

impl Market {
    async fn streak(&self, token: &str) -> u64 {
        let count = self.get("/user/sign/count", token).await.ok();
        count.body["data"].as_u64().expect("a number")
    }
}

async fn a_day_counts_once_however_many_try(backend: Backend) {
    let market = Market::on(backend).await;
    let token = market.log_in("10000000004").await;
    assert_eq!(market.streak(&token).await, 0);
    let answers = join_all((0..20).map(|_| market.post("/user/sign", &token))).await;
    let first = answers.into_iter().filter(|answer| answer.body["data"]["already"] == false);
    assert_eq!(first.count(), 1);
    let again = market.post("/user/sign", &token).await.ok();
    assert_eq!(again.body["data"]["already"], true);
    assert_eq!(market.streak(&token).await, 1);
    assert_eq!(market.sql("SELECT COUNT(*) FROM sign WHERE user_id = 4").await, 1);
    market.post("/user/sign", "").await.refused(401, "NOT_LOGGED_IN");
    market.get("/user/sign/count", "").await.refused(401, "NOT_LOGGED_IN");
    market.shutdown().await;
}

/// The first of the demo town has signed for two months, up to yesterday.
async fn a_streak_crosses_the_end_of_months(backend: Backend) {
    let market = Market::on(backend).await;
    let token = market.log_in("10000000001").await;
    assert_eq!(market.streak(&token).await, 61, "up to yesterday");
    let today = market.post("/user/sign", &token).await.ok().body["data"]["date"].clone();
    assert_eq!(market.streak(&token).await, 62);
    let month = market.get("/user/sign", &token).await.ok().body["data"].clone();
    let of_month: u64 = today.as_str().expect("a day")[8..].parse().expect("a number");
    assert_eq!(month["elapsed"], of_month);
    assert_eq!(month["days"], json!((1..=of_month).collect::<Vec<_>>()), "none was missed");
    assert_eq!(month["bits"], (1_u64 << of_month) - 1);
    let loose = market.log_in("10000000002").await;
    assert_eq!(market.streak(&loose).await, 2, "a gap ends it");
    market.shutdown().await;
}

async fn redis_may_lose_everything(backend: Backend) {
    let market = Market::on(backend).await;
    let token = market.log_in("10000000001").await;
    market.post("/user/sign", &token).await.ok();
    assert_eq!(market.streak(&token).await, 62);
    let month = market.get("/user/sign", &token).await.ok().body["data"].clone();
    let _: String = market.redis(&["FLUSHALL"]).await;
    let token = market.log_in("10000000001").await;
    // Signing in again makes a bitmap that holds today alone: it is not believed.
    assert_eq!(market.post("/user/sign", &token).await.ok().body["data"]["already"], true);
    assert_eq!(market.streak(&token).await, 62);
    assert_eq!(market.get("/user/sign", &token).await.ok().body["data"], month);
    market.shutdown().await;
}

async fn months_that_are_none_are_refused(backend: Backend) {
    let market = Market::on(backend).await;
    let token = market.log_in("10000000001").await;
    for month in ["2026-13", "november", "", "2026-1", "20260101"] {
        let path = format!("/user/sign?month={month}");
        market.get(&path, &token).await.refused(400, "BAD_MONTH");
    }
    let empty = json!({ "month": "1999-12", "days": [], "elapsed": 31, "bits": 0 });
    assert_eq!(market.get("/user/sign?month=1999-12", &token).await.ok().body["data"], empty);
    let future = json!({ "month": "9999-12", "days": [], "elapsed": 0, "bits": 0 });
    assert_eq!(market.get("/user/sign?month=9999-12", &token).await.ok().body["data"], future);
    market.shutdown().await;
}

/// A market at the first of a month, and a token.
async fn on_the_first(test_server: &TestServer) -> (Market, String) {
    let market = Market::on_test_server(test_server).await;
    for _ in 0..31 {
        let token = market.log_in("10000000006").await;
        let month = market.get("/user/sign", &token).await.ok();
        if month.body["data"]["elapsed"] == 1 {
            return (market, token);
        }
        test_server.advance(DAY).await;
    }
    panic!("every month has a first day");
}

#[tokio::test]
async fn days_1_2_and_4_are_13_and_the_streak_ends_with_yesterday() {
    let test_server = TestServer::start().await.expect("an engine");
    let (market, mut token) = on_the_first(&test_server).await;
    for (day, signs, streak) in [(1, true, 1), (2, true, 2), (3, false, 2), (4, true, 1)] {
        if day > 1 {
            test_server.advance(DAY).await;
            token = market.log_in("10000000006").await;
        }
        if signs {
            market.post("/user/sign", &token).await.ok();
        }
        assert_eq!(market.streak(&token).await, streak, "on day {day}");
    }
    let month = market.get("/user/sign", &token).await.ok().body["data"].clone();
    assert_eq!((&month["days"], &month["elapsed"]), (&json!([1, 2, 4]), &json!(4)));
    assert_eq!(month["bits"], 13);
    market.shutdown().await;
}

#[tokio::test]
async fn without_redis_the_table_is_read_and_signing_waits() {
    let test_server = TestServer::start().await.expect("an engine");
    let market = Market::on_test_server(&test_server).await;
    let token = market.log_in("10000000001").await;
    let month = market.get("/user/sign", &token).await.ok().body["data"].clone();
    test_server.faults().begin_outage();
    assert_eq!(market.streak(&token).await, 61);
    assert_eq!(market.get("/user/sign", &token).await.ok().body["data"], month);
    market.post("/user/sign", &token).await.refused(503, "UNAVAILABLE");
    test_server.faults().end_outage();
    market.post("/user/sign", &token).await.ok();
    assert_eq!(market.streak(&token).await, 62);
    market.shutdown().await;
}

/// A session is read by the first command, the doubt is the second, the bit the third.
#[tokio::test]
async fn a_lost_reply_loses_no_day() {
    for lost in 1..=3 {
        let test_server = TestServer::start().await.expect("an engine");
        let market = Market::on_test_server(&test_server).await;
        let token = market.log_in("10000000001").await;
        assert_eq!(market.streak(&token).await, 61);
        test_server.faults().lose_replies(lost);
        let answer = market.post("/user/sign", &token).await;
        test_server.faults().lose_replies(0);
        let again = market.post("/user/sign", &token).await.ok();
        assert_eq!(again.body["data"]["already"], answer.status == 200, "{lost}: {answer:?}");
        assert_eq!(market.streak(&token).await, 62, "{lost} replies were lost");
        market.shutdown().await;
    }
}
