//! Holds that have ended are free units, however many they are and whatever else is due before them.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use seawall::{
    Seawall, cmd,
    stock::{Held, Inventory, Levels, Part, Received, Reference, Standing},
};

use crate::{
    inventory::{MINUTE, lefts, total},
    setup::{Setup, on_every_backend},
};

on_every_backend! {
    without sentinel:
    many_ended_holds_are_free_units
    the_last_unit_does_not_wait_behind_records_to_be_forgotten
    parts_of_an_ended_hold_are_free_units
    one_sweep_takes_care_of_everything
}

/// Several pages of what one script takes care of.
const MANY: u64 = 600;
const PATIENCE: Duration = Duration::from_secs(60);

fn at(name: &str, home: usize) -> Reference {
    Reference::new(format!("{name}@{home}")).expect("valid")
}

/// An inventory that nobody sweeps, with so many units.
async fn open(seawall: &Seawall, sku: &str, shards: usize, units: u64) -> Inventory {
    let builder = seawall.inventory(sku).shards(shards).max_rounds(1).sweep_interval(MINUTE * 60);
    let stock = builder.open().await.expect("opened");
    assert_eq!(stock.receive("r", units).await.expect("ok"), Received::Complete { added: units });
    stock
}

/// Holds every unit on its own, at all shards alike.
async fn hold_each(stock: &Inventory, units: u64) {
    let shards = stock.shards() as u64;
    let holds = (0..units).map(async |unit| {
        let reference = at(&format!("h{unit}"), (unit % shards) as usize);
        assert!(stock.hold(&reference, 1, MINUTE).await.expect("answered").is_yours());
    });
    join_all(holds).await;
    assert_eq!(total(stock).await.held, units);
}

/// Brings everything of a sorted set forward, so that it is due.
async fn bring_forward(seawall: &Seawall, key: &[u8], into: &[u8], millis: u64) {
    let fields: Vec<String> =
        seawall.client().query(key, cmd("ZRANGE").arg(key).arg(0).arg(-1)).await.expect("fields");
    let mut add = cmd("ZADD");
    add.arg(into);
    for field in &fields {
        add.arg(millis).arg(field);
    }
    seawall.client().send(into, &add).await.expect("answered");
}

/// Ends all holds of a shard, as time does.
async fn end_holds(seawall: &Seawall, stock: &Inventory) {
    for shard in 0..stock.shards() {
        let due = &stock.shard_keys(shard).expect("a shard")[2];
        bring_forward(seawall, due, due, 2).await;
    }
}

async fn many_ended_holds_are_free_units(setup: Setup) {
    let seawall = setup.connect().await;
    for shards in [1, 3] {
        let stock = open(&seawall, &format!("sku-{shards}"), shards, MANY).await;
        hold_each(&stock, MANY).await;
        let all = at("all", 0);
        let refused = stock.hold(&all, MANY, MINUTE).await.expect("ok");
        assert_eq!(refused, Held::SoldOut { left: 0 }, "they are held");
        end_holds(&seawall, &stock).await;
        let held = stock.hold(&all, MANY, MINUTE).await.expect("ok");
        let Held::Held(hold) = held else { panic!("{held:?}") };
        assert_eq!(hold.units, MANY);
        let levels = Levels { received: MANY, held: MANY, sold: 0, left: 0 };
        assert_eq!(total(&stock).await, levels);
    }
    seawall.shutdown().await;
}

async fn the_last_unit_does_not_wait_behind_records_to_be_forgotten(setup: Setup) {
    let seawall = setup.connect().await;
    let stock = open(&seawall, "sku", 1, MANY + 1).await;
    let sales = (0..MANY).map(async |sale| {
        let reference = at(&format!("s{sale}"), 0);
        assert!(stock.sell_now(&reference, 1).await.expect("answered").is_yours());
    });
    join_all(sales).await;
    assert!(stock.hold(&at("last", 0), 1, MINUTE).await.expect("ok").is_yours());
    end_holds(&seawall, &stock).await;
    // As an earlier version left them: in one set with the holds, and due before this one.
    let keys = stock.shard_keys(0).expect("a shard");
    let done: u64 =
        seawall.client().query(&keys[4], cmd("ZCARD").arg(&keys[4])).await.expect("a count");
    assert_eq!(done, MANY + 1, "the sales and the receipt");
    bring_forward(&seawall, &keys[4], &keys[2], 1).await;
    let held = stock.hold(&at("next", 0), 1, MINUTE).await.expect("ok");
    assert!(held.is_yours(), "{held:?}");
    // They are forgotten in their time, and not before.
    assert_eq!(stock.standing(&at("s0", 0)).await.expect("ok"), (Standing::Sold, 1));
    seawall.shutdown().await;
}

async fn parts_of_an_ended_hold_are_free_units(setup: Setup) {
    let seawall = setup.connect().await;
    let stock = open(&seawall, "sku", 3, 30).await;
    let ended = at("ended", 0);
    let held = stock.hold(&ended, 25, Duration::from_millis(50)).await.expect("ok");
    assert!(held.is_yours(), "{held:?}");
    let deadline = Instant::now() + PATIENCE;
    while stock.standing(&ended).await.expect("ok").0 != Standing::Expired {
        assert!(Instant::now() < deadline, "it ends by the server's clock");
    }
    for shard in 0..3 {
        let parts = &stock.shard_keys(shard).expect("a shard")[3];
        if shard > 0 {
            bring_forward(&seawall, parts, parts, 1).await;
        }
    }
    let held = stock.hold(&at("all", 1), 30, MINUTE).await.expect("ok");
    let Held::Held(mut hold) = held else { panic!("{held:?}") };
    hold.parts.sort_by_key(|part| part.shard);
    assert_eq!(hold.parts, [0, 1, 2].map(|shard| Part { shard, units: 10 }));
    seawall.shutdown().await;
}

async fn one_sweep_takes_care_of_everything(setup: Setup) {
    let seawall = setup.connect().await;
    let stock = open(&seawall, "sku", 1, MANY).await;
    hold_each(&stock, MANY).await;
    end_holds(&seawall, &stock).await;
    assert!(stock.sweep().await.expect("ok"), "no part was left behind");
    let keys = stock.shard_keys(0).expect("a shard");
    let due: u64 =
        seawall.client().query(&keys[2], cmd("ZCARD").arg(&keys[2])).await.expect("a count");
    assert_eq!(due, 0);
    assert_eq!(lefts(&stock).await, [MANY]);
    seawall.shutdown().await;
}
