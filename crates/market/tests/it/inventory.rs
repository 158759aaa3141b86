//! Stock: receipts that come in once, shards, and Redis brought back to what the database says.

use seawall_testkit::{backend::Backend, proxy::On};
use serde_json::{Value, json};

use crate::market::{Answer, Market, PATIENCE, on_each_backend};

on_each_backend!(
    units_are_spread_over_shards,
    a_receipt_comes_in_once,
    only_merchants_take_deliveries_in,
    redis_that_comes_back_empty_is_filled_from_the_database,
    a_difference_is_found_and_repaired,
);

const ADMIN: &str = "10000000000";

async fn receive(market: &Market, token: &str, body: Value) -> Answer {
    market.send_json(axum::http::Method::POST, "/inventory/receipt", token, &body).await
}

async fn left(market: &Market, sku: u64) -> Vec<i64> {
    let answer = market.get(&format!("/inventory/{sku}"), "").await.ok();
    let shards = answer.body["data"]["shards"].as_array().expect("shards").clone();
    shards.iter().map(|shard| shard["left"].as_i64().expect("a number")).collect()
}

/// Waits until the shards of a SKU have so many units together.
async fn until_left(market: &Market, sku: u64, units: i64) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let answer = market.get(&format!("/inventory/{sku}"), "").await;
        if answer.body["data"]["total"]["left"] == units {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{answer:?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

async fn units_are_spread_over_shards(backend: Backend) {
    let market = Market::on(backend).await;
    assert_eq!(left(&market, 1).await, [100, 100, 100]);
    assert_eq!(left(&market, 2).await, [1, 1, 0]);
    // One whose history has sales and returns.
    let answer = market.get("/inventory/10", "").await.ok();
    let data = &answer.body["data"];
    let number = |name: &str| data["total"][name].as_i64().expect("a number");
    assert_eq!(number("left"), data["num"].as_i64().expect("a number"));
    assert_eq!(number("received"), number("left") + number("sold") + number("held"));
    assert!(number("sold") > 0);
    market.get("/inventory/999", "").await.refused(404, "UNKNOWN_SKU");
    market.shutdown().await;

    let market = Market::with(backend, Default::default(), &[("stock-shards", "5")]).await;
    let admin = market.log_in(ADMIN).await;
    let before = left(&market, 2).await;
    assert_eq!(before, [1, 1, 0, 0, 0]);
    receive(&market, &admin, json!({"receiptId": "r", "skuId": "2", "count": 100})).await.ok();
    assert_eq!(left(&market, 2).await, [21, 21, 20, 20, 20]);
    market.shutdown().await;
}

async fn a_receipt_comes_in_once(backend: Backend) {
    let market = Market::on(backend).await;
    let admin = market.log_in(ADMIN).await;
    let body = json!({"receiptId": "d-1", "skuId": "1", "count": 3});
    let calls = (0..8).map(|_| receive(&market, &admin, body.clone()));
    let answers = futures_util::future::join_all(calls).await;
    let new = answers.into_iter().filter(|answer| answer.body["data"]["isNew"] == true).count();
    assert_eq!(new, 1, "one of them brought it in");
    until_left(&market, 1, 303).await;
    assert_eq!(left(&market, 1).await, [101, 101, 101]);
    let rows = "SELECT COUNT(*) FROM inventory_log WHERE ref = 'd-1' AND before_num = 300 \
                AND after_num = 303";
    assert_eq!(market.sql(rows).await, 1);
    assert_eq!(market.sql("SELECT num FROM inventory WHERE sku_id = 1").await, 303);
    let other = json!({"receiptId": "d-1", "skuId": "1", "count": 4});
    receive(&market, &admin, other).await.refused(409, "RECEIPT_DIFFERS");
    let capital = json!({"receiptId": "D-1", "skuId": "1", "count": 3});
    let answer = receive(&market, &admin, capital).await.ok();
    assert_eq!(answer.body["data"]["isNew"], true, "another letter is another delivery");
    until_left(&market, 1, 306).await;
    let unknown = json!({"receiptId": "d-1", "skuId": "999", "count": 4});
    receive(&market, &admin, unknown).await.refused(404, "UNKNOWN_SKU");
    market.shutdown().await;
}

async fn only_merchants_take_deliveries_in(backend: Backend) {
    let market = Market::on(backend).await;
    let body = json!({"receiptId": "d-2", "skuId": "1", "count": 3});
    receive(&market, "", body.clone()).await.refused(401, "NOT_LOGGED_IN");
    let user = market.log_in("10000000001").await;
    receive(&market, &user, body.clone()).await.refused(403, "FORBIDDEN");
    let merchant = market.log_in("10000000005").await;
    receive(&market, &merchant, body).await.ok();
    for count in [json!(0), json!(-1), json!(1.5), json!(1_000_001), json!("1")] {
        let body = json!({"receiptId": "d-3", "skuId": "1", "count": count});
        assert_eq!(receive(&market, &merchant, body).await.status, 400);
    }
    for receipt in ["", "a b", &"x".repeat(49), "ü"] {
        let body = json!({"receiptId": receipt, "skuId": "1", "count": 1});
        receive(&market, &merchant, body).await.refused(400, "BAD_RECEIPT_ID");
    }
    market.shutdown().await;
}

async fn redis_that_comes_back_empty_is_filled_from_the_database(backend: Backend) {
    let market = Market::on(backend).await;
    let before = market.get("/inventory/10", "").await.ok().body["data"].clone();
    let _: String = market.redis(&["FLUSHALL"]).await;
    let units = before["total"]["left"].as_i64().expect("a number");
    until_left(&market, 10, units).await;
    let after = market.get("/inventory/10", "").await.ok().body["data"].clone();
    assert_eq!(
        (&after["num"], &after["total"]["sold"]),
        (&before["num"], &before["total"]["sold"])
    );

    // Another process that has never seen the old stock.
    let _: String = market.redis(&["FLUSHALL"]).await;
    let colleague = market.colleague().await;
    until_left(&colleague, 1, 300).await;
    market.shutdown().await;
}

async fn a_difference_is_found_and_repaired(backend: Backend) {
    let market = Market::on(backend).await;
    until_left(&market, 1, 300).await;
    // Units that Redis has made up, and units that it has lost.
    let _: i64 = market.redis(&["HINCRBY", "stock:{sku:1:0:0}", "left", "7"]).await;
    let _: i64 = market.redis(&["HINCRBY", "stock:{sku:2:0:0}", "left", "-1"]).await;
    market.compare_stock().await;
    until_left(&market, 1, 300).await;
    until_left(&market, 2, 2).await;
    market.shutdown().await;
}

/// A shard that does not answer has lost nothing: the others are not put together anew for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_does_not_answer_is_not_rebuilt() {
    let (market, proxy) = Market::behind_proxy().await;
    until_left(&market, 1, 300).await;
    let epoch = async || market.redis::<String>(&["HGET", "stock:{sku:1:0:0}", "epoch"]).await;
    let before = epoch().await;
    let at_shard = |shard: u8| {
        let key = format!("stock:{{sku:1:{shard}:");
        On::command("EVALSHA").key_prefix(key)
    };
    let looks = proxy.watch(at_shard(0));
    let away = proxy.fail_with(at_shard(1), "LOADING Redis is loading the dataset in memory");
    while looks.count() < 12 {
        market.compare_stock().await;
    }
    proxy.remove(away);
    until_left(&market, 1, 300).await;
    // Away for as long as a difference is looked at, and back before it is repaired.
    let looks = proxy.watch(at_shard(0));
    for _ in 0..2 {
        let seen = looks.count();
        proxy.fail_with(at_shard(1).times(3), "LOADING Redis is loading the dataset in memory");
        while looks.count() < seen + 6 {
            market.compare_stock().await;
        }
    }
    assert_eq!(epoch().await, before, "nothing was rebuilt");
    market.shutdown().await;
}
