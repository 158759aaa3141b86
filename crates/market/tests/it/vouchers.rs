//! Vouchers: who may add them, what makes sense, and that a sale is open at once.

use axum::http::Method;
use seawall_testkit::backend::Backend;
use serde_json::{Value, json};

use crate::market::{Answer, Market, on_each_backend};

on_each_backend!(
    a_merchant_adds_vouchers_and_a_sale_is_open_at_once,
    what_makes_no_sense_is_refused,
    only_the_merchant_of_the_shop_and_admins_add_vouchers,
    a_name_is_of_one_kind_of_voucher_and_one_shop,
);

const MERCHANT: &str = "10000000005";
const ADMIN: &str = "10000000000";
const GUEST: &str = "10000000001";

fn sale() -> Value {
    json!({
        "shopId": "1", "title": "A bowl", "subTitle": "of soup", "rules": "Once.\nFor one.",
        "payValue": 500, "actualValue": 1000, "stock": 3,
        "beginTime": "2020-01-01T00:00:00+08:00", "endTime": "2099-01-01T00:00:00Z",
    })
}

/// Another value for one field.
fn but(mut body: Value, field: &str, value: Value) -> Value {
    body[field] = value;
    body
}

async fn post(market: &Market, path: &str, token: &str, body: &Value) -> Answer {
    market.send_json(Method::POST, path, token, body).await
}

async fn a_merchant_adds_vouchers_and_a_sale_is_open_at_once(backend: Backend) {
    let market = Market::on(backend).await;
    let merchant = market.log_in(MERCHANT).await;
    let before = market.get("/voucher/list/1", "").await.ok().body;
    let normal = json!({ "shopId": 1, "title": "Tea", "payValue": 100, "actualValue": 200 });
    let tea = post(&market, "/voucher", &merchant, &normal).await.ok().text();
    // Whoever does not hear the answer says it again.
    let named = async || {
        market.send_named(Method::POST, "/voucher/seckill", &merchant, &sale(), "bowl").await
    };
    let flash = named().await.ok().text();
    assert_eq!(named().await.ok().text(), flash);

    let list = market.get("/voucher/list/1", "").await.ok().body;
    let list = list["data"].as_array().expect("a list");
    assert_eq!(list.len(), before["data"].as_array().expect("a list").len() + 2);
    let of = |id: &str| list.iter().find(|one| one["id"] == id).expect("it is listed").clone();
    let tea = of(&tea);
    assert_eq!(
        (&tea["type"], &tea["title"], &tea["subTitle"]),
        (&json!(0), &json!("Tea"), &json!(""))
    );
    assert!(tea.get("stock").is_none() && tea.get("beginTime").is_none());
    let bowl = of(&flash);
    assert_eq!((&bowl["type"], &bowl["stock"]), (&json!(1), &json!(3)));
    assert_eq!(bowl["beginTime"], "2020-01-01T00:00:00+08:00");
    assert_eq!(bowl["endTime"], "2099-01-01T08:00:00+08:00", "in the zone of the business");
    let sales = market.get("/voucher/seckill/list", "").await.ok().body;
    assert_eq!(sales["data"][0]["id"], json!(flash), "it ends last");

    let guest = market.log_in(GUEST).await;
    let order = market.post(&format!("/voucher-order/seckill/{flash}"), &guest).await.ok().text();
    assert_eq!(market.settled(&order, &guest).await, "UNPAID");
    market.get("/voucher/list/4711", "").await.refused(404, "UNKNOWN_SHOP");
    market.shutdown().await;
}

async fn what_makes_no_sense_is_refused(backend: Backend) {
    let market = Market::on(backend).await;
    let merchant = market.log_in(MERCHANT).await;
    let bad = [
        ("title", json!(""), "BAD_TEXT"),
        ("title", json!("x".repeat(256)), "BAD_TEXT"),
        ("title", json!("a\u{0}b"), "BAD_TEXT"),
        ("rules", json!("x".repeat(1025)), "BAD_TEXT"),
        ("payValue", json!(-1), "BAD_NUMBER"),
        ("actualValue", json!(100_000_001), "BAD_NUMBER"),
        ("payValue", json!(1.5), "BAD_BODY"),
        ("payValue", json!(u64::MAX), "BAD_BODY"),
        ("stock", json!(0), "BAD_NUMBER"),
        ("stock", json!(1_000_001), "BAD_NUMBER"),
        ("stock", json!("3"), "BAD_BODY"),
        ("beginTime", json!("tomorrow"), "BAD_TIME"),
        ("beginTime", json!("2020-01-01T00:00:00"), "BAD_TIME"),
        ("endTime", json!("2020-01-01T00:00:00+08:00"), "BAD_TIME"),
        ("shopId", json!("x"), "BAD_BODY"),
    ];
    for (field, value, code) in bad {
        let body = but(sale(), field, value);
        post(&market, "/voucher/seckill", &merchant, &body).await.refused(400, code);
    }
    let nowhere = but(sale(), "shopId", json!("4711"));
    post(&market, "/voucher/seckill", &merchant, &nowhere).await.refused(404, "UNKNOWN_SHOP");
    assert_eq!(market.sql("SELECT COUNT(*) FROM seckill_voucher").await, 5, "nothing was written");
    market.shutdown().await;
}

async fn only_the_merchant_of_the_shop_and_admins_add_vouchers(backend: Backend) {
    let market = Market::on(backend).await;
    market.change("UPDATE shop SET owner_id = 7 WHERE id = 2").await;
    let theirs = but(sale(), "shopId", json!("2"));
    let merchant = market.log_in(MERCHANT).await;
    let guest = market.log_in(GUEST).await;
    for path in ["/voucher", "/voucher/seckill"] {
        post(&market, path, "", &theirs).await.refused(401, "NOT_LOGGED_IN");
        post(&market, path, &guest, &theirs).await.refused(403, "FORBIDDEN");
        post(&market, path, &merchant, &theirs).await.refused(403, "FORBIDDEN");
    }
    // An owner who is no merchant any more.
    let former = market.log_in("10000000007").await;
    post(&market, "/voucher", &former, &theirs).await.refused(403, "FORBIDDEN");
    let admin = market.log_in(ADMIN).await;
    post(&market, "/voucher/seckill", &admin, &theirs).await.ok();
    market.shutdown().await;
}

async fn a_name_is_of_one_kind_of_voucher_and_one_shop(backend: Backend) {
    let market = Market::on(backend).await;
    let admin = market.log_in(ADMIN).await;
    let add = async |path: &str, body: &Value| {
        market.send_named(Method::POST, path, &admin, body, "once").await
    };
    let before = market.sql("SELECT COUNT(*) FROM voucher").await;
    let first = add("/voucher", &sale()).await.ok().text();
    let flash = add("/voucher/seckill", &sale()).await;
    flash.refused(409, "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(flash.text(), first, "what it was used for");
    let elsewhere = but(sale(), "shopId", json!("2"));
    add("/voucher", &elsewhere).await.refused(409, "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(add("/voucher", &sale()).await.ok().text(), first);
    assert_eq!(market.sql("SELECT COUNT(*) FROM voucher").await, before + 1);
    // A name that an earlier version has kept does not say what it is for.
    market.change("UPDATE submission SET target = ''").await;
    assert_eq!(add("/voucher", &sale()).await.ok().text(), first);
    market.shutdown().await;
}
