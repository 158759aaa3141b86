//! The home feed: a list that stays while one scrolls, and starts over when it is gone.

use std::time::Duration;

use seawall::testing::TestServer;
use seawall_testkit::backend::Backend;
use serde_json::{Value, json};

use crate::market::{Market, on_each_backend};

on_each_backend!(
    a_version_is_a_list_that_stays,
    a_version_of_one_process_is_known_to_the_others,
    what_makes_no_sense_is_refused,
);

/// One note for each shop, the more likes the higher its id: 9048 is in front.
const NOTES: &str = "INSERT INTO blog (id, shop_id, user_id, title, images, content, liked, \
     comments, create_time, update_time) \
     SELECT 9000 + id, id, 1, name, '', 'Good.', id * 10, 0, 1700000000000, 0 FROM shop";
/// One that would be in front of all of them.
const LATER: &str = "INSERT INTO blog (id, shop_id, user_id, title, images, content, liked, \
     comments, create_time, update_time) \
     VALUES (9999, 1, 2, 'Later', '', 'Better.', 100000, 0, 1700000000000, 0)";

async fn with_notes(market: &Market) {
    market.change("DELETE FROM blog").await;
    market.change(NOTES).await;
}

async fn feed(market: &Market, body: &Value) -> Value {
    market.post_json("/home/feed", body).await.ok().body["data"].clone()
}

fn ids(page: &Value) -> Vec<u64> {
    let id = |note: &Value| note["id"].as_str().and_then(|id| id.parse().ok()).expect("an id");
    page["list"].as_array().expect("a list").iter().map(id).collect()
}

fn descending(from: u64, to: u64) -> Vec<u64> {
    (to..=from).rev().collect()
}

async fn a_version_is_a_list_that_stays(backend: Backend) {
    let market = Market::on(backend).await;
    with_notes(&market).await;
    let first = feed(&market, &json!({ "pageNo": 1 })).await;
    assert_eq!(ids(&first), descending(9048, 9039));
    assert_eq!((&first["hasMore"], &first["startedOver"]), (&json!(true), &json!(false)));
    assert_eq!(first["list"][0]["name"], "Ada", "with the author's name");
    let version = &first["feedVersion"];
    assert!(version.is_string());

    market.change(LATER).await;
    for page in 2..=4 {
        let next = feed(&market, &json!({ "feedVersion": version, "pageNo": page })).await;
        assert_eq!(ids(&next), descending(9058 - page * 10, 9049 - page * 10));
        assert_eq!((&next["feedVersion"], &next["hasMore"]), (version, &json!(true)));
    }
    let last = feed(&market, &json!({ "feedVersion": version, "pageNo": 5 })).await;
    assert_eq!((ids(&last), &last["hasMore"]), (descending(9008, 9001), &json!(false)));
    let past = feed(&market, &json!({ "feedVersion": version, "pageNo": 6 })).await;
    assert_eq!((ids(&past), &past["startedOver"]), (Vec::new(), &json!(false)));

    let unknown = feed(&market, &json!({ "feedVersion": "4711", "pageNo": 3 })).await;
    assert_eq!(unknown["startedOver"], json!(true));
    assert_eq!(ids(&unknown).len(), 10, "page 1 of the newest list");
    assert_ne!(unknown["feedVersion"], "4711");
    market.shutdown().await;
}

async fn a_version_of_one_process_is_known_to_the_others(backend: Backend) {
    let market = Market::on(backend).await;
    with_notes(&market).await;
    let colleague = market.colleague().await;
    let first = feed(&market, &json!({})).await;
    let same = feed(&colleague, &json!({})).await;
    assert_eq!(same["feedVersion"], first["feedVersion"], "one of them built it");
    let next = json!({ "feedVersion": first["feedVersion"], "pageNo": 2 });
    assert_eq!(ids(&feed(&colleague, &next).await), descending(9038, 9029));
    colleague.shutdown().await;
    market.shutdown().await;
}

async fn what_makes_no_sense_is_refused(backend: Backend) {
    let market = Market::on(backend).await;
    for (body, code) in [
        (json!({ "pageNo": 0 }), "BAD_PAGE"),
        (json!({ "pageNo": 10_001 }), "BAD_PAGE"),
        (json!({ "pageNo": -1 }), "BAD_BODY"),
        (json!({ "pageNo": "1" }), "BAD_BODY"),
        (json!({ "pageNo": 1, "feedVersion": "x" }), "BAD_BODY"),
        (json!([]), "BAD_BODY"),
    ] {
        market.post_json("/home/feed", &body).await.refused(400, code);
    }
    market.shutdown().await;
}

#[tokio::test]
async fn a_version_that_expired_starts_over_at_the_newest() {
    let test_server = TestServer::start().await.expect("an engine");
    let market = Market::on_test_server(&test_server).await;
    with_notes(&market).await;
    let first = feed(&market, &json!({})).await;
    market.change(LATER).await;
    let next = json!({ "feedVersion": first["feedVersion"], "pageNo": 2 });
    test_server.advance(Duration::from_secs(9 * 60)).await;
    assert_eq!(feed(&market, &next).await["startedOver"], json!(false));
    test_server.advance(Duration::from_secs(5 * 60)).await;
    let over = feed(&market, &next).await;
    assert_eq!(
        (&over["startedOver"], over["list"][0]["id"].as_str()),
        (&json!(true), Some("9999"))
    );
    market.shutdown().await;
}

#[tokio::test]
async fn without_redis_one_scrolls_through_the_database() {
    let test_server = TestServer::start().await.expect("an engine");
    let market = Market::on_test_server(&test_server).await;
    with_notes(&market).await;
    test_server.faults().begin_outage();
    let first = feed(&market, &json!({})).await;
    let next = json!({ "feedVersion": first["feedVersion"], "pageNo": 2 });
    let second = feed(&market, &next).await;
    test_server.faults().end_outage();
    assert_eq!(ids(&first), descending(9048, 9039));
    assert_eq!((ids(&second), &second["startedOver"]), (descending(9038, 9029), &json!(false)));
    market.shutdown().await;
}
