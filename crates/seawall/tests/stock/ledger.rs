//! Rebuilding from a ledger, and comparing with one, on every backend.

use std::time::Duration;

use seawall::{
    cmd,
    stock::{
        Difference, Held, Inventory, Levels, Movement, Received, Reference, Repair, Settled,
        Standing,
    },
    testing::TestServer,
};

use crate::{
    inventory::{MINUTE, lefts, total},
    setup::{Setup, on_every_backend},
};

on_every_backend! {
    a_lost_shard_is_rebuilt
    everything_is_rebuilt
    differences_are_reported_and_repaired
}

fn at(name: &str, home: usize) -> Reference {
    Reference::new(format!("{name}@{home}")).expect("valid")
}

/// 30 units over 3 shards; some sold, some held, some of them gathered.
async fn busy(seawall: &seawall::Seawall) -> (Inventory, Vec<Movement>) {
    let stock = seawall.inventory("sku").open().await.expect("opened");
    let mut ledger = vec![Movement::Received { receipt: "r".into(), units: 30 }];
    assert_eq!(stock.receive("r", 30).await.expect("ok"), Received::Complete { added: 30 });
    for (name, home, units) in [("a", 0, 4), ("b", 1, 7), ("gathered", 2, 13)] {
        let reference = at(name, home);
        assert_eq!(stock.sell_now(&reference, units).await.expect("ok"), Held::Sold { units });
        ledger.push(Movement::Sold { reference, units });
    }
    let reference = at("held", 0);
    let held = stock.hold(&reference, 2, MINUTE * 60).await.expect("ok");
    let Held::Held(hold) = held else { panic!("{held:?}") };
    ledger.push(Movement::Held { reference, units: 2, until_millis: hold.until_millis });
    let reference = at("over", 1);
    assert!(stock.hold(&reference, 1, MINUTE).await.expect("ok").is_yours());
    assert_eq!(stock.release(&reference).await.expect("ok"), Settled::Now { units: 1 });
    ledger.push(Movement::Released { reference });
    assert_eq!(total(&stock).await, Levels { received: 30, held: 2, sold: 24, left: 4 });
    (stock, ledger)
}

async fn lose(seawall: &seawall::Seawall, stock: &Inventory, shard: usize) {
    for key in stock.shard_keys(shard).expect("a shard") {
        seawall.client().send(key, cmd("DEL").arg(key)).await.expect("answered");
    }
}

async fn repeated(stock: &Inventory) {
    // Every movement that was made before is known again.
    assert_eq!(stock.receive("r", 30).await.expect("ok"), Received::Complete { added: 0 });
    for (name, home, units) in [("a", 0, 4), ("b", 1, 7), ("gathered", 2, 13)] {
        let again = stock.sell_now(&at(name, home), units).await.expect("ok");
        assert_eq!(again, Held::Sold { units }, "{name}");
    }
    let over = stock.hold(&at("over", 1), 1, MINUTE).await.expect("ok");
    assert!(matches!(over, Held::Over(Standing::Released)), "{over:?}");
    assert_eq!(stock.sell(&at("held", 0)).await.expect("ok"), Settled::Now { units: 2 });
    let rest = stock.reference("rest").expect("valid");
    assert_eq!(stock.sell_now(&rest, 4).await.expect("ok"), Held::Sold { units: 4 });
    assert_eq!(total(stock).await, Levels { received: 30, held: 0, sold: 30, left: 0 });
}

async fn a_lost_shard_is_rebuilt(setup: Setup) {
    let seawall = setup.connect().await;
    let (stock, ledger) = busy(&seawall).await;
    let before = lefts(&stock).await;
    for shard in 0..3 {
        lose(&seawall, &stock, shard).await;
        assert_eq!(stock.audit().await.expect("ok").shards[shard], None);
        stock.rebuild_shard(shard, &ledger).await.expect("rebuilt");
        assert_eq!(lefts(&stock).await, before, "shard {shard}");
        assert!(stock.sweep().await.is_ok());
    }
    repeated(&stock).await;
    seawall.shutdown().await;
}

async fn everything_is_rebuilt(setup: Setup) {
    let seawall = setup.connect().await;
    let (stock, mut ledger) = busy(&seawall).await;
    for shard in 0..3 {
        lose(&seawall, &stock, shard).await;
    }
    stock.rebuild(&ledger).await.expect("rebuilt");
    assert_eq!(total(&stock).await, Levels { received: 30, held: 2, sold: 24, left: 4 });
    repeated(&stock).await;
    // A ledger that cannot be true is refused, and what was there goes on.
    ledger.push(Movement::Sold { reference: at("x", 0), units: 31 });
    assert!(stock.rebuild(&ledger).await.is_err());
    assert_eq!(total(&stock).await, Levels { received: 30, held: 0, sold: 30, left: 0 });
    seawall.shutdown().await;
}

async fn differences_are_reported_and_repaired(setup: Setup) {
    let seawall = setup.connect().await;
    let (stock, mut ledger) = busy(&seawall).await;
    assert_eq!(stock.reconcile(&ledger, Repair::Report).await.expect("ok"), []);
    ledger.push(Movement::Received { receipt: "r2".into(), units: 6 });
    ledger.push(Movement::Sold { reference: at("held", 0), units: 2 });
    ledger.push(Movement::Sold { reference: at("new", 2), units: 3 });
    ledger.push(Movement::TakenBack { reference: at("a", 0) });
    assert!(stock.hold(&at("stray", 1), 1, MINUTE).await.expect("ok").is_yours());
    let reported = stock.reconcile(&ledger, Repair::Report).await.expect("ok");
    assert_eq!(reported.len(), 5, "{reported:?}");
    let repaired = stock.reconcile(&ledger, Repair::Apply).await.expect("ok");
    let done = repaired.iter().all(|difference| match difference {
        Difference::Receipt { repaired, .. } | Difference::Reference { repaired, .. } => *repaired,
        _ => false,
    });
    assert!(done, "{repaired:?}");
    assert_eq!(stock.reconcile(&ledger, Repair::Report).await.expect("ok"), []);
    assert_eq!(total(&stock).await, Levels { received: 36, held: 0, sold: 25, left: 11 });
    seawall.shutdown().await;
}

#[tokio::test]
async fn movements_of_the_old_epoch_are_refused_and_repeated() {
    let test_server = TestServer::start().await.expect("a test_server");
    let seawall = test_server.seawall();
    let stock = seawall.inventory("s").shards(1).open().await.expect("opened");
    let other = seawall.inventory("s").open().await.expect("opened");
    assert_eq!(stock.receive("r", 5).await.expect("ok"), Received::Complete { added: 5 });
    assert!(other.audit().await.expect("ok").is_complete(), "it knows the old epoch");
    let ledger = vec![Movement::Received { receipt: "r".into(), units: 5 }];
    stock.rebuild(&ledger).await.expect("rebuilt");
    assert_eq!(other.sell_now(&at("a", 0), 5).await.expect("ok"), Held::Sold { units: 5 });
    assert_eq!(total(&stock).await, Levels { received: 5, held: 0, sold: 5, left: 0 });
    test_server.shutdown().await;
}

#[tokio::test]
async fn holds_go_back_by_themselves_and_references_are_forgotten() {
    let test_server = TestServer::start().await.expect("a test_server");
    let builder = test_server.seawall().inventory("s").reference_ttl(MINUTE);
    let stock = builder.sweep_interval(MINUTE * 600).open().await.expect("opened");
    assert_eq!(stock.receive("r", 2).await.expect("ok"), Received::Complete { added: 2 });
    let gathered = at("gathered", 2);
    assert!(stock.hold(&gathered, 2, Duration::from_secs(5)).await.expect("ok").is_yours());
    test_server.advance(Duration::from_secs(5)).await;
    // The home decides by its clock; the parts ask it once they are due.
    assert_eq!(stock.sell(&gathered).await.expect("ok"), Settled::Not(Standing::Expired));
    assert_eq!(total(&stock).await, Levels { received: 2, held: 2, sold: 0, left: 0 });
    test_server.advance(Duration::from_secs(11)).await;
    assert!(!stock.sweep().await.expect("ok"), "there was something to settle");
    assert_eq!(lefts(&stock).await, [1, 1, 0]);
    // One that lies at its home goes back with the next movement there.
    let alone = at("alone", 0);
    assert!(stock.hold(&alone, 1, Duration::from_secs(5)).await.expect("ok").is_yours());
    test_server.advance(Duration::from_secs(6)).await;
    assert_eq!(stock.sell_now(&at("next", 0), 1).await.expect("ok"), Held::Sold { units: 1 });

    test_server.advance(MINUTE * 3).await;
    for _ in 0..3 {
        assert!(stock.sweep().await.is_ok());
    }
    let client = test_server.seawall().client();
    for shard in 0..3 {
        let key = &stock.shard_keys(shard).expect("a shard")[1];
        let records: u64 = client.query(key, cmd("HLEN").arg(key)).await.expect("a count");
        assert_eq!(records, 0, "everything is forgotten in the end");
    }
    assert_eq!(total(&stock).await, Levels { received: 2, held: 0, sold: 1, left: 1 });
    test_server.shutdown().await;
}

/// What shards have forgotten is not received or sold a second time.
#[tokio::test]
async fn forgotten_movements_are_not_repeated_by_a_repair() {
    let test_server = TestServer::start().await.expect("a test_server");
    let builder = test_server.seawall().inventory("s").reference_ttl(MINUTE);
    let stock = builder.sweep_interval(MINUTE * 600).open().await.expect("opened");
    let received = |receipt: &str, units| Movement::Received { receipt: receipt.into(), units };
    let mut ledger = vec![received("old", 30)];
    assert_eq!(stock.receive("old", 30).await.expect("ok"), Received::Complete { added: 30 });
    for (name, home, units) in [("a", 0, 4), ("gathered", 1, 13)] {
        let (reference, sold) = (at(name, home), Held::Sold { units });
        assert_eq!(stock.sell_now(&reference, units).await.expect("ok"), sold);
        ledger.push(Movement::Sold { reference, units });
    }
    let held = stock.hold(&at("held", 2), 1, Duration::from_secs(5)).await.expect("ok");
    let Held::Held(hold) = held else { panic!("{held:?}") };
    let until_millis = hold.until_millis;
    ledger.push(Movement::Held { reference: at("held", 2), units: 1, until_millis });
    test_server.advance(MINUTE * 5).await;
    for _ in 0..3 {
        assert!(stock.sweep().await.is_ok());
    }
    assert_eq!(stock.standing(&at("a", 0)).await.expect("ok").0, Standing::Unknown, "forgotten");
    for repair in [Repair::Report, Repair::Apply] {
        assert_eq!(stock.reconcile(&ledger, repair).await.expect("ok"), []);
    }
    assert_eq!(total(&stock).await, Levels { received: 30, held: 0, sold: 17, left: 13 });

    // What was never carried out is told apart from it.
    ledger.push(received("new", 6));
    ledger.push(Movement::Sold { reference: at("b", 2), units: 3 });
    let repaired = stock.reconcile(&ledger, Repair::Apply).await.expect("ok");
    assert_eq!(repaired.len(), 2, "{repaired:?}");
    let levels = Levels { received: 36, held: 0, sold: 20, left: 16 };
    assert_eq!(total(&stock).await, levels);
    assert_eq!(stock.reconcile(&ledger, Repair::Apply).await.expect("ok"), []);

    // Taken back by the database alone: nobody knows the sale any more, so nothing is guessed.
    ledger.push(Movement::TakenBack { reference: at("a", 0) });
    let differences = stock.reconcile(&ledger, Repair::Apply).await.expect("ok");
    let back = Levels { sold: 16, left: 20, ..levels };
    assert_eq!(differences, [Difference::Totals { ledger: back, stock: levels }]);
    assert_eq!(total(&stock).await, levels);
    stock.rebuild(&ledger).await.expect("rebuilt");
    assert_eq!(total(&stock).await, back);
    assert_eq!(stock.reconcile(&ledger, Repair::Report).await.expect("ok"), []);
    test_server.shutdown().await;
}
