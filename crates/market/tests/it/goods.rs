//! Goods: the shelf, single SKUs, and their cache.

use seawall_testkit::backend::Backend;

use crate::market::{Market, on_each_backend};

on_each_backend!(the_shelf_has_pages_and_a_total, one_sku_can_be_read);

async fn the_shelf_has_pages_and_a_total(backend: Backend) {
    let market = Market::on(backend).await;
    let mut seen = Vec::new();
    for page in 1..=4 {
        let answer = market.get(&format!("/sku?current={page}"), "").await.ok();
        assert_eq!(answer.body["total"], 26, "four of thirty are off the shelf");
        for sku in answer.body["data"].as_array().expect("a page") {
            assert_eq!(sku["onShelf"], true);
            let id = sku["id"].as_str().expect("an id is text").to_owned();
            assert_eq!(sku["image"], format!("/pictures/goods/{id}.svg"));
            seen.push(id);
        }
    }
    assert_eq!(seen.len(), 26);
    assert!(!seen.contains(&"7".to_owned()));
    for bad in ["0", "-1", "10001", "x"] {
        let answer = market.get(&format!("/sku?current={bad}"), "").await;
        assert_eq!(answer.status, 400, "{answer:?}");
    }
    market.shutdown().await;
}

async fn one_sku_can_be_read(backend: Backend) {
    let market = Market::on(backend).await;
    for _ in 0..2 {
        let answer = market.get("/sku/7", "").await.ok();
        assert_eq!(answer.body["data"]["onShelf"], false);
        assert_eq!(answer.body["data"]["price"], 750);
    }
    market.get("/sku/999", "").await.refused(404, "UNKNOWN_SKU");
    market.get("/sku/x", "").await.refused(400, "BAD_ID");
    market.shutdown().await;
}
