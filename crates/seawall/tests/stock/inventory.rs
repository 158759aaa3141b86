//! Inventories on every backend: holds, sales, receipts, gathering.

use std::time::Duration;

use seawall::stock::{Held, Inventory, Levels, Part, Received, Settled, Standing};
use seawall_testkit::{FaultProxy, ServerProcess};

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    units_are_held_sold_released_and_taken_back
    a_hold_is_gathered_from_several_shards
    receipts_arrive_evenly_and_once
    many_buyers_sell_exactly_what_there_is
}

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

pub(crate) async fn lefts(stock: &Inventory) -> Vec<u64> {
    let audit = stock.audit().await.expect("answered");
    assert!(audit.is_conserved() && audit.is_complete(), "{audit:?}");
    audit.shards.iter().flatten().map(|levels| levels.left).collect()
}

pub(crate) async fn total(stock: &Inventory) -> Levels {
    let audit = stock.audit().await.expect("answered");
    assert!(audit.is_conserved() && audit.is_complete(), "{audit:?}");
    audit.total()
}

async fn units_are_held_sold_released_and_taken_back(setup: Setup) {
    let (seawall, other) = (setup.connect().await, setup.connect().await);
    let stock = seawall.inventory("sku").open().await.expect("opened");
    // Another process finds the same shards, whatever number it has in mind.
    let same = other.inventory("sku").shards(7).open().await.expect("opened");
    assert_eq!(same.shards(), 3);
    let received = stock.receive("r1", 30).await.expect("answered");
    assert_eq!(received, Received::Complete { added: 30 });

    let a = stock.reference("a").expect("valid");
    let held = stock.hold(&a, 2, MINUTE).await.expect("answered");
    let Held::Held(hold) = &held else { panic!("{held:?}") };
    assert_eq!((hold.units, hold.parts.len()), (2, 1));
    assert_eq!(same.hold(&a, 2, MINUTE).await.expect("answered"), held, "the same again");
    assert_eq!(total(&same).await, Levels { received: 30, held: 2, sold: 0, left: 28 });
    assert_eq!(same.sell(&a).await.expect("answered"), Settled::Now { units: 2 });
    assert_eq!(stock.sell(&a).await.expect("answered"), Settled::Before { units: 2 });
    assert_eq!(stock.release(&a).await.expect("ok"), Settled::Not(Standing::Sold));
    assert_eq!(stock.hold(&a, 2, MINUTE).await.expect("ok"), Held::Sold { units: 2 });
    assert_eq!(stock.take_back(&a).await.expect("ok"), Settled::Now { units: 2 });
    assert_eq!(stock.take_back(&a).await.expect("ok"), Settled::Before { units: 2 });
    assert_eq!(stock.sell(&a).await.expect("ok"), Settled::Not(Standing::TakenBack));

    let b = stock.reference("b").expect("valid");
    assert_eq!(stock.sell(&b).await.expect("ok"), Settled::Not(Standing::Unknown));
    assert!(stock.hold(&b, 1, MINUTE).await.expect("answered").is_yours());
    assert_eq!(stock.release(&b).await.expect("ok"), Settled::Now { units: 1 });
    assert_eq!(stock.release(&b).await.expect("ok"), Settled::Before { units: 1 });
    assert_eq!(stock.hold(&b, 1, MINUTE).await.expect("ok"), Held::Over(Standing::Released));
    // Released before it arrived: it is never held.
    let late = stock.reference("late").expect("valid");
    assert_eq!(stock.release(&late).await.expect("ok"), Settled::Not(Standing::Unknown));
    assert_eq!(stock.hold(&late, 1, MINUTE).await.expect("ok"), Held::Over(Standing::Released));

    let c = stock.reference("c").expect("valid");
    for _ in 0..2 {
        assert_eq!(stock.sell_now(&c, 3).await.expect("ok"), Held::Sold { units: 3 });
    }
    assert_eq!(total(&stock).await, Levels { received: 30, held: 0, sold: 3, left: 27 });
    assert_eq!(stock.standing(&c).await.expect("ok"), (Standing::Sold, 3));
    for handle in [other, seawall] {
        handle.shutdown().await;
    }
}

async fn a_hold_is_gathered_from_several_shards(setup: Setup) {
    let seawall = setup.connect().await;
    let stock = seawall.inventory("sku").open().await.expect("opened");
    assert_eq!(stock.receive("r", 2).await.expect("ok"), Received::Complete { added: 2 });
    assert_eq!(lefts(&stock).await, [1, 1, 0]);
    for home in 0..3 {
        let reference = seawall::stock::Reference::new(format!("g@{home}")).expect("valid");
        let held = stock.hold(&reference, 2, MINUTE).await.expect("answered");
        let Held::Held(hold) = &held else { panic!("{held:?}") };
        let mut parts = hold.parts.clone();
        parts.sort_by_key(|part| part.shard);
        assert_eq!(parts, [Part { shard: 0, units: 1 }, Part { shard: 1, units: 1 }]);
        assert_eq!(stock.hold(&reference, 2, MINUTE).await.expect("answered"), held);
        let more = stock.reference("more").expect("valid");
        assert_eq!(stock.hold(&more, 1, MINUTE).await.expect("ok"), Held::SoldOut { left: 0 });
        // Sold and taken back, or released: every unit goes back where it was.
        if home == 0 {
            assert_eq!(stock.sell(&reference).await.expect("ok"), Settled::Now { units: 2 });
            assert_eq!(total(&stock).await, Levels { received: 2, held: 0, sold: 2, left: 0 });
            assert_eq!(stock.take_back(&reference).await.expect("ok"), Settled::Now { units: 2 });
        } else {
            assert_eq!(stock.release(&reference).await.expect("ok"), Settled::Now { units: 2 });
        }
        assert_eq!(lefts(&stock).await, [1, 1, 0]);
    }
    // One too many leaves no trace.
    let three = stock.reference("three").expect("valid");
    assert_eq!(stock.hold(&three, 3, MINUTE).await.expect("ok"), Held::SoldOut { left: 2 });
    assert_eq!(stock.sell_now(&three, 2).await.expect("ok"), Held::Sold { units: 2 });
    assert_eq!(total(&stock).await, Levels { received: 2, held: 0, sold: 2, left: 0 });
    seawall.shutdown().await;
}

async fn receipts_arrive_evenly_and_once(setup: Setup) {
    let seawall = setup.connect().await;
    for (shards, units, expected) in [
        (3, 300, vec![100, 100, 100]),
        (5, 100, vec![20, 20, 20, 20, 20]),
        (3, 2, vec![1, 1, 0]),
        (3, 0, vec![0, 0, 0]),
    ] {
        let stock =
            seawall.inventory(&(shards, units)).shards(shards).open().await.expect("opened");
        for added in [units, 0] {
            let received = stock.receive("receipt", units).await.expect("answered");
            assert_eq!(received, Received::Complete { added });
            assert_eq!(lefts(&stock).await, expected);
        }
        if units > 0 {
            let other = stock.receive("receipt", units + 1).await.expect("answered");
            assert_eq!(other, Received::Differs { units });
        }
    }
    seawall.shutdown().await;
}

async fn many_buyers_sell_exactly_what_there_is(setup: Setup) {
    let handles = [setup.connect().await, setup.connect().await];
    let stock = handles[0].inventory("sku").shards(4).open().await.expect("opened");
    assert_eq!(stock.receive("r", 101).await.expect("ok"), Received::Complete { added: 101 });
    let mut buyers = Vec::new();
    for buyer in 0..64u64 {
        let stock = handles[buyer as usize % 2].inventory("sku").open().await.expect("opened");
        buyers.push(tokio::spawn(async move {
            let mut sold = 0;
            for turn in 0..3 {
                let name = format!("{buyer}-{turn}");
                let (reference, held) =
                    stock.hold_anywhere(&name, 1 + turn % 2, MINUTE).await.expect("answered");
                if held.is_yours() {
                    if buyer % 8 == 7 {
                        let released = stock.release(&reference).await.expect("answered");
                        assert!(matches!(released, Settled::Now { .. }), "{released:?}");
                    } else {
                        let settled = stock.sell(&reference).await.expect("answered");
                        let Settled::Now { units } = settled else { panic!("{settled:?}") };
                        sold += units;
                    }
                }
                assert!(stock.audit().await.expect("answered").is_conserved());
            }
            sold
        }));
    }
    let mut sold = 0;
    for buyer in buyers {
        sold += buyer.await.expect("no panic");
    }
    let levels = total(&stock).await;
    assert_eq!((levels.sold, levels.held, levels.received), (sold, 0, 101));
    // What is left can be sold, to the last unit.
    for unit in 0..levels.left {
        let reference = stock.reference(&format!("rest-{unit}")).expect("valid");
        assert_eq!(stock.sell_now(&reference, 1).await.expect("ok"), Held::Sold { units: 1 });
    }
    assert_eq!(total(&stock).await, Levels { received: 101, held: 0, sold: 101, left: 0 });
    for handle in handles.iter().rev() {
        handle.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_over_three_take_thirty_writes() {
    let server = ServerProcess::redis().expect("it starts");
    let proxy = FaultProxy::start(server.port()).expect("it starts");
    let seawall = seawall::Seawall::connect(&proxy.url()).await.expect("it answers");
    let stock = seawall
        .inventory("sku")
        .sweep_interval(Duration::from_secs(3600))
        .open()
        .await
        .expect("ok");
    assert_eq!(stock.receive("warm", 3).await.expect("ok"), Received::Complete { added: 3 });
    proxy.reset_counts();
    assert_eq!(stock.receive("r", 300).await.expect("ok"), Received::Complete { added: 300 });
    assert_eq!(proxy.count("EVALSHA"), 30);
    assert_eq!(lefts(&stock).await, [101, 101, 101]);
    seawall.shutdown().await;
}
