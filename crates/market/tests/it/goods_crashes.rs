//! Processes that die in the middle of an order of goods: it stands with its units, or they come back.
//!
//! A request runs in a runtime of its own, and the death of a process is the end of that runtime: all
//! of its tasks are gone where they are, and nothing is cleaned up.

use std::{sync::Arc, time::Duration};

use seawall::testing::TestServer;
use seawall_testkit::backend::Backend;
use serde_json::json;
use tower::ServiceExt as _;

use crate::{
    cart::add,
    goods_orders::{check_out, levels, order, order_request, page},
    market::{Market, PATIENCE, on_each_backend},
    notes::ticking,
    victim::{Victim, kill, process},
};

on_each_backend!(an_order_that_dies_after_it_is_written_stands);

/// Units of the SKU that is bought.
const UNITS: i64 = 300;
/// Longer than holds last.
const HOLDS_END: Duration = Duration::from_secs(61);
/// How far time goes at once: jobs have to get their rounds done before their locks end.
const STEP: Duration = Duration::from_millis(200);

/// Whether every unit is on hand or in an order, by the database, and Redis says the same.
async fn even(market: &Market) -> Result<(), String> {
    let sold = "SELECT CAST(COALESCE(SUM(i.count), 0) AS SIGNED) FROM order_item i JOIN orders o \
                ON o.id = i.order_id WHERE i.sku_id = 1 AND o.status IN ('UNPAID', 'PAID')";
    let sold = market.sql(sold).await;
    let levels = levels(market, 1).await;
    let total = |name: &str| levels["total"][name].as_i64().expect("a number");
    let is_even = levels["num"] == UNITS - sold
        && total("left") == UNITS - sold
        && total("held") == 0
        && total("received") == total("sold") + total("left");
    if is_even { Ok(()) } else { Err(format!("{sold} units are in orders, and {levels}")) }
}

/// Lets holds end and jobs do their rounds until everything is even.
async fn until_even(market: &Market, test_server: &TestServer) {
    test_server.advance(HOLDS_END).await;
    market
        .until("everything to be even", async |market| {
            test_server.advance(STEP).await;
            even(market).await.is_ok()
        })
        .await;
}

/// Ends a market; a job that looks twice waits for its time.
async fn end(market: Market, test_server: &TestServer) {
    ticking(test_server, market.shutdown()).await;
}

/// Somebody who has seven units in the cart: token and checkout.
async fn quoted(market: &Market) -> (String, String) {
    let token = market.log_in("10000000002").await;
    add(market, &token, 1, 7).await.ok();
    let checkout = check_out(market, &token).await;
    // Whoever brings a SKU's stock to Redis writes to the database as well.
    assert_eq!(levels(market, 1).await["total"]["left"], UNITS);
    (token, checkout)
}

/// A market whose first order dies when it is about to be written, with what its buyer knows.
async fn dies_unwritten(test_server: &TestServer) -> (Market, String, String) {
    let market = Market::on_stage_and_mariadb(test_server).await;
    let (token, checkout) = quoted(&market).await;
    let held = market.hold_up_orders().await;
    let process = process();
    let request = order_request(&token, "once", &json!({"checkoutId": checkout}));
    process.spawn(market.router().oneshot(request));
    market.until_held_up().await;
    kill(process).await;
    held.close().await;
    let levels = levels(&market, 1).await;
    assert_eq!(levels["total"]["held"], 7);
    assert_eq!(levels["num"], UNITS, "units have left without an order");
    (market, token, checkout)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_dies_before_it_is_written_gives_its_units_back() {
    let test_server = TestServer::start().await.expect("it starts");
    let (market, token, checkout) = dies_unwritten(&test_server).await;
    until_even(&market, &test_server).await;
    assert_eq!(levels(&market, 1).await["num"], UNITS);
    let body = json!({"checkoutId": checkout});
    order(&market, &token, "once", &body).await.refused(409, "CHECKOUT_EXPIRED");
    end(market, &test_server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_dies_while_its_units_are_held_is_placed_by_its_repetition() {
    let test_server = TestServer::start().await.expect("it starts");
    let (market, token, checkout) = dies_unwritten(&test_server).await;
    let body = json!({"checkoutId": checkout});
    for _ in 0..2 {
        assert_eq!(order(&market, &token, "once", &body).await.ok().text(), checkout);
    }
    until_even(&market, &test_server).await;
    assert_eq!(levels(&market, 1).await["num"], UNITS - 7);
    end(market, &test_server).await;
}

/// It dies before Redis is told that the units are sold.
async fn an_order_that_dies_after_it_is_written_stands(backend: Backend) {
    let (victim, stores) = Victim::on(backend).await;
    let quote = async |market: Arc<Market>| quoted(&market).await;
    let (token, checkout) = victim.inside(quote).await;
    let held = stores.hold_up_orders().await;
    let body = json!({"checkoutId": checkout});
    victim.begin(victim.router().oneshot(order_request(&token, "once", &body)));
    let are_held = async |market: Arc<Market>| levels(&market, 1).await["total"]["held"] == 7;
    stores.until("the units to be held", async |_| victim.inside(are_held).await).await;
    victim.proxy.black_hole();
    held.close().await;
    let written = "SELECT COUNT(*) FROM orders WHERE idempotency_key = 'once'";
    stores.until("the order to be written", async |stores| stores.sql(written).await == 1).await;
    victim.kill().await;

    let market = stores.restarted().await;
    market.until("everything to be even", async |market| even(market).await.is_ok()).await;
    assert_eq!(order(&market, &token, "once", &body).await.ok().text(), checkout);
    assert!(page(&market, &token, None).await.contains(&checkout));
    assert_eq!(levels(&market, 1).await["num"], UNITS - 7);
    market.shutdown().await;
}

/// Whatever the requests are at when their process dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_dies_is_sold_or_comes_back() {
    let test_server = TestServer::start().await.expect("it starts");
    let market = Market::on_test_server(&test_server).await;
    let mut buyers = Vec::new();
    for buyer in 0..24u64 {
        let token = market.log_in(&format!("138{buyer:08}")).await;
        add(&market, &token, 1, 1 + buyer % 5).await.ok();
        add(&market, &token, 3, 1).await.ok();
        buyers.push((check_out(&market, &token).await, token));
    }
    for some in buyers.chunks(6) {
        let process = process();
        for (checkout, token) in some {
            let request = order_request(token, "once", &json!({"checkoutId": checkout}));
            process.spawn(market.router().oneshot(request));
            // So that they are at different points when all of them end.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        process.shutdown_background();
    }
    until_even(&market, &test_server).await;
    // The same keys again: whoever has an order gets it, nobody gets two.
    let deadline = tokio::time::Instant::now() + PATIENCE;
    for (checkout, token) in &buyers {
        let body = json!({"checkoutId": checkout});
        let answer = loop {
            let answer = ticking(&test_server, order(&market, token, "once", &body)).await;
            // While a SKU is put together from the log nobody can have any of it.
            if answer.status != 503 {
                break answer;
            }
            assert!(tokio::time::Instant::now() < deadline, "{answer:?}");
        };
        assert!(matches!(answer.status.as_u16(), 200 | 409), "{answer:?}");
        let count = page(&market, token, None).await.len();
        assert_eq!(count, usize::from(answer.status == 200), "{answer:?}");
    }
    end(market, &test_server).await;
}
