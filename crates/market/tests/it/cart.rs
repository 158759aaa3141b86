//! Carts: changes, limits, writing behind, and going on while Redis is away.

use axum::http::Method;
use futures_util::future::join_all;
use seawall::testing::TestServer;
use seawall_testkit::backend::Backend;
use serde_json::{Value, json};

use crate::market::{Answer, Market, on_each_backend};

on_each_backend!(
    items_are_put_in_changed_and_taken_out,
    counts_that_make_no_sense_are_refused,
    every_click_counts,
    a_full_cart_takes_more_of_what_it_has,
    the_database_follows_and_a_reload_brings_nothing_back,
    a_checkout_quotes_the_prices_of_the_database,
    units_that_are_named_are_put_in_once,
);

/// Bo has an empty cart.
pub(crate) const BO: &str = "10000000002";

pub(crate) async fn add(market: &Market, token: &str, sku: u64, count: u64) -> Answer {
    let body = json!({"skuId": sku.to_string(), "count": count});
    market.send_json(Method::POST, "/cart", token, &body).await
}

async fn set(market: &Market, token: &str, sku: u64, body: Value) -> Answer {
    market.send_json(Method::PUT, &format!("/cart/{sku}"), token, &body).await
}

async fn remove(market: &Market, token: &str, sku: u64) -> Answer {
    market.send_json(Method::DELETE, &format!("/cart/{sku}"), token, &Value::Null).await
}

/// SKU and count of each item.
pub(crate) async fn items(market: &Market, token: &str) -> Vec<(u64, u64)> {
    let answer = market.get("/cart", token).await.ok();
    let lines = answer.body["data"].as_array().expect("a list").clone();
    let line = |line: &Value| {
        let sku = line["skuId"].as_str().and_then(|id| id.parse().ok()).expect("an id");
        (sku, line["count"].as_u64().expect("a count"))
    };
    lines.iter().map(line).collect()
}

/// Waits until the database has as many items, and all changes are written.
async fn until_written(market: &Market, rows: i64) {
    market
        .until("the database to follow", async |market| {
            let sql = "SELECT COUNT(*) FROM cart WHERE user_id = 2 AND count > 0";
            market.sql(sql).await == rows
        })
        .await;
}

async fn items_are_put_in_changed_and_taken_out(backend: Backend) {
    let market = Market::on(backend).await;
    market.get("/cart", "").await.refused(401, "NOT_LOGGED_IN");
    let bo = market.log_in(BO).await;
    assert_eq!(items(&market, &bo).await, []);
    add(&market, &bo, 3, 2).await.ok();
    add(&market, &bo, 5, 1).await.ok();
    add(&market, &bo, 3, 1).await.ok();
    let answer = market.get("/cart", &bo).await.ok();
    let line = &answer.body["data"][0];
    assert_eq!((&line["skuId"], &line["count"]), (&json!("5"), &json!(1)), "the newest first");
    assert_eq!((&line["price"], &line["addPrice"]), (&json!(4800), &json!(4800)));
    assert_eq!((&line["selected"], &line["onShelf"]), (&json!(true), &json!(true)));
    assert_eq!(line["name"], "Noodle bowl, blue glaze");
    assert_eq!(items(&market, &bo).await, [(5, 1), (3, 3)]);

    set(&market, &bo, 3, json!({"count": 7})).await.ok();
    set(&market, &bo, 5, json!({"selected": false})).await.ok();
    let answer = market.get("/cart", &bo).await.ok();
    assert_eq!(answer.body["data"][0]["selected"], false);
    assert_eq!(items(&market, &bo).await, [(5, 1), (3, 7)]);
    set(&market, &bo, 5, json!({"count": 0})).await.ok();
    set(&market, &bo, 5, json!({"count": 1})).await.refused(404, "NOT_IN_CART");
    set(&market, &bo, 3, json!({})).await.refused(400, "NOTHING_TO_CHANGE");
    for _ in 0..2 {
        remove(&market, &bo, 3).await.ok();
    }
    assert_eq!(items(&market, &bo).await, []);
    add(&market, &bo, 999, 1).await.refused(404, "UNKNOWN_SKU");
    add(&market, &bo, 7, 1).await.refused(409, "OFF_SHELF");
    // Ada's cart came with the town; nobody else has touched it.
    let ada = market.log_in("10000000001").await;
    assert_eq!(items(&market, &ada).await, [(1, 2), (5, 1), (14, 1), (9, 3)]);
    market.shutdown().await;
}

async fn counts_that_make_no_sense_are_refused(backend: Backend) {
    let market = Market::on(backend).await;
    let bo = market.log_in(BO).await;
    let huge = json!(u64::MAX);
    for count in [json!(-1), json!(1.5), json!(1000), huge, json!("1"), json!(null)] {
        let body = json!({"skuId": "3", "count": count});
        let answer = market.send_json(Method::POST, "/cart", &bo, &body).await;
        assert_eq!(answer.status, 400, "{answer:?}");
    }
    add(&market, &bo, 3, 0).await.refused(400, "BAD_COUNT");
    add(&market, &bo, 3, 999).await.ok();
    add(&market, &bo, 3, 1).await.refused(409, "TOO_MANY_UNITS");
    set(&market, &bo, 3, json!({"count": 1000})).await.refused(400, "BAD_COUNT");
    assert_eq!(set(&market, &bo, 3, json!({"count": -1})).await.status, 400);
    assert_eq!(items(&market, &bo).await, [(3, 999)]);
    market.shutdown().await;
}

async fn every_click_counts(backend: Backend) {
    let market = Market::on(backend).await;
    let bo = market.log_in(BO).await;
    for answer in join_all((0..40).map(|_| add(&market, &bo, 3, 1))).await {
        answer.ok();
    }
    assert_eq!(items(&market, &bo).await, [(3, 40)]);
    market
        .until("the last state to be written", async |market| {
            market.sql("SELECT COUNT(*) FROM cart WHERE user_id = 2 AND count = 40").await == 1
        })
        .await;
    market.shutdown().await;
}

async fn a_full_cart_takes_more_of_what_it_has(backend: Backend) {
    let market = Market::on(backend).await;
    for _ in 0..4 {
        market
            .change(
                "INSERT INTO sku (id, name, price, vip_price, image, status, create_time, \
                 update_time) SELECT s.id + m.id, s.name, s.price, s.vip_price, s.image, 1, 0, 0 \
                 FROM sku s JOIN (SELECT MAX(id) AS id FROM sku) m WHERE s.id <= 30",
            )
            .await;
    }
    let bo = market.log_in(BO).await;
    for sku in 31..131 {
        add(&market, &bo, sku, 1).await.ok();
    }
    add(&market, &bo, 131, 1).await.refused(409, "CART_FULL");
    add(&market, &bo, 130, 1).await.ok();
    assert_eq!(items(&market, &bo).await.len(), 100);
    market.shutdown().await;
}

async fn the_database_follows_and_a_reload_brings_nothing_back(backend: Backend) {
    let market = Market::on(backend).await;
    let bo = market.log_in(BO).await;
    for sku in [3, 4, 5] {
        add(&market, &bo, sku, 2).await.ok();
    }
    until_written(&market, 3).await;
    // The database cannot follow the removal, and Redis forgets the cart.
    let pool = market.hold_up_writers().await;
    remove(&market, &bo, 4).await.ok();
    forget_cart(&market).await;
    assert_eq!(items(&market, &bo).await, [(5, 2), (3, 2)]);
    pool.close().await;
    until_written(&market, 2).await;
    // An update that comes late is older than the removal.
    let words = "XADD cart:{cart:2}:changes * user 2 sku 4 count 9 selected 1 price 1 added 1 \
                 version 1";
    let _: String = market.redis(&words.split_whitespace().collect::<Vec<_>>()).await;
    add(&market, &bo, 6, 1).await.ok();
    until_written(&market, 3).await;
    assert_eq!(market.sql("SELECT count FROM cart WHERE user_id = 2 AND sku_id = 4").await, 0);
    // The rows may be read a moment before the last change is written, and the changes a moment after.
    market
        .until("all changes to be acknowledged", async |market| {
            let pending = ["XPENDING", "cart:{cart:2}:changes", "cart", "-", "+", "1"];
            market.redis::<Vec<(String, String, i64, i64)>>(&pending).await.is_empty()
        })
        .await;
    market.change("DELETE FROM cart WHERE user_id = 2 AND sku_id = 6").await;
    forget_cart(&market).await;
    assert_eq!(items(&market, &bo).await, [(6, 1), (5, 2), (3, 2)]);
    market.shutdown().await;
}

/// Redis loses what it holds of a cart.
pub(crate) async fn forget_cart(market: &Market) {
    for key in ["counts", "details", "order", "gone", "meta"] {
        let _: i64 = market.redis(&["DEL", &format!("cart:{{cart:2}}:2:{key}")]).await;
    }
}

async fn add_named(market: &Market, token: &str, key: &str) -> Answer {
    let body = json!({"skuId": "3", "count": 2});
    market.send_named(Method::POST, "/cart", token, &body, key).await
}

async fn units_that_are_named_are_put_in_once(backend: Backend) {
    let market = Market::on(backend).await;
    let (bo, dora) = (market.log_in(BO).await, market.log_in("10000000004").await);
    for answer in join_all((0..8).map(|_| add_named(&market, &bo, "click-1"))).await {
        answer.ok();
    }
    assert_eq!(items(&market, &bo).await, [(3, 2)]);
    // Another name, another letter, another user.
    for (token, key) in [(&bo, "click-2"), (&bo, "Click-1"), (&dora, "click-1")] {
        add_named(&market, token, key).await.ok();
    }
    assert_eq!(items(&market, &bo).await, [(3, 6)]);
    assert_eq!(items(&market, &dora).await, [(3, 2)]);
    add_named(&market, &bo, "two words").await.refused(400, "BAD_IDEMPOTENCY_KEY");
    add_named(&market, &bo, &"x".repeat(65)).await.refused(400, "BAD_IDEMPOTENCY_KEY");
    // Also when Redis has forgotten the cart, and what was sent.
    market
        .until("the names to be written", async |market| {
            market.sql("SELECT COUNT(*) FROM submission WHERE user_id = 2").await == 3
        })
        .await;
    forget_cart(&market).await;
    let _: i64 = market.redis(&["DEL", "cart:{cart:2}:2:sent"]).await;
    add_named(&market, &bo, "click-2").await.ok();
    assert_eq!(items(&market, &bo).await, [(3, 6)]);
    let lasts: i64 = market.redis(&["PTTL", "cart:{cart:2}:2:sent"]).await;
    assert!((1..=86_400_000).contains(&lasts), "{lasts}");
    market.shutdown().await;
}

async fn a_checkout_quotes_the_prices_of_the_database(backend: Backend) {
    let market = Market::on(backend).await;
    let bo = market.log_in(BO).await;
    market.post("/cart/checkout", &bo).await.refused(409, "NOTHING_SELECTED");
    add(&market, &bo, 3, 2).await.ok();
    add(&market, &bo, 5, 1).await.ok();
    set(&market, &bo, 5, json!({"selected": false})).await.ok();
    market.change("UPDATE sku SET price = 950 WHERE id = 3").await;
    // What a client says about prices is not looked at.
    let lies = json!({"total": 1, "items": [{"skuId": "3", "price": 1}]});
    let answer = market.send_json(Method::POST, "/cart/checkout", &bo, &lies).await.ok();
    let data = &answer.body["data"];
    assert_eq!((&data["total"], data["items"].as_array().map(Vec::len)), (&json!(1900), Some(1)));
    assert_eq!(data["items"][0]["price"], 950);
    assert!(data["checkoutId"].is_string());
    market.change("UPDATE sku SET status = 0 WHERE id = 3").await;
    let answer = market.post("/cart/checkout", &bo).await;
    answer.refused(409, "OFF_SHELF");
    assert_eq!(answer.body["data"], "3");
    market.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cart_goes_on_while_the_engine_is_away() {
    let test_server = TestServer::start().await.expect("it starts");
    let market = Market::on_test_server(&test_server).await;
    let bo = market.log_in(BO).await;
    add(&market, &bo, 3, 2).await.ok();
    add(&market, &bo, 4, 2).await.ok();
    until_written(&market, 2).await;
    test_server.faults().begin_outage();
    assert_eq!(items(&market, &bo).await, [(4, 2), (3, 2)]);
    add(&market, &bo, 3, 3).await.ok();
    for _ in 0..2 {
        add_named(&market, &bo, "away").await.ok();
    }
    add(&market, &bo, 6, 1).await.ok();
    remove(&market, &bo, 4).await.ok();
    assert_eq!(items(&market, &bo).await, [(6, 1), (3, 7)]);
    market.post("/cart/checkout", &bo).await.refused(503, "UNAVAILABLE");
    test_server.faults().end_outage();
    test_server.advance(std::time::Duration::from_secs(3)).await;
    add_named(&market, &bo, "away").await.ok();
    assert_eq!(items(&market, &bo).await, [(6, 1), (3, 7)]);
    add(&market, &bo, 6, 1).await.ok();
    assert_eq!(items(&market, &bo).await, [(6, 2), (3, 7)]);
    let counts: i64 = market.redis(&["HLEN", "cart:{cart:2}:2:counts"]).await;
    assert_eq!(counts, 2, "it is in Redis again");
    market.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cart_goes_on_while_redis_is_away() {
    let (market, proxy) = Market::behind_proxy().await;
    let bo = market.log_in(BO).await;
    add(&market, &bo, 3, 2).await.ok();
    add(&market, &bo, 4, 2).await.ok();
    until_written(&market, 2).await;
    proxy.down();
    add(&market, &bo, 3, 5).await.ok();
    remove(&market, &bo, 4).await.ok();
    add(&market, &bo, 6, 1).await.ok();
    assert_eq!(items(&market, &bo).await, [(6, 1), (3, 7)]);
    proxy.heal();
    market
        .until("Redis to have the cart again", async |market| {
            assert_eq!(items(market, &bo).await, [(6, 1), (3, 7)], "at any time");
            market.sql("SELECT COUNT(*) FROM cart_pending").await == 0
        })
        .await;
    add(&market, &bo, 3, 1).await.ok();
    assert_eq!(items(&market, &bo).await, [(6, 1), (3, 8)]);
    market.shutdown().await;
}
