//! A database that dies under a running market, and comes back.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::market::Market;

/// Far above what requests take that wait for nothing, far below what they took waiting.
const ENOUGH: Duration = Duration::from_secs(120);
const REQUESTS: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_a_database_that_is_gone() {
    let (market, server) = Market::on_own_database().await;
    let ada = market.log_in("10000000001").await;
    let search = "/shop/of/name?name=copper";
    market.get(search, "").await.ok();
    market.get("/shop/2", "").await.ok();
    server.kill().expect("it ends");
    // These find out, together.
    for answer in join_all((0..4).map(|_| market.get(search, ""))).await {
        answer.refused(503, "UNAVAILABLE");
    }
    let begun = Instant::now();
    for _ in 0..REQUESTS {
        let answer = market.get(search, "").await;
        answer.refused(503, "UNAVAILABLE");
        assert!(answer.headers.contains_key("retry-after"), "{answer:?}");
        market.get("/shop/2", "").await.ok();
    }
    // Three seconds for each query would be ten minutes.
    assert!(begun.elapsed() < ENOUGH, "{:?}", begun.elapsed());
    server.restart().expect("it starts again");
    market.until("the database", async |market| market.get(search, "").await.status == 200).await;
    // The workers that write orders found it again by themselves.
    let order = market.post("/voucher-order/seckill/1", &ada).await.ok().text();
    assert_eq!(market.settled(&order, &ada).await, "UNPAID");
    market.shutdown().await;
}
