//! Sessions across outages and losses of Redis: what was logged out stays so, what was not comes back.

use std::time::Duration;

use futures_util::future::join_all;
use seawall::testing::TestServer;
use seawall_market::accounts::Token;
use seawall_testkit::backend::Backend;

use crate::{
    market::{Market, on_each_backend},
    outage::Outage,
};

on_each_backend!(
    a_log_out_that_redis_missed_may_be_repeated,
    a_log_out_that_redis_missed_is_made_up_for,
    sessions_come_back_when_redis_has_lost_them,
    no_late_reader_brings_back_what_was_logged_out,
    tokens_that_nobody_was_given_cost_one_look,
);

const NOTES: &str = "SELECT COUNT(*) FROM session_end";

fn key(token: &str) -> String {
    format!("session:{{web:{}}}", Token::parse(token).expect("a token").id().as_str())
}

async fn is_in_redis(market: &Market, token: &str) -> bool {
    market.redis::<i64>(&["EXISTS", &key(token)]).await == 1
}

async fn a_log_out_that_redis_missed_may_be_repeated(backend: Backend) {
    let (market, outage) = Outage::of(backend).await;
    let token = market.log_in("10000000001").await;
    let other = market.log_in("10000000002").await;
    outage.begin();
    for _ in 0..2 {
        // Neither done nor undone: nobody says that the session is over, or lets it in.
        market.post("/user/logout", &token).await.refused(503, "UNAVAILABLE");
        market.get("/user/me", &token).await.refused(503, "UNAVAILABLE");
    }
    market.get("/user/me", &other).await.ok();
    assert_eq!(market.sql("SELECT COUNT(*) FROM session").await, 1);
    outage.end(&market).await;
    let again = market.post("/user/logout", &token).await;
    match backend {
        Backend::Embedded => drop(again.ok()),
        // Time goes on here, and the job may have been faster.
        _ => assert!([200, 401].contains(&again.status.as_u16()), "{again:?}"),
    }
    for _ in 0..2 {
        market.get("/user/me", &token).await.refused(401, "NOT_LOGGED_IN");
        market.post("/user/logout", &token).await.refused(401, "NOT_LOGGED_IN");
    }
    market.get("/user/me", &other).await.ok();
    assert_eq!(market.sql(NOTES).await, 0);
    market.shutdown().await;
}

async fn a_log_out_that_redis_missed_is_made_up_for(backend: Backend) {
    let (market, outage) = Outage::of(backend).await;
    let token = market.log_in("10000000001").await;
    outage.begin();
    market.post("/user/logout", &token).await.refused(503, "UNAVAILABLE");
    assert_eq!(market.sql(NOTES).await, 1);
    outage.end(&market).await;
    market
        .until("Redis to be told", async |market| {
            outage.turn().await;
            market.sql(NOTES).await == 0
        })
        .await;
    market.get("/user/me", &token).await.refused(401, "NOT_LOGGED_IN");
    assert!(!is_in_redis(&market, &token).await);
    // Nor does it come back from the database.
    outage.begin();
    market.get("/user/me", &token).await.refused(401, "NOT_LOGGED_IN");
    market.post("/user/logout", &token).await.refused(401, "NOT_LOGGED_IN");
    outage.end(&market).await;
    market.shutdown().await;
}

async fn sessions_come_back_when_redis_has_lost_them(backend: Backend) {
    let market = Market::on(backend).await;
    let [ada, bo, cai, dora] = ["10000000001", "10000000002", "10000000003", "10000000004"]
        .map(|phone| market.log_in(phone));
    let (ada, bo, cai, dora) = tokio::join!(ada, bo, cai, dora);
    let until: String = market.redis(&["HGET", &key(&ada), "~until"]).await;
    market.post("/user/logout", &bo).await.ok();
    market.change("UPDATE session SET expires = 1 WHERE user_id = 3").await;
    let _: String = market.redis(&["FLUSHALL"]).await;
    let colleague = market.colleague().await;
    let both = [&market, &colleague].map(|one| one.get("/user/me", &ada));
    for answer in join_all(both).await {
        assert_eq!(answer.ok().body["data"]["nickName"], "Ada");
    }
    assert!(is_in_redis(&market, &ada).await, "it is Redis that decides again");
    let restored: String = market.redis(&["HGET", &key(&ada), "~until"]).await;
    let late = restored.parse::<i64>().expect("a time") - until.parse::<i64>().expect("a time");
    assert!((-1_000..60_000).contains(&late), "the end that it had, by the row: {late}");
    let left: i64 = market.redis(&["PTTL", &key(&ada)]).await;
    assert!((1..=30 * 60_000).contains(&left), "{left}");
    // What was ended before is not there, in Redis or anywhere.
    for token in [&bo, &cai] {
        for one in [&market, &colleague] {
            one.get("/user/me", token).await.refused(401, "NOT_LOGGED_IN");
        }
        assert!(!is_in_redis(&market, token).await);
    }
    // Nor what is ended before anybody used it, nor what came back.
    market.post("/user/logout", &dora).await.ok();
    colleague.post("/user/logout", &ada).await.ok();
    for _ in 0..2 {
        for token in [&ada, &dora] {
            market.get("/user/me", token).await.refused(401, "NOT_LOGGED_IN");
            colleague.get("/user/me", token).await.refused(401, "NOT_LOGGED_IN");
        }
        let _: String = market.redis(&["FLUSHALL"]).await;
    }
    colleague.shutdown().await;
    market.shutdown().await;
}

/// Many find that Redis has lost a session while its user logs out.
async fn no_late_reader_brings_back_what_was_logged_out(backend: Backend) {
    const ROUNDS: usize = 10;
    let market = Market::on(backend).await;
    for round in 0..ROUNDS {
        // What limits logins is forgotten as well.
        let _: String = market.redis(&["FLUSHALL"]).await;
        let token = market.log_in("10000000001").await;
        let _: i64 = market.redis(&["DEL", &key(&token)]).await;
        let readers = join_all((0..8).map(|_| market.get("/user/me", &token)));
        let (seen, out) = tokio::join!(readers, market.post("/user/logout", &token));
        out.ok();
        for answer in seen {
            assert!([200, 401, 503].contains(&answer.status.as_u16()), "{answer:?}");
        }
        market.get("/user/me", &token).await.refused(401, "NOT_LOGGED_IN");
        assert!(!is_in_redis(&market, &token).await, "round {round}");
    }
    market.shutdown().await;
}

async fn tokens_that_nobody_was_given_cost_one_look(backend: Backend) {
    let market = Market::on(backend).await;
    let [known, new] = ["1", "2"].map(|digit| digit.repeat(32));
    market.get("/user/me", &known).await.refused(401, "NOT_LOGGED_IN");
    market.change("ALTER TABLE session RENAME TO session_away").await;
    market.get("/user/me", &known).await.refused(401, "NOT_LOGGED_IN");
    // Of this one nobody can tell.
    market.get("/user/me", &new).await.refused(503, "UNAVAILABLE");
    market.change("ALTER TABLE session_away RENAME TO session").await;
    market.get("/user/me", &new).await.refused(401, "NOT_LOGGED_IN");
    market.shutdown().await;
}

/// A session that Redis may have ended for want of requests is not taken for one that it lost.
#[tokio::test]
async fn a_lost_session_ends_no_later_for_it() {
    let test_server = TestServer::start().await.expect("an engine");
    let market = Market::on_test_server(&test_server).await;
    let token = market.log_in("10000000001").await;
    for _ in 0..3 {
        test_server.advance(Duration::from_secs(29 * 60)).await;
        let _: String = market.redis(&["FLUSHALL"]).await;
        market.get("/user/me", &token).await.ok();
    }
    test_server.advance(Duration::from_secs(31 * 60)).await;
    market.get("/user/me", &token).await.refused(401, "NOT_LOGGED_IN");
    let token = market.log_in("10000000002").await;
    let step = Duration::from_secs(25 * 60);
    for _ in 0..(7 * 24 * 60 / 25) {
        test_server.advance(step).await;
        market.get("/user/me", &token).await.ok();
    }
    let _: String = market.redis(&["FLUSHALL"]).await;
    market.get("/user/me", &token).await.ok();
    test_server.advance(step).await;
    market.get("/user/me", &token).await.refused(401, "NOT_LOGGED_IN");
    market.shutdown().await;
}
