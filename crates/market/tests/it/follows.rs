//! Following: idempotent, counted, and the same with and without Redis.

use axum::http::Method;
use futures_util::future::join_all;
use seawall::testing::TestServer;
use seawall_testkit::backend::Backend;
use serde_json::json;

use crate::{
    market::{Answer, Market, on_each_backend},
    notes::{flush, ids, send, ticking},
};

on_each_backend!(
    following_is_idempotent_and_counted,
    the_common_ones_are_named,
    changes_at_once_leave_redis_and_database_agreeing,
);

pub(crate) async fn follow(market: &Market, token: &str, whom: u64, wish: bool) -> Answer {
    send(market, Method::PUT, &format!("/follow/{whom}/{wish}"), token, None).await
}

async fn follows(market: &Market, token: &str, whom: u64) -> bool {
    let answer = market.get(&format!("/follow/or/not/{whom}"), token).await.ok();
    answer.body["data"].as_bool().expect("yes or no")
}

async fn following_is_idempotent_and_counted(backend: Backend) {
    let market = Market::on(backend).await;
    let ada = market.log_in("10000000001").await;
    let fans = "SELECT fans FROM user_info WHERE user_id = 6";
    let followees = "SELECT followee FROM user_info WHERE user_id = 1";
    let (fans_before, followees_before) = (market.sql(fans).await, market.sql(followees).await);
    assert!(!follows(&market, &ada, 6).await);
    for answer in join_all((0..6).map(|_| follow(&market, &ada, 6, true))).await {
        answer.ok();
    }
    assert!(follows(&market, &ada, 6).await);
    assert_eq!(market.sql(fans).await, fans_before + 1);
    assert_eq!(market.sql(followees).await, followees_before + 1);
    for _ in 0..2 {
        follow(&market, &ada, 6, false).await.ok();
    }
    assert!(!follows(&market, &ada, 6).await);
    assert_eq!(market.sql(fans).await, fans_before);
    follow(&market, &ada, 1, true).await.refused(400, "ONESELF");
    follow(&market, &ada, 4711, true).await.refused(404, "UNKNOWN_USER");
    follow(&market, &ada, 4711, false).await.refused(404, "UNKNOWN_USER");
    follow(&market, "", 6, true).await.refused(401, "NOT_LOGGED_IN");
    for path in ["/follow/x/true", "/follow/6/perhaps", "/follow/-1/true"] {
        assert_eq!(send(&market, Method::PUT, path, &ada, None).await.status, 400, "{path}");
    }
    market.shutdown().await;
}

async fn the_common_ones_are_named(backend: Backend) {
    let market = Market::on(backend).await;
    let ada = market.log_in("10000000001").await;
    let common = async || {
        let answer = market.get("/follow/common/2", &ada).await.ok();
        answer.body["data"].clone()
    };
    let found = common().await;
    assert_eq!(ids(&found), ["3"], "1 follows 2 and 3, 2 follows 3");
    assert_eq!(found[0]["nickName"], json!("Chen"));
    flush(&market).await;
    assert_eq!(ids(&common().await), ["3"], "rebuilt from the database");
    follow(&market, &ada, 3, false).await.ok();
    assert_eq!(common().await, json!([]));
    market.shutdown().await;
}

async fn changes_at_once_leave_redis_and_database_agreeing(backend: Backend) {
    let market = Market::on(backend).await;
    let ada = market.log_in("10000000001").await;
    let bo = market.log_in("10000000002").await;
    // Both directions at once: nobody waits for the other.
    let changes = (0..12).flat_map(|n| [(&ada, 2, n % 3 != 0), (&bo, 1, n % 2 == 0)]);
    for answer in
        join_all(changes.map(|(token, whom, wish)| follow(&market, token, whom, wish))).await
    {
        answer.ok();
    }
    let row =
        market.sql("SELECT COUNT(*) FROM follow WHERE user_id = 1 AND follow_user_id = 2").await;
    assert_eq!(follows(&market, &ada, 2).await, row == 1);
    let differ = "SELECT COUNT(*) FROM user_info i WHERE \
        fans <> (SELECT COUNT(*) FROM follow f WHERE f.follow_user_id = i.user_id) OR \
        followee <> (SELECT COUNT(*) FROM follow f WHERE f.user_id = i.user_id)";
    assert_eq!(market.sql(differ).await, 0, "the numbers are those of the rows");
    market.shutdown().await;
}

#[tokio::test]
async fn following_goes_on_without_redis() {
    let test_server = TestServer::start().await.expect("an engine");
    let market = Market::on_test_server(&test_server).await;
    let ada = market.log_in("10000000001").await;
    assert!(follows(&market, &ada, 2).await);
    test_server.faults().begin_outage();
    ticking(&test_server, async {
        follow(&market, &ada, 2, false).await.ok();
        assert!(!follows(&market, &ada, 2).await);
        follow(&market, &ada, 7, true).await.ok();
        assert_eq!(ids(&market.get("/follow/common/6", &ada).await.ok().body["data"]), ["7"]);
    })
    .await;
    test_server.faults().end_outage();
    assert!(!follows(&market, &ada, 2).await, "the old set is not believed");
    assert!(follows(&market, &ada, 7).await);
    market.shutdown().await;
}
