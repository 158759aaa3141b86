//! What is near: pages by distance, what dangles, and a map that comes back.

use std::time::Duration;

use axum::http::Method;
use seawall::testing::TestServer;
use seawall_testkit::backend::Backend;
use serde_json::{Value, json};

use crate::market::{Market, PATIENCE, on_each_backend};

on_each_backend!(
    pages_ascend_by_distance_and_end,
    shops_that_move_are_found_where_they_are,
    what_dangles_is_skipped_and_taken_out,
    a_redis_that_came_back_empty_answers_rightly,
    a_point_that_makes_no_sense_is_refused,
);

const HERE: &str = "x=120.1490&y=30.2590";
/// The key of a kind's map.
fn map(kind: u64) -> String {
    format!("geo:{{shop:{kind}}}")
}

/// Ids and distances of one page.
async fn page(market: &Market, query: &str) -> Vec<(String, f64)> {
    let answer = market.get(&format!("/shop/of/type?{query}"), "").await.ok().body;
    let shop = |shop: &Value| {
        let id = shop["id"].as_str().expect("an id").to_owned();
        (id, shop["distance"].as_f64().unwrap_or(-1.0))
    };
    answer["data"].as_array().expect("a list").iter().map(shop).collect()
}

async fn all_near(market: &Market, kind: u64) -> Vec<(String, f64)> {
    let mut all = Vec::new();
    for current in 1..=10 {
        let next = page(market, &format!("typeId={kind}&{HERE}&current={current}")).await;
        if next.is_empty() {
            break;
        }
        all.extend(next);
    }
    all
}

fn ids(near: &[(String, f64)]) -> Vec<&str> {
    near.iter().map(|(id, _)| id.as_str()).collect()
}

async fn pages_ascend_by_distance_and_end(backend: Backend) {
    let market = Market::on(backend).await;
    let first = page(&market, &format!("typeId=1&{HERE}")).await;
    assert_eq!((first.len(), first[0].0.as_str()), (10, "1"), "it is right here");
    assert!(first[0].1 < 1.0);
    let all = all_near(&market, 1).await;
    let food = market.sql("SELECT COUNT(*) FROM shop WHERE type_id = 1").await;
    assert_eq!(all.len() as i64, food, "the whole town is within 5 km");
    assert!(all.is_sorted_by(|one, other| one.1 <= other.1));
    assert!(all.iter().all(|(_, metres)| (0.0..=5_000.0).contains(metres)));
    for beyond in ["current=4", "current=100", "current=10000"] {
        assert!(page(&market, &format!("typeId=1&{HERE}&{beyond}")).await.is_empty(), "{beyond}");
    }
    let close = page(&market, &format!("typeId=1&{HERE}&radius=400")).await;
    assert_eq!(ids(&close[..2]), ["1", "4"]);
    assert!(close.iter().all(|(_, metres)| *metres <= 400.0));
    assert!(page(&market, &format!("typeId=4711&{HERE}")).await.is_empty());
    assert!(page(&market, "typeId=1&x=0&y=0").await.is_empty());
    // Without a point, by the database.
    let plain = page(&market, "typeId=1").await;
    assert_eq!((plain[0].0.as_str(), plain[1].0.as_str(), plain[0].1), ("1", "4", -1.0));
    let second = page(&market, "typeId=1&current=2").await;
    assert_eq!(second.len() as i64, food - 10);
    assert!(page(&market, "typeId=1&current=3").await.is_empty());
    market.shutdown().await;
}

async fn shops_that_move_are_found_where_they_are(backend: Backend) {
    let market = Market::on(backend).await;
    let merchant = market.log_in("10000000005").await;
    assert!(ids(&all_near(&market, 2).await).contains(&"2"));
    let away = json!({ "x": 121.0, "y": 31.0, "typeId": "9" });
    market.send_json(Method::PUT, "/shop/2", &merchant, &away).await.ok();
    assert!(!ids(&all_near(&market, 2).await).contains(&"2"), "it is of another kind");
    assert!(!ids(&all_near(&market, 9).await).contains(&"2"), "and far away");
    let there = page(&market, "typeId=9&x=121&y=31").await;
    assert_eq!(ids(&there), ["2"]);
    market.shutdown().await;
}

async fn what_dangles_is_skipped_and_taken_out(backend: Backend) {
    let market = Market::on(backend).await;
    let before = all_near(&market, 1).await;
    market.change("DELETE FROM shop WHERE id = 4").await;
    market.change("UPDATE shop SET type_id = 3 WHERE id = 1").await;
    let lasting: Vec<&str> =
        ids(&before).into_iter().filter(|id| !["1", "4"].contains(id)).collect();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    drop_cached(&market, &["1", "4"]).await;
    loop {
        let now = all_near(&market, 1).await;
        if ids(&now) == lasting {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{now:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let left: i64 = market.redis(&["ZCARD", &map(1)]).await;
    assert_eq!(left as usize, lasting.len());
    market.shutdown().await;
}

/// The first level forgets by itself what the second does not have any more.
async fn drop_cached(market: &Market, shops: &[&str]) {
    let cache: seawall::cache::Cache<u64, Value> =
        market.seawall.cache("shop").build().expect("valid");
    for shop in shops {
        let id = shop.parse().expect("an id");
        let _ = cache.invalidate(&id).await.expect("valid");
    }
}

async fn a_redis_that_came_back_empty_answers_rightly(backend: Backend) {
    let market = Market::on(backend).await;
    let before = all_near(&market, 1).await;
    market.redis::<i64>(&["DEL", &map(1)]).await;
    assert_eq!(all_near(&market, 1).await, before);
    market.redis::<String>(&["FLUSHALL"]).await;
    assert_eq!(all_near(&market, 1).await, before);
    market.shutdown().await;
}

async fn a_point_that_makes_no_sense_is_refused(backend: Backend) {
    let market = Market::on(backend).await;
    for (query, code) in [
        ("typeId=1&x=120", "BAD_POINT"),
        ("typeId=1&y=30", "BAD_POINT"),
        ("typeId=1&x=181&y=0", "BAD_POINT"),
        ("typeId=1&x=NaN&y=0", "BAD_POINT"),
        ("typeId=1&x=inf&y=0", "BAD_POINT"),
        ("typeId=1&x=0&y=89", "BAD_POINT"),
        ("typeId=1&x=0&y=0&radius=0", "BAD_RADIUS"),
        ("typeId=1&x=0&y=0&radius=50001", "BAD_RADIUS"),
        ("typeId=1&x=east&y=0", "BAD_QUERY"),
        ("typeId=x", "BAD_QUERY"),
        ("x=0&y=0", "BAD_QUERY"),
        ("typeId=1&current=0", "BAD_PAGE"),
        ("typeId=1&current=10001", "BAD_PAGE"),
    ] {
        market.get(&format!("/shop/of/type?{query}"), "").await.refused(400, code);
    }
    market.shutdown().await;
}

#[tokio::test]
async fn without_redis_the_database_says_what_is_near() {
    let test_server = TestServer::start().await.expect("an engine");
    let market = Market::on_test_server(&test_server).await;
    let before = all_near(&market, 1).await;
    test_server.faults().begin_outage();
    let without = all_near(&market, 1).await;
    test_server.faults().end_outage();
    assert_eq!(ids(&without), ids(&before));
    for ((shop, one), (_, other)) in before.iter().zip(&without) {
        assert!((one - other).abs() < 2.0, "{shop}: {one} and {other}");
    }
    market.shutdown().await;
}

#[tokio::test]
async fn a_change_that_missed_the_map_is_repaired_by_the_job() {
    let test_server = TestServer::start().await.expect("an engine");
    let market = Market::on_test_server(&test_server).await;
    assert!(ids(&all_near(&market, 2).await).contains(&"2"));
    // The database changed, and nobody told Redis: as after a kill between the two.
    market.change("UPDATE shop SET x = 121.0, y = 31.0 WHERE id = 2").await;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while ids(&page(&market, "typeId=2&x=121&y=31").await) != ["2"] {
        assert!(tokio::time::Instant::now() < deadline, "it stays where it was");
        test_server.advance(Duration::from_secs(30)).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    market.shutdown().await;
}
