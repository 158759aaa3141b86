//! Profiles: what others see, what one may change, and that a change is seen at once.

use std::time::Duration;

use axum::http::Method;
use futures_util::future::join_all;
use seawall::testing::TestServer;
use seawall_testkit::backend::Backend;
use serde_json::json;

use crate::market::{Market, on_each_backend};

on_each_backend!(
    anybody_reads_a_profile_and_nobody_the_phone,
    a_change_is_seen_at_once_everywhere,
    changes_that_make_no_sense_are_refused,
    rows_that_are_missing_are_made,
    readers_and_writers_leave_nothing_old_behind,
    the_town_has_people,
);

async fn anybody_reads_a_profile_and_nobody_the_phone(backend: Backend) {
    let market = Market::on(backend).await;
    let profile = market.get("/user/1", "").await.ok().body;
    assert_eq!(
        (&profile["data"]["id"], &profile["data"]["nickName"]),
        (&json!("1"), &json!("Ada"))
    );
    for field in ["icon", "city", "introduce", "createTime"] {
        assert!(profile["data"][field].is_string(), "{field}: {profile}");
    }
    for field in ["fans", "followee", "gender", "credits", "level"] {
        assert!(profile["data"][field].is_number(), "{field}: {profile}");
    }
    let text = profile.to_string();
    assert!(!text.contains("phone") && !text.contains("10000000001"), "{text}");
    market.get("/user/424242", "").await.refused(404, "UNKNOWN_USER");
    market.get("/user/nobody", "").await.refused(400, "BAD_ID");
    market.shutdown().await;
}

async fn a_change_is_seen_at_once_everywhere(backend: Backend) {
    let market = Market::on(backend).await;
    let colleague = market.colleague().await;
    let token = market.log_in("10000000002").await;
    for one in [&market, &colleague] {
        let before = one.get("/user/2", "").await.ok();
        assert_eq!(before.body["data"]["nickName"], "Bo");
        one.get("/user/me", &token).await.ok();
    }
    let change = json!({
        "nickName": " 波 ", "icon": "/pictures/user/2.svg", "city": "Hangzhou", "introduce": "Hello",
        "gender": 1, "birthday": "1990-12-31",
    });
    let changed = market.send_json(Method::PUT, "/user/me", &token, &change).await.ok();
    assert_eq!(changed.body["data"]["nickName"], "波");
    assert_eq!(changed.body["data"]["birthday"], "1990-12-31");
    for one in [&market, &colleague] {
        let me = one.get("/user/me", &token).await.ok();
        assert_eq!(me.body["data"]["nickName"], "波");
        assert_eq!(me.body["data"]["icon"], "/pictures/user/2.svg");
    }
    // The first level of another process hears of it by a message.
    colleague
        .until("the new name", async |colleague| {
            let seen = colleague.get("/user/2", "").await.ok();
            seen.body["data"] == changed.body["data"]
        })
        .await;
    // What is left out stays, what is empty goes.
    let less = json!({ "birthday": "", "city": "" });
    let changed = market.send_json(Method::PUT, "/user/me", &token, &less).await.ok();
    assert_eq!(changed.body["data"]["nickName"], "波");
    assert_eq!(
        (&changed.body["data"]["birthday"], &changed.body["data"]["city"]),
        (&json!(null), &json!(""))
    );
    colleague.shutdown().await;
    market.shutdown().await;
}

async fn changes_that_make_no_sense_are_refused(backend: Backend) {
    let market = Market::on(backend).await;
    let token = market.log_in("10000000003").await;
    market.send_json(Method::PUT, "/user/me", "", &json!({})).await.refused(401, "NOT_LOGGED_IN");
    for change in [
        json!({ "nickName": "" }),
        json!({ "nickName": "a\nb" }),
        json!({ "nickName": "\u{3164}" }),
        json!({ "nickName": "Ada\u{202e}nimda" }),
        json!({ "city": "\u{2067}Ningbo" }),
        json!({ "nickName": "n".repeat(33) }),
        json!({ "icon": "https://evil.example/x.png" }),
        json!({ "city": "c".repeat(65) }),
        json!({ "introduce": "i".repeat(129) }),
        json!({ "gender": 3 }),
        json!({ "birthday": "2999-01-01" }),
        json!({ "birthday": "31.12.1990" }),
    ] {
        let refused = market.send_json(Method::PUT, "/user/me", &token, &change).await;
        refused.refused(400, "BAD_PROFILE");
        assert!(!refused.body["msg"].as_str().expect("a sentence").is_empty());
    }
    let bad = json!({ "nickName": 7 });
    market.send_json(Method::PUT, "/user/me", &token, &bad).await.refused(400, "BAD_BODY");
    // Nobody's role or phone is changed by naming it.
    let sly = json!({ "role": "admin", "phone": "10000000009", "id": "9", "fans": 7 });
    market.send_json(Method::PUT, "/user/me", &token, &sly).await.ok();
    let me = market.get("/user/me", &token).await.ok().body;
    assert_eq!((&me["data"]["id"], &me["data"]["role"]), (&json!("3"), &json!("user")));
    market.shutdown().await;
}

async fn rows_that_are_missing_are_made(backend: Backend) {
    let market = Market::on(backend).await;
    let token = market.log_in("13800000001").await;
    let made = "SELECT COUNT(*) FROM user_info i JOIN user u ON u.id = i.user_id \
                WHERE u.phone = '13800000001'";
    assert_eq!(market.sql(made).await, 1, "with the registration");
    market.change("DELETE FROM user_info").await;
    assert_eq!(market.get("/user/4", "").await.ok().body["data"]["city"], "");
    let change = json!({ "city": "Ningbo" });
    market.send_json(Method::PUT, "/user/me", &token, &change).await.ok();
    assert_eq!(market.sql(made).await, 1, "with the change");
    market.shutdown().await;
}

/// Many read and one changes, again and again: after a change nobody who asks at the same process
/// sees an older name, and in the end everything agrees.
async fn readers_and_writers_leave_nothing_old_behind(backend: Backend) {
    const CHANGES: u32 = 20;
    const READERS: usize = 4;
    let market = Market::on(backend).await;
    let token = market.log_in("10000000004").await;
    let number = |answer: &serde_json::Value| {
        let name = answer["data"]["nickName"].as_str().expect("a name");
        name.strip_prefix("n").and_then(|number| number.parse::<u32>().ok()).unwrap_or(0)
    };
    let done = std::sync::atomic::AtomicU32::new(0);
    let writer = async {
        for change in 1..=CHANGES {
            let name = json!({ "nickName": format!("n{change}") });
            market.send_json(Method::PUT, "/user/me", &token, &name).await.ok();
            done.store(change, std::sync::atomic::Ordering::SeqCst);
        }
    };
    let reader = || async {
        while done.load(std::sync::atomic::Ordering::SeqCst) < CHANGES {
            let least = done.load(std::sync::atomic::Ordering::SeqCst);
            let seen = number(&market.get("/user/4", "").await.ok().body);
            assert!(seen >= least, "n{seen} after n{least}");
            let me = number(&market.get("/user/me", &token).await.ok().body);
            assert!(me >= least, "n{me} after n{least}");
        }
    };
    tokio::join!(writer, join_all((0..READERS).map(|_| reader())));
    assert_eq!(number(&market.get("/user/me", &token).await.ok().body), CHANGES);
    market.shutdown().await;
}

async fn the_town_has_people(backend: Backend) {
    let market = Market::on(backend).await;
    for (query, count) in [
        ("SELECT COUNT(*) FROM user WHERE id BETWEEN 1 AND 9", 9),
        ("SELECT COUNT(*) FROM user WHERE id BETWEEN 1001 AND 3000", 2000),
        ("SELECT COUNT(*) FROM user WHERE id = 3000 AND phone = '20000003000'", 1),
        ("SELECT COUNT(*) FROM user u JOIN user_info i ON i.user_id = u.id", 2009),
        ("SELECT COUNT(*) FROM user WHERE role = 'admin' AND phone = '10000000000'", 1),
    ] {
        assert_eq!(market.sql(query).await, count, "{query}");
    }
    // The numbers in profiles are those of the graph.
    let hugo = market.get("/user/8", "").await.ok().body["data"].clone();
    let fans = market.sql("SELECT COUNT(*) FROM follow WHERE follow_user_id = 8").await;
    assert_eq!(hugo["fans"], fans);
    assert_eq!(hugo["icon"], "/pictures/user/8.svg");
    let fan = market.log_in("20000001001").await;
    assert_eq!(market.get("/user/me", &fan).await.ok().body["data"]["id"], "1001");
    market.shutdown().await;
}

#[tokio::test]
async fn a_profile_lives_for_two_days_and_slides() {
    let test_server = TestServer::start().await.expect("an engine");
    let market = Market::on_test_server(&test_server).await;
    market.get("/user/5", "").await.ok();
    market.change("UPDATE user SET nick_name = 'behind' WHERE id = 5").await;
    // Read every day, it stays; left alone for three days, it ends.
    for _ in 0..5 {
        test_server.advance(Duration::from_secs(36 * 3600)).await;
        assert_eq!(market.get("/user/5", "").await.ok().body["data"]["nickName"], "Emil");
        // The slide runs in the background.
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }
    test_server.advance(Duration::from_secs(72 * 3600)).await;
    assert_eq!(market.get("/user/5", "").await.ok().body["data"]["nickName"], "behind");
    market.shutdown().await;
}
