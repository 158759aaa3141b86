//! Redis and the database that do not agree about a sale: the database is right.

use std::collections::HashMap;

use seawall_testkit::backend::Backend;

use crate::{
    market::{Market, on_each_backend},
    sales_workers::Left,
};

on_each_backend!(
    what_redis_was_not_told_or_forgot_is_repaired,
    a_redis_that_forgot_orders_sells_after_it_was_compared,
    units_that_are_not_there_are_taken_out_before_they_sell,
    an_order_that_vanished_from_the_stream_is_brought_to_the_database,
);

const STOCK: &str = "SELECT stock FROM seckill_voucher WHERE voucher_id = 1";
const SALE: &str = "sale:{1}:1";
const BUYERS: &str = "sale:{1}:1:buyers";
const RECEIPTS: &str = "sale:{1}:1:receipts";

/// Three orders, of users 1 to 3.
async fn three_orders(market: &Market) -> (Vec<String>, Vec<String>) {
    let (mut tokens, mut orders) = (Vec::new(), Vec::new());
    for user in 1..=3 {
        let token = market.log_in(&format!("1000000000{user}")).await;
        orders.push(market.post("/voucher-order/seckill/1", &token).await.ok().text());
        tokens.push(token);
    }
    for (order, token) in orders.iter().zip(&tokens) {
        assert_eq!(market.settled(order, token).await, "UNPAID");
    }
    market.all_settled().await;
    (tokens, orders)
}

async fn what_redis_was_not_told_or_forgot_is_repaired(backend: Backend) {
    let market = Market::on(backend).await;
    let (tokens, orders) = three_orders(&market).await;
    // The database ended the first order, and Redis was never told.
    market
        .change("UPDATE voucher_order SET status = 'CANCELLED', live = NULL WHERE user_id = 1")
        .await;
    market.change("UPDATE seckill_voucher SET stock = stock + 1 WHERE voucher_id = 1").await;
    // Redis forgot the second one, and then it counts wrongly.
    let _: i64 = market.redis(&["HDEL", RECEIPTS, &orders[1]]).await;
    let _: i64 = market.redis(&["HDEL", BUYERS, "2"]).await;
    let _: i64 = market.redis(&["HSET", SALE, "left", "42"]).await;
    market.compare_sales().await;
    assert_eq!((market.stock(1).await, market.sql(STOCK).await), (98, 98));
    let again = market.post("/voucher-order/seckill/1", &tokens[1]).await;
    again.refused(409, "DUPLICATE_ORDER");
    assert_eq!(again.text(), orders[1], "Redis knows the order again");
    let first = market.post("/voucher-order/seckill/1", &tokens[0]).await.ok().text();
    assert_eq!(market.settled(&first, &tokens[0]).await, "UNPAID", "who cancelled may buy again");
    market.all_settled().await;
    assert_eq!((market.stock(1).await, market.sql(STOCK).await), (97, 97));
    market.shutdown().await;
}

async fn a_redis_that_forgot_orders_sells_after_it_was_compared(backend: Backend) {
    let market = Market::on(backend).await;
    let (tokens, _) = three_orders(&market).await;
    let mut kept = Vec::new();
    for key in [SALE, BUYERS, RECEIPTS] {
        kept.push((key, market.redis::<HashMap<String, String>>(&["HGETALL", key]).await));
    }
    let mut last = Vec::new();
    for user in 4..=6 {
        let token = market.log_in(&format!("1000000000{user}")).await;
        let order = market.post("/voucher-order/seckill/1", &token).await.ok().text();
        assert_eq!(market.settled(&order, &token).await, "UNPAID");
        last.push((token, order));
    }
    market.all_settled().await;
    // As a restart leaves it: what was written last is gone, and the server has another history.
    for (key, fields) in &kept {
        let pairs = fields.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
        let set: Vec<&str> = ["HSET", key].into_iter().chain(pairs).collect();
        assert_eq!(market.redis::<i64>(&["DEL", key]).await, 1);
        assert_eq!(market.redis::<usize>(&set).await, fields.len());
    }
    let before = "0".repeat(40);
    assert_eq!(market.redis::<i64>(&["HSET", SALE, "vouched", &before]).await, 0);
    assert_eq!(market.stock(1).await, 97, "three too many");
    for (token, order) in &last {
        let again = market.post("/voucher-order/seckill/1", token).await;
        again.refused(409, "DUPLICATE_ORDER");
        assert_eq!(&again.text(), order, "Redis knows the order again");
    }
    assert_eq!(market.stock(1).await, 94);
    market.post("/voucher-order/seckill/1", &tokens[0]).await.refused(409, "DUPLICATE_ORDER");
    market.shutdown().await;
}

async fn units_that_are_not_there_are_taken_out_before_they_sell(backend: Backend) {
    let market = Market::on(backend).await;
    three_orders(&market).await;
    let _: i64 = market.redis(&["HINCRBY", SALE, "left", "5"]).await;
    let _: i64 = market.redis(&["HINCRBY", SALE, "received", "5"]).await;
    market.compare_sales().await;
    let even: Vec<i64> = market.redis(&["HMGET", SALE, "received", "left", "confirmed"]).await;
    assert_eq!(even, [100, 97, 3]);
    market.shutdown().await;
}

async fn an_order_that_vanished_from_the_stream_is_brought_to_the_database(backend: Backend) {
    let Left { stores, order, token } = Left::on(backend).await;
    assert_eq!(stores.redis::<i64>(&["DEL", "sale:{1}"]).await, 1);
    // As if it had been reserved long ago.
    let _: i64 = stores.redis(&["HSET", "sale:{1}:waiting", &order, "1000 1 1 1"]).await;
    let colleague = stores.colleague().await;
    colleague.get(&format!("/voucher-order/{order}"), &token).await.ok();
    colleague.compare_sales().await;
    colleague.all_settled().await;
    assert_eq!(colleague.settled(&order, &token).await, "UNPAID");
    assert_eq!((stores.stock(1).await, stores.sql(STOCK).await), (99, 99));
    colleague.shutdown().await;
}
