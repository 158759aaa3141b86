//! Workers that die, and entries that nobody can handle.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use seawall_market::Parts;
use seawall_testkit::backend::Backend;

use crate::{
    market::{Market, PATIENCE, on_each_backend},
    victim::Victim,
};

on_each_backend!(
    killed_before_the_commit,
    killed_after_the_commit,
    a_colleague_takes_over_what_a_dead_worker_left,
    a_database_that_is_held_up_is_waited_for,
    what_cannot_be_understood_is_parked_and_others_go_on,
    what_always_fails_is_parked_after_its_last_delivery,
    orders_are_written_no_faster_than_they_may,
);

const ROWS: &str = "SELECT COUNT(*) FROM voucher_order";

/// An order in the hands of a worker that cannot write it.
struct InHand {
    victim: Victim,
    stores: Market,
    order: String,
    token: String,
    held: sqlx::AnyPool,
}

impl InHand {
    async fn on(backend: Backend) -> Self {
        let (victim, stores) = Victim::on(backend).await;
        let token = victim.inside(async |market| market.log_in("10000000001").await).await;
        let held = stores.hold_up_orders().await;
        let buyer = token.clone();
        let buy = async move |market: Arc<Market>| {
            market.post("/voucher-order/seckill/1", &buyer).await.ok().text()
        };
        let order = victim.inside(buy).await;
        delivered(&stores).await;
        stores.until_held_up().await;
        InHand { victim, stores, order, token, held }
    }

    /// Its worker dies.
    async fn left(self) -> Left {
        let InHand { victim, stores, order, token, held } = self;
        victim.kill().await;
        held.close().await;
        Left { stores, order, token }
    }
}

/// An order whose worker has died, before its row was committed.
pub(crate) struct Left {
    pub(crate) stores: Market,
    pub(crate) order: String,
    pub(crate) token: String,
}

impl Left {
    pub(crate) async fn on(backend: Backend) -> Self {
        InHand::on(backend).await.left().await
    }
}

async fn killed_before_the_commit(backend: Backend) {
    let in_hand = InHand::on(backend).await;
    // The client was told this id: it can be found all the time.
    let (path, token) = (format!("/voucher-order/{}", in_hand.order), in_hand.token.clone());
    in_hand.victim.inside(async move |market| drop(market.get(&path, &token).await.ok())).await;
    let left = in_hand.left().await;
    assert_eq!(left.stores.sql(ROWS).await, 0);
    finished(left).await;
}

async fn killed_after_the_commit(backend: Backend) {
    let InHand { victim, stores, order, token, held } = InHand::on(backend).await;
    // Redis is told nothing any more.
    victim.proxy.black_hole();
    held.close().await;
    stores.until("the row to be committed", async |stores| stores.sql(ROWS).await == 1).await;
    victim.kill().await;
    finished(Left { stores, order, token }).await;
}

/// A restart finishes what a dead worker left, and nothing happens twice.
async fn finished(left: Left) {
    let Left { stores, order, token } = left;
    let pending: i64 = stores.redis(&["XLEN", "sale:{1}"]).await;
    assert_eq!(pending, 1, "it was not acknowledged");
    let restarted = stores.restarted().await;
    restarted.get(&format!("/voucher-order/{order}"), &token).await.ok();
    assert_eq!(restarted.settled(&order, &token).await, "UNPAID");
    restarted.all_settled().await;
    assert_eq!(restarted.sql(ROWS).await, 1);
    assert_eq!(restarted.sql("SELECT stock FROM seckill_voucher WHERE voucher_id = 1").await, 99);
    assert_eq!(restarted.stock(1).await, 99);
    restarted.shutdown().await;
}

async fn a_colleague_takes_over_what_a_dead_worker_left(backend: Backend) {
    let Left { stores, order, token } = Left::on(backend).await;
    let (id, name) = delivered(&stores).await;
    // As if it had been left for a minute.
    let key = "sale:{1}";
    let _: seawall::Value =
        stores.redis(&["XCLAIM", key, "orders", &name, "0", &id, "IDLE", "60000"]).await;
    let colleague = stores.colleague().await;
    assert_eq!(colleague.settled(&order, &token).await, "UNPAID");
    colleague.all_settled().await;
    assert_eq!(colleague.sql(ROWS).await, 1);
    assert_eq!(colleague.stock(1).await, 99);
    colleague.shutdown().await;
}

async fn a_database_that_is_held_up_is_waited_for(backend: Backend) {
    let market = Market::on(backend).await;
    let token = market.log_in("10000000001").await;
    let held = market.hold_up_writers().await;
    let order = market.post("/voucher-order/seckill/1", &token).await.ok().text();
    delivered(&market).await;
    let answer = market.get(&format!("/voucher-order/{order}"), &token).await.ok();
    assert_eq!(answer.body["data"]["status"], "QUEUED");
    let waiting: i64 = market.redis(&["XLEN", "sale:{1}"]).await;
    assert_eq!(waiting, 1, "nothing is acknowledged");
    held.close().await;
    assert_eq!(market.settled(&order, &token).await, "UNPAID");
    market.all_settled().await;
    assert_eq!(market.stock(1).await, 99);
    market.shutdown().await;
}

/// Waits until the first order has been handed to a worker: entry and worker.
async fn delivered(market: &Market) -> (String, String) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let rows: Vec<(String, String, u64, u64)> =
            market.redis(&["XPENDING", "sale:{1}", "orders", "-", "+", "1"]).await;
        if let Some((id, name, _, _)) = rows.into_iter().next() {
            return (id, name);
        }
        assert!(tokio::time::Instant::now() < deadline, "it was never delivered");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn what_cannot_be_understood_is_parked_and_others_go_on(backend: Backend) {
    let market = Market::on(backend).await;
    let token = market.log_in("10000000001").await;
    let _: String = market.redis(&["XADD", "sale:{1}", "*", "reference", "no number"]).await;
    let order = market.post("/voucher-order/seckill/1", &token).await.ok().text();
    assert_eq!(market.settled(&order, &token).await, "UNPAID");
    market.all_settled().await;
    let dead: i64 = market.redis(&["XLEN", "sale:{1}:parked"]).await;
    assert_eq!(dead, 1);
    market.shutdown().await;
}

/// An entry that was begun alone too often, as after a crash each time: the counter of the pending list says
/// that the last of five attempts has no end (docs/streams.md).
async fn what_always_fails_is_parked_after_its_last_delivery(backend: Backend) {
    let Left { stores, order, token } = Left::on(backend).await;
    let key = "sale:{1}";
    let (id, name) = delivered(&stores).await;
    let _: seawall::Value =
        stores.redis(&["XCLAIM", key, "orders", &name, "0", &id, "RETRYCOUNT", "12"]).await;
    let restarted = stores.restarted().await;
    restarted.all_settled().await;
    let dead: i64 = stores.redis(&["XLEN", "sale:{1}:parked"]).await;
    assert_eq!(dead, 1);
    assert_eq!(restarted.settled(&order, &token).await, "FAILED");
    // Its unit is for sale again, and the user may buy again.
    assert_eq!(restarted.stock(1).await, 100);
    assert_eq!(restarted.sql("SELECT stock FROM seckill_voucher WHERE voucher_id = 1").await, 100);
    let again = restarted.post("/voucher-order/seckill/1", &token).await.ok().text();
    assert_eq!(restarted.settled(&again, &token).await, "UNPAID");
    restarted.shutdown().await;
}

async fn orders_are_written_no_faster_than_they_may(backend: Backend) {
    let market = Market::with(backend, Parts::default(), &[("orders-per-second", "4")]).await;
    let mut tokens = Vec::new();
    for phone in 10_000_000_001_u64..=10_000_000_005 {
        tokens.push(market.log_in(&phone.to_string()).await);
    }
    let began = Instant::now();
    for token in &tokens {
        // Each in a turn of its own: the fifth has to wait for the time of four.
        let order = market.post("/voucher-order/seckill/1", token).await.ok().text();
        assert_eq!(market.settled(&order, token).await, "UNPAID");
    }
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    market.shutdown().await;
}
