//! Redis goes away and comes back: what may go on does, what may not says so, and nothing is lost.

use seawall_testkit::{ServerBuilder, ServerProcess, TestDatabase};
use serde_json::json;

use crate::client::{Answer, Http, MarketProcess, data, eventually};

#[track_caller]
fn shut(answer: std::io::Result<Answer>) {
    let answer = answer.expect("an answer");
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.headers.contains_key("retry-after"), "{answer:?}");
}

/// How many of a SKU are in a cart.
fn count(client: &mut Http, token: &str, sku: &str) -> i64 {
    let cart = data(client.get("/cart", token));
    let items = cart.as_array().cloned().or_else(|| cart["items"].as_array().cloned());
    let items = items.unwrap_or_else(|| panic!("no cart: {cart}"));
    let item = items.iter().find(|item| item["skuId"] == sku);
    item.map_or(0, |item| item["count"].as_i64().expect("a number"))
}

#[test]
fn without_redis_reading_goes_on_and_buying_is_shut_and_afterwards_all_is_consistent() {
    let dir = tempfile::tempdir().expect("a folder");
    let database = TestDatabase::create().expect("MariaDB");
    let mut redis: ServerProcess = ServerBuilder::redis()
        .args(["--appendonly", "yes", "--appendfsync", "always"])
        .start()
        .expect("redis-server");
    let url = format!("redis://127.0.0.1:{}", redis.port());
    let served = MarketProcess::start_with(
        dir.path(),
        &["--redis", &url, "--sms", "echo"],
        &[("SEAWALL_DATABASE", database.url())],
    );
    let mut client = served.client();
    let ada = client.log_in("10000000006");
    let order = data(client.post("/voucher-order/seckill/1", &ada));
    assert_eq!(client.settled(order.as_str().expect("an id"), &ada), "UNPAID");
    data(client.json("POST", "/cart", &ada, &json!({ "skuId": "5", "count": 2 })));
    data(client.get("/shop/1", ""));
    data(client.get("/blog/1", &ada));

    redis.kill().expect("it ends");
    for path in ["/shop/1", "/shop/40", "/blog/1", "/blog/hot", "/shop-type/list"] {
        data(client.get(path, &ada));
    }
    assert_eq!(count(&mut client, &ada, "5"), 2, "the cart is there");
    data(client.json("POST", "/cart", &ada, &json!({ "skuId": "5", "count": 1 })));
    data(client.json("POST", "/cart", &ada, &json!({ "skuId": "6", "count": 4 })));
    assert_eq!(count(&mut client, &ada, "5"), 3);
    shut(client.post("/voucher-order/seckill/1", &ada));
    shut(client.call(
        "POST",
        "/user/code",
        "",
        "application/x-www-form-urlencoded",
        "phone=10000000002",
    ));

    redis.restart().expect("it starts again");
    eventually("ready again", || client.get("/readyz", "").expect("an answer").status == 200);
    // Who was told to come back in a second does.
    let form = "application/x-www-form-urlencoded";
    eventually("a login code", || {
        let asked = client.call("POST", "/user/code", "", form, "phone=10000000003");
        asked.expect("an answer").status != 503
    });
    let bo = client.log_in("10000000002");
    let bought = data(client.post("/voucher-order/seckill/1", &bo));
    assert_eq!(client.settled(bought.as_str().expect("an id"), &bo), "UNPAID");
    assert_eq!(client.stock("1"), 98, "two were sold");
    eventually("what was put into the cart meanwhile", || {
        (count(&mut client, &ada, "5"), count(&mut client, &ada, "6")) == (3, 4)
    });
    assert_eq!(served.terminate(), Some(0));
}
