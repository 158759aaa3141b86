//! Clients that go away in the middle: what they asked for is done all the same, and leaves nothing
//! half done behind.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use seawall_market::{
    Parts,
    payments::{Charged, Paying, Payments},
};
use seawall_testkit::backend::Backend;
use serde_json::json;

use crate::{
    cart::add,
    goods_orders::{SlowPayments, buy, check_out, order, page},
    market::{Market, on_each_backend},
};

on_each_backend!(
    a_payment_is_noted_though_nobody_waits_for_it,
    an_end_in_order_waits_for_what_nobody_waits_for,
    every_order_is_placed_though_its_client_is_gone,
    a_panic_is_answered_and_the_next_request_as_well,
);

/// Bo has an empty cart.
const BO: &str = "10000000002";

/// A market in which somebody has begun to pay, and gone away.
async fn paying(backend: Backend) -> (Market, Arc<SlowPayments>, String, String) {
    let payments = Arc::new(SlowPayments::default());
    let parts = Parts { payments: Some(payments.clone()), ..Parts::default() };
    let market = Market::with(backend, parts, &[]).await;
    let bo = market.log_in(BO).await;
    let id = buy(&market, &bo, "gone", (1, 1)).await.ok().text();
    let path = format!("/order/{id}");
    {
        let pay = format!("{path}/pay");
        let mut asked = std::pin::pin!(market.post(&pay, &bo));
        tokio::select! {
            answer = &mut asked => panic!("the money is not there yet: {answer:?}"),
            () = payments.asked.notified() => {}
        }
    }
    (market, payments, path, bo)
}

async fn a_payment_is_noted_though_nobody_waits_for_it(backend: Backend) {
    let (market, payments, path, bo) = paying(backend).await;
    payments.go.notify_one();
    market
        .until("the payment to be noted", async |market| {
            market.get(&path, &bo).await.ok().body["data"]["status"] == "PAID"
        })
        .await;
    market.shutdown().await;
}

async fn an_end_in_order_waits_for_what_nobody_waits_for(backend: Backend) {
    let (mut market, payments, _, _) = paying(backend).await;
    tokio::join!(market.stop(), async { payments.go.notify_one() });
    let paid = "SELECT COUNT(*) FROM orders WHERE id > 1000 AND status = 'PAID'";
    assert_eq!(market.sql(paid).await, 1);
}

async fn every_order_is_placed_though_its_client_is_gone(backend: Backend) {
    let market = Market::on(backend).await;
    let buyers = join_all((0..24).map(async |buyer: u64| {
        let token = market.log_in(&format!("137{buyer:08}")).await;
        add(&market, &token, 1, 1 + buyer % 5).await.ok();
        (check_out(&market, &token).await, token, buyer)
    }))
    .await;
    join_all(buyers.iter().map(async |(checkout, token, buyer)| {
        let body = json!({"checkoutId": checkout});
        let patience = Duration::from_micros(buyer * buyer * 60);
        // Some wait for their answer.
        let _ = tokio::time::timeout(patience, order(&market, token, "gone", &body)).await;
    }))
    .await;
    for (checkout, token, _) in &buyers {
        market
            .until("the order", async |market| {
                page(market, token, None).await == [checkout.clone()]
            })
            .await;
    }
    market.shutdown().await;
}

/// A provider with a bug.
#[derive(Debug)]
struct BrokenPayments;

impl Payments for BrokenPayments {
    fn charge<'a>(&'a self, reference: &'a str, _cents: u64) -> Paying<'a, Charged> {
        Box::pin(async move { panic!("{reference} is too much for me") })
    }

    fn refund<'a>(&'a self, _reference: &'a str) -> Paying<'a, ()> {
        Box::pin(async { Ok(()) })
    }
}

async fn a_panic_is_answered_and_the_next_request_as_well(backend: Backend) {
    let parts = Parts { payments: Some(Arc::new(BrokenPayments)), ..Parts::default() };
    let market = Market::with(backend, parts, &[]).await;
    let bo = market.log_in(BO).await;
    let id = buy(&market, &bo, "broken", (1, 1)).await.ok().text();
    for _ in 0..2 {
        market.post(&format!("/order/{id}/pay"), &bo).await.refused(500, "INTERNAL");
    }
    let answer = market.post(&format!("/order/{id}/cancel"), &bo).await.ok();
    assert_eq!(answer.body["data"]["status"], "CANCELLED");
    market.shutdown().await;
}
