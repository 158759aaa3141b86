//! The rounds of a receipt, write by write: small steps at all shards alike, and none too small.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use seawall::{
    Seawall,
    stock::{Received, share},
};
use seawall_testkit::{FaultProxy, ServerProcess, proxy::On};

use crate::inventory::{MINUTE, total};

/// What a round brings to a shard at least, unless its whole share is less.
const LEAST: u64 = 3;

type Writes = Arc<Mutex<Vec<(Vec<u8>, u64)>>>;

/// The writes of a receipt as the server saw them: which shard, and how many units it has then.
async fn written(shards: usize, rounds: u64, units: u64, lost: u64) -> Vec<(usize, u64)> {
    let server = ServerProcess::redis().expect("it starts");
    let proxy = FaultProxy::start(server.port()).expect("it starts");
    let builder = Seawall::builder(&proxy.url()).response_timeout(Duration::from_secs(5));
    let seawall = builder.connect().await.expect("it answers");
    let builder = seawall.inventory("sku").shards(shards).max_rounds(rounds);
    let stock = builder.sweep_interval(MINUTE * 60).open().await.expect("opened");
    // So that every script and every epoch is known.
    let warm = stock.receive("warm", shards as u64).await.expect("ok");
    assert_eq!(warm, Received::Complete { added: shards as u64 });
    let writes = Writes::default();
    let seen = Arc::clone(&writes);
    // EVALSHA digest 5 keys… epoch kept receipt upto units
    let _watch = proxy.watch(On::command("EVALSHA").when(move |words| {
        let is_receipt = words.get(10).is_some_and(|receipt| receipt == b"r");
        if is_receipt && let Some(upto) = words.get(11) {
            let upto = String::from_utf8_lossy(upto).parse().expect("a number");
            seen.lock().unwrap_or_else(PoisonError::into_inner).push((words[3].clone(), upto));
        }
        is_receipt
    }));
    if lost > 0 {
        proxy.drop_reply(On::command("EVALSHA").nth(lost));
    }
    let received = stock.receive("r", units).await.expect("ok");
    assert!(matches!(received, Received::Complete { .. }), "{received:?}");
    assert_eq!(total(&stock).await.received, units + shards as u64);
    let number = |key: &[u8]| {
        let of = |shard: &usize| stock.shard_keys(*shard).expect("a shard")[0] == key;
        (0..shards).find(of).expect("a shard's key")
    };
    let writes = writes.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut writes: Vec<_> = writes.iter().map(|(key, upto)| (number(key), *upto)).collect();
    // Sent again after a lost reply: one write.
    writes.dedup();
    seawall.shutdown().await;
    writes
}

fn check(shards: usize, rounds: u64, units: u64, writes: &[(usize, u64)]) {
    let what = format!("{units} over {shards} in {rounds}: {writes:?}");
    let (mut has, mut turns) = (BTreeMap::new(), BTreeMap::<usize, u64>::new());
    for (shard, upto) in writes {
        let own = share(units, *shard, shards);
        let before = has.insert(*shard, *upto).unwrap_or(0);
        assert!(*upto - before >= LEAST.min(own), "too small a step at {shard}: {what}");
        *turns.entry(*shard).or_default() += 1;
        let spread = turns.values().max().unwrap_or(&0) - turns.values().min().unwrap_or(&0);
        assert!(turns.len() < shards || spread <= 1, "one shard runs ahead: {what}");
    }
    for shard in 0..shards {
        let own = share(units, shard, shards);
        assert_eq!(has.get(&shard).copied().unwrap_or(0), own, "{what}");
        let turns = turns.get(&shard).copied().unwrap_or(0);
        assert!(turns <= rounds.min((own / LEAST).max(1)), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_brings_three_units_or_the_rest() {
    for (shards, rounds, units, writes) in
        [(3, 10, 300, 30), (3, 10, 30, 9), (2, 10, 11, 3), (3, 10, 2, 2), (1, 4, 100, 4)]
    {
        let seen = written(shards, rounds, units, 0).await;
        assert_eq!(seen.len(), writes, "{units} over {shards}: {seen:?}");
        check(shards, rounds, units, &seen);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_in_a_round_changes_no_step() {
    for lost in [1, 4, 8] {
        let seen = written(3, 10, 60, lost).await;
        let mut sorted = seen.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 18, "{seen:?}");
    }
}
