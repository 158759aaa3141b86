//! One test for each known bug of stock keeping, by its name. That checkers see planted ones is shown in
//! `check.rs`.

use std::time::Duration;

use seawall::{
    cmd,
    stock::{
        Held, Levels, Opened, OrderFields, Received, Reference, Reserved, SaleWindow, Settled,
    },
    testing::TestServer,
};

use crate::inventory::{MINUTE, lefts, total};

async fn test_server() -> TestServer {
    TestServer::start().await.expect("a test_server")
}

fn at(name: &str, home: usize) -> Reference {
    Reference::new(format!("{name}@{home}")).expect("valid")
}

#[tokio::test]
async fn the_last_unit_can_be_sold_and_a_remainder_of_0_is_no_failure() {
    let test_server = test_server().await;
    let stock = test_server.seawall().inventory("s").shards(1).open().await.expect("opened");
    assert_eq!(stock.receive("r", 1).await.expect("ok"), Received::Complete { added: 1 });
    assert_eq!(stock.sell_now(&at("a", 0), 1).await.expect("ok"), Held::Sold { units: 1 });
    assert_eq!(stock.sell_now(&at("b", 0), 1).await.expect("ok"), Held::SoldOut { left: 0 });
    test_server.shutdown().await;
}

#[tokio::test]
async fn the_shard_loop_does_not_skip_the_last_shard() {
    let test_server = test_server().await;
    for home in 0..3 {
        let stock = test_server.seawall().inventory(&home).open().await.expect("opened");
        assert_eq!(stock.receive("r", 3).await.expect("ok"), Received::Complete { added: 3 });
        for other in 0..3 {
            let sold = stock.sell_now(&at(&format!("s{other}"), home), 1).await.expect("ok");
            assert_eq!(sold, Held::Sold { units: 1 }, "from home {home} the unit {other}");
        }
        assert_eq!(total(&stock).await.sold, 3);
    }
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_gathered_sale_that_succeeded_does_not_answer_sold_out() {
    let test_server = test_server().await;
    let stock = test_server.seawall().inventory("s").open().await.expect("opened");
    assert_eq!(stock.receive("r", 3).await.expect("ok"), Received::Complete { added: 3 });
    assert_eq!(stock.sell_now(&at("all", 1), 3).await.expect("ok"), Held::Sold { units: 3 });
    assert_eq!(total(&stock).await, Levels { received: 3, held: 0, sold: 3, left: 0 });
    test_server.shutdown().await;
}

/// Gatherings that come too late: between their looks and their parts everything was sold.
#[tokio::test]
async fn an_undo_adds_nothing_however_often_it_runs() {
    let test_server = test_server().await;
    let stock = test_server.seawall().inventory("s").open().await.expect("opened");
    assert_eq!(stock.receive("r", 30).await.expect("ok"), Received::Complete { added: 30 });
    // Gatherings that are in each other's way are undone, some of them.
    for round in 0..8 {
        let wants: Vec<_> = (0..3)
            .map(|home| {
                let stock = stock.clone();
                let reference = at(&format!("{round}-{home}"), home);
                async move {
                    let held = stock.hold(&reference, 20, MINUTE).await.expect("answered");
                    if held.is_yours() {
                        let _ = stock.release(&reference).await.expect("answered");
                    }
                }
            })
            .collect();
        futures_util::future::join_all(wants).await;
    }
    let levels = stock.audit().await.expect("answered").total();
    assert_eq!(levels, Levels { received: 30, held: 0, sold: 0, left: 30 });
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_missing_shard_is_not_made_anew_by_an_undo_or_a_sale() {
    let test_server = test_server().await;
    let stock = test_server.seawall().inventory("s").open().await.expect("opened");
    assert_eq!(stock.receive("r", 3).await.expect("ok"), Received::Complete { added: 3 });
    assert!(stock.hold(&at("a", 0), 1, MINUTE).await.expect("ok").is_yours());
    let client = test_server.seawall().client();
    for key in stock.shard_keys(0).expect("a shard") {
        client.send(key, cmd("DEL").arg(key)).await.expect("answered");
    }
    assert_eq!(stock.release(&at("a", 0)).await.expect("ok"), Settled::Unavailable);
    assert_eq!(stock.sell_now(&at("b", 0), 1).await.expect("ok"), Held::Unavailable);
    let received = stock.receive("r2", 3).await.expect("ok");
    assert_eq!(received, Received::Partly { added: 2, missing: 1 });
    let audit = stock.audit().await.expect("ok");
    assert_eq!(audit.shards[0], None, "lost, and known to be");
    // The others go on; that nothing is left is not said.
    assert_eq!(stock.sell_now(&at("c", 1), 4).await.expect("ok"), Held::Sold { units: 4 });
    assert_eq!(stock.sell_now(&at("d", 1), 1).await.expect("ok"), Held::Partial { left: 0 });
    // Nor is it by opening the inventory once more.
    let again = test_server.seawall().inventory("s").open().await.expect("opened");
    assert_eq!(again.audit().await.expect("ok").shards[0], None);
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_receipt_smaller_than_the_number_of_shards_ends() {
    let test_server = test_server().await;
    let stock = test_server.seawall().inventory("s").shards(16).open().await.expect("opened");
    assert_eq!(stock.receive("r", 5).await.expect("ok"), Received::Complete { added: 5 });
    assert_eq!(lefts(&stock).await.iter().sum::<u64>(), 5);
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_hundred_over_five_come_out_even() {
    let test_server = test_server().await;
    let stock = test_server.seawall().inventory("s").shards(5).open().await.expect("opened");
    assert_eq!(stock.receive("r", 100).await.expect("ok"), Received::Complete { added: 100 });
    assert_eq!(lefts(&stock).await, [20; 5]);
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_time_out_after_success_adds_nothing_twice() {
    let test_server = test_server().await;
    for lost in (0..40).step_by(3) {
        let stock = test_server.seawall().inventory(&lost).open().await.expect("opened");
        test_server.faults().lose_replies(lost);
        let first = stock.receive("r", 100).await.expect("what is lost is asked for again");
        test_server.faults().lose_replies(0);
        let again = stock.receive("r", 100).await.expect("ok");
        assert!(matches!(again, Received::Complete { .. }), "{first:?} {again:?}");
        assert_eq!(lefts(&stock).await, [34, 33, 33], "{lost} replies lost");
    }
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_receipt_that_stopped_between_rounds_is_resumed() {
    let test_server = test_server().await;
    let stock = test_server.seawall().inventory("s").open().await.expect("opened");
    assert_eq!(stock.receive("warm", 3).await.expect("ok"), Received::Complete { added: 3 });
    // Dropped somewhere on the way, as by a crash.
    for polls in 1..30 {
        let mut receiving = Box::pin(stock.receive("r", 90));
        for _ in 0..polls {
            let once = tokio::time::timeout(Duration::from_micros(200), &mut receiving).await;
            if once.is_ok() {
                break;
            }
        }
        drop(receiving);
        assert!(total(&stock).await.received <= 93);
    }
    let received = stock.receive("r", 90).await.expect("ok");
    assert!(matches!(received, Received::Complete { .. }), "{received:?}");
    assert_eq!(lefts(&stock).await, [31, 31, 31]);
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_flash_sales_window_is_kept_by_the_script() {
    let test_server = test_server().await;
    let sale = test_server.seawall().flash_sale("s").build().expect("valid");
    let window = SaleWindow::from_now(MINUTE, MINUTE).expect("a window");
    assert_eq!(sale.open("o", window, 1).await.expect("ok"), Opened::Opened);
    let order = OrderFields::new();
    let early = sale.reserve(&1, &1, &order).await.expect("ok");
    assert!(matches!(early, Reserved::NotStarted { .. }), "{early:?}");
    test_server.advance(MINUTE * 2).await;
    assert_eq!(sale.reserve(&1, &1, &order).await.expect("ok"), Reserved::Ended);
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_flash_sale_has_no_keys_that_are_not_declared_and_a_stream_that_is_bounded() {
    let test_server = test_server().await;
    let sale = test_server.seawall().flash_sale("s").group("g").orders(2).build().expect("valid");
    let window = SaleWindow::from_now(Duration::ZERO, MINUTE).expect("a window");
    assert_eq!(sale.open("o", window, 9).await.expect("ok"), Opened::Opened);
    let order = OrderFields::new();
    for buyer in 0..2 {
        assert!(sale.reserve(&buyer, &buyer, &order).await.expect("ok").receipt().is_some());
    }
    assert_eq!(sale.reserve(&7, &7, &order).await.expect("ok"), Reserved::Busy);
    let mut keys: Vec<String> =
        test_server.seawall().client().query(b"", cmd("KEYS").arg("*")).await.expect("keys");
    keys.sort();
    assert_eq!(keys, ["sale:{g}", "sale:{g}:s", "sale:{g}:s:buyers", "sale:{g}:s:receipts"]);
    test_server.shutdown().await;
}

#[tokio::test]
async fn ids_beyond_2_to_the_53_stay_what_they_are() {
    let test_server = test_server().await;
    let sale = test_server.seawall().flash_sale(&u64::MAX).orders(9).build().expect("valid");
    let window = SaleWindow::from_now(Duration::ZERO, MINUTE).expect("a window");
    assert_eq!(sale.open("o", window, 9).await.expect("ok"), Opened::Opened);
    let order = OrderFields::new().field("order", u64::MAX);
    let (user, reference) = (u64::MAX - 1, u64::MAX - 2);
    assert!(sale.reserve(&user, &reference, &order).await.expect("ok").receipt().is_some());
    let near = sale.reserve(&user, &(reference - 1), &order).await.expect("ok");
    assert_eq!(near, Reserved::Duplicate { reference: reference.to_string().into_bytes() });
    assert!(
        sale.reserve(&(user - 1), &(reference - 1), &order).await.expect("ok").receipt().is_some()
    );
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_user_buys_once_until_the_unit_is_given_back() {
    let test_server = test_server().await;
    let sale = test_server.seawall().flash_sale("s").build().expect("valid");
    let window = SaleWindow::from_now(Duration::ZERO, MINUTE).expect("a window");
    assert_eq!(sale.open("o", window, 9).await.expect("ok"), Opened::Opened);
    let order = OrderFields::new();
    assert!(sale.reserve(&1, &"a", &order).await.expect("ok").receipt().is_some());
    assert!(matches!(sale.reserve(&1, &"b", &order).await, Ok(Reserved::Duplicate { .. })));
    let _ = sale.give_back(&"a").await.expect("ok");
    assert!(sale.reserve(&1, &"b", &order).await.expect("ok").receipt().is_some());
    // A late repetition of the first give-back does not take the second purchase away.
    let _ = sale.give_back(&"a").await.expect("ok");
    assert!(matches!(sale.reserve(&1, &"c", &order).await, Ok(Reserved::Duplicate { .. })));
    test_server.shutdown().await;
}
