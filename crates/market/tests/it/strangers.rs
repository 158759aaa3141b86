//! Two users and every route with an id: nobody sees or changes what is the other's.
//!
//! The routes come from the API's own description, so that a new one has to be called public or
//! somebody's here before this test passes again.

use axum::http::Method;
use seawall_testkit::backend::Backend;
use serde_json::{Value, json};

use crate::market::{Market, on_each_backend};

on_each_backend!(nobody_reaches_what_is_somebody_elses);

/// Routes with an id that everybody may call: they show what is public, or change what is one's own.
const PUBLIC: &[&str] = &[
    "GET /shop/{id}",
    "GET /user/{id}",
    "GET /sku/{id}",
    "GET /inventory/{skuId}",
    "GET /voucher/list/{shopId}",
    "POST /voucher-order/seckill/{id}",
    "GET /blog/{id}",
    "GET /blog/likes/{id}",
    "PUT /blog/like/{id}",
    "GET /blog/{id}/comments",
    "POST /blog/{id}/comments",
    "GET /blog/{id}/comments/{root}/replies",
    "PUT /follow/{id}/{wish}",
    "GET /follow/or/not/{id}",
    "GET /follow/common/{id}",
    "PUT /cart/{skuId}",
    "DELETE /cart/{skuId}",
    "GET /uploads/{folder}/{name}",
    "GET /pictures/{kind}/{file}",
];

/// What Ada has, and Bo must not reach.
struct Belongings {
    voucher_order: String,
    order: String,
    note: String,
}

impl Belongings {
    async fn of(market: &Market, token: &str) -> Self {
        let voucher_order = market.post("/voucher-order/seckill/1", token).await.ok().text();
        assert_eq!(market.settled(&voucher_order, token).await, "UNPAID");
        let item = json!({ "skuId": "1", "count": 1 });
        market.send_json(Method::POST, "/cart", token, &item).await.ok();
        let quote = market.send_json(Method::POST, "/cart/checkout", token, &json!({})).await.ok();
        let body = json!({ "checkoutId": quote.body["data"]["checkoutId"] });
        let order = market.send_named(Method::POST, "/order", token, &body, "ada-1").await;
        let order = order.ok().text();
        let note = json!({ "shopId": "1", "title": "Mine", "content": "Hands off.", "images": [] });
        let note = market.send_json(Method::POST, "/blog", token, &note).await.ok().text();
        Belongings { voucher_order, order, note }
    }

    /// All of it, as Ada sees it.
    async fn state(&self, market: &Market, token: &str) -> Vec<Value> {
        let mut all = Vec::new();
        for path in [
            &format!("/voucher-order/{}", self.voucher_order),
            &format!("/order/{}", self.order),
            &format!("/blog/{}", self.note),
            "/cart",
            "/shop/1",
        ] {
            all.push(market.get(path, token).await.ok().body["data"].clone());
        }
        all
    }

    /// The path of an operation on what is Ada's; `None` for what is nobody's in particular.
    fn path(&self, operation: &str) -> Option<String> {
        let (_, path) = operation.split_once(' ').expect("a method and a path");
        let id = match path {
            _ if path.starts_with("/voucher-order/{id}") => &self.voucher_order,
            _ if path.starts_with("/order/{id}") => &self.order,
            "/blog/{id}" => &self.note,
            "/shop/{id}" => "1",
            _ => return None,
        };
        Some(path.replace("{id}", id))
    }
}

/// Every operation with something in braces in its path.
async fn operations(market: &Market) -> Vec<String> {
    let api = market.get("/openapi.json", "").await.body;
    let paths = api["paths"].as_object().expect("paths");
    let mut all = Vec::new();
    for (path, item) in paths.iter().filter(|(path, _)| path.contains('{')) {
        let methods = item.as_object().expect("operations").keys();
        all.extend(methods.map(|method| format!("{} {path}", method.to_uppercase())));
    }
    assert!(all.len() > 20, "the description is whole: {all:?}");
    all
}

async fn nobody_reaches_what_is_somebody_elses(backend: Backend) {
    let market = Market::on(backend).await;
    let (ada, bo) = (market.log_in("10000000001").await, market.log_in("10000000002").await);
    let belongings = Belongings::of(&market, &ada).await;
    let before = belongings.state(&market, &ada).await;
    for operation in operations(&market).await {
        if PUBLIC.contains(&operation.as_str()) {
            continue;
        }
        let path = belongings.path(&operation).unwrap_or_else(|| {
            panic!("{operation}: is it public, or does it belong to somebody? Say so in this test")
        });
        let method: Method = operation.split(' ').next().expect("a method").parse().expect("known");
        let body = json!({ "name": "Bo's", "title": "Bo's", "content": "Bo's", "count": 7 });
        for token in [bo.as_str(), ""] {
            let answer = market.send_json(method.clone(), &path, token, &body).await;
            let refused: &[u16] = if token.is_empty() { &[401] } else { &[403, 404] };
            assert!(refused.contains(&answer.status.as_u16()), "{operation}: {answer:?}");
        }
    }
    // A cart and a sale are entered by everybody for themselves.
    for (method, path) in [(Method::PUT, "/cart/1"), (Method::DELETE, "/cart/1")] {
        market.send_json(method, path, &bo, &json!({ "count": 9 })).await;
    }
    assert_eq!(belongings.state(&market, &ada).await, before, "nothing of Ada's was changed");
    market.shutdown().await;
}
