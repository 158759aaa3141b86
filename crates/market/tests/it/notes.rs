//! Notes: published once, listed in pages that are never old, talked about.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    body::Body,
    http::{Method, header},
};
use futures_util::future::join_all;
use seawall::testing::TestServer;
use seawall_testkit::backend::Backend;
use serde_json::{Value, json};

use crate::market::{Answer, Market, on_each_backend, request};

on_each_backend!(
    a_note_is_published_listed_and_deleted,
    a_double_submit_makes_one_note,
    bad_notes_are_refused,
    comments_nest_and_are_counted,
    comments_of_two_processes_are_in_order_of_time,
    every_reply_of_a_long_thread_can_be_read,
    a_name_is_of_one_comment,
    pages_are_never_older_than_the_last_write,
);

/// A request with or without a body of JSON.
pub(crate) async fn send(
    market: &Market,
    method: Method,
    path: &str,
    token: &str,
    body: Option<&Value>,
) -> Answer {
    let text = body.map(Value::to_string).unwrap_or_default();
    let mut request = request(method, path, token, Body::from(text));
    if body.is_some() {
        let kind = "application/json".parse().expect("a header");
        request.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    market.call(request).await
}

/// Redis loses everything but who is logged in.
pub(crate) async fn flush(market: &Market) {
    for key in market.redis::<Vec<String>>(&["KEYS", "*"]).await {
        if !key.starts_with("session:") {
            let _: i64 = market.redis(&["DEL", &key]).await;
        }
    }
}

/// Lets time go on while something is done that waits for it.
pub(crate) async fn ticking<T>(test_server: &TestServer, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(Duration::from_millis(2)) => {
                test_server.advance(Duration::from_millis(20)).await;
            }
        }
    }
}

/// Publishes a note: its id.
pub(crate) async fn publish(market: &Market, token: &str, title: &str) -> String {
    let body = json!({ "title": title, "content": "Worth the walk.", "images": [] });
    send(market, Method::POST, "/blog", token, Some(&body)).await.ok().text()
}

/// The ids of a list of notes.
pub(crate) fn ids(list: &Value) -> Vec<String> {
    let notes = list.as_array().unwrap_or_else(|| panic!("no list: {list}"));
    notes.iter().map(|note| note["id"].as_str().expect("text").to_owned()).collect()
}

async fn a_note_is_published_listed_and_deleted(backend: Backend) {
    let market = Market::on(backend).await;
    let (ada, bo) = (market.log_in("10000000001").await, market.log_in("10000000002").await);
    let admin = market.log_in("10000000000").await;
    let body = json!({ "shopId": "1", "title": " Noodles ", "content": "Good.",
        "images": ["/pictures/note/7.svg", "/pictures/shop/1.svg"] });
    send(&market, Method::POST, "/blog", "", Some(&body)).await.refused(401, "NOT_LOGGED_IN");
    let id = send(&market, Method::POST, "/blog", &ada, Some(&body)).await.ok().text();

    let note = market.get(&format!("/blog/{id}"), "").await.ok().body["data"].clone();
    assert_eq!((&note["title"], &note["name"]), (&json!("Noodles"), &json!("Ada")));
    assert_eq!(note["images"], "/pictures/note/7.svg,/pictures/shop/1.svg");
    assert_eq!(
        (&note["isLike"], &note["liked"], &note["comments"]),
        (&json!(false), &json!(0), &json!(0))
    );
    let mine = market.get("/blog/of/me", &ada).await.ok().body;
    assert_eq!(ids(&mine["data"])[0], id);
    let of_user = market.get("/blog/of/user?id=1&current=1", "").await.ok().body;
    assert_eq!(of_user["total"], mine["total"]);
    let of_shop = market.get("/blog/of/shop?shopId=1", "").await.ok().body;
    assert_eq!(ids(&of_shop["data"])[0], id);
    let hot = market.get("/blog/hot", "").await.ok().body;
    let liked: Vec<i64> =
        hot["data"].as_array().unwrap().iter().map(|n| n["liked"].as_i64().unwrap()).collect();
    assert!(liked.len() == 10 && liked.is_sorted_by(|a, b| a >= b), "{liked:?}");

    let path = format!("/blog/{id}");
    send(&market, Method::DELETE, &path, &bo, None).await.refused(403, "FORBIDDEN");
    send(&market, Method::DELETE, &path, &admin, None).await.ok();
    send(&market, Method::DELETE, &path, &ada, None).await.refused(404, "UNKNOWN_NOTE");
    market.get(&path, "").await.refused(404, "UNKNOWN_NOTE");
    let after = market.get("/blog/of/me", &ada).await.ok().body;
    assert!(!ids(&after["data"]).contains(&id));
    assert_eq!(after["total"].as_u64().unwrap() + 1, mine["total"].as_u64().unwrap());
    assert_eq!(market.get("/blog/of/me?current=500", &ada).await.ok().body["data"], json!([]));
    market.shutdown().await;
}

async fn a_double_submit_makes_one_note(backend: Backend) {
    let market = Market::on(backend).await;
    let (ada, bo) = (market.log_in("10000000001").await, market.log_in("10000000002").await);
    let tries = join_all((0..8).map(|_| publish(&market, &ada, "Twice"))).await;
    assert!(tries.iter().all(|id| *id == tries[0]), "{tries:?}");
    assert_ne!(publish(&market, &bo, "Twice").await, tries[0], "somebody else's is another one");
    assert_ne!(publish(&market, &ada, "Once").await, tries[0]);
    let named = async |key: &'static str, title: &str| {
        let body = json!({ "title": title, "content": "Worth it." });
        market.send_named(Method::POST, "/blog", &ada, &body, key).await
    };
    let first = named("k1", "A").await.ok().text();
    assert_eq!(named("k1", "B").await.ok().text(), first);
    assert_ne!(named("k2", "A").await.ok().text(), first);
    named("", "A").await.refused(400, "BAD_IDEMPOTENCY_KEY");
    assert_eq!(market.sql("SELECT COUNT(*) FROM blog WHERE title = 'Twice'").await, 2);
    market.shutdown().await;
}

async fn bad_notes_are_refused(backend: Backend) {
    let market = Market::on(backend).await;
    let ada = market.log_in("10000000001").await;
    let images: Vec<String> = (0..10).map(|n| format!("/uploads/{n}.png")).collect();
    for (body, code) in [
        (json!({ "title": "", "content": "x" }), "BAD_TITLE"),
        (json!({ "title": "\u{200b}", "content": "x" }), "BAD_TITLE"),
        (json!({ "title": "\u{3164}\u{3164}", "content": "x" }), "BAD_TITLE"),
        (json!({ "title": "a\u{202e}b", "content": "x" }), "BAD_TITLE"),
        (json!({ "title": "x", "content": "\u{feff}" }), "BAD_CONTENT"),
        (json!({ "title": "x", "content": " " }), "BAD_CONTENT"),
        (json!({ "title": "x", "content": "x", "images": images }), "TOO_MANY_IMAGES"),
        (json!({ "title": "x", "content": "x", "images": "/etc/passwd" }), "BAD_IMAGE"),
        (json!({ "title": "x" }), "BAD_BODY"),
        (json!([]), "BAD_BODY"),
    ] {
        send(&market, Method::POST, "/blog", &ada, Some(&body)).await.refused(400, code);
    }
    let body = json!({ "shopId": "4711", "title": "x", "content": "x" });
    send(&market, Method::POST, "/blog", &ada, Some(&body)).await.refused(404, "UNKNOWN_SHOP");
    for path in ["/blog/x", "/blog/of/user?id=-1", "/blog/of/user", "/blog/hot?current=0"] {
        assert_eq!(market.get(path, &ada).await.status, 400, "{path}");
    }
    market.get("/blog/4711", "").await.refused(404, "UNKNOWN_NOTE");
    market.shutdown().await;
}

async fn comments_nest_and_are_counted(backend: Backend) {
    let market = Market::on(backend).await;
    let (ada, bo) = (market.log_in("10000000001").await, market.log_in("10000000002").await);
    let note = publish(&market, &ada, "Talk").await;
    let path = format!("/blog/{note}/comments");
    let say = async |token: &str, body: Value| {
        send(&market, Method::POST, &path, token, Some(&body)).await
    };
    let root = say(&bo, json!({ "content": "First" })).await.ok().text();
    let reply = say(&ada, json!({ "content": "Re", "parentId": root })).await.ok().text();
    say(&bo, json!({ "content": "Re re", "answerId": reply })).await.ok();
    let second = json!({ "content": "Second" });
    let named = async || market.send_named(Method::POST, &path, &bo, &second, "k1").await;
    let tries = join_all((0..4).map(|_| named())).await;
    let tries: Vec<String> = tries.into_iter().map(|answer| answer.ok().text()).collect();
    assert!(tries.iter().all(|id| *id == tries[0]), "said once: {tries:?}");
    let second = tries[0].clone();
    say(&bo, json!({ "content": "x", "parentId": "4711" })).await.refused(400, "BAD_PARENT");
    say(&bo, json!({ "content": "x", "parentId": second, "answerId": reply }))
        .await
        .refused(400, "BAD_PARENT");
    say(&bo, json!({ "content": "" })).await.refused(400, "BAD_CONTENT");
    say(&bo, json!({ "content": "é".repeat(1001) })).await.refused(400, "BAD_CONTENT");
    let nowhere = json!({ "content": "x" });
    send(&market, Method::POST, "/blog/4711/comments", &bo, Some(&nowhere))
        .await
        .refused(404, "UNKNOWN_NOTE");

    let threads = market.get(&path, "").await.ok().body;
    assert_eq!(threads["total"], 2);
    assert_eq!(ids(&threads["data"]), [second.as_str(), root.as_str()]);
    let replies = &threads["data"][1]["replies"];
    assert_eq!(replies[0]["id"], json!(reply));
    assert_eq!((&replies[1]["parentId"], &replies[1]["answerId"]), (&json!(root), &json!(reply)));
    assert_eq!((&replies[0]["name"], &replies[1]["name"]), (&json!("Ada"), &json!("Bo")));
    assert_eq!(market.get(&format!("/blog/{note}"), "").await.ok().body["data"]["comments"], 4);
    join_all((0..9).map(|n| say(&ada, json!({ "content": format!("More {n}") })))).await;
    let last = market.get(&format!("{path}?current=2"), "").await.ok().body;
    assert_eq!((last["data"].as_array().unwrap().len(), &last["total"]), (1, &json!(11)));
    assert_eq!(market.get(&format!("/blog/{note}"), "").await.ok().body["data"]["comments"], 13);
    market.shutdown().await;
}

/// Ids come in blocks, one for each process.
async fn comments_of_two_processes_are_in_order_of_time(backend: Backend) {
    let market = Market::on(backend).await;
    let colleague = market.colleague().await;
    let ada = market.log_in("10000000001").await;
    let note = publish(&market, &ada, "Two processes").await;
    let path = format!("/blog/{note}/comments");
    let say = async |market: &Market, parent: &str| {
        // Times are milliseconds: two comments of one have no order.
        tokio::time::sleep(Duration::from_millis(3)).await;
        let body = json!({ "content": "Then", "parentId": parent });
        send(market, Method::POST, &path, &ada, Some(&body)).await.ok().text()
    };
    let (mut roots, mut replies) = (Vec::new(), Vec::new());
    for _ in 0..6 {
        roots.push(say(&colleague, "0").await);
        roots.push(say(&market, "0").await);
    }
    for _ in 0..3 {
        replies.push(say(&colleague, &roots[11]).await);
        replies.push(say(&market, &roots[11]).await);
    }
    roots.reverse();
    let first = market.get(&path, "").await.ok().body["data"].clone();
    assert_eq!(ids(&first), roots[..10], "the newest first");
    assert_eq!(ids(&first[0]["replies"]), replies, "the oldest first");
    let second = market.get(&format!("{path}?current=2"), "").await.ok().body;
    assert_eq!(ids(&second["data"]), roots[10..]);
    colleague.shutdown().await;
    market.shutdown().await;
}

async fn every_reply_of_a_long_thread_can_be_read(backend: Backend) {
    let market = Market::on(backend).await;
    let ada = market.log_in("10000000001").await;
    let note = publish(&market, &ada, "Long").await;
    // Two roots; 620 replies under the first, of which seven have one time, and three under the other.
    market
        .change(
            "INSERT INTO blog_comment (id, user_id, blog_id, parent_id, answer_id, content, liked, \
             status, create_time, update_time) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL \
             SELECT i + 1 FROM n WHERE i < 625) SELECT 900000 + i, 2, \
             (SELECT id FROM blog WHERE title = 'Long'), CASE WHEN i <= 2 THEN 0 WHEN i <= 622 THEN \
             900001 ELSE 900002 END, 0, 'Re', 0, 0, 1000 + i / 7, 1000 FROM n",
        )
        .await;
    let path = format!("/blog/{note}/comments");
    let page = market.get(&path, "").await.ok().body;
    assert_eq!((&page["total"], ids(&page["data"]).len()), (&json!(2), 2));
    let thread = |root: &str| {
        let threads = page["data"].as_array().expect("threads");
        threads.iter().find(|thread| thread["id"] == root).expect("it is there").clone()
    };
    let (long, short) = (thread("900001"), thread("900002"));
    assert_eq!((&long["replyCount"], &short["replyCount"]), (&json!(620), &json!(3)));
    let shown = ids(&long["replies"]);
    assert_eq!(shown.len(), 50);
    assert_eq!(
        ids(&short["replies"]),
        ["900623", "900624", "900625"],
        "not hidden by the long one"
    );

    let replies = format!("{path}/900001/replies");
    let mut read = Vec::new();
    loop {
        let next = match read.last() {
            None => replies.clone(),
            Some(last) => format!("{replies}?lastId={last}"),
        };
        let body = market.get(&next, "").await.ok().body;
        assert_eq!(body["total"], 620);
        let page = ids(&body["data"]);
        if page.is_empty() {
            break;
        }
        assert_eq!(body["data"][0]["name"], "Bo");
        read.extend(page);
        assert!(read.len() <= 620, "it does not end");
    }
    let all: Vec<String> = (900_003..=900_622).map(|id| id.to_string()).collect();
    assert_eq!(read, all, "each once, in order");
    assert_eq!(shown, all[..50]);
    for (path, code) in [
        (format!("{path}/4711/replies"), "UNKNOWN_COMMENT"),
        (format!("{path}/900003/replies"), "UNKNOWN_COMMENT"),
        ("/blog/3/comments/900001/replies".to_owned(), "UNKNOWN_COMMENT"),
        (format!("{replies}?lastId=900623"), "UNKNOWN_COMMENT"),
    ] {
        market.get(&path, "").await.refused(404, code);
    }
    market.get(&format!("{path}/x/replies"), "").await.refused(400, "BAD_ID");
    market.get(&format!("{replies}?lastId=x"), "").await.refused(400, "BAD_QUERY");
    market.shutdown().await;
}

async fn a_name_is_of_one_comment(backend: Backend) {
    let market = Market::on(backend).await;
    let (ada, bo) = (market.log_in("10000000001").await, market.log_in("10000000002").await);
    let (one, other) = (publish(&market, &ada, "One").await, publish(&market, &ada, "Other").await);
    let say = async |note: &str, token: &str, body: Value| {
        let path = format!("/blog/{note}/comments");
        market.send_named(Method::POST, &path, token, &body, "once").await
    };
    let first = say(&one, &bo, json!({ "content": "Hm" })).await.ok().text();
    let there = say(&other, &bo, json!({ "content": "Hm" })).await;
    there.refused(409, "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(there.text(), first, "what it was used for");
    let under = json!({ "content": "Hm", "parentId": first });
    say(&one, &bo, under).await.refused(409, "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(say(&one, &bo, json!({ "content": "Hm" })).await.ok().text(), first);
    assert_ne!(say(&other, &ada, json!({ "content": "Hm" })).await.ok().text(), first);
    let counts = async |note: &str| {
        market.get(&format!("/blog/{note}"), "").await.ok().body["data"]["comments"].clone()
    };
    assert_eq!((counts(&one).await, counts(&other).await), (json!(1), json!(1)));
    market.shutdown().await;
}

async fn pages_are_never_older_than_the_last_write(backend: Backend) {
    let market = Arc::new(Market::on(backend).await);
    let ada = market.log_in("10000000001").await;
    // Readers all the time, of pages that the writer moves.
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (1..=3)
        .map(|page| {
            let (market, done) = (Arc::clone(&market), Arc::clone(&done));
            tokio::spawn(async move {
                while !done.load(Ordering::Relaxed) {
                    market.get(&format!("/blog/of/user?id=1&current={page}"), "").await.ok();
                }
            })
        })
        .collect();
    let mut newest = Vec::new();
    for number in 0..14 {
        newest.insert(0, publish(&market, &ada, &format!("Note {number}")).await);
        let first = market.get("/blog/of/user?id=1", "").await.ok().body;
        let shown: Vec<_> = ids(&first["data"]).into_iter().take(newest.len()).collect();
        assert_eq!(shown, newest[..newest.len().min(10)]);
        if number == 9 {
            let gone = newest.remove(4);
            send(&market, Method::DELETE, &format!("/blog/{gone}"), &ada, None).await.ok();
            let first = market.get("/blog/of/user?id=1", "").await.ok().body;
            assert_eq!(ids(&first["data"])[..9], newest[..]);
        }
    }
    let second = market.get("/blog/of/user?id=1&current=2", "").await.ok().body;
    assert_eq!(ids(&second["data"])[..3], newest[10..]);
    done.store(true, Ordering::Relaxed);
    for reader in join_all(readers).await {
        reader.expect("it read all the time");
    }
    Arc::into_inner(market).expect("nobody else has it").shutdown().await;
}

#[tokio::test]
async fn without_redis_notes_go_on() {
    let test_server = TestServer::start().await.expect("an engine");
    let market = Market::on_test_server(&test_server).await;
    let ada = market.log_in("10000000001").await;
    let before = publish(&market, &ada, "Before").await;
    let first = ids(&market.get("/blog/of/me", &ada).await.ok().body["data"]);
    assert_eq!(first[0], before);
    test_server.faults().begin_outage();
    let during = ticking(&test_server, async {
        assert_eq!(ids(&market.get("/blog/of/me", &ada).await.ok().body["data"]), first);
        market.get(&format!("/blog/{before}"), "").await.ok();
        market.get("/blog/3/comments", "").await.ok();
        market.get("/blog/likes/3", "").await.ok();
        // Ids are in hand, and the unique key decides as ever.
        let during = publish(&market, &ada, "During").await;
        assert_eq!(publish(&market, &ada, "During").await, during);
        let shown = ids(&market.get("/blog/of/me", &ada).await.ok().body["data"]);
        assert_eq!(shown[..2], [during.clone(), before.clone()]);
        send(&market, Method::DELETE, &format!("/blog/{before}"), &ada, None).await.ok();
        during
    })
    .await;
    test_server.faults().end_outage();
    let deadline = tokio::time::Instant::now() + crate::market::PATIENCE;
    loop {
        test_server.advance(Duration::from_secs(1)).await;
        let shown = ids(&market.get("/blog/of/me", &ada).await.ok().body["data"]);
        let gone = market.get(&format!("/blog/{before}"), "").await;
        if shown[0] == during && !shown.contains(&before) && gone.status == 404 {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{shown:?} {gone:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    market.shutdown().await;
}
