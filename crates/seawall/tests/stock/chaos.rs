//! Sixty-four buyers while shards die and replies are lost: every unit stays accounted for.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use seawall::{
    Seawall,
    stock::{Held, Inventory, Levels, Movement, Received, Reference, Settled},
};
use seawall_testkit::{Cluster, FaultProxy, Node, ServerBuilder, proxy::On};

use crate::inventory::total;

const BUYERS: u64 = 64;
const UNITS: u64 = 600;
/// How long a hold lasts that its buyer lost sight of.
const LIFETIME: Duration = Duration::from_secs(2);
/// However long it takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn turns() -> u64 {
    if std::env::var_os("SEAWALL_SOAK").is_some() { 120 } else { 6 }
}

/// What the buyers know for certain.
type Sales = Arc<Mutex<Vec<(Reference, u64)>>>;

/// Buys, sells and releases; a hold that was got is settled, however often that must be asked for.
async fn buy(stock: Inventory, buyer: u64, sales: Sales) {
    for turn in 0..turns() {
        let (name, units) = (format!("{buyer}-{turn}"), 1 + (buyer + turn) % 3);
        let Ok((reference, held)) = stock.hold_anywhere(&name, units, LIFETIME).await else {
            continue;
        };
        if !held.is_yours() {
            continue;
        }
        let release = (buyer + turn).is_multiple_of(5);
        let began = Instant::now();
        let settled = loop {
            let settled = match release {
                true => stock.release(&reference).await,
                false => stock.sell(&reference).await,
            };
            match settled {
                Ok(Settled::Unavailable) | Err(_) => {
                    assert!(began.elapsed() < PATIENCE, "{settled:?}");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Ok(settled) => break settled,
            }
        };
        if let Settled::Now { units } | Settled::Before { units } = settled
            && !release
        {
            sales.lock().unwrap_or_else(PoisonError::into_inner).push((reference, units));
        }
    }
}

/// Lets the buyers loose while `break_things` runs over and over, and watches the levels.
async fn storm(stocks: &[Inventory], break_things: impl AsyncFn(u64)) -> Vec<(Reference, u64)> {
    let sales = Sales::default();
    let buyers: Vec<_> = (0..BUYERS)
        .map(|buyer| {
            let stock = stocks[buyer as usize % stocks.len()].clone();
            tokio::spawn(buy(stock, buyer, Arc::clone(&sales)))
        })
        .collect();
    let done = Arc::new(AtomicBool::new(false));
    let watching = tokio::spawn({
        let (stock, done) = (stocks[0].clone(), Arc::clone(&done));
        async move {
            let mut looks = 0;
            while !done.load(Ordering::SeqCst) {
                // A look that fails says nothing.
                if let Ok(audit) = stock.audit().await {
                    assert!(audit.is_conserved(), "{audit:?}");
                    looks += 1;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            looks
        }
    });
    let mut round = 0;
    while buyers.iter().any(|buyer| !buyer.is_finished()) {
        break_things(round).await;
        round += 1;
    }
    for buyer in buyers {
        buyer.await.expect("no panic");
    }
    done.store(true, Ordering::SeqCst);
    assert!(watching.await.expect("always conserved") > 0);
    let sales = sales.lock().unwrap_or_else(PoisonError::into_inner);
    sales.clone()
}

/// Waits until nothing is held any more: what was lost sight of went back, parts were settled.
async fn calm(stock: &Inventory) -> Levels {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let _ = stock.sweep().await;
        if let Ok(audit) = stock.audit().await {
            assert!(audit.is_conserved(), "{audit:?}");
            if audit.is_complete() && audit.total().held == 0 {
                return audit.total();
            }
        }
        assert!(Instant::now() < deadline, "{:?}", stock.audit().await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// All accounts agree, and what is left can be sold to the last unit.
async fn settle_accounts(stock: &Inventory, sales: &[(Reference, u64)]) {
    let levels = calm(stock).await;
    let sold: u64 = sales.iter().map(|(_, units)| units).sum();
    assert_eq!((levels.received, levels.sold), (UNITS, sold), "{levels:?}");
    assert_eq!(levels.left, UNITS - sold);
    for (reference, units) in sales {
        assert_eq!(stock.sell(reference).await.expect("ok"), Settled::Before { units: *units });
    }
    for unit in 0..levels.left {
        let reference = stock.reference(&format!("rest-{unit}")).expect("valid");
        assert_eq!(stock.sell_now(&reference, 1).await.expect("ok"), Held::Sold { units: 1 });
    }
    let none = stock.reference("none").expect("valid");
    assert_eq!(stock.sell_now(&none, 1).await.expect("ok"), Held::SoldOut { left: 0 });
    assert_eq!(total(stock).await, Levels { received: UNITS, held: 0, sold: UNITS, left: 0 });
}

fn lose_replies(proxy: &FaultProxy) {
    proxy.drop_reply(On::command("EVALSHA").probability(0.02).times(5));
}

async fn connect(url: &str) -> Seawall {
    let builder = Seawall::builder(url).response_timeout(Duration::from_millis(400));
    builder.connect().await.expect("it answers")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_and_restarted_loses_no_unit() {
    let args = ["--appendonly", "yes", "--appendfsync", "always"];
    let server = ServerBuilder::redis().args(args).start().expect("it starts");
    let proxy = FaultProxy::start(server.port()).expect("it starts");
    let handles = [connect(&proxy.url()).await, connect(&proxy.url()).await];
    let mut stocks = Vec::new();
    for handle in &handles {
        stocks.push(handle.inventory("sku").open().await.expect("opened"));
    }
    let received = stocks[0].receive("r", UNITS).await.expect("ok");
    assert_eq!(received, Received::Complete { added: UNITS });
    let server = Mutex::new(server);
    let sales = storm(&stocks, async |round| {
        lose_replies(&proxy);
        tokio::time::sleep(Duration::from_millis(60)).await;
        match round % 3 {
            0 => proxy.cut_all(),
            1 => {
                let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
                server.restart().expect("killed and back, with its log");
            }
            _ => {}
        }
    })
    .await;
    proxy.heal();
    assert!(!sales.is_empty());
    settle_accounts(&stocks[0], &sales).await;
    for handle in &handles {
        handle.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_that_die_on_a_cluster_come_back_with_their_units() {
    let cluster = Cluster::builder()
        .replicas_each(0)
        .proxied()
        .args(["--appendonly", "yes", "--appendfsync", "always"])
        .args(["--cluster-require-full-coverage", "no"])
        .start()
        .expect("it starts");
    let handles = [connect(&cluster.url()).await, connect(&cluster.url()).await];
    let mut stocks = Vec::new();
    for handle in &handles {
        stocks.push(handle.inventory("sku").shards(3).open().await.expect("opened"));
    }
    let received = stocks[0].receive("r", UNITS).await.expect("ok");
    assert_eq!(received, Received::Complete { added: UNITS });
    let node = |round: u64| -> &Node { &cluster.nodes()[round as usize % 3] };
    let proxy = |round: u64| node(round).proxy().expect("proxied");
    let sales = storm(&stocks, async |round| {
        lose_replies(proxy(round));
        tokio::time::sleep(Duration::from_millis(100)).await;
        match round % 4 {
            0 => proxy(round).cut_all(),
            1 => {
                node(round).kill().expect("it ran");
                // The others sell meanwhile.
                tokio::time::sleep(Duration::from_millis(200)).await;
                node(round).restart().expect("back, with its log");
            }
            2 => {
                node(round).pause().expect("it runs");
                tokio::time::sleep(Duration::from_millis(100)).await;
                node(round).resume().expect("it was paused");
            }
            _ => {}
        }
    })
    .await;
    for node in cluster.nodes() {
        node.proxy().expect("proxied").heal();
    }
    assert!(!sales.is_empty());
    settle_accounts(&stocks[0], &sales).await;
    for handle in &handles {
        handle.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_shard_is_left_out_and_nobody_hears_that_all_is_sold() {
    let cluster = Cluster::builder()
        .replicas_each(0)
        .args(["--appendonly", "yes", "--appendfsync", "always"])
        .args(["--cluster-require-full-coverage", "no"])
        .start()
        .expect("it starts");
    let seawall = connect(&cluster.url()).await;
    let stock = seawall.inventory("sku").open().await.expect("opened");
    assert_eq!(stock.receive("r", 9).await.expect("ok"), Received::Complete { added: 9 });
    let key = stock.shard_keys(1).expect("a shard")[0].clone();
    let node = cluster.primary_of(&key).expect("an owner");
    node.kill().expect("it ran");
    // The six units of the others are sold, to the last one.
    let mut sold = 0;
    let deadline = Instant::now() + PATIENCE;
    while sold < 6 {
        let name = format!("unit-{sold}");
        match stock.hold_anywhere(&name, 1, Duration::from_secs(600)).await {
            Ok((reference, held)) if held.is_yours() => {
                assert_eq!(stock.sell(&reference).await.expect("ok"), Settled::Now { units: 1 });
                sold += 1;
            }
            other => assert!(Instant::now() < deadline, "{other:?}"),
        }
    }
    let alive = Reference::new("more@0").expect("valid");
    let more = stock.sell_now(&alive, 1).await.expect("ok");
    assert_eq!(more, Held::Partial { left: 0 }, "one shard did not answer");
    let dead = Reference::new("dead@1").expect("valid");
    let answer = stock.sell_now(&dead, 1).await;
    assert!(matches!(answer, Ok(Held::Unavailable)) || answer.is_err(), "{answer:?}");

    node.restart().expect("back, with its log");
    let deadline = Instant::now() + PATIENCE;
    loop {
        match stock.sell_now(&alive, 3).await {
            Ok(Held::Sold { units: 3 }) => break,
            other => assert!(Instant::now() < deadline, "its units come back with it: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(total(&stock).await, Levels { received: 9, held: 0, sold: 9, left: 0 });
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_fail_over_forgot_is_rebuilt_from_the_ledger() {
    let cluster = Cluster::start().expect("it starts");
    let seawall = connect(&cluster.url()).await;
    let stock = seawall.inventory("sku").open().await.expect("opened");
    assert_eq!(stock.receive("r", 90).await.expect("ok"), Received::Complete { added: 90 });
    let mut ledger = vec![Movement::Received { receipt: "r".into(), units: 90 }];
    let key = stock.shard_keys(0).expect("a shard")[0].clone();
    let lost = cluster.primary_of(&key).expect("an owner");
    for sale in 0..40u64 {
        if sale == 20 {
            lost.kill().expect("it ran");
        }
        let (name, deadline) = (format!("sale-{sale}"), Instant::now() + PATIENCE);
        loop {
            let reference = stock.reference(&name).expect("valid");
            if let Ok(Held::Sold { units }) = stock.sell_now(&reference, 1).await {
                ledger.push(Movement::Sold { reference, units });
                break;
            }
            assert!(Instant::now() < deadline, "the others sell");
        }
    }
    cluster.await_failover(lost, seawall_testkit::slot_of(&key)).expect("another takes over");
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = stock.rebuild(&ledger).await {
        assert!(Instant::now() < deadline, "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(total(&stock).await, Levels { received: 90, held: 0, sold: 40, left: 50 });
    let rest = stock.reference("rest").expect("valid");
    assert_eq!(stock.sell_now(&rest, 50).await.expect("ok"), Held::Sold { units: 50 });
    seawall.shutdown().await;
}
