//! A buyer of whom nobody knows whether they bought: told so, with the order's id, and never that nothing
//! was done.

use seawall_testkit::proxy::On;

use crate::market::Market;

/// The script that reserves is the one with five keys of a sale.
fn reserving() -> On {
    On::command("EVALSHA").when(|words| {
        words.get(2).is_some_and(|count| count == b"5")
            && words.get(3).is_some_and(|key| key.starts_with(b"sale:{1}:1"))
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_buyer_whose_answer_was_lost_gets_the_orders_id() {
    let (market, proxy) = Market::behind_proxy().await;
    let (ada, bo) = (market.log_in("10000000001").await, market.log_in("10000000002").await);
    let first = market.post("/voucher-order/seckill/1", &ada).await.ok().text();
    assert_eq!(market.settled(&first, &ada).await, "UNPAID");

    proxy.drop_reply(reserving().once());
    proxy.refuse();
    let undecided = market.post("/voucher-order/seckill/1", &bo).await;
    undecided.refused(202, "ORDER_UNDECIDED");
    let order = undecided.text();
    proxy.heal();
    let path = format!("/voucher-order/{order}");
    let found = async |market: &Market| market.get(&path, &bo).await.status == 200;
    market.until("Redis answers again, and knows the order", found).await;
    assert_eq!(market.settled(&order, &bo).await, "UNPAID", "it was reserved");
    let again = market.post("/voucher-order/seckill/1", &bo).await;
    again.refused(409, "DUPLICATE_ORDER");
    assert_eq!(again.text(), order);
    market.all_settled().await;
    assert_eq!(market.stock(1).await, 98);

    // Never sent: whatever the buyer is told, it is not theirs, and they may buy.
    let chen = market.log_in("10000000003").await;
    proxy.drop_request(reserving().once());
    proxy.refuse();
    let lost = market.post("/voucher-order/seckill/1", &chen).await;
    assert!([202, 503].contains(&lost.status.as_u16()), "{lost:?}");
    proxy.heal();
    let buy =
        async |market: &Market| market.post("/voucher-order/seckill/1", &chen).await.status == 200;
    market.until("it can be bought", buy).await;
    market.all_settled().await;
    assert_eq!(market.stock(1).await, 97);
    market.shutdown().await;
}
