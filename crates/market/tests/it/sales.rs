//! Flash sales: exactly what there is, one for each user, and every answer true.

use std::collections::HashSet;

use futures_util::{StreamExt as _, stream};
use seawall_testkit::backend::Backend;

use crate::market::{Market, on_each_backend};

/// Buyers who ask at the same time.
const CROWD: usize = 200;

on_each_backend!(
    a_thousand_buyers_get_exactly_a_hundred,
    each_refusal_has_its_word,
    an_order_is_its_owners_alone,
    the_last_unit_is_sold_once,
    a_redis_that_comes_back_empty_is_filled_from_the_database,
    the_database_has_the_last_word,
);

/// Logs many in; a token each.
async fn crowd(market: &Market, count: usize) -> Vec<String> {
    let log_in = |number: usize| async move { market.log_in(&format!("139{number:08}")).await };
    stream::iter(0..count).map(log_in).buffer_unordered(16).collect().await
}

async fn a_thousand_buyers_get_exactly_a_hundred(backend: Backend) {
    let market = Market::on(backend).await;
    let tokens = crowd(&market, 1000).await;
    // Everybody asks twice: one order a user, whatever they do.
    let asks: Vec<_> = tokens.iter().chain(&tokens).collect();
    let answers: Vec<_> = stream::iter(asks)
        .map(|token| {
            let market = &market;
            async move { (token, market.post("/voucher-order/seckill/1", token).await) }
        })
        .buffer_unordered(CROWD)
        .collect()
        .await;
    let mut orders = HashSet::new();
    for (token, answer) in &answers {
        if answer.status == 200 {
            assert!(orders.insert((*token, answer.text())), "an id is given once");
        } else {
            assert!(["SOLD_OUT", "DUPLICATE_ORDER"].contains(&answer.code()), "{answer:?}");
        }
    }
    assert_eq!(orders.len(), 100);
    for (token, order) in &orders {
        assert_eq!(market.settled(order, token).await, "UNPAID");
    }
    market.all_settled().await;
    assert_eq!(market.stock(1).await, 0);
    assert_eq!(market.sql("SELECT stock FROM seckill_voucher WHERE voucher_id = 1").await, 0);
    assert_eq!(market.sql("SELECT COUNT(*) FROM voucher_order WHERE status = 'UNPAID'").await, 100);
    assert_eq!(market.sql("SELECT COUNT(*) FROM voucher_order").await, 100);
    assert_eq!(market.sql("SELECT COUNT(DISTINCT user_id) FROM voucher_order").await, 100);
    market.shutdown().await;
}

async fn each_refusal_has_its_word(backend: Backend) {
    let market = Market::on(backend).await;
    market.post("/voucher-order/seckill/1", "").await.refused(401, "NOT_LOGGED_IN");
    let token = market.log_in("10000000001").await;
    let first = market.post("/voucher-order/seckill/1", &token).await.ok().text();
    let again = market.post("/voucher-order/seckill/1", &token).await;
    again.refused(409, "DUPLICATE_ORDER");
    assert_eq!(again.text(), first, "the refusal names the order there is");
    market.post("/voucher-order/seckill/3", &token).await.refused(409, "NOT_STARTED");
    market.post("/voucher-order/seckill/4", &token).await.refused(409, "ENDED");
    market.post("/voucher-order/seckill/5", &token).await.refused(409, "SOLD_OUT");
    market.post("/voucher-order/seckill/99", &token).await.refused(404, "UNKNOWN_VOUCHER");
    market.post("/voucher-order/seckill/0", &token).await.refused(404, "UNKNOWN_VOUCHER");
    market.post("/voucher-order/seckill/x", &token).await.refused(400, "BAD_ID");
    let list = market.get("/voucher/seckill/list", "").await.ok().body;
    assert_eq!(list["data"].as_array().expect("a list").len(), 5);
    assert!(list["data"][0]["id"].is_string() && list["data"][0]["payValue"].is_i64());
    market.shutdown().await;
}

async fn an_order_is_its_owners_alone(backend: Backend) {
    let market = Market::on(backend).await;
    let (ada, bo) = (market.log_in("10000000001").await, market.log_in("10000000002").await);
    let order = market.post("/voucher-order/seckill/1", &ada).await.ok().text();
    let path = format!("/voucher-order/{order}");
    // Whether it still waits or is written: somebody else's order does not exist.
    market.get(&path, &bo).await.refused(404, "UNKNOWN_ORDER");
    assert_eq!(market.settled(&order, &ada).await, "UNPAID");
    market.get(&path, &bo).await.refused(404, "UNKNOWN_ORDER");
    market.get(&path, "").await.refused(401, "NOT_LOGGED_IN");
    market.get("/voucher-order/12345", &ada).await.refused(404, "UNKNOWN_ORDER");
    let view = market.get(&path, &ada).await.ok().body;
    assert_eq!((&view["data"]["userId"], &view["data"]["voucherId"]), (&"1".into(), &"1".into()));
    market.shutdown().await;
}

async fn the_last_unit_is_sold_once(backend: Backend) {
    let market = Market::on(backend).await;
    let tokens = crowd(&market, 50).await;
    let buys = tokens.iter().map(|token| market.post("/voucher-order/seckill/2", token));
    let answers = futures_util::future::join_all(buys).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
    assert_eq!(answers.iter().filter(|answer| answer.code() == "SOLD_OUT").count(), 49);
    market.all_settled().await;
    assert_eq!(market.sql("SELECT stock FROM seckill_voucher WHERE voucher_id = 2").await, 0);
    market.shutdown().await;
}

async fn a_redis_that_comes_back_empty_is_filled_from_the_database(backend: Backend) {
    let market = Market::on(backend).await;
    let tokens = crowd(&market, 4).await;
    for token in &tokens[..3] {
        market.post("/voucher-order/seckill/1", token).await.ok();
    }
    market.all_settled().await;
    let () = market.redis(&["FLUSHALL"]).await;
    let buyer = market.log_in("10000000001").await;
    let order = market.post("/voucher-order/seckill/1", &buyer).await.ok().text();
    assert_eq!(market.stock(1).await, 96, "three were sold before, one after");
    // The group was lost as well; workers make it again and go on.
    assert_eq!(market.settled(&order, &buyer).await, "UNPAID");
    market.all_settled().await;
    assert_eq!(market.sql("SELECT stock FROM seckill_voucher WHERE voucher_id = 1").await, 96);
    market.shutdown().await;
}

/// Redis forgot a buyer; the unique key did not.
async fn the_database_has_the_last_word(backend: Backend) {
    let market = Market::on(backend).await;
    let token = market.log_in("10000000001").await;
    let first = market.post("/voucher-order/seckill/1", &token).await.ok().text();
    assert_eq!(market.settled(&first, &token).await, "UNPAID");
    let forgotten: i64 = market.redis(&["HDEL", "sale:{1}:1:buyers", "1"]).await;
    assert_eq!(forgotten, 1);
    let second = market.post("/voucher-order/seckill/1", &token).await.ok().text();
    assert_eq!(market.settled(&second, &token).await, "FAILED");
    market.all_settled().await;
    assert_eq!(market.stock(1).await, 99, "the unit came back");
    assert_eq!(market.sql("SELECT stock FROM seckill_voucher WHERE voucher_id = 1").await, 99);
    let again = market.post("/voucher-order/seckill/1", &token).await;
    again.refused(409, "DUPLICATE_ORDER");
    assert_eq!(again.text(), first, "Redis knows the buyer again");

    // Redis believes in units that are not there.
    let _: i64 = market.redis(&["HSET", "sale:{2}:2", "left", "3"]).await;
    let others = crowd(&market, 3).await;
    let mut ends = Vec::new();
    for token in &others {
        let order = market.post("/voucher-order/seckill/2", token).await.ok().text();
        ends.push(market.settled(&order, token).await);
    }
    assert_eq!(ends, ["UNPAID", "FAILED", "FAILED"]);
    market.all_settled().await;
    assert_eq!(
        (
            market.stock(2).await,
            market.sql("SELECT stock FROM seckill_voucher WHERE voucher_id = 2").await
        ),
        (0, 0)
    );
    market.shutdown().await;
}

/// Keys of one sale lie together, those of others elsewhere: everything works across slots.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sales_work_on_a_cluster() {
    let market = Market::on(Backend::Cluster).await;
    let token = market.log_in("10000000001").await;
    for voucher in [1, 2] {
        let path = format!("/voucher-order/seckill/{voucher}");
        let order = market.post(&path, &token).await.ok().text();
        assert_eq!(market.settled(&order, &token).await, "UNPAID");
        market.post(&path, &token).await.refused(409, "DUPLICATE_ORDER");
    }
    market.get("/shop/1", &token).await.ok();
    market.all_settled().await;
    assert_eq!((market.stock(1).await, market.stock(2).await), (99, 0));
    // A colleague's rounds and comparisons cross slots as well.
    let colleague = market.colleague().await;
    let list = colleague.get("/voucher-order", &token).await.ok().body;
    let [second, first] = &list["data"].as_array().expect("a list")[..] else { panic!("{list}") };
    let path = |order: &serde_json::Value, what: &str| {
        format!("/voucher-order/{}/{what}", order["id"].as_str().expect("an id"))
    };
    colleague.post(&path(first, "pay"), &token).await.ok();
    colleague.post(&path(second, "cancel"), &token).await.ok();
    assert_eq!((market.stock(1).await, market.stock(2).await), (99, 1));
    colleague.shutdown().await;
}
