//! Parts and their home: a home remembers until every part has answered, and a part goes back only
//! when its home says so.

use std::time::{Duration, Instant};

use seawall::{
    Seawall, cmd,
    stock::{Held, Inventory, Levels, Movement, Received, Reference, Standing},
};

use crate::{
    inventory::{MINUTE, total},
    setup::{Setup, on_every_backend},
};

on_every_backend! {
    without sentinel:
    a_home_remembers_a_sale_until_its_parts_have_answered
    a_part_that_the_sale_does_not_count_goes_back
    a_part_whose_home_knows_nothing_stays_held_and_shows
    what_everybody_has_answered_leaves_nothing_to_wait_for
    a_process_that_dies_while_gathering_leaves_no_unit_behind
    a_sale_that_is_taken_back_is_told_to_parts_that_were_away
}

const PATIENCE: Duration = Duration::from_secs(60);

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

/// An inventory that nobody sweeps, with so many units.
async fn open(seawall: &Seawall, shards: usize, units: u64) -> Inventory {
    let builder = seawall.inventory("sku").shards(shards).max_rounds(1).sweep_interval(MINUTE * 60);
    let stock = builder.open().await.expect("opened");
    assert_eq!(stock.receive("r", units).await.expect("ok"), Received::Complete { added: units });
    stock
}

/// One step of a process that remembers references for so many ms and dies after the step.
async fn step(
    seawall: &Seawall,
    stock: &Inventory,
    (shard, kept): (usize, u64),
    script: &str,
    arguments: &[&str],
) -> Vec<String> {
    let keys = stock.shard_keys(shard).expect("a shard");
    let get = seawall.client().query(&keys[0], cmd("HGET").arg(&keys[0]).arg("epoch")).await;
    let epoch: String = get.expect("an epoch");
    let mut eval = cmd("EVAL");
    eval.arg(script).arg(keys.len()).arg(keys).arg(epoch).arg(kept).arg(arguments);
    seawall.client().query(&keys[0], &eval).await.expect("answered")
}

/// Sweeps, with everything that asks or is told at a shard due at once.
async fn sweep(seawall: &Seawall, stock: &Inventory) {
    tokio::time::sleep(Duration::from_millis(5)).await;
    for shard in 0..stock.shards() {
        let parts = &stock.shard_keys(shard).expect("a shard")[3];
        let all = cmd("ZRANGE").arg(parts).arg(0).arg(-1).to_owned();
        let fields: Vec<String> = seawall.client().query(parts, &all).await.expect("fields");
        for field in fields {
            let mut add = cmd("ZADD");
            add.arg(parts).arg(1).arg(field);
            seawall.client().send(parts, &add).await.expect("answered");
        }
    }
    let _ = stock.sweep().await.expect("swept");
}

/// Every record of every shard, by field.
async fn records(seawall: &Seawall, stock: &Inventory) -> Vec<String> {
    let mut all = Vec::new();
    for shard in 0..stock.shards() {
        let key = &stock.shard_keys(shard).expect("a shard")[1];
        let fields: Vec<String> =
            seawall.client().query(key, cmd("HKEYS").arg(key)).await.expect("fields");
        all.extend(fields.into_iter().map(|field| format!("{shard} {field}")));
    }
    all.sort();
    all
}

async fn a_home_remembers_a_sale_until_its_parts_have_answered(setup: Setup) {
    let seawall = setup.connect().await;
    let stock = open(&seawall, 2, 2).await;
    let first = at("first", 0);
    assert!(stock.hold(&first, 2, MINUTE).await.expect("ok").is_yours());
    // Sold by a process that dies before it tells the part.
    let sold = step(&seawall, &stock, (0, 1), script!("decide"), &[first.as_str(), "S", "0"]).await;
    assert_eq!(sold[..2], ["DONE", "S"]);
    let more = async || stock.sell_now(&at("second", 1), 1).await.expect("ok");
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(more().await, Held::SoldOut { left: 0 });
    for _ in 0..3 {
        sweep(&seawall, &stock).await;
        assert_eq!(more().await, Held::SoldOut { left: 0 }, "two of two are sold");
        assert_eq!(stock.standing(&first).await.expect("ok"), (Standing::Sold, 2));
    }
    assert_eq!(total(&stock).await, Levels { received: 2, held: 0, sold: 2, left: 0 });
    seawall.shutdown().await;
}

/// The reply of a part was lost, others made up for it: what it gave is not a part of the sale.
async fn a_part_that_the_sale_does_not_count_goes_back(setup: Setup) {
    let seawall = setup.connect().await;
    let stock = open(&seawall, 3, 30).await;
    let wanted = at("o", 0);
    let name = wanted.as_str();
    let begun =
        step(&seawall, &stock, (0, 60_000), script!("begin"), &[name, "15", "60000", "1", "2"])
            .await;
    let [word, attempt, taken] = begun.as_slice() else { panic!("{begun:?}") };
    assert_eq!((word.as_str(), taken.as_str()), ("BEGUN", "10"));
    for shard in [1, 2] {
        let arguments = [name, "0", attempt.as_str(), "5", "60000"];
        let part = step(&seawall, &stock, (shard, 60_000), script!("part"), &arguments).await;
        assert_eq!(part, ["PART", "5"]);
    }
    let arguments = [name, attempt.as_str(), "60000", "2:5", "S"];
    let committed = step(&seawall, &stock, (0, 60_000), script!("commit"), &arguments).await;
    assert_eq!(committed[..2], ["NEW", "S"]);
    for _ in 0..3 {
        sweep(&seawall, &stock).await;
    }
    assert_eq!(total(&stock).await, Levels { received: 30, held: 0, sold: 15, left: 15 });
    seawall.shutdown().await;
}

/// As a fail-over of the home forgets it: whose the part is only the ledger knows.
async fn a_part_whose_home_knows_nothing_stays_held_and_shows(setup: Setup) {
    let seawall = setup.connect().await;
    let stock = open(&seawall, 2, 2).await;
    let first = at("first", 0);
    assert!(stock.hold(&first, 2, MINUTE).await.expect("ok").is_yours());
    let forget = |shard: usize, field: String| {
        let key = stock.shard_keys(shard).expect("a shard")[1].clone();
        let client = seawall.client();
        async move { client.query::<u64>(&key, cmd("HDEL").arg(&key).arg(field)).await.expect("ok") }
    };
    assert_eq!(forget(0, format!("h:{first}")).await, 1);
    for _ in 0..3 {
        sweep(&seawall, &stock).await;
        let sold = stock.sell_now(&at("second", 1), 1).await.expect("ok");
        assert!(!sold.is_yours(), "{sold:?}");
    }
    let audit = stock.audit().await.expect("ok");
    assert_eq!(audit.astray, 1, "{audit:?}");
    assert!(!audit.is_conserved(), "{audit:?}");
    // The ledger knows whose they are: sold, both of them.
    let ledger = vec![
        Movement::Received { receipt: "r".into(), units: 2 },
        Movement::Sold { reference: first.clone(), units: 2 },
    ];
    stock.rebuild_shard(0, &ledger).await.expect("rebuilt");
    sweep(&seawall, &stock).await;
    assert_eq!(total(&stock).await, Levels { received: 2, held: 0, sold: 2, left: 0 });
    // And where it knows nothing of them, they go back.
    let third = at("third", 0);
    assert_eq!(stock.receive("r2", 2).await.expect("ok"), Received::Complete { added: 2 });
    assert!(stock.hold(&third, 2, MINUTE).await.expect("ok").is_yours());
    assert_eq!(forget(0, format!("h:{third}")).await, 1);
    sweep(&seawall, &stock).await;
    assert_eq!(stock.audit().await.expect("ok").astray, 1);
    let mut ledger = ledger;
    ledger.push(Movement::Received { receipt: "r2".into(), units: 2 });
    stock.rebuild_shard(0, &ledger).await.expect("rebuilt");
    sweep(&seawall, &stock).await;
    assert_eq!(total(&stock).await, Levels { received: 4, held: 0, sold: 2, left: 2 });
    seawall.shutdown().await;
}

async fn what_everybody_has_answered_leaves_nothing_to_wait_for(setup: Setup) {
    let seawall = setup.connect().await;
    let stock = open(&seawall, 3, 30).await;
    let (sold, released, now, none) = (at("s", 0), at("r", 1), at("n", 2), at("x", 0));
    assert!(stock.hold(&sold, 12, MINUTE).await.expect("ok").is_yours());
    let _ = stock.sell(&sold).await.expect("ok");
    assert!(stock.hold(&released, 12, MINUTE).await.expect("ok").is_yours());
    let _ = stock.release(&released).await.expect("ok");
    assert_eq!(stock.sell_now(&now, 16).await.expect("ok"), Held::Sold { units: 16 });
    assert_eq!(stock.sell_now(&none, 16).await.expect("ok"), Held::SoldOut { left: 2 });
    let _ = stock.take_back(&now).await.expect("ok");
    assert_eq!(total(&stock).await, Levels { received: 30, held: 0, sold: 12, left: 18 });
    let all = records(&seawall, &stock).await;
    assert!(!all.iter().any(|field| field.contains(" w:") || field.contains(" u:")), "{all:?}");
    seawall.shutdown().await;
}

/// Whatever step was its last, all units are for sale again in the end, and nobody waits for ever.
async fn a_process_that_dies_while_gathering_leaves_no_unit_behind(setup: Setup) {
    let seawall = setup.connect().await;
    let stock = open(&seawall, 3, 30).await;
    for last in 0..3 {
        let wanted = at(&format!("o{last}"), 0);
        let name = wanted.as_str();
        let arguments = [name, "25", "1", "1", "2"];
        let begun = step(&seawall, &stock, (0, 1), script!("begin"), &arguments).await;
        for shard in 1..=last {
            let arguments = [name, "0", begun[1].as_str(), "10", "1"];
            let part = step(&seawall, &stock, (shard, 1), script!("part"), &arguments).await;
            assert_eq!(part, ["PART", "10"]);
        }
        let deadline = Instant::now() + PATIENCE;
        while total(&stock).await.left < 30 {
            sweep(&seawall, &stock).await;
            assert!(Instant::now() < deadline, "{:?}", records(&seawall, &stock).await);
        }
        sweep(&seawall, &stock).await;
        let all = records(&seawall, &stock).await;
        assert!(!all.iter().any(|field| field.contains(" w:")), "{all:?}");
        // A part that arrives now is too late.
        let arguments = [name, "0", begun[1].as_str(), "10", "1"];
        let part = step(&seawall, &stock, (1, 1), script!("part"), &arguments).await;
        assert_eq!(part, ["PART", "0"]);
    }
    assert_eq!(total(&stock).await, Levels { received: 30, held: 0, sold: 0, left: 30 });
    seawall.shutdown().await;
}

async fn a_sale_that_is_taken_back_is_told_to_parts_that_were_away(setup: Setup) {
    let seawall = setup.connect().await;
    let stock = open(&seawall, 2, 2).await;
    let first = at("first", 0);
    assert_eq!(stock.sell_now(&first, 2).await.expect("ok"), Held::Sold { units: 2 });
    // Taken back by a process that dies before it tells the part.
    let arguments = [first.as_str(), "B", "0"];
    let back = step(&seawall, &stock, (0, 1), script!("decide"), &arguments).await;
    assert_eq!(back[..2], ["DONE", "B"]);
    for _ in 0..2 {
        sweep(&seawall, &stock).await;
    }
    assert_eq!(total(&stock).await, Levels { received: 2, held: 0, sold: 0, left: 2 });
    seawall.shutdown().await;
}

#[tokio::test]
async fn references_must_be_remembered_for_a_while() {
    let test_server = seawall::testing::TestServer::start().await.expect("a test_server");
    for kept in [Duration::ZERO, Duration::from_millis(1), MINUTE - Duration::from_millis(1)] {
        let refused = test_server.seawall().inventory("s").reference_ttl(kept).open().await;
        let error = refused.expect_err("refused").to_string();
        assert!(error.contains("reference_ttl"), "{error}");
    }
    assert!(test_server.seawall().inventory("s").max_rounds(u64::MAX).open().await.is_err());
    let stock = test_server.seawall().inventory("s").reference_ttl(MINUTE).open().await;
    // A hold may outlast the memory of references, also one whose parts hear of nothing.
    let stock = stock.expect("opened");
    assert_eq!(stock.receive("r", 2).await.expect("ok"), Received::Complete { added: 2 });
    let long = at("long", 0);
    assert!(stock.hold(&long, 2, MINUTE * 60).await.expect("ok").is_yours());
    test_server.advance(MINUTE * 30).await;
    let _ = stock.sweep().await.expect("swept");
    assert_eq!(stock.sell_now(&at("b", 1), 1).await.expect("ok"), Held::SoldOut { left: 0 });
    let _ = stock.sell(&long).await.expect("ok");
    test_server.advance(MINUTE * 30).await;
    let _ = stock.sweep().await.expect("swept");
    assert_eq!(total(&stock).await, Levels { received: 2, held: 0, sold: 2, left: 0 });
    test_server.shutdown().await;
}
