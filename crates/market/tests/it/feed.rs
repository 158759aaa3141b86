//! The feed: every note once, whatever arrives, leaves, dies or is flushed in the middle.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::http::Method;
use seawall::testing::TestServer;
use seawall_market::Parts;
use seawall_testkit::{backend::Backend, proxy::On};
use serde_json::{Value, json};

use crate::{
    follows::follow,
    market::{Market, PATIENCE, on_each_backend},
    notes::{flush, ids, publish, send, ticking},
    victim::Victim,
};

on_each_backend!(
    pages_neither_repeat_nor_skip_while_notes_arrive,
    notes_arrive_and_vanish,
    pulled_authors_are_merged,
    nobody_misses_an_author_who_has_become_popular,
    a_killed_worker_loses_nothing,
    redis_is_flushed_in_the_middle,
);

async fn page(market: &Market, token: &str, place: Option<(i64, i64)>) -> Value {
    let path = match place {
        None => "/blog/of/follow".to_owned(),
        Some((time, offset)) => format!("/blog/of/follow?lastId={time}&offset={offset}"),
    };
    market.get(&path, token).await.ok().body["data"].clone()
}

fn next(page: &Value) -> (i64, i64) {
    (page["minTime"].as_i64().expect("a time"), page["offset"].as_i64().expect("a number"))
}

/// Scrolls to the end; `between` is done after each page.
async fn scroll(market: &Market, token: &str, mut between: impl AsyncFnMut(usize)) -> Vec<String> {
    let (mut seen, mut place) = (Vec::new(), None);
    for number in 0..200 {
        let page = page(market, token, place).await;
        let list = ids(&page["list"]);
        if list.is_empty() {
            return seen;
        }
        seen.extend(list);
        place = Some(next(&page));
        between(number).await;
    }
    panic!("it does not end");
}

/// What the database says that user 1 should see: notes of authors 2 and 3.
fn expected() -> Vec<String> {
    // Newest first, of one millisecond the smaller id first; see the demo town.
    let by = |id: &i64| (21..=32).contains(id) || [2, 3].contains(&(1 + id % 8));
    let place = |id: i64| match id {
        21..=32 => (-21, id),
        45..=47 => (-45, id),
        id => (-id, id),
    };
    let mut all: Vec<i64> = (1..=60).filter(by).collect();
    all.sort_by_key(|id| place(*id));
    all.iter().map(i64::to_string).collect()
}

/// Waits until the newest of somebody's feed is this.
async fn newest_is(market: &Market, token: &str, note: &str) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let first = page(market, token, None).await;
        if ids(&first["list"]).first().is_some_and(|first| first == note) {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{note} did not arrive: {first}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn pages_neither_repeat_nor_skip_while_notes_arrive(backend: Backend) {
    let market = Market::on(backend).await;
    let (ada, bo) = (market.log_in("10000000001").await, market.log_in("10000000002").await);
    assert_eq!(scroll(&market, &ada, async |_| {}).await, expected());
    // Twelve notes share one millisecond: a whole page has one time.
    let times = "SELECT COUNT(*) FROM blog WHERE create_time = \
        (SELECT create_time FROM blog WHERE id = 21)";
    assert_eq!(market.sql(times).await, 12);
    let seen = scroll(&market, &ada, async |number| {
        let note = publish(&market, &bo, &format!("While scrolling {number}")).await;
        newest_is(&market, &ada, &note).await;
    })
    .await;
    assert_eq!(seen, expected(), "what arrives in front is not seen, and shifts nothing");
    market.shutdown().await;
}

async fn notes_arrive_and_vanish(backend: Backend) {
    let market = Market::on(backend).await;
    let (ada, bo) = (market.log_in("10000000001").await, market.log_in("10000000002").await);
    let before = page(&market, &ada, None).await;
    let since =
        market.get(&format!("/blog/of/follow/new?since={}", next(&before).0), &ada).await.ok();
    let counted = since.body["data"].as_u64().expect("a number");
    assert!(counted < 10, "only newer than the last of the page: {counted}");
    let now = market.seawall.client().server_millis();
    let note = publish(&market, &bo, "New").await;
    newest_is(&market, &ada, &note).await;
    let new = market.get(&format!("/blog/of/follow/new?since={}", now - 1), &ada).await.ok();
    assert_eq!(new.body["data"], 1);
    let shown = page(&market, &ada, None).await["list"][0].clone();
    assert_eq!((&shown["name"], &shown["isLike"]), (&json!("Bo"), &json!(false)));

    send(&market, Method::DELETE, &format!("/blog/{note}"), &bo, None).await.ok();
    assert!(!ids(&page(&market, &ada, None).await["list"]).contains(&note), "at once");
    follow(&market, &ada, 2, false).await.ok();
    let seen = scroll(&market, &ada, async |_| {}).await;
    assert!(
        !seen.is_empty() && seen.iter().all(|id| !["22", "1", "9"].contains(&id.as_str())),
        "{seen:?}"
    );
    follow(&market, &ada, 2, true).await.ok();
    assert_eq!(scroll(&market, &ada, async |_| {}).await, expected());

    for bad in ["lastId=-1", "lastId=x", "offset=-1", "lastId=9007199254740992"] {
        assert_eq!(market.get(&format!("/blog/of/follow?{bad}"), &ada).await.status, 400, "{bad}");
    }
    assert_eq!(
        page(&market, &ada, Some((0, 7))).await,
        json!({ "list": [], "minTime": 0, "offset": 7 })
    );
    market.get("/blog/of/follow", "").await.refused(401, "NOT_LOGGED_IN");
    market.shutdown().await;
}

async fn pulled_authors_are_merged(backend: Backend) {
    // Who has three fans is not pushed any more: 3 of the two, and not 2.
    let market = Market::with(backend, Parts::default(), &[("feed-pull-fans", "3")]).await;
    let (ada, bo) = (market.log_in("10000000001").await, market.log_in("10000000002").await);
    let chen = market.log_in("10000000003").await;
    // Fans who came with the demo town have stayed.
    market.change("UPDATE follow SET create_time = 1").await;
    assert_eq!(scroll(&market, &ada, async |_| {}).await, expected());
    let pushed = publish(&market, &bo, "Pushed").await;
    newest_is(&market, &ada, &pushed).await;
    let pulled = publish(&market, &chen, "Pulled").await;
    newest_is(&market, &ada, &pulled).await;
    let mut all = vec![pulled, pushed];
    all.extend(expected());
    assert_eq!(scroll(&market, &ada, async |_| {}).await, all);
    // Below the border again, with one of four fans: what was not pushed is there all the same.
    let (dora, gita) = (market.log_in("10000000004").await, market.log_in("10000000007").await);
    for fan in [&bo, &dora, &gita] {
        follow(&market, fan, 3, false).await.ok();
    }
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while scroll(&market, &ada, async |_| {}).await != all {
        assert!(tokio::time::Instant::now() < deadline, "a pulled note was lost");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    market.shutdown().await;
}

/// Readers learn only after a minute whose notes they pull.
async fn nobody_misses_an_author_who_has_become_popular(backend: Backend) {
    let market = Market::with(backend, Parts::default(), &[("feed-pull-fans", "3")]).await;
    let (ada, bo) = (market.log_in("10000000001").await, market.log_in("10000000002").await);
    let chen = market.log_in("10000000003").await;
    let star = market.log_in("13700000001").await;
    let me = market.get("/user/me", &star).await.ok();
    let id: u64 = me.body["data"]["id"].as_str().expect("an id").parse().expect("a number");
    follow(&market, &ada, id, true).await.ok();
    let early = publish(&market, &star, "For one fan").await;
    newest_is(&market, &ada, &early).await;
    // Each of them has just looked up whose notes they pull.
    follow(&market, &bo, id, true).await.ok();
    newest_is(&market, &bo, &early).await;
    follow(&market, &chen, id, true).await.ok();
    let late = publish(&market, &star, "For three fans").await;
    for token in [&ada, &bo, &chen] {
        newest_is(&market, token, &late).await;
    }
    market.shutdown().await;
}

/// It dies when it has put a note into the inboxes and acknowledges that.
async fn a_killed_worker_loses_nothing(backend: Backend) {
    let (victim, stores) = Victim::on(backend).await;
    let done = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&done);
    let acknowledges = On::command("XACK").key_prefix("stream:{notes}").when(move |_| {
        seen.store(true, Ordering::SeqCst);
        true
    });
    victim.proxy.fail_with(acknowledges, "LOADING not now");
    let publishing = async |market: Arc<Market>| {
        let (ada, bo) = (market.log_in("10000000001").await, market.log_in("10000000002").await);
        page(&market, &ada, None).await;
        let note = publish(&market, &bo, "The worker dies").await;
        (ada, note)
    };
    let (ada, note) = victim.inside(publishing).await;
    stores.until("it to acknowledge", async |_| done.load(Ordering::SeqCst)).await;
    victim.kill().await;
    let pending = async |market: &Market| -> i64 {
        let (count, ..): (i64, Value3, Value3, Value3) =
            market.redis(&["XPENDING", "stream:{notes}", "feed"]).await;
        count
    };
    assert_eq!(pending(&stores).await, 1, "it was not acknowledged");
    let restarted = stores.restarted().await;
    newest_is(&restarted, &ada, &note).await;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while pending(&restarted).await > 0 {
        assert!(tokio::time::Instant::now() < deadline, "it is not settled");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut all = vec![note];
    all.extend(expected());
    assert_eq!(scroll(&restarted, &ada, async |_| {}).await, all, "once");
    restarted.shutdown().await;
}

/// Whatever a reply has there.
type Value3 = seawall::Value;

async fn redis_is_flushed_in_the_middle(backend: Backend) {
    let market = Market::on(backend).await;
    let (ada, bo) = (market.log_in("10000000001").await, market.log_in("10000000002").await);
    let seen = scroll(&market, &ada, async |number| {
        if number == 1 {
            flush(&market).await;
        }
    })
    .await;
    assert_eq!(seen, expected());
    let note = publish(&market, &bo, "After the flood").await;
    newest_is(&market, &ada, &note).await;
    let mut all = vec![note];
    all.extend(expected());
    assert_eq!(scroll(&market, &ada, async |_| {}).await, all);
    market.shutdown().await;
}

#[tokio::test]
async fn what_was_published_without_redis_is_swept_in() {
    let test_server = TestServer::start().await.expect("an engine");
    let market = Market::on_test_server(&test_server).await;
    let (ada, bo) = (market.log_in("10000000001").await, market.log_in("10000000002").await);
    page(&market, &ada, None).await;
    test_server.faults().begin_outage();
    let note = ticking(&test_server, publish(&market, &bo, "Nobody was told")).await;
    assert_eq!(ids(&page(&market, &ada, None).await["list"])[0], note, "from the database");
    test_server.faults().end_outage();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while ids(&page(&market, &ada, None).await["list"])[0] != note {
        assert!(tokio::time::Instant::now() < deadline, "it was not swept in");
        test_server.advance(Duration::from_secs(1)).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    market.shutdown().await;
}

#[tokio::test]
async fn what_an_inbox_does_not_keep_comes_from_the_database() {
    let test_server = TestServer::start().await.expect("an engine");
    let market = Market::on_test_server(&test_server).await;
    let ada = market.log_in("10000000001").await;
    market
        .change(
            "INSERT INTO blog (id, shop_id, user_id, title, images, content, liked, comments, \
             create_time, update_time) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL \
             SELECT i + 1 FROM n WHERE i < 1100) SELECT 1000 + i, 0, 2, 'Old', '', 'Old', 0, 0, \
             1000 + i / 7, 1000 + i / 7 FROM n",
        )
        .await;
    let seen = scroll(&market, &ada, async |_| {}).await;
    let mut all = expected();
    let mut old: Vec<i64> = (1..=1100).collect();
    old.sort_by_key(|i| (-(i / 7), *i));
    all.extend(old.iter().map(|i| (1000 + i).to_string()));
    assert_eq!(seen, all);
    let kept: i64 = market.redis(&["ZCARD", "timeline:{feed:1}"]).await;
    assert_eq!(kept, 1000);
    market.shutdown().await;
}
