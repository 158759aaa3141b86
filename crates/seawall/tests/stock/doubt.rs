//! What nobody knows is called unknown: a movement that may have been carried out is never reported as one
//! that was not sent.

use std::time::Duration;

use futures_util::future::join_all;
use seawall::{
    Error, Seawall,
    stock::{FlashSale, Held, Opened, OrderFields, Received, Reserved, SaleWindow},
    testing::TestServer,
};
use seawall_testkit::{Cluster, FaultProxy, ServerProcess, proxy::On, slot_of};

use crate::{
    eventually::eventually,
    inventory::{MINUTE, total},
};

const BUYERS: u64 = 20;
const STOCK: u64 = 100;

async fn connect(url: &str) -> Seawall {
    let builder = Seawall::builder(url).response_timeout(Duration::from_millis(500));
    builder.connect().await.expect("connected")
}

async fn open(sale: &FlashSale) {
    let window = SaleWindow::from_now(Duration::ZERO, MINUTE).expect("a window");
    assert_eq!(sale.open("opening", window, STOCK).await.expect("answered"), Opened::Opened);
}

/// The next script is carried out, its reply is lost, and nobody is let in again.
fn lose_and_shut(proxy: &FaultProxy) {
    proxy.refuse();
    proxy.drop_reply(On::command("EVALSHA").once());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_door_does_not_make_an_unknown_movement_one_that_was_not_sent() {
    let server = ServerProcess::redis().expect("it starts");
    let proxy = FaultProxy::start(server.port()).expect("it starts");
    let seawall = connect(&proxy.url()).await;
    let sale = seawall.flash_sale("s").build().expect("valid");
    open(&sale).await;
    // So that the scripts are known.
    let order = OrderFields::new();
    assert!(sale.reserve(&0, &0, &order).await.expect("answered").receipt().is_some());
    assert!(sale.give_back(&0).await.is_ok());

    lose_and_shut(&proxy);
    let unknown = sale.reserve(&1, &1, &order).await.expect_err("no reply");
    assert!(unknown.is_indeterminate(), "{unknown}");
    proxy.heal();
    eventually("it answers again", async || sale.status().await.is_ok()).await;
    assert_eq!(sale.reference_of(&1).await.expect("answered"), Some(b"1".to_vec()), "it has one");

    lose_and_shut(&proxy);
    let unknown = sale.give_back(&1).await.expect_err("no reply");
    assert!(unknown.is_indeterminate(), "{unknown}");
    proxy.heal();
    eventually("it answers again", async || sale.status().await.is_ok()).await;
    assert_eq!(sale.reference_of(&1).await.expect("answered"), None, "it was given back");
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_home_that_is_away_does_not_make_a_hold_one_that_was_not_sent() {
    let server = ServerProcess::redis().expect("it starts");
    let proxy = FaultProxy::start(server.port()).expect("it starts");
    let seawall = connect(&proxy.url()).await;
    let builder = seawall.inventory("sku").shards(2).sweep_interval(MINUTE * 60);
    let stock = builder.open().await.expect("opened");
    assert_eq!(stock.receive("r", 10).await.expect("ok"), Received::Complete { added: 10 });
    let (_, warm) = stock.hold_anywhere("warm", 1, MINUTE).await.expect("answered");
    assert!(warm.is_yours(), "{warm:?}");

    lose_and_shut(&proxy);
    let unknown = stock.hold_anywhere("order", 1, MINUTE).await;
    assert!(matches!(&unknown, Err(error) if error.is_indeterminate()), "{unknown:?}");
    proxy.heal();
    eventually("it answers again", async || stock.audit().await.is_ok_and(|a| a.is_complete()))
        .await;
    assert_eq!(total(&stock).await.held, 2, "it is held");

    // Nothing was sent: that is known.
    proxy.down();
    let (_, away) = stock.hold_anywhere("other", 1, MINUTE).await.expect("known");
    assert_eq!(away, Held::Unavailable);
    seawall.shutdown().await;
}

/// Buyers meet a server that stands still; whoever is told that nothing was sent has nothing.
async fn while_it_stands_still(seawall: &Seawall, stop: impl FnOnce(), go_on: impl FnOnce()) {
    let sale = seawall.flash_sale("s").build().expect("valid");
    open(&sale).await;
    let order = OrderFields::new();
    assert!(sale.reserve(&0, &0, &order).await.expect("answered").receipt().is_some());
    stop();
    let buyers = (1..=BUYERS).map(|buyer| {
        let sale = sale.clone();
        tokio::spawn(async move {
            // They come one after the other, so that some find the connection given up.
            tokio::time::sleep(Duration::from_millis(100 * buyer)).await;
            sale.reserve(&buyer, &buyer, &OrderFields::new()).await
        })
    });
    let buyers: Vec<_> = buyers.collect();
    tokio::time::sleep(Duration::from_secs(5)).await;
    go_on();
    let answers = join_all(buyers).await;
    eventually("it answers again", async || sale.status().await.is_ok()).await;
    let (mut unknown, mut owners) = (0, 0);
    for (buyer, answer) in (1..=BUYERS).zip(answers) {
        let has = sale.reference_of(&buyer).await.expect("answered").is_some();
        match answer.expect("no panic") {
            Ok(answer) => assert_eq!(answer.receipt().is_some(), has, "{answer:?}"),
            Err(error @ Error::Unavailable(_)) => {
                assert!(!has, "buyer {buyer} was told that nothing was sent: {error}");
            }
            Err(error) => {
                assert!(error.is_indeterminate(), "{error}");
                unknown += 1;
                owners += u64::from(has);
            }
        }
    }
    assert!(unknown > 0 && owners > 0, "{unknown} unknown, {owners} of them with a unit");
    let status = sale.status().await.expect("answered").expect("open");
    assert!(status.is_conserved(), "{status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stands_still_leaves_no_ghosts() {
    let server = ServerProcess::redis().expect("it starts");
    let seawall = connect(&server.url()).await;
    let (stop, go_on) = (
        || server.signal("STOP").expect("stopped"),
        || {
            server.signal("CONT").expect("it goes on");
        },
    );
    while_it_stands_still(&seawall, stop, go_on).await;
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_stands_still_leaves_no_ghosts_on_a_cluster() {
    // So long that nobody takes over.
    let cluster = Cluster::builder().node_timeout(Duration::from_secs(30)).start();
    let cluster = cluster.expect("a Cluster starts");
    let seawall = connect(&cluster.url()).await;
    let sale = seawall.flash_sale("s").build().expect("valid");
    let primary = cluster.primary_of_slot(slot_of(sale.stream_key())).expect("it answers");
    let (stop, go_on) = (
        || primary.pause().expect("stopped"),
        || {
            primary.resume().expect("it goes on");
        },
    );
    while_it_stands_still(&seawall, stop, go_on).await;
    seawall.shutdown().await;
}

/// A buyer is refused after its first request was lost on the way. That request may still arrive.
#[tokio::test]
async fn a_refused_buyer_gets_no_unit_by_a_request_that_comes_late() {
    let server = TestServer::start().await.expect("it starts");
    let sale = server.seawall().flash_sale("s").build().expect("valid");
    let window = SaleWindow::from_now(Duration::ZERO, MINUTE).expect("a window");
    assert_eq!(sale.open("opening", window, 1).await.expect("answered"), Opened::Opened);
    let order = OrderFields::new();
    assert!(sale.reserve(&1, &1, &order).await.expect("answered").receipt().is_some());

    server.faults().lose_replies(1);
    assert_eq!(sale.reserve(&2, &2, &order).await.expect("answered"), Reserved::SoldOut);
    assert!(sale.give_back(&1).await.is_ok(), "there is a unit again");
    // What arrives late is the same script with the same arguments.
    assert_eq!(sale.reserve(&2, &2, &order).await.expect("answered"), Reserved::GivenBack);
    assert_eq!(sale.status().await.expect("answered").map(|status| status.left), Some(1));
    assert!(sale.reserve(&2, &3, &order).await.expect("answered").receipt().is_some(), "anew");

    let stock = server.seawall().inventory("sku").shards(1).open().await.expect("answered");
    let reference = stock.reference("late").expect("valid");
    server.faults().lose_replies(1);
    let unknown = stock.sell_now(&reference, 1).await.expect_err("it may still be sold");
    assert!(unknown.is_indeterminate(), "{unknown}");
    assert!(stock.release(&reference).await.is_ok());
    assert!(matches!(stock.receive("r", 1).await, Ok(Received::Complete { .. })));
    let late = stock.sell_now(&reference, 1).await.expect("answered");
    assert!(matches!(late, Held::Over(_)), "{late:?}");
    server.shutdown().await;
}
