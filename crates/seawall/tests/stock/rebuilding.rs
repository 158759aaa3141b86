//! A shard is rebuilt while units are gathered: never one more is sold than there is.

use std::time::Duration;

use seawall::{
    Seawall, cmd,
    stock::{Held, Inventory, Levels, Movement, Received, Reference, Settled, Standing},
};

use crate::{
    inventory::{MINUTE, total},
    setup::{Setup, on_every_backend},
};

on_every_backend! {
    without sentinel:
    a_rebuilt_shard_ends_gatherings_that_count_on_what_it_lost
    gatherings_race_with_a_rebuild
    two_shards_are_not_rebuilt_at_once
    a_sale_whose_part_was_lost_takes_other_units_or_none
}

macro_rules! script {
    ($name:literal) => {{
        static SCRIPT: seawall::Script = seawall::Script::with_time(concat!(
            include_str!("../../../stock/src/script/shard.lua"),
            include_str!(concat!("../../../stock/src/script/", $name, ".lua"))
        ));
        SCRIPT.text()
    }};
}

fn at(name: &str, home: usize) -> Reference {
    Reference::new(format!("{name}@{home}")).expect("valid")
}

/// 30 units over 3 shards, which nobody sweeps, and the ledger of that.
async fn thirty(seawall: &Seawall, sku: &str) -> (Inventory, Vec<Movement>) {
    let stock =
        seawall.inventory(sku).max_rounds(1).sweep_interval(MINUTE * 60).open().await.expect("ok");
    assert_eq!(stock.receive("r", 30).await.expect("ok"), Received::Complete { added: 30 });
    (stock, vec![Movement::Received { receipt: "r".into(), units: 30 }])
}

async fn lose(seawall: &Seawall, stock: &Inventory, shard: usize) {
    for key in stock.shard_keys(shard).expect("a shard") {
        seawall.client().send(key, cmd("DEL").arg(key)).await.expect("answered");
    }
}

async fn field(seawall: &Seawall, key: &[u8], field: &str) -> String {
    seawall.client().query(key, cmd("HGET").arg(key).arg(field)).await.expect("a value")
}

/// One step of a gathering, as a process would send it that is stopped between its steps.
async fn step(
    seawall: &Seawall,
    stock: &Inventory,
    shard: usize,
    script: &str,
    arguments: &[&str],
) -> Vec<String> {
    let keys = stock.shard_keys(shard).expect("a shard");
    let epoch = field(seawall, &keys[0], "epoch").await;
    let mut eval = cmd("EVAL");
    eval.arg(script).arg(keys.len()).arg(keys).arg(epoch).arg(60_000).arg(arguments);
    seawall.client().query(&keys[0], &eval).await.expect("answered")
}

async fn a_rebuilt_shard_ends_gatherings_that_count_on_what_it_lost(setup: Setup) {
    let seawall = setup.connect().await;
    let (stock, ledger) = thirty(&seawall, "sku").await;
    let wanted = at("o", 0);
    let name = wanted.as_str();
    let begun = step(&seawall, &stock, 0, script!("begin"), &[name, "25", "60000"]).await;
    let [word, attempt, taken] = begun.as_slice() else { panic!("{begun:?}") };
    assert_eq!((word.as_str(), taken.as_str()), ("BEGUN", "10"));
    for (shard, most) in [(1, "15"), (2, "5")] {
        let arguments = [name, "0", attempt.as_str(), most, "60000"];
        let part = step(&seawall, &stock, shard, script!("part"), &arguments).await;
        assert_eq!(part[0], "PART");
    }
    lose(&seawall, &stock, 1).await;
    stock.rebuild_shard(1, &ledger).await.expect("rebuilt");

    let arguments = [name, attempt.as_str(), "60000", "1:10,2:5", "H"];
    let committed = step(&seawall, &stock, 0, script!("commit"), &arguments).await;
    assert_eq!(committed, ["NONE"], "its part at shard 1 is not there any more");
    // Beginning anew is another attempt, whatever the old one still has to say.
    let Held::Held(hold) = stock.hold(&wanted, 25, MINUTE).await.expect("ok") else { panic!() };
    let arguments = [name, attempt.as_str(), "R", "0", "0", "0"];
    for shard in [1, 2] {
        let told = step(&seawall, &stock, shard, script!("settle"), &arguments).await;
        assert_eq!(told, ["OK", "0"]);
    }
    assert_eq!(hold.units, 25);
    assert_eq!(stock.sell(&wanted).await.expect("ok"), Settled::Now { units: 25 });
    assert_eq!(total(&stock).await, Levels { received: 30, held: 0, sold: 25, left: 5 });
    assert_eq!(stock.sell_now(&at("p", 1), 6).await.expect("ok"), Held::SoldOut { left: 5 });
    seawall.shutdown().await;
}

/// The same with nothing held still: wherever the loss and the rebuild fall.
async fn gatherings_race_with_a_rebuild(setup: Setup) {
    let seawall = setup.connect().await;
    let rounds = if std::env::var_os("SEAWALL_SOAK").is_some() { 2_000 } else { 100 };
    for round in 0..rounds {
        let (stock, ledger) = thirty(&seawall, &format!("sku-{round}")).await;
        let wanted = at("o", 0);
        let rebuilding = tokio::spawn({
            let (seawall, stock, ledger) = (seawall.clone(), stock.clone(), ledger.clone());
            async move {
                tokio::time::sleep(Duration::from_micros(round % 50 * 30)).await;
                lose(&seawall, &stock, 1).await;
                stock.rebuild_shard(1, &ledger).await
            }
        });
        let held = stock.hold(&wanted, 25, MINUTE).await.expect("answered");
        rebuilding.await.expect("no panic").expect("rebuilt");
        // The shard as it was before it was lost is not in this ledger: what was sold there by then
        // is lost with it. Held at first, then sold, is a sale of what is there.
        let mut sold = 0;
        if held.is_yours()
            && let Settled::Now { units } = stock.sell(&wanted).await.expect("answered")
        {
            sold += units;
        }
        let rest = total(&stock).await.left;
        if rest > 0 {
            let more = stock.sell_now(&at("rest", 1), rest).await.expect("answered");
            assert_eq!(more, Held::Sold { units: rest }, "round {round}");
            sold += rest;
        }
        let levels = total(&stock).await;
        assert_eq!(levels.sold, sold, "round {round}: {held:?} {levels:?}");
        assert!(sold <= 30, "round {round}: {held:?} {levels:?}");
    }
    seawall.shutdown().await;
}

async fn two_shards_are_not_rebuilt_at_once(setup: Setup) {
    let seawall = setup.connect().await;
    let (stock, mut ledger) = thirty(&seawall, "sku").await;
    let sold = at("sold", 0);
    assert_eq!(stock.sell_now(&sold, 25).await.expect("ok"), Held::Sold { units: 25 });
    ledger.push(Movement::Sold { reference: sold, units: 25 });
    let before = total(&stock).await;
    let key = &stock.shard_keys(2).expect("a shard")[0];
    let phase = async |phase: &str| {
        let mut set = cmd("HSET");
        set.arg(key).arg("phase").arg(phase);
        seawall.client().send(key, &set).await.expect("answered");
    };
    phase("rebuilding").await;
    lose(&seawall, &stock, 0).await;
    let refused = stock.rebuild_shard(0, &ledger).await.expect_err("one at a time");
    assert!(matches!(refused, seawall::Error::Unavailable(_)), "{refused}");
    assert_eq!(stock.audit().await.expect("ok").shards[0], None, "lost as before");
    phase("open").await;
    // One that is lost as well can wait for its turn.
    lose(&seawall, &stock, 1).await;
    assert!(stock.rebuild_shard(0, &ledger).await.is_err(), "25 do not fit into its share");
    stock.rebuild(&ledger).await.expect("rebuilt");
    assert_eq!(total(&stock).await, before);
    seawall.shutdown().await;
}

/// As a fail-over does that forgets the part of a hold.
async fn forget_part(seawall: &Seawall, stock: &Inventory, shard: usize, name: &str) {
    let keys = stock.shard_keys(shard).expect("a shard");
    let part = format!("p:{name}");
    let record = field(seawall, &keys[1], &part).await;
    let units: i64 = record.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("units");
    let send = async |key: &[u8], command: &seawall::Cmd| {
        seawall.client().send(key, command).await.expect("answered");
    };
    send(&keys[1], cmd("HDEL").arg(&keys[1]).arg(&part)).await;
    send(&keys[0], cmd("HINCRBY").arg(&keys[0]).arg("held").arg(-units)).await;
    send(&keys[0], cmd("HINCRBY").arg(&keys[0]).arg("left").arg(units)).await;
}

async fn a_sale_whose_part_was_lost_takes_other_units_or_none(setup: Setup) {
    let seawall = setup.connect().await;
    let (stock, _) = thirty(&seawall, "others").await;
    let wanted = at("o", 0);
    assert!(stock.hold(&wanted, 25, MINUTE).await.expect("ok").is_yours());
    forget_part(&seawall, &stock, 1, wanted.as_str()).await;
    assert_eq!(stock.sell(&wanted).await.expect("ok"), Settled::Now { units: 25 });
    assert_eq!(stock.sell(&wanted).await.expect("ok"), Settled::Before { units: 25 });
    assert_eq!(total(&stock).await, Levels { received: 30, held: 0, sold: 25, left: 5 });
    assert_eq!(stock.take_back(&wanted).await.expect("ok"), Settled::Now { units: 25 });
    assert_eq!(total(&stock).await.left, 30);

    let (stock, _) = thirty(&seawall, "none").await;
    assert!(stock.hold(&wanted, 25, MINUTE).await.expect("ok").is_yours());
    forget_part(&seawall, &stock, 1, wanted.as_str()).await;
    assert_eq!(stock.sell_now(&at("quick", 1), 10).await.expect("ok"), Held::Sold { units: 10 });
    let sold = stock.sell(&wanted).await.expect("ok");
    assert_eq!(sold, Settled::Not(Standing::TakenBack), "there are only 20 others");
    assert_eq!(total(&stock).await, Levels { received: 30, held: 0, sold: 10, left: 20 });
    seawall.shutdown().await;
}
