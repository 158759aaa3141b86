//! Login by code and sessions.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    body::Body,
    http::{Method, header},
};
use futures_util::future::join_all;
use seawall::testing::TestServer;
use seawall_market::{
    Parts,
    accounts::{Phone, Sending, SmsSender, Token},
};
use seawall_testkit::backend::Backend;

use crate::market::{Market, on_each_backend, request};

on_each_backend!(
    a_new_phone_registers_itself_and_logs_out_again,
    a_code_is_used_once_however_many_try,
    guesses_side_by_side_burn_the_code,
    a_code_comes_once_a_minute,
    bad_phones_and_bodies_are_refused,
    the_owner_of_the_admins_phone_is_an_admin,
    logging_out_ends_one_session_everywhere,
    a_session_follows_its_user,
    whoever_has_many_addresses_has_one_cap,
);

async fn a_new_phone_registers_itself_and_logs_out_again(backend: Backend) {
    let market = Market::on(backend).await;
    market.get("/user/me", "").await.refused(401, "NOT_LOGGED_IN");
    let token = market.log_in("13800000001").await;
    assert_eq!(token.len(), 32, "128 bits in hexadecimal");
    let me = market.get("/user/me", &token).await.ok().body;
    let name = me["data"]["nickName"].as_str().expect("a name");
    assert!(name.starts_with("user_") && name.len() == 15, "{name}");
    assert!(me["data"]["id"].as_str().expect("text").parse::<u64>().is_ok());
    assert!(!me.to_string().contains("13800000001"), "nothing sensitive: {me}");
    let bearer = market.get("/user/me", &format!("Bearer {token}")).await.ok();
    assert_eq!(bearer.body, me);
    assert_eq!(market.sql("SELECT COUNT(*) FROM user WHERE phone = '13800000001'").await, 1);
    assert_eq!(market.sql("SELECT COUNT(*) FROM session").await, 1);

    market.post("/user/logout", &token).await.ok();
    market.get("/user/me", &token).await.refused(401, "NOT_LOGGED_IN");
    market.post("/user/logout", &token).await.refused(401, "NOT_LOGGED_IN");
    assert_eq!(market.sql("SELECT COUNT(*) FROM session").await, 0);
    market.shutdown().await;
}

async fn a_code_is_used_once_however_many_try(backend: Backend) {
    let market = Market::on(backend).await;
    let code = market.code("10000000002").await;
    let tries = (0..100).map(|_| market.log_in_with("10000000002", &code));
    let answers = join_all(tries).await;
    let won = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(won, 1);
    for lost in answers.iter().filter(|answer| answer.status != 200) {
        lost.refused(400, "CODE_EXPIRED");
    }
    assert_eq!(market.sql("SELECT COUNT(*) FROM session").await, 1);
    market.shutdown().await;
}

async fn guesses_side_by_side_burn_the_code(backend: Backend) {
    let market = Market::on(backend).await;
    let code = market.code("10000000003").await;
    let wrong = if code == "000000" { "000001" } else { "000000" };
    let answers = join_all((0..200).map(|_| market.log_in_with("10000000003", wrong))).await;
    let counted = answers.iter().filter(|answer| answer.code() == "WRONG_CODE").count();
    assert_eq!(counted, 5, "five tries and no more are compared");
    let refused = answers.iter().filter(|answer| answer.code() == "CODE_EXPIRED").count();
    assert_eq!(refused, 195);
    market.log_in_with("10000000003", &code).await.refused(400, "CODE_EXPIRED");
    market.shutdown().await;
}

async fn a_code_comes_once_a_minute(backend: Backend) {
    let market = Market::on(backend).await;
    let first = market.code("10000000004").await;
    let second = market.ask_code("10000000004").await;
    second.refused(429, "LIMITED");
    let seconds: u64 = second.headers[header::RETRY_AFTER].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    market.log_in_with("10000000004", &first).await.ok();
    market.shutdown().await;
}

async fn bad_phones_and_bodies_are_refused(backend: Backend) {
    let market = Market::on(backend).await;
    for phone in [
        "",
        "1",
        "1234567890a",
        "123456789012",
        "%2B1234567890",
        "1000000000%00",
        "１０００００００００１",
    ] {
        market.ask_code(phone).await.refused(400, "INVALID_PHONE");
    }
    for body in
        [serde_json::json!({}), serde_json::json!({ "phone": 1, "code": 2 }), serde_json::json!([])]
    {
        market.post_json("/user/login", &body).await.refused(400, "BAD_BODY");
    }
    market.log_in_with("10000000005", "123456").await.refused(400, "CODE_EXPIRED");
    for token in ["x", "Bearer", "Bearer x", "Basic abc", &"f".repeat(32), "}{"] {
        market.get("/user/me", token).await.refused(401, "NOT_LOGGED_IN");
    }
    market.shutdown().await;
}

async fn the_owner_of_the_admins_phone_is_an_admin(backend: Backend) {
    // Somebody who is there, and somebody who is not.
    for phone in ["10000000006", "13800000007"] {
        let market = Market::with(backend, Parts::default(), &[]).await;
        let token = market.log_in(phone).await;
        assert_eq!(market.get("/user/me", &token).await.ok().body["data"]["role"], "user");
        let named = market.colleague_with(&[("admin-phone", phone)]).await;
        // A code a minute: as if one had passed.
        market.forget_limits(phone).await;
        let admin = named.log_in(phone).await;
        for token in [&admin, &token] {
            let me = market.get("/user/me", token).await.ok();
            assert_eq!(me.body["data"]["role"], "admin", "{phone}");
        }
        let other = named.log_in("10000000007").await;
        assert_eq!(named.get("/user/me", &other).await.ok().body["data"]["role"], "user");
        named.shutdown().await;
        drop(market);
    }
}

async fn logging_out_ends_one_session_everywhere(backend: Backend) {
    let market = Market::on(backend).await;
    let colleague = market.colleague().await;
    let first = market.log_in("10000000001").await;
    market.forget_limits("10000000001").await;
    let second = colleague.log_in("10000000001").await;
    colleague.get("/user/me", &first).await.ok();
    colleague.post("/user/logout", &first).await.ok();
    for one in [&market, &colleague] {
        one.get("/user/me", &first).await.refused(401, "NOT_LOGGED_IN");
        one.get("/user/me", &second).await.ok();
    }
    let neither = "SELECT COUNT(*) FROM session WHERE user_id = 1";
    assert_eq!(market.sql(neither).await, 1);
    drop(colleague);
    market.shutdown().await;
}

/// A subscriber of IPv6 may choose among 2^64 addresses.
async fn whoever_has_many_addresses_has_one_cap(backend: Backend) {
    let sender: Arc<dyn SmsSender> = Arc::new(Outbox::default());
    let parts = Parts { sender: Some(sender), ..Parts::default() };
    // Without a socket a request comes from nowhere; what it says of its origin is believed here.
    let settings = [("sms", "log"), ("code-ip-hourly", "2"), ("trusted-proxies", "0.0.0.0")];
    let market = Market::with(backend, parts, &settings).await;
    let mut phones = 1..;
    let mut ask = async |from: &str| {
        let phone = phones.next().expect("a number");
        let body = Body::from(format!("phone=137{phone:08}"));
        let mut request = request(Method::POST, "/user/code", "", body);
        let kind = ("content-type", "application/x-www-form-urlencoded");
        for (name, value) in [kind, ("x-forwarded-for", from)] {
            request.headers_mut().insert(name, value.parse().expect("a header"));
        }
        market.call(request).await
    };
    ask("2001:db8:1:2::1").await.ok();
    ask("2001:db8:1:2:3:4:5:6").await.ok();
    ask("2001:db8:1:2:ffff:ffff:ffff:ffff").await.refused(429, "LIMITED");
    ask("2001:db8:1:3::1").await.ok();
    ask("192.0.2.1").await.ok();
    ask("::ffff:192.0.2.1").await.ok();
    ask("192.0.2.1").await.refused(429, "LIMITED");
    ask("192.0.2.2").await.ok();
    market.shutdown().await;
}

/// What Redis has under a session is a copy of the user's row, and no token.
async fn a_session_follows_its_user(backend: Backend) {
    let market = Market::on(backend).await;
    let token = market.log_in("10000000005").await;
    let digest = Token::parse(&token).expect("a token").id();
    let key = format!("session:{{web:{}}}", digest.as_str());
    let name = async || market.redis::<String>(&["HGET", &key, "nickName"]).await;
    assert_eq!(name().await, "Emil");
    let change = serde_json::json!({ "nickName": "Emilia" });
    market.send_json(Method::PUT, "/user/me", &token, &change).await.ok();
    assert_eq!(name().await, "Emilia");
    let names = (0..10).map(|number| serde_json::json!({ "nickName": format!("Emil {number}") }));
    let names: Vec<_> = names.collect();
    let changes = names.iter().map(|name| market.send_json(Method::PUT, "/user/me", &token, name));
    for answer in join_all(changes).await {
        answer.ok();
    }
    let last = market.get("/user/5", "").await.ok().body["data"]["nickName"].clone();
    assert_eq!(name().await, last.as_str().expect("a name"), "the last one, not a late one");
    let fields: Vec<String> = market.redis(&["HGETALL", &key]).await;
    assert!(fields.iter().all(|text| *text != token && !text.contains("10000000005")));
    let keys: Vec<String> = market.redis(&["KEYS", &format!("*{token}*")]).await;
    assert!(keys.is_empty(), "{keys:?}");
    market.shutdown().await;
}

#[tokio::test]
async fn rows_of_sessions_that_ended_go() {
    let test_server = TestServer::start().await.expect("an engine");
    let market = Market::on_test_server(&test_server).await;
    market.log_in("10000000001").await;
    market.log_in("10000000002").await;
    assert_eq!(market.sql("SELECT COUNT(*) FROM session").await, 2);
    test_server.advance(Duration::from_secs(30 * 60)).await;
    let token = market.log_in("10000000003").await;
    test_server.advance(Duration::from_secs(11 * 60)).await;
    market
        .until("the rows to go", async |market| {
            market.sql("SELECT COUNT(*) FROM session").await == 1
        })
        .await;
    market.get("/user/me", &token).await.ok();
    market.shutdown().await;
}

/// A change that never reached the session is noticed when that slides.
#[tokio::test]
async fn a_session_that_slides_looks_at_its_user() {
    let test_server = TestServer::start().await.expect("an engine");
    let market = Market::on_test_server(&test_server).await;
    let token = market.log_in("10000000001").await;
    market.change("UPDATE user SET role = 'merchant' WHERE id = 1").await;
    assert_eq!(market.get("/user/me", &token).await.ok().body["data"]["role"], "user");
    test_server.advance(Duration::from_secs(2 * 60)).await;
    market.get("/user/me", &token).await.ok();
    assert_eq!(market.get("/user/me", &token).await.ok().body["data"]["role"], "merchant");
    market.shutdown().await;
}

#[tokio::test]
async fn five_codes_an_hour_and_a_code_lives_for_two_minutes() {
    let test_server = TestServer::start().await.expect("an engine");
    let market = Market::on_test_server(&test_server).await;
    let minute = Duration::from_secs(60);
    let code = market.code("10000000001").await;
    test_server.advance(2 * minute).await;
    market.log_in_with("10000000001", &code).await.refused(400, "CODE_EXPIRED");
    for _ in 0..4 {
        market.code("10000000001").await;
        test_server.advance(minute + Duration::from_secs(1)).await;
    }
    market.ask_code("10000000001").await.refused(429, "LIMITED");
    market.code("10000000002").await;
    test_server.advance(61 * minute).await;
    market.code("10000000001").await;
    market.shutdown().await;
}

#[tokio::test]
async fn sessions_slide_and_end() {
    let test_server = TestServer::start().await.expect("an engine");
    let market = Market::on_test_server(&test_server).await;
    let token = market.log_in("10000000001").await;
    for _ in 0..4 {
        test_server.advance(Duration::from_secs(29 * 60)).await;
        market.get("/user/me", &token).await.ok();
    }
    // Any path lets it slide.
    test_server.advance(Duration::from_secs(29 * 60)).await;
    market.get("/shop/1", &token).await.ok();
    test_server.advance(Duration::from_secs(29 * 60)).await;
    market.get("/user/me", &token).await.ok();
    test_server.advance(Duration::from_secs(31 * 60)).await;
    market.get("/user/me", &token).await.refused(401, "NOT_LOGGED_IN");
    market.shutdown().await;
}

#[tokio::test]
async fn no_session_lives_longer_than_a_week() {
    let test_server = TestServer::start().await.expect("an engine");
    let market = Market::on_test_server(&test_server).await;
    let token = market.log_in("10000000001").await;
    let step = Duration::from_secs(25 * 60);
    for _ in 0..(7 * 24 * 60 / 25) {
        test_server.advance(step).await;
        market.get("/user/me", &token).await.ok();
    }
    test_server.advance(step).await;
    market.get("/user/me", &token).await.refused(401, "NOT_LOGGED_IN");
    market.shutdown().await;
}

#[tokio::test]
async fn without_redis_sessions_are_read_from_the_database_and_logins_stay_closed() {
    let test_server = TestServer::start().await.expect("an engine");
    let market = Market::on_test_server(&test_server).await;
    let token = market.log_in("10000000001").await;
    test_server.faults().begin_outage();
    let me = market.get("/user/me", &token).await.ok();
    assert_eq!(me.body["data"]["nickName"], "Ada");
    let closed = market.ask_code("10000000002").await;
    assert!(closed.status == 503 || closed.status == 429, "{closed:?}");
    market.log_in_with("10000000001", "123456").await.refused(503, "UNAVAILABLE");
    market.post("/voucher-order/seckill/1", &token).await.refused(503, "UNAVAILABLE");
    market.get("/readyz", "").await.refused(503, "NOT_READY");
    market.get("/healthz", "").await.ok();
    test_server.faults().end_outage();
    market.get("/readyz", "").await.ok();
    market.get("/user/me", &token).await.ok();
    market.shutdown().await;
}

/// Keeps what would have been sent.
#[derive(Debug, Default)]
struct Outbox(Mutex<Vec<(String, String)>>);

impl SmsSender for Outbox {
    fn send<'a>(&'a self, phone: &'a Phone, code: &'a str) -> Sending<'a> {
        self.0.lock().unwrap().push((phone.to_string(), code.to_owned()));
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test]
async fn without_echo_the_code_is_sent_and_an_address_has_a_cap() {
    let outbox = Arc::new(Outbox::default());
    let sender: Arc<dyn SmsSender> = Arc::clone(&outbox) as _;
    let parts = Parts { sender: Some(sender), ..Parts::default() };
    let settings = [("sms", "log"), ("code-ip-hourly", "3")];
    let market = Market::with(Backend::Embedded, parts, &settings).await;
    for phone in ["10000000001", "10000000002", "10000000003"] {
        let asked = market.ask_code(phone).await.ok();
        assert!(asked.body["data"].is_null(), "the code is not in the answer: {asked:?}");
    }
    market.ask_code("10000000004").await.refused(429, "LIMITED");
    let (phone, code) = outbox.0.lock().unwrap()[1].clone();
    assert_eq!(phone, "10000000002");
    assert!(code.len() == 6 && code.bytes().all(|byte| byte.is_ascii_digit()), "{code}");
    market.log_in_with("10000000002", &code).await.ok();
    market.shutdown().await;
}
