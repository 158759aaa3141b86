//! Likes: one each, however often one clicks; the record survives Redis.

use axum::http::Method;
use futures_util::future::join_all;
use seawall::{social::Change, testing::TestServer};
use seawall_testkit::backend::Backend;
use serde_json::json;

use crate::{
    follows::follow,
    market::{Answer, Market, on_each_backend},
    notes::{flush, ids, publish, send, ticking},
};

on_each_backend!(
    fifty_clicks_at_once_alternate,
    the_first_five_are_in_order,
    a_wish_that_is_said_may_be_repeated,
    likes_survive_the_loss_of_redis,
    a_wish_that_is_repeated_repairs_what_redis_missed,
);

/// A click waits for others of the same user for eight seconds; an outage is no such wait.
const SHORTER_THAN_A_TURN: std::time::Duration = std::time::Duration::from_secs(6);

async fn like(market: &Market, note: &str, token: &str) -> Answer {
    send(market, Method::PUT, &format!("/blog/like/{note}"), token, None).await
}

async fn fifty_clicks_at_once_alternate(backend: Backend) {
    let market = Market::on(backend).await;
    let (ada, bo) = (market.log_in("10000000001").await, market.log_in("10000000002").await);
    let note = publish(&market, &ada, "Clicks").await;
    like(&market, &note, &bo).await.ok();
    let clicks = join_all((0..50).map(|_| like(&market, &note, &ada))).await;
    let on = clicks.into_iter().filter(|click| {
        assert_eq!(click.status, 200, "{click:?}");
        let data = &click.body["data"];
        assert_eq!(data["count"], if data["liked"] == true { 2 } else { 1 }, "{data}");
        data["liked"] == true
    });
    assert_eq!(on.count(), 25, "one click undoes the other");
    let shown = market.get(&format!("/blog/{note}"), &ada).await.ok().body["data"].clone();
    assert_eq!((&shown["liked"], &shown["isLike"]), (&json!(1), &json!(false)));
    assert_eq!(
        like(&market, &note, &ada).await.ok().body["data"],
        json!({ "liked": true, "count": 2 })
    );
    let differ = "SELECT COUNT(*) FROM blog b WHERE liked <> \
        (SELECT COUNT(*) FROM blog_like l WHERE l.blog_id = b.id)";
    assert_eq!(market.sql(differ).await, 0, "the count equals the rows, also in the demo town");
    like(&market, "4711", &ada).await.refused(404, "UNKNOWN_NOTE");
    like(&market, &note, "").await.refused(401, "NOT_LOGGED_IN");
    market.shutdown().await;
}

async fn the_first_five_are_in_order(backend: Backend) {
    let market = Market::on(backend).await;
    let mut tokens = Vec::new();
    for user in [3, 1, 6, 2, 7, 4] {
        tokens.push(market.log_in(&format!("1000000000{user}")).await);
    }
    let note = publish(&market, &tokens[0], "Liked").await;
    for token in &tokens {
        like(&market, &note, token).await.ok();
        // Times are milliseconds: two likes of one have no order.
        tokio::time::sleep(std::time::Duration::from_millis(3)).await;
    }
    let path = format!("/blog/likes/{note}");
    let first = market.get(&path, "").await.ok().body["data"].clone();
    assert_eq!(ids(&first), ["3", "1", "6", "2", "7"]);
    assert_eq!((&first[0]["nickName"], first[0].get("phone")), (&json!("Chen"), None));
    like(&market, &note, &tokens[1]).await.ok();
    assert_eq!(ids(&market.get(&path, "").await.ok().body["data"]), ["3", "6", "2", "7", "4"]);
    market.get("/blog/likes/4711", "").await.refused(404, "UNKNOWN_NOTE");
    market.shutdown().await;
}

async fn a_wish_that_is_said_may_be_repeated(backend: Backend) {
    let market = Market::on(backend).await;
    let (ada, bo) = (market.log_in("10000000001").await, market.log_in("10000000002").await);
    let note = publish(&market, &ada, "Said").await;
    let say = async |token: &str, wish: &str| {
        let path = format!("/blog/like/{note}?liked={wish}");
        send(&market, Method::PUT, &path, token, None).await
    };
    for answer in join_all((0..8).map(|_| say(&ada, "true"))).await {
        assert_eq!(answer.ok().body["data"], json!({ "liked": true, "count": 1 }));
    }
    // Times are milliseconds: two likes of one have no order.
    tokio::time::sleep(std::time::Duration::from_millis(3)).await;
    say(&bo, "true").await.ok();
    say(&ada, "true").await.ok();
    let first = market.get(&format!("/blog/likes/{note}"), "").await.ok().body["data"].clone();
    assert_eq!(ids(&first), ["1", "2"], "who says it again was still the first");
    for _ in 0..2 {
        let answer = say(&ada, "false").await.ok();
        assert_eq!(answer.body["data"], json!({ "liked": false, "count": 1 }));
    }
    say(&ada, "maybe").await.refused(400, "BAD_QUERY");
    market.shutdown().await;
}

async fn likes_survive_the_loss_of_redis(backend: Backend) {
    let market = Market::on(backend).await;
    let (ada, bo) = (market.log_in("10000000001").await, market.log_in("10000000002").await);
    let note = publish(&market, &ada, "Kept").await;
    like(&market, &note, &bo).await.ok();
    like(&market, &note, &ada).await.ok();
    let path = format!("/blog/likes/{note}");
    let first = ids(&market.get(&path, "").await.ok().body["data"]);
    flush(&market).await;
    assert_eq!(
        like(&market, &note, &ada).await.ok().body["data"],
        json!({ "liked": false, "count": 1 })
    );
    let shown = market.get(&format!("/blog/{note}"), &bo).await.ok().body["data"].clone();
    assert_eq!((&shown["liked"], &shown["isLike"]), (&json!(1), &json!(true)));
    assert_eq!(ids(&market.get(&path, "").await.ok().body["data"]), ["2"]);
    assert_eq!(
        like(&market, &note, &ada).await.ok().body["data"],
        json!({ "liked": true, "count": 2 })
    );
    flush(&market).await;
    assert_eq!(ids(&market.get(&path, "").await.ok().body["data"]).len(), first.len());
    market.shutdown().await;
}

async fn a_wish_that_is_repeated_repairs_what_redis_missed(backend: Backend) {
    let market = Market::on(backend).await;
    let (ada, bo) = (market.log_in("10000000001").await, market.log_in("10000000002").await);
    let note = publish(&market, &ada, "Missed").await;
    let say = async |token: &str, wish: &str| {
        let path = format!("/blog/like/{note}?liked={wish}");
        send(&market, Method::PUT, &path, token, None).await.ok();
    };
    let likes = async |token: &str| {
        let shown = market.get(&format!("/blog/{note}"), token).await.ok();
        shown.body["data"]["isLike"].as_bool().expect("yes or no")
    };
    say(&ada, "true").await;
    // Times are milliseconds: two likes of one have no order.
    tokio::time::sleep(std::time::Duration::from_millis(3)).await;
    say(&bo, "true").await;
    assert!(likes(&ada).await);
    // As if the process that committed had ended before it told Redis.
    let nothing = |_: u64| async { Ok::<_, seawall::Error>(Vec::new()) };
    let copies = market.seawall.timelines("likes", nothing).build().expect("the same timelines");
    let copy = copies.of(&note.parse().expect("a number")).expect("that of the note");
    assert_eq!(copy.remove(&1).await.expect("Redis answers"), Change::Changed);
    assert!(!likes(&ada).await, "Redis is believed");
    say(&ada, "true").await;
    assert!(likes(&ada).await, "said again, it is seen");
    let first = market.get(&format!("/blog/likes/{note}"), "").await.ok().body["data"].clone();
    assert_eq!(ids(&first), ["1", "2"], "since when it was said first");
    say(&ada, "false").await;
    assert_eq!(copy.put(&1, 1).await.expect("Redis answers"), Change::Changed);
    assert!(likes(&ada).await, "Redis is believed");
    say(&ada, "false").await;
    assert!(!likes(&ada).await);
    market.shutdown().await;
}

#[tokio::test]
async fn clicks_during_an_outage_count_and_are_seen_afterwards() {
    let test_server = TestServer::start().await.expect("an engine");
    let market = Market::on_test_server(&test_server).await;
    let (ada, bo) = (market.log_in("10000000001").await, market.log_in("10000000002").await);
    let note = publish(&market, &ada, "Outage").await;
    like(&market, &note, &bo).await.ok();
    let path = format!("/blog/likes/{note}");
    assert_eq!(ids(&market.get(&path, "").await.ok().body["data"]), ["2"]);
    test_server.faults().begin_outage();
    ticking(&test_server, async {
        // As many as before, but others.
        like(&market, &note, &bo).await.ok();
        assert_eq!(
            like(&market, &note, &ada).await.ok().body["data"],
            json!({ "liked": true, "count": 1 })
        );
        assert_eq!(ids(&market.get(&path, "").await.ok().body["data"]), ["1"]);
    })
    .await;
    test_server.faults().end_outage();
    assert_eq!(ids(&market.get(&path, "").await.ok().body["data"]), ["1"]);
    let shown = market.get(&format!("/blog/{note}"), &ada).await.ok().body["data"].clone();
    assert_eq!((&shown["liked"], &shown["isLike"]), (&json!(1), &json!(true)));
    market.shutdown().await;
}

/// A lock waits for Redis to come back; a click does not.
#[tokio::test]
async fn a_click_does_not_wait_for_the_end_of_an_outage() {
    let test_server = TestServer::start().await.expect("an engine");
    let market = Market::on_test_server(&test_server).await;
    let ada = market.log_in("10000000001").await;
    let note = publish(&market, &ada, "At once").await;
    test_server.faults().begin_outage();
    for click in [format!("/blog/like/{note}"), "/follow/7/true".to_owned()] {
        let click = send(&market, Method::PUT, &click, &ada, None);
        tokio::pin!(click);
        let step = std::time::Duration::from_millis(10);
        let mut passed = std::time::Duration::ZERO;
        let answer = loop {
            tokio::select! {
                answer = &mut click => break answer,
                () = tokio::time::sleep(step) => {
                    test_server.advance(step).await;
                    passed += step;
                }
            }
        };
        answer.ok();
        assert!(passed < SHORTER_THAN_A_TURN, "{passed:?}");
    }
    test_server.faults().end_outage();
    market.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clicks_go_on_at_once_when_the_server_is_away() {
    let (market, proxy) = Market::behind_proxy().await;
    let ada = market.log_in("10000000001").await;
    let note = publish(&market, &ada, "Away").await;
    proxy.down();
    let began = std::time::Instant::now();
    like(&market, &note, &ada).await.ok();
    assert!(began.elapsed() < SHORTER_THAN_A_TURN, "{:?}", began.elapsed());
    let began = std::time::Instant::now();
    follow(&market, &ada, 7, true).await.ok();
    assert!(began.elapsed() < SHORTER_THAN_A_TURN, "{:?}", began.elapsed());
    proxy.heal();
    market.shutdown().await;
}
