//! Orders of goods: placing, paying, giving back, lists, and stock that is never sold twice.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use axum::{
    body::Body,
    http::{Method, Request, header},
};
use futures_util::future::join_all;
use seawall::testing::TestServer;
use seawall_market::{
    Error, Parts,
    payments::{Charged, Paying, Payments, SimulatedPayments},
};
use seawall_testkit::backend::Backend;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{
    cart::{add, items},
    market::{Answer, Market, on_each_backend, request},
    notes::ticking,
};

on_each_backend!(
    an_order_is_placed_paid_and_refunded,
    the_same_key_makes_the_same_order,
    checkouts_that_race_for_one_key_make_one_order,
    what_a_client_says_about_prices_is_ignored,
    many_buyers_share_the_last_units,
    all_items_or_none,
    nobody_touches_the_orders_of_others,
    a_long_list_has_pages,
    a_payment_that_comes_late_is_refunded,
    a_payment_after_the_time_is_late_before_anybody_swept,
    a_cancelled_order_gives_its_units_back_once,
    an_order_that_lost_its_process_is_followed,
);

/// Bo has an empty cart and sixty orders.
const BO: &str = "10000000002";
const SOLD: &str = "SELECT CAST(COALESCE(SUM(i.count), 0) AS SIGNED) FROM order_item i JOIN orders o \
                    ON o.id = i.order_id WHERE i.sku_id = 2 AND o.status IN ('UNPAID', 'PAID')";

/// Makes unpaid orders older than the quarter of an hour that they have.
const AGED: &str = "UPDATE orders SET create_time = create_time - 900000 \
                    WHERE id > 1000 AND status = 'UNPAID'";

pub(crate) async fn check_out(market: &Market, token: &str) -> String {
    let answer = market.post("/cart/checkout", token).await.ok();
    answer.body["data"]["checkoutId"].as_str().expect("an id").to_owned()
}

pub(crate) async fn order(market: &Market, token: &str, key: &str, body: &Value) -> Answer {
    market.call(order_request(token, key, body)).await
}

pub(crate) fn order_request(token: &str, key: &str, body: &Value) -> Request<Body> {
    let mut request = request(Method::POST, "/order", token, Body::from(body.to_string()));
    let headers = request.headers_mut();
    headers.insert(header::CONTENT_TYPE, "application/json".parse().expect("a header"));
    if !key.is_empty() {
        headers.insert("idempotency-key", key.parse().expect("a header"));
    }
    request
}

/// Puts units into the cart, checks out and orders.
pub(crate) async fn buy(
    market: &Market,
    token: &str,
    key: &str,
    (sku, count): (u64, u64),
) -> Answer {
    add(market, token, sku, count).await.ok();
    let checkout = check_out(market, token).await;
    order(market, token, key, &json!({"checkoutId": checkout})).await
}

pub(crate) async fn levels(market: &Market, sku: u64) -> Value {
    market.get(&format!("/inventory/{sku}"), "").await.ok().body["data"].clone()
}

/// Asserts that Redis and the database have so many left, and that every unit is accounted for.
#[track_caller]
fn assert_left(levels: &Value, left: i64) {
    let number = |name: &str| levels["total"][name].as_i64().expect("a number");
    assert_eq!((&levels["num"], number("left"), number("held")), (&json!(left), left, 0));
    assert_eq!(number("received"), number("sold") + left, "{levels}");
}

async fn an_order_is_placed_paid_and_refunded(backend: Backend) {
    let market = Market::on(backend).await;
    let bo = market.log_in(BO).await;
    add(&market, &bo, 5, 1).await.ok();
    let id = buy(&market, &bo, "a-1", (1, 4)).await.ok().text();
    assert_eq!(items(&market, &bo).await, [], "what was bought is out of the cart");
    let answer = market.get(&format!("/order/{id}"), &bo).await.ok();
    let data = &answer.body["data"];
    assert_eq!((&data["status"], &data["total"]), (&json!("UNPAID"), &json!(4 * 3600 + 4800)));
    assert!(data["payBefore"].is_string(), "{data}");
    assert_eq!(data["items"].as_array().map(Vec::len), Some(2));
    assert_left(&levels(&market, 1).await, 296);
    let log = "SELECT COUNT(*) FROM inventory_log WHERE sku_id = 1 AND delta = -4 \
               AND before_num = 300 AND after_num = 296 AND reason = 'SALE'";
    assert_eq!(market.sql(log).await, 1);

    let path = |what: &str| format!("/order/{id}/{what}");
    market.post(&path("refund"), &bo).await.refused(409, "NOT_PAID");
    for _ in 0..2 {
        let answer = market.post(&path("pay"), &bo).await.ok();
        assert_eq!(answer.body["data"]["status"], "PAID");
    }
    market.post(&path("cancel"), &bo).await.refused(409, "NOT_UNPAID");
    for _ in 0..2 {
        let answer = market.post(&path("refund"), &bo).await.ok();
        assert_eq!(answer.body["data"]["status"], "REFUNDED");
    }
    market.post(&path("pay"), &bo).await.refused(409, "NOT_UNPAID");
    assert_left(&levels(&market, 1).await, 300);
    let first = market.get("/order", &bo).await.ok().body["data"][0].clone();
    assert_eq!((&first["id"], &first["status"]), (&json!(id), &json!("REFUNDED")));
    market.shutdown().await;
}

async fn the_same_key_makes_the_same_order(backend: Backend) {
    let market = Market::on(backend).await;
    let bo = market.log_in(BO).await;
    add(&market, &bo, 1, 2).await.ok();
    let body = json!({"checkoutId": check_out(&market, &bo).await});
    order(&market, &bo, "", &body).await.refused(400, "NO_IDEMPOTENCY_KEY");
    order(&market, &bo, &"x".repeat(65), &body).await.refused(400, "BAD_IDEMPOTENCY_KEY");
    let answers = join_all((0..8).map(|_| order(&market, &bo, "k-1", &body))).await;
    let ids: Vec<String> = answers.into_iter().map(|answer| answer.ok().text()).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_left(&levels(&market, 1).await, 298);
    let other = order(&market, &bo, "k-2", &body).await;
    other.refused(409, "CHECKOUT_USED");
    assert_eq!(other.body["data"], ids[0]);
    add(&market, &bo, 1, 1).await.ok();
    let body = json!({"checkoutId": check_out(&market, &bo).await});
    order(&market, &bo, "k-1", &body).await.refused(409, "IDEMPOTENCY_KEY_REUSED");
    let unknown = json!({"checkoutId": "1700"});
    order(&market, &bo, "k-3", &unknown).await.refused(409, "CHECKOUT_EXPIRED");
    assert_left(&levels(&market, 1).await, 298);
    market.shutdown().await;
}

async fn checkouts_that_race_for_one_key_make_one_order(backend: Backend) {
    let market = Market::on(backend).await;
    let bo = market.log_in(BO).await;
    add(&market, &bo, 1, 2).await.ok();
    let mut bodies = Vec::new();
    for _ in 0..10 {
        bodies.push(json!({"checkoutId": check_out(&market, &bo).await}));
    }
    let answers = join_all(bodies.iter().map(|body| order(&market, &bo, "one", body))).await;
    let (made, refused): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|answer| answer.status == 200);
    assert_eq!(made.len(), 1, "{made:?}");
    let id = made[0].text();
    for answer in refused {
        answer.refused(409, "IDEMPOTENCY_KEY_REUSED");
        assert_eq!(answer.body["data"], id);
    }
    // Without waiting for any hold to end: whoever lost has let go before they were answered.
    assert_left(&levels(&market, 1).await, 298);
    assert_eq!(market.sql("SELECT COUNT(*) FROM orders WHERE idempotency_key = 'one'").await, 1);
    market.shutdown().await;
}

async fn what_a_client_says_about_prices_is_ignored(backend: Backend) {
    let market = Market::on(backend).await;
    let bo = market.log_in(BO).await;
    add(&market, &bo, 3, 1).await.ok();
    let checkout = check_out(&market, &bo).await;
    let lies = json!({"checkoutId": checkout, "total": 1, "userId": "1",
        "items": [{"skuId": "3", "price": 1, "count": -5}]});
    let id = order(&market, &bo, "lies", &lies).await.ok().text();
    let answer = market.get(&format!("/order/{id}"), &bo).await.ok();
    let data = &answer.body["data"];
    assert_eq!((&data["total"], &data["userId"]), (&json!(900), &json!("2")));
    assert_eq!(data["items"][0]["count"], 1);
    for bad in [json!({}), json!({"checkoutId": -1}), json!({"checkoutId": "x"}), json!([])] {
        assert_eq!(order(&market, &bo, "bad", &bad).await.status, 400);
    }
    market.shutdown().await;
}

async fn many_buyers_share_the_last_units(backend: Backend) {
    let market = Market::on(backend).await;
    let admin = market.log_in("10000000000").await;
    let body = json!({"receiptId": "more", "skuId": "2", "count": 8});
    market.send_json(Method::POST, "/inventory/receipt", &admin, &body).await.ok();
    let buyers = join_all((0..64).map(async |buyer| {
        let token = market.log_in(&format!("139{buyer:08}")).await;
        let count = 1 + buyer % 3;
        add(&market, &token, 2, count).await.ok();
        (token.clone(), check_out(&market, &token).await, count)
    }))
    .await;
    let orders = buyers.iter().map(async |(token, checkout, count)| {
        let body = json!({"checkoutId": checkout});
        // One that could not be told may be repeated with its key.
        for _ in 0..5 {
            let answer = order(&market, token, "only", &body).await;
            match (answer.status.as_u16(), answer.code()) {
                (200, _) => return *count,
                (409, "SOLD_OUT" | "CHECKOUT_EXPIRED") => return 0,
                (503, _) => {}
                _ => panic!("{answer:?}"),
            }
        }
        0
    });
    let sold: u64 = join_all(orders).await.into_iter().sum();
    let sold = i64::try_from(sold).expect("few");
    assert!((8..=10).contains(&sold), "{sold} of 10: at most two are too few for who is left");
    assert_eq!(market.sql(SOLD).await, sold, "every answer is true");
    market
        .until("all holds to be settled", async |market| {
            levels(market, 2).await["total"]["held"] == 0
        })
        .await;
    assert_left(&levels(&market, 2).await, 10 - sold);
    market.shutdown().await;
}

async fn all_items_or_none(backend: Backend) {
    let market = Market::on(backend).await;
    let bo = market.log_in(BO).await;
    add(&market, &bo, 1, 5).await.ok();
    let answer = buy(&market, &bo, "too-many", (2, 3)).await;
    answer.refused(409, "SOLD_OUT");
    assert_eq!(answer.body["data"], "2");
    assert_left(&levels(&market, 1).await, 300);
    assert_left(&levels(&market, 2).await, 2);
    assert_eq!(items(&market, &bo).await, [(2, 3), (1, 5)], "the cart is as it was");
    // The two that there are lie on two shards.
    let path = "/cart/2";
    market.send_json(Method::PUT, path, &bo, &json!({"count": 2})).await.ok();
    let body = json!({"checkoutId": check_out(&market, &bo).await});
    order(&market, &bo, "too-many", &body).await.ok();
    assert_left(&levels(&market, 2).await, 0);
    market.shutdown().await;
}

async fn nobody_touches_the_orders_of_others(backend: Backend) {
    let market = Market::on(backend).await;
    let bo = market.log_in(BO).await;
    let dora = market.log_in("10000000004").await;
    let id = buy(&market, &bo, "mine", (1, 1)).await.ok().text();
    market.get(&format!("/order/{id}"), &dora).await.refused(404, "UNKNOWN_ORDER");
    for what in ["pay", "cancel", "refund"] {
        let path = format!("/order/{id}/{what}");
        market.post(&path, &dora).await.refused(404, "UNKNOWN_ORDER");
        market.post(&path, "").await.refused(401, "NOT_LOGGED_IN");
    }
    market.get(&format!("/order?lastId={id}"), &dora).await.refused(404, "UNKNOWN_ORDER");
    add(&market, &bo, 1, 1).await.ok();
    let body = json!({"checkoutId": check_out(&market, &bo).await});
    order(&market, &dora, "mine", &body).await.refused(409, "CHECKOUT_EXPIRED");
    let body = json!({"checkoutId": id});
    order(&market, &dora, "mine", &body).await.refused(409, "CHECKOUT_EXPIRED");
    let put = market.send_json(Method::PUT, "/cart/1", &dora, &json!({"count": 9})).await;
    put.refused(404, "NOT_IN_CART");
    market.send_json(Method::DELETE, "/cart/1", &dora, &Value::Null).await.ok();
    assert_eq!(items(&market, &bo).await, [(1, 1)]);
    assert_eq!(
        market.get(&format!("/order/{id}"), &bo).await.ok().body["data"]["status"],
        "UNPAID"
    );
    market.shutdown().await;
}

pub(crate) async fn page(market: &Market, token: &str, last: Option<&str>) -> Vec<String> {
    let path = last.map_or("/order".to_owned(), |last| format!("/order?lastId={last}"));
    let answer = market.get(&path, token).await.ok();
    let orders = answer.body["data"].as_array().expect("a page").clone();
    orders.iter().map(|order| order["id"].as_str().expect("an id").to_owned()).collect()
}

async fn a_long_list_has_pages(backend: Backend) {
    let market = Market::on(backend).await;
    let bo = market.log_in(BO).await;
    let dora = market.log_in("10000000004").await;
    assert_eq!(page(&market, &dora, None).await, Vec::<String>::new());
    let mut all: Vec<String> = Vec::new();
    loop {
        let next = page(&market, &bo, all.last().map(String::as_str)).await;
        if next.is_empty() {
            break;
        }
        all.extend(next);
    }
    let mut unique = all.clone();
    unique.sort();
    unique.dedup();
    assert_eq!((all.len(), unique.len()), (60, 60));
    // A new order is in front, also for Dora, whose list was empty, and on another process.
    let colleague = market.colleague().await;
    for token in [&bo, &dora] {
        let id = buy(&market, token, "new", (1, 1)).await.ok().text();
        assert_eq!(page(&colleague, token, None).await[0], id);
    }
    assert_eq!(page(&market, &dora, None).await.len(), 1);
    market.get("/order?lastId=x", &bo).await.refused(400, "BAD_QUERY");
    market.shutdown().await;
}

/// Waits before it takes the money, until it is told to.
#[derive(Debug, Default)]
pub(crate) struct SlowPayments {
    pub(crate) asked: Notify,
    pub(crate) go: Notify,
    refunds: AtomicU64,
    inner: SimulatedPayments,
}

impl Payments for SlowPayments {
    fn charge<'a>(&'a self, reference: &'a str, cents: u64) -> Paying<'a, Charged> {
        Box::pin(async move {
            self.asked.notify_one();
            self.go.notified().await;
            self.inner.charge(reference, cents).await
        })
    }

    fn refund<'a>(&'a self, reference: &'a str) -> Paying<'a, ()> {
        self.refunds.fetch_add(1, Ordering::SeqCst);
        self.inner.refund(reference)
    }
}

async fn a_payment_that_comes_late_is_refunded(backend: Backend) {
    let payments = Arc::new(SlowPayments::default());
    let parts = Parts { payments: Some(payments.clone()), ..Parts::default() };
    let market = Market::with(backend, parts, &[]).await;
    let bo = market.log_in(BO).await;
    let id = buy(&market, &bo, "late", (1, 3)).await.ok().text();
    let path = format!("/order/{id}/pay");
    let cancel = async {
        payments.asked.notified().await;
        market.post(&format!("/order/{id}/cancel"), &bo).await.ok();
        payments.go.notify_one();
    };
    let (answer, ()) = tokio::join!(market.post(&path, &bo), cancel);
    answer.refused(409, "PAID_LATE");
    assert!(payments.refunds.load(Ordering::SeqCst) >= 1);
    let answer = market.get(&format!("/order/{id}"), &bo).await.ok();
    assert_eq!(answer.body["data"]["status"], "CANCELLED");
    assert!(answer.body["data"]["refundTime"].is_string(), "{answer:?}");
    assert_left(&levels(&market, 1).await, 300);
    market.post(&path, &bo).await.refused(409, "PAID_LATE");
    market.shutdown().await;
}

/// Whether the job has come by meanwhile or not, the answer is the same.
async fn a_payment_after_the_time_is_late_before_anybody_swept(backend: Backend) {
    let payments = Arc::new(SlowPayments::default());
    let parts = Parts { payments: Some(payments.clone()), ..Parts::default() };
    let market = Market::with(backend, parts, &[]).await;
    let bo = market.log_in(BO).await;
    let too_late = async |answer: Answer, id: &str| {
        answer.refused(409, "PAID_LATE");
        let answer = market.get(&format!("/order/{id}"), &bo).await.ok();
        assert_eq!(answer.body["data"]["status"], "CANCELLED");
        assert!(answer.body["data"]["refundTime"].is_string(), "{answer:?}");
        assert_left(&levels(&market, 1).await, 300);
    };
    // Too old when the payment begins: nothing is charged, or this would wait.
    let id = buy(&market, &bo, "before", (1, 3)).await.ok().text();
    market.change(AGED).await;
    too_late(market.post(&format!("/order/{id}/pay"), &bo).await, &id).await;
    // Too old when the money has come.
    let id = buy(&market, &bo, "while", (1, 3)).await.ok().text();
    let path = format!("/order/{id}/pay");
    let comes = async {
        payments.asked.notified().await;
        market.change(AGED).await;
        payments.go.notify_one();
    };
    let (answer, ()) = tokio::join!(market.post(&path, &bo), comes);
    too_late(answer, &id).await;
    market.shutdown().await;
}

async fn a_cancelled_order_gives_its_units_back_once(backend: Backend) {
    let market = Market::on(backend).await;
    let bo = market.log_in(BO).await;
    let id = buy(&market, &bo, "once", (2, 2)).await.ok().text();
    assert_left(&levels(&market, 2).await, 0);
    let path = format!("/order/{id}/cancel");
    for answer in join_all((0..8).map(|_| market.post(&path, &bo))).await {
        assert_eq!(answer.ok().body["data"]["status"], "CANCELLED");
    }
    assert_left(&levels(&market, 2).await, 2);
    let rows = "SELECT COUNT(*) FROM inventory_log WHERE sku_id = 2 AND reason = 'RETURN'";
    assert_eq!(market.sql(rows).await, 1);
    buy(&market, &bo, "again", (2, 2)).await.ok();
    assert_left(&levels(&market, 2).await, 0);
    market.shutdown().await;
}

/// Whatever became of the process between the database and Redis: the log is followed.
async fn an_order_that_lost_its_process_is_followed(backend: Backend) {
    let market = Market::on(backend).await;
    assert_left(&levels(&market, 1).await, 300);
    // As if a process had died after its commit, and its hold had ended meanwhile.
    market
        .change(
            "INSERT INTO inventory_log (id, sku_id, delta, before_num, after_num, reason, ref, \
             applied, create_time, update_time) \
             VALUES (99999, 1, -6, 300, 294, 'SALE', 'o77@1', 0, 1, 1)",
        )
        .await;
    market.change("UPDATE inventory SET num = 294 WHERE sku_id = 1").await;
    market
        .until("the stock to follow", async |market| {
            levels(market, 1).await["total"]["left"] == 294
        })
        .await;
    assert_left(&levels(&market, 1).await, 294);
    market
        .until("that to be noted", async |market| {
            market.sql("SELECT COUNT(*) FROM inventory_log WHERE applied = 0").await == 0
        })
        .await;
    market.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_nobody_pays_for_times_out() {
    let test_server = TestServer::start().await.expect("it starts");
    let market = Market::on_stage_with(&test_server, &[("unpaid-after", "60")]).await;
    let bo = market.log_in(BO).await;
    let id = buy(&market, &bo, "unpaid", (2, 2)).await.ok().text();
    add(&market, &bo, 2, 1).await.ok();
    let body = json!({"checkoutId": check_out(&market, &bo).await});
    order(&market, &bo, "nothing-left", &body).await.refused(409, "SOLD_OUT");
    test_server.advance(std::time::Duration::from_secs(61)).await;
    market
        .until("the time-out", async |market| {
            let answer = market.get(&format!("/order/{id}"), &bo).await.ok();
            test_server.advance(std::time::Duration::from_secs(1)).await;
            answer.body["data"]["status"] == "CANCELLED"
        })
        .await;
    market.post(&format!("/order/{id}/pay"), &bo).await.refused(409, "PAID_LATE");
    market
        .until("the units to be back", async |market| levels(market, 2).await["total"]["left"] == 2)
        .await;
    let body = json!({"checkoutId": check_out(&market, &bo).await});
    order(&market, &bo, "left-again", &body).await.ok();
    // A job that looks twice waits for its time.
    ticking(&test_server, market.shutdown()).await;
}

/// Gives nothing back before it is told to.
#[derive(Debug, Default)]
struct LatePayments {
    gives: std::sync::atomic::AtomicBool,
}

impl Payments for LatePayments {
    fn charge<'a>(&'a self, _: &'a str, _: u64) -> Paying<'a, Charged> {
        Box::pin(async { Ok(Charged::Accepted) })
    }

    fn refund<'a>(&'a self, _: &'a str) -> Paying<'a, ()> {
        Box::pin(async {
            if self.gives.load(Ordering::SeqCst) {
                return Ok(());
            }
            Err(Error::Unavailable { what: "the provider", cause: "it is closed".to_owned() })
        })
    }
}

/// Also for an order that came with the town, which was never seen being paid.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn money_that_cannot_be_given_back_now_is_given_back_later() {
    let test_server = TestServer::start().await.expect("it starts");
    let payments = Arc::new(LatePayments::default());
    let parts = Parts { payments: Some(payments.clone()), ..Parts::default() };
    let market = Market::on_stage_of(&test_server, parts, &[]).await;
    let bo = market.log_in(BO).await;
    let new = buy(&market, &bo, "mine", (1, 1)).await.ok().text();
    market.post(&format!("/order/{new}/pay"), &bo).await.ok();
    for order in [new.as_str(), "1"] {
        let refund = format!("/order/{order}/refund");
        market.post(&refund, &bo).await.refused(503, "UNAVAILABLE");
        let answer = market.get(&format!("/order/{order}"), &bo).await.ok();
        assert_eq!(answer.body["data"]["status"], "REFUNDING");
    }
    payments.gives.store(true, Ordering::SeqCst);
    market
        .until("the money", async |market| {
            test_server.advance(std::time::Duration::from_secs(5)).await;
            market.sql("SELECT COUNT(*) FROM orders WHERE status = 'REFUNDING'").await == 0
        })
        .await;
    // A job that looks twice waits for its time.
    ticking(&test_server, market.shutdown()).await;
}
