//! What becomes of an order: paid, cancelled, refunded, timed out; and where its money and unit go.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use seawall::testing::TestServer;
use seawall_market::{
    Error, Parts,
    payments::{Charged, Paying, Payments},
};
use seawall_testkit::backend::Backend;
use tokio::sync::Semaphore;

use crate::market::{Market, PATIENCE, on_each_backend};

on_each_backend!(
    a_paid_order_is_refunded_and_its_unit_sells_again,
    a_cancelled_order_gives_its_unit_back_once,
    an_order_that_ends_while_somebody_pays_is_refunded,
    a_payment_after_the_time_is_late_before_anybody_swept,
    orders_are_listed_newest_first_with_what_is_queued,
    orders_of_two_processes_are_in_order_of_time,
    nobody_touches_anothers_order,
    a_refund_that_fails_does_not_hold_up_the_others,
);

const STOCK_1: &str = "SELECT stock FROM seckill_voucher WHERE voucher_id = 1";
const STOCK_2: &str = "SELECT stock FROM seckill_voucher WHERE voucher_id = 2";

async fn bought(market: &Market, voucher: u64, token: &str) -> String {
    let path = format!("/voucher-order/seckill/{voucher}");
    let order = market.post(&path, token).await.ok().text();
    assert_eq!(market.settled(&order, token).await, "UNPAID");
    order
}

/// Waits until an order has a status.
async fn becomes(market: &Market, order: &str, token: &str, status: &str) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let answer = market.get(&format!("/voucher-order/{order}"), token).await.ok();
        if answer.body["data"]["status"] == status {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "never {status}: {answer:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until Redis has so many units of a sale.
async fn left(market: &Market, voucher: u64, units: i64) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while market.stock(voucher).await != units {
        assert!(tokio::time::Instant::now() < deadline, "never {units}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn a_paid_order_is_refunded_and_its_unit_sells_again(backend: Backend) {
    let market = Market::on(backend).await;
    let (ada, bo) = (market.log_in("10000000001").await, market.log_in("10000000002").await);
    let order = bought(&market, 2, &ada).await;
    let path = |what: &str| format!("/voucher-order/{order}/{what}");
    market.post(&path("refund"), &ada).await.refused(409, "NOT_PAID");
    let waits = market.get(&format!("/voucher-order/{order}"), &ada).await.ok();
    assert!(waits.body["data"]["payBefore"].is_string(), "{}", waits.body);
    for _ in 0..2 {
        let paid = market.post(&path("pay"), &ada).await.ok();
        assert_eq!(paid.body["data"]["status"], "PAID");
        assert!(paid.body["data"]["payTime"].is_string());
        assert!(paid.body["data"]["payBefore"].is_null());
    }
    market.post(&path("cancel"), &ada).await.refused(409, "NOT_UNPAID");
    market.post("/voucher-order/seckill/2", &bo).await.refused(409, "SOLD_OUT");
    for _ in 0..2 {
        let asked = market.post(&path("refund"), &ada).await.ok();
        let status = asked.body["data"]["status"].as_str().expect("a status");
        assert!(["REFUNDING", "REFUNDED"].contains(&status), "{status}");
    }
    becomes(&market, &order, &ada, "REFUNDED").await;
    left(&market, 2, 1).await;
    assert_eq!(market.sql(STOCK_2).await, 1);
    let view = market.get(&format!("/voucher-order/{order}"), &ada).await.ok();
    assert!(view.body["data"]["refundTime"].is_string());
    market.post(&path("pay"), &ada).await.refused(409, "NOT_UNPAID");
    // The unit and the right to buy are there again.
    let again = bought(&market, 2, &ada).await;
    assert_ne!(again, order);
    assert_eq!((market.stock(2).await, market.sql(STOCK_2).await), (0, 0));
    market.shutdown().await;
}

async fn a_cancelled_order_gives_its_unit_back_once(backend: Backend) {
    let market = Market::on(backend).await;
    let token = market.log_in("10000000001").await;
    let order = bought(&market, 1, &token).await;
    let path = format!("/voucher-order/{order}/cancel");
    let answers = join_all((0..6).map(|_| market.post(&path, &token))).await;
    for answer in answers {
        assert_eq!(answer.ok().body["data"]["status"], "CANCELLED");
    }
    left(&market, 1, 100).await;
    assert_eq!(market.sql(STOCK_1).await, 100);
    bought(&market, 1, &token).await;
    assert_eq!((market.stock(1).await, market.sql(STOCK_1).await), (99, 99));
    market.post(&path, &token).await.ok();
    assert_eq!((market.stock(1).await, market.sql(STOCK_1).await), (99, 99));
    // Everything of a sale in Redis ends by itself after it.
    for part in ["", ":buyers", ":receipts"] {
        let ends: i64 = market.redis(&["PTTL", &format!("sale:{{1}}:1{part}")]).await;
        assert!(ends > 0, "{part:?} ends in {ends}");
    }
    market.shutdown().await;
}

/// A provider whose charges wait until the test lets them through.
#[derive(Debug)]
struct SlowPayments {
    asked: Semaphore,
    through: Semaphore,
    refunds: AtomicUsize,
}

impl Payments for SlowPayments {
    fn charge<'a>(&'a self, _: &'a str, _: u64) -> Paying<'a, Charged> {
        Box::pin(async {
            self.asked.add_permits(1);
            self.through.acquire().await.expect("open").forget();
            Ok(Charged::Accepted)
        })
    }

    fn refund<'a>(&'a self, _: &'a str) -> Paying<'a, ()> {
        Box::pin(async {
            self.refunds.fetch_add(1, Ordering::SeqCst);
            Ok(())
        })
    }
}

async fn an_order_that_ends_while_somebody_pays_is_refunded(backend: Backend) {
    let payments = Arc::new(SlowPayments {
        asked: Semaphore::new(0),
        through: Semaphore::new(0),
        refunds: AtomicUsize::new(0),
    });
    let provider: Arc<dyn Payments> = Arc::clone(&payments) as _;
    let parts = Parts { payments: Some(provider), ..Parts::default() };
    let market = Market::with(backend, parts, &[]).await;
    let token = market.log_in("10000000001").await;
    let order = bought(&market, 1, &token).await;
    let path = format!("/voucher-order/{order}/pay");
    let cancelling = async {
        payments.asked.acquire().await.expect("open").forget();
        let cancel = format!("/voucher-order/{order}/cancel");
        market.post(&cancel, &token).await.ok();
        payments.through.add_permits(1);
    };
    let (paid, ()) = tokio::join!(market.post(&path, &token), cancelling);
    paid.refused(409, "PAID_LATE");
    assert!(payments.refunds.load(Ordering::SeqCst) >= 1, "the money went back");
    let view = market.get(&format!("/voucher-order/{order}"), &token).await.ok();
    assert_eq!(view.body["data"]["status"], "CANCELLED");
    assert!(view.body["data"]["refundTime"].is_string(), "and that is recorded");
    left(&market, 1, 100).await;
    market.shutdown().await;
}

async fn a_payment_after_the_time_is_late_before_anybody_swept(backend: Backend) {
    let market = Market::on(backend).await;
    let token = market.log_in("10000000001").await;
    let order = bought(&market, 1, &token).await;
    market
        .change(
            "UPDATE voucher_order SET create_time = create_time - 900000, \
             update_time = update_time - 900000 WHERE id > 1000 AND status = 'UNPAID'",
        )
        .await;
    // Also when it is said again, and whether a round comes in between or not.
    for _ in 0..2 {
        market.post(&format!("/voucher-order/{order}/pay"), &token).await.refused(409, "PAID_LATE");
    }
    let view = market.get(&format!("/voucher-order/{order}"), &token).await.ok();
    assert_eq!(view.body["data"]["status"], "CANCELLED");
    assert!(view.body["data"]["refundTime"].is_string(), "the money went back: {view:?}");
    left(&market, 1, 100).await;
    assert_eq!(market.sql(STOCK_1).await, 100);
    market.shutdown().await;
}

/// A provider that will not give one charge back.
#[derive(Debug, Default)]
struct Stubborn {
    keeps: std::sync::Mutex<Option<String>>,
}

impl Payments for Stubborn {
    fn charge<'a>(&'a self, reference: &'a str, _: u64) -> Paying<'a, Charged> {
        // The first one.
        self.keeps.lock().unwrap().get_or_insert_with(|| reference.to_owned());
        Box::pin(async { Ok(Charged::Accepted) })
    }

    fn refund<'a>(&'a self, reference: &'a str) -> Paying<'a, ()> {
        let keeps = self.keeps.lock().unwrap().as_deref() == Some(reference);
        Box::pin(async move {
            if keeps {
                let cause = "it is ours now".to_owned();
                return Err(Error::Unavailable { what: "the provider", cause });
            }
            Ok(())
        })
    }
}

async fn a_refund_that_fails_does_not_hold_up_the_others(backend: Backend) {
    let parts = Parts { payments: Some(Arc::new(Stubborn::default())), ..Parts::default() };
    let market = Market::with(backend, parts, &[]).await;
    let mut orders = Vec::new();
    for phone in ["10000000001", "10000000002"] {
        let token = market.log_in(phone).await;
        let order = bought(&market, 1, &token).await;
        for what in ["pay", "refund"] {
            market.post(&format!("/voucher-order/{order}/{what}"), &token).await.ok();
        }
        orders.push((order, token));
    }
    let (stuck, other) = (&orders[0], &orders[1]);
    market
        .until("the other one's money", async |market| {
            market.settled(&other.0, &other.1).await == "REFUNDED"
        })
        .await;
    assert_eq!(market.settled(&stuck.0, &stuck.1).await, "REFUNDING");
    market.shutdown().await;
}

async fn orders_are_listed_newest_first_with_what_is_queued(backend: Backend) {
    let market = Market::on(backend).await;
    let (ada, bo) = (market.log_in("10000000001").await, market.log_in("10000000002").await);
    let mut orders = Vec::new();
    for _ in 0..11 {
        let order = bought(&market, 1, &ada).await;
        market.post(&format!("/voucher-order/{order}/cancel"), &ada).await.ok();
        orders.push(order);
    }
    market.all_settled().await;
    let held = market.hold_up_writers().await;
    orders.push(market.post("/voucher-order/seckill/1", &ada).await.ok().text());
    orders.reverse();
    let ids = |body: &serde_json::Value| {
        let list = body["data"].as_array().expect("a list");
        list.iter().map(|order| order["id"].as_str().expect("an id").to_owned()).collect::<Vec<_>>()
    };
    let first = market.get("/voucher-order", &ada).await.ok().body;
    assert_eq!(ids(&first), orders[..10]);
    assert_eq!(first["data"][0]["status"], "QUEUED");
    assert_eq!(first["data"][1]["status"], "CANCELLED");
    let queued = format!("/voucher-order/{}", orders[0]);
    for what in ["pay", "cancel", "refund"] {
        market.post(&format!("{queued}/{what}"), &ada).await.refused(409, "ORDER_QUEUED");
    }
    let second = market.get(&format!("/voucher-order?lastId={}", orders[9]), &ada).await.ok().body;
    assert_eq!(ids(&second), orders[10..]);
    assert!(ids(&market.get("/voucher-order", &bo).await.ok().body).is_empty());
    market.get("/voucher-order?lastId=x", &ada).await.refused(400, "BAD_QUERY");
    market.get("/voucher-order", "").await.refused(401, "NOT_LOGGED_IN");
    held.close().await;
    assert_eq!(market.settled(&orders[0], &ada).await, "UNPAID");
    market.shutdown().await;
}

/// Ids come in blocks, one for each process.
async fn orders_of_two_processes_are_in_order_of_time(backend: Backend) {
    let market = Market::on(backend).await;
    let colleague = market.colleague().await;
    let (ada, bo) = (market.log_in("10000000001").await, market.log_in("10000000002").await);
    let mut orders = Vec::new();
    for turn in 0..12 {
        let here = if turn % 2 == 0 { &colleague } else { &market };
        let order = bought(here, 1, &ada).await;
        market.post(&format!("/voucher-order/{order}/cancel"), &ada).await.ok();
        orders.push(order);
    }
    orders.reverse();
    let ids = async |path: &str| crate::notes::ids(&market.get(path, &ada).await.ok().body["data"]);
    assert_eq!(ids("/voucher-order").await, orders[..10]);
    for last in [4, 9] {
        let page = ids(&format!("/voucher-order?lastId={}", orders[last])).await;
        assert_eq!(page, orders[last + 1..], "after {last}");
    }
    let others = format!("/voucher-order?lastId={}", orders[0]);
    market.get(&others, &bo).await.refused(404, "UNKNOWN_ORDER");
    colleague.shutdown().await;
    market.shutdown().await;
}

async fn nobody_touches_anothers_order(backend: Backend) {
    let market = Market::on(backend).await;
    let (ada, bo) = (market.log_in("10000000001").await, market.log_in("10000000002").await);
    let order = bought(&market, 1, &ada).await;
    for what in ["pay", "cancel", "refund"] {
        let path = format!("/voucher-order/{order}/{what}");
        market.post(&path, &bo).await.refused(404, "UNKNOWN_ORDER");
        market.post(&path, "").await.refused(401, "NOT_LOGGED_IN");
        let nonsense = format!("/voucher-order/x/{what}");
        market.post(&nonsense, &ada).await.refused(400, "BAD_ID");
    }
    assert_eq!(market.settled(&order, &ada).await, "UNPAID");
    market.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_pays_for_sells_again_and_a_late_payment_goes_back() {
    let test_server = TestServer::start().await.expect("a test_server");
    let market = Market::on_test_server(&test_server).await;
    let (ada, bo) = (market.log_in("10000000001").await, market.log_in("10000000002").await);
    let order = bought(&market, 2, &ada).await;
    market.post("/voucher-order/seckill/2", &bo).await.refused(409, "SOLD_OUT");
    test_server.advance(Duration::from_secs(880)).await;
    assert_eq!(market.settled(&order, &ada).await, "UNPAID", "a quarter of an hour is not over");
    // The rounds come every few seconds. A round that was under way sleeps after its end, wherever the
    // clock is by then: time goes on until one has come.
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while market.settled(&order, &ada).await != "CANCELLED" {
        assert!(tokio::time::Instant::now() < deadline, "nobody ended it");
        test_server.advance(Duration::from_secs(5)).await;
    }
    left(&market, 2, 1).await;
    assert_eq!(market.sql(STOCK_2).await, 1);
    let second = bought(&market, 2, &bo).await;

    let path = format!("/voucher-order/{order}/pay");
    for _ in 0..2 {
        market.post(&path, &ada).await.refused(409, "PAID_LATE");
    }
    let view = market.get(&format!("/voucher-order/{order}"), &ada).await.ok();
    assert!(view.body["data"]["refundTime"].is_string(), "the money went back: {view:?}");
    market.post("/voucher-order/seckill/2", &ada).await.refused(409, "SOLD_OUT");
    market.post(&format!("/voucher-order/{second}/pay"), &bo).await.ok();
    for _ in 0..4 {
        test_server.advance(Duration::from_secs(300)).await;
    }
    assert_eq!(market.settled(&second, &bo).await, "PAID", "what is paid stays");
    market.shutdown().await;
    test_server.shutdown().await;
}
