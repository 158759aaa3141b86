//! Shops: through the cache, by name, and changed by those whose they are.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use axum::http::Method;
use seawall::testing::TestServer;
use seawall_testkit::backend::Backend;
use serde_json::{Value, json};

use crate::market::{Answer, Market, PATIENCE, on_each_backend};

on_each_backend!(
    a_shop_is_read_and_an_unknown_one_is_not,
    kinds_and_names_are_listed,
    names_are_found_in_small_letters_and_large_ones,
    a_new_shop_is_there_at_once_for_everybody,
    the_filter_is_built_of_generated_ids,
    a_change_is_seen_and_only_the_owner_makes_it,
    what_makes_no_sense_is_refused,
);

const MERCHANT: &str = "10000000005";
const ADMIN: &str = "10000000000";
const GUEST: &str = "10000000001";

fn new_shop() -> Value {
    json!({ "name": "Fog Horn", "typeId": "7", "x": 120.15, "y": 30.26, "address": "9 Pier" })
}

async fn put(market: &Market, shop: &str, token: &str, body: &Value) -> Answer {
    market.send_json(Method::PUT, &format!("/shop/{shop}"), token, body).await
}

async fn a_shop_is_read_and_an_unknown_one_is_not(backend: Backend) {
    let market = Market::on(backend).await;
    let shop = market.get("/shop/1", "").await.ok().body;
    assert_eq!(shop["data"]["id"], "1", "ids are text");
    assert_eq!(shop["data"]["name"], "Harbour Noodles");
    assert!(shop["data"]["createTime"].as_str().expect("text").ends_with("+08:00"));
    assert!(shop["data"].get("distance").is_none());
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

async fn kinds_and_names_are_listed(backend: Backend) {
    let market = Market::on(backend).await;
    let kinds = market.get("/shop-type/list", "").await.ok().body;
    let kinds = kinds["data"].as_array().expect("a list");
    assert_eq!(kinds.len(), 10);
    assert_eq!((&kinds[0]["id"], &kinds[0]["name"]), (&json!("1"), &json!("Food")));
    assert!(kinds.is_sorted_by_key(|kind| kind["sort"].as_i64()));

    let all = market.get("/shop/of/name", "").await.ok().body;
    assert_eq!((&all["total"], all["data"].as_array().map(Vec::len)), (&json!(48), Some(10)));
    let last = market.get("/shop/of/name?name=&current=5", "").await.ok().body;
    assert_eq!(last["data"].as_array().map(Vec::len), Some(8));
    let past = market.get("/shop/of/name?current=6", "").await.ok().body;
    assert_eq!((&past["total"], &past["data"]), (&json!(48), &json!([])));
    let kettle = market.get("/shop/of/name?name=copper", "").await.ok().body;
    assert_eq!((&kettle["total"], &kettle["data"][0]["id"]), (&json!(1), &json!("2")));
    // Wildcards stand for themselves, and quotes for nothing.
    for none in ["%25", "_", "H_rbour", "!", "'%20OR%20'1'='1", "%22", "\u{6c34}"] {
        let path = format!("/shop/of/name?name={none}").replace('\u{6c34}', "%E6%B0%B4");
        let found = market.get(&path, "").await.ok().body;
        assert_eq!((&found["total"], &found["data"]), (&json!(0), &json!([])), "{none}");
    }
    let long = format!("/shop/of/name?name={}", "x".repeat(129));
    market.get(&long, "").await.refused(400, "BAD_TEXT");
    market.get("/shop/of/name?name=%00", "").await.refused(400, "BAD_TEXT");
    market.get("/shop/of/name?current=0", "").await.refused(400, "BAD_PAGE");
    market.get("/shop/of/name?current=-1", "").await.refused(400, "BAD_QUERY");
    market.shutdown().await;
}

async fn names_are_found_in_small_letters_and_large_ones(backend: Backend) {
    let market = Market::on(backend).await;
    let merchant = market.log_in(MERCHANT).await;
    let mut body = new_shop();
    body["name"] = json!("CAFÉ Ünique");
    let id = market.send_json(Method::POST, "/shop", &merchant, &body).await.ok().text();
    let found = async |market: &Market, name: &str| {
        let path = format!("/shop/of/name?name={name}");
        let found = market.get(&path, "").await.ok().body;
        found["total"] == 1 && found["data"][0]["id"] == json!(id)
    };
    // café, CAFÉ Ü, ünique, Ü
    for name in ["caf%C3%A9", "CAF%C3%89%20%C3%9C", "%C3%BCnique", "%C3%9C"] {
        assert!(found(&market, name).await, "{name}");
    }
    assert!(!found(&market, "cafe").await, "another letter");
    put(&market, &id, &merchant, &json!({ "name": "Бистро" })).await.ok();
    assert!(found(&market, "%D0%B1%D0%98%D0%A1").await, "бИС");
    assert!(!found(&market, "caf%C3%A9").await, "not its name any more");
    // As a version wrote it that did not fold yet.
    market.change("UPDATE shop SET search_name = NULL").await;
    let colleague = market.colleague().await;
    assert!(found(&colleague, "%D0%B1%D0%98%D0%A1").await, "бИС");
    assert_eq!(market.sql("SELECT COUNT(*) FROM shop WHERE search_name IS NULL").await, 0);
    colleague.shutdown().await;
    market.shutdown().await;
}

async fn a_new_shop_is_there_at_once_for_everybody(backend: Backend) {
    let market = Market::on(backend).await;
    let colleague = market.colleague().await;
    let merchant = market.log_in(MERCHANT).await;
    let named =
        async || market.send_named(Method::POST, "/shop", &merchant, &new_shop(), "mine").await;
    let id = named().await.ok().text();
    assert_eq!(named().await.ok().text(), id, "whoever does not hear the answer says it again");
    for one in [&market, &colleague] {
        let shop = one.get(&format!("/shop/{id}"), "").await.ok().body;
        let data = &shop["data"];
        assert_eq!((&data["name"], &data["ownerId"]), (&json!("Fog Horn"), &json!("5")));
        assert_eq!((&data["sold"], &data["score"]), (&json!(0), &json!(30)));
        let found = one.get("/shop/of/name?name=fog", "").await.ok().body;
        assert_eq!(found["data"][0]["id"], json!(id));
        let near = one.get("/shop/of/type?typeId=7&x=120.15&y=30.26", "").await.ok().body;
        assert_eq!(
            (&near["data"][0]["id"], &near["data"][0]["distance"]),
            (&json!(id), &json!(0.1))
        );
    }
    let guest = market.log_in(GUEST).await;
    for (token, status, code) in [("", 401, "NOT_LOGGED_IN"), (&guest, 403, "FORBIDDEN")] {
        let refused = market.send_json(Method::POST, "/shop", token, &new_shop()).await;
        refused.refused(status, code);
    }
    colleague.shutdown().await;
    market.shutdown().await;
}

/// An id that stops at the filter leaves no trace in Redis; one that passes is remembered as missing.
async fn the_filter_is_built_of_generated_ids(backend: Backend) {
    let market = Market::on(backend).await;
    let merchant = market.log_in(MERCHANT).await;
    let id = market.send_json(Method::POST, "/shop", &merchant, &new_shop()).await.ok().text();
    assert!(id.parse::<i64>().expect("an id") > i64::from(u32::MAX), "{id} is a generated one");
    // Its filter is first built when the shop is there already.
    let colleague = market.colleague().await;
    let strangers = AtomicU64::new(4_711_000);
    colleague
        .until("the filter", async |colleague| {
            let stranger = strangers.fetch_add(1, Ordering::Relaxed);
            let path = format!("/shop/{stranger}");
            colleague.get(&path, "").await.refused(404, "UNKNOWN_SHOP");
            let traces: Vec<String> = colleague.redis(&["KEYS", &format!("*{stranger}*")]).await;
            traces.is_empty()
        })
        .await;
    colleague.get(&format!("/shop/{id}"), "").await.ok();
    colleague.shutdown().await;
    market.shutdown().await;
}

async fn a_change_is_seen_and_only_the_owner_makes_it(backend: Backend) {
    let market = Market::on(backend).await;
    let colleague = market.colleague().await;
    market.change("UPDATE shop SET owner_id = 7 WHERE id = 2").await;
    for one in [&market, &colleague] {
        one.get("/shop/3", "").await.ok();
    }
    let merchant = market.log_in(MERCHANT).await;
    // What belongs to the market itself cannot be set.
    let change =
        json!({ "name": "Silent Karaoke", "score": 50, "sold": 9, "ownerId": "1", "id": 9 });
    put(&market, "3", &merchant, &change).await.ok();
    for one in [&market, &colleague] {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let shop = loop {
            let shop = one.get("/shop/3", "").await.ok().body;
            if shop["data"]["name"] == "Silent Karaoke" {
                break shop;
            }
            assert!(tokio::time::Instant::now() < deadline, "still the old one");
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let data = &shop["data"];
        assert_eq!((&data["score"], &data["sold"]), (&json!(43), &json!(2160)));
        assert_eq!((&data["ownerId"], &data["address"]), (&json!("5"), &json!("88 Lantern Road")));
    }
    let theirs = json!({ "name": "Mine now" });
    let guest = market.log_in(GUEST).await;
    let former = market.log_in("10000000007").await;
    put(&market, "2", "", &theirs).await.refused(401, "NOT_LOGGED_IN");
    for token in [&guest, &merchant, &former] {
        put(&market, "2", token, &theirs).await.refused(403, "FORBIDDEN");
    }
    put(&market, "4711", &merchant, &theirs).await.refused(404, "UNKNOWN_SHOP");
    let admin = market.log_in(ADMIN).await;
    put(&market, "2", &admin, &theirs).await.ok();
    assert_eq!(market.get("/shop/2", "").await.ok().body["data"]["name"], "Mine now");
    colleague.shutdown().await;
    market.shutdown().await;
}

async fn what_makes_no_sense_is_refused(backend: Backend) {
    let market = Market::on(backend).await;
    let merchant = market.log_in(MERCHANT).await;
    let bad = [
        ("name", json!(""), "BAD_TEXT"),
        ("name", json!("x".repeat(129)), "BAD_TEXT"),
        ("name", json!("a\u{7}b"), "BAD_TEXT"),
        ("typeId", json!(99), "UNKNOWN_TYPE"),
        ("typeId", json!("x"), "BAD_BODY"),
        ("x", json!(180.5), "BAD_POINT"),
        ("y", json!(-86), "BAD_POINT"),
        ("x", json!("120"), "BAD_BODY"),
        ("avgPrice", json!(-1), "BAD_NUMBER"),
        ("openHours", json!("x".repeat(33)), "BAD_TEXT"),
        ("images", json!("http://elsewhere/1.png"), "BAD_IMAGES"),
    ];
    for (field, value, code) in bad {
        let mut body = new_shop();
        body[field] = value;
        market.send_json(Method::POST, "/shop", &merchant, &body).await.refused(400, code);
        put(&market, "1", &merchant, &body).await.refused(400, code);
    }
    let nowhere = json!({ "name": "Nowhere", "typeId": 1 });
    market.send_json(Method::POST, "/shop", &merchant, &nowhere).await.refused(400, "BAD_BODY");
    assert_eq!(market.sql("SELECT COUNT(*) FROM shop").await, 48);
    market.shutdown().await;
}

/// A shop that came into the database behind the market's back.
const LATE: &str = "INSERT INTO shop SELECT 77, owner_id, 'Late', type_id, images, area, address, \
     x, y, avg_price, sold, comments, score, open_hours, create_time, update_time, NULL \
     FROM shop WHERE id = 1";

#[tokio::test]
async fn that_there_is_no_shop_is_remembered_briefly() {
    let test_server = TestServer::start().await.expect("an engine");
    let market = Market::on_test_server(&test_server).await;
    market.get("/shop/77", "").await.refused(404, "UNKNOWN_SHOP");
    market.change(LATE).await;
    market.get("/shop/77", "").await.refused(404, "UNKNOWN_SHOP");
    // Neither the remembered nothing nor the filter is believed for longer than this.
    test_server.advance(Duration::from_secs(11 * 60)).await;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while market.get("/shop/77", "").await.status != 200 {
        assert!(tokio::time::Instant::now() < deadline, "it stays unknown");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    market.shutdown().await;
}

#[tokio::test]
async fn without_redis_shops_are_still_shown() {
    let test_server = TestServer::start().await.expect("an engine");
    let market = Market::on_test_server(&test_server).await;
    test_server.faults().begin_outage();
    market.get("/shop/2", "").await.ok();
    market.get("/shop-type/list", "").await.ok();
    market.get("/shop/of/name?name=a", "").await.ok();
    test_server.faults().end_outage();
    market.shutdown().await;
}
