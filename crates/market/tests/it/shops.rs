//! Shops through the cache.

use std::time::Duration;

use seawall::testing::Stage;
use seawall_testkit::backend::Backend;

use crate::market::{Market, on_each_backend};

on_each_backend!(a_shop_is_read_and_an_unknown_one_is_not);

async fn a_shop_is_read_and_an_unknown_one_is_not(backend: Backend) {
    let market = Market::on(backend).await;
    let shop = market.get("/shop/1", "").await.ok().body;
    assert_eq!(shop["data"]["id"], "1", "ids are text");
    assert_eq!(shop["data"]["name"], "Harbour Noodles");
    assert!(shop["data"]["createTime"].as_str().expect("text").ends_with("+08:00"));
    assert_eq!(market.get("/shop/1", "").await.ok().body, shop, "the same from the cache");
    market.get("/shop/4711", "").await.refused(404, "UNKNOWN_SHOP");
    for bad in [
        "/shop/x",
        "/shop/-1",
        "/shop/1.5",
        "/shop/9223372036854775808",
        "/shop/%00",
        "/shop/1%20OR%201=1",
    ] {
        market.get(bad, "").await.refused(400, "BAD_ID");
    }
    market.shutdown().await;
}

#[tokio::test]
async fn that_there_is_no_shop_is_remembered_briefly() {
    let stage = Stage::start().await.expect("an engine");
    let market = Market::on_stage(&stage).await;
    market.get("/shop/77", "").await.refused(404, "UNKNOWN_SHOP");
    market
        .change(
            "INSERT INTO shop SELECT 77, owner_id, 'Late', type_id, images, area, address, x, y, \
             avg_price, sold, comments, score, open_hours, create_time, update_time \
             FROM shop WHERE id = 1",
        )
        .await;
    market.get("/shop/77", "").await.refused(404, "UNKNOWN_SHOP");
    stage.advance(Duration::from_secs(5 * 60)).await;
    assert_eq!(market.get("/shop/77", "").await.ok().body["data"]["name"], "Late");
    market.shutdown().await;
}

#[tokio::test]
async fn without_redis_shops_are_still_shown() {
    let stage = Stage::start().await.expect("an engine");
    let market = Market::on_stage(&stage).await;
    stage.faults().begin_outage();
    market.get("/shop/2", "").await.ok();
    stage.faults().end_outage();
    market.shutdown().await;
}
