//! Servers whose data went back in time: whichever way a server came to its data, a sale sells there only
//! after a comparison, and processes agree about it at once.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use seawall::{
    Error, Seawall,
    stock::{FlashSale, OrderFields, Reserved, SaleWindow},
};
use seawall_testkit::{Cluster, Node, SentinelSet, ServerBuilder, slot_of};

use crate::eventually::eventually;

const STOCK: u64 = 1_000;
const CALLS: u64 = 20;

fn sale(seawall: &Seawall) -> FlashSale {
    seawall.flash_sale("s").verified().build().expect("valid")
}

async fn connect(url: &str) -> Seawall {
    let builder = Seawall::builder(url).response_timeout(Duration::from_secs(2));
    builder.connect().await.expect("connected")
}

async fn open(sale: &FlashSale) -> Result<(), Error> {
    let window = SaleWindow::from_now(Duration::ZERO, Duration::from_secs(3600))?;
    let _ = sale.open("opening", window, STOCK).await?;
    Ok(())
}

/// Buys for this user, comparing first where the sale asks for it; counts the comparisons.
async fn buy(sale: &FlashSale, user: u64, compared: &AtomicU64) -> Reserved {
    let order = OrderFields::new();
    for _ in 0..CALLS {
        match sale.reserve(&user, &user, &order).await.expect("answered") {
            Reserved::Unverified => {
                let comparing = sale.verify(async {
                    // As long as a database takes: others come in between.
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    compared.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, Error>(())
                });
                comparing.await.expect("compared");
            }
            answer => return answer,
        }
    }
    panic!("{CALLS} comparisons, and still nothing is sold");
}

/// Both processes at the same moment, then one after the other; the comparisons that this took.
async fn both_buy(a: &FlashSale, b: &FlashSale, first: u64) -> u64 {
    let compared = AtomicU64::new(0);
    let (one, other) = tokio::join!(buy(a, first, &compared), buy(b, first + 1, &compared));
    assert!(one.receipt().is_some() && other.receipt().is_some(), "{one:?} {other:?}");
    for user in first + 2..first + 2 + CALLS {
        let sale = if user % 2 == 0 { a } else { b };
        assert!(buy(sale, user, &compared).await.receipt().is_some());
    }
    compared.load(Ordering::SeqCst)
}

/// Two processes that both find the server new: each may compare once, none twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_agree_after_a_restart() {
    let args = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut server = ServerBuilder::redis().args(args).start().expect("redis-server starts");
    let (one, other) = (connect(&server.url()).await, connect(&server.url()).await);
    let (a, b) = (sale(&one), sale(&other));
    a.verify(open(&a)).await.expect("opened");
    for restart in 1..=3 {
        server.restart().expect("it starts again");
        eventually("it answers again", async || {
            a.status().await.is_ok() && b.status().await.is_ok()
        })
        .await;
        let compared = both_buy(&a, &b, restart * 100).await;
        assert!((1..=2).contains(&compared), "{compared} comparisons after restart {restart}");
    }
    one.shutdown().await;
    other.shutdown().await;
}

/// A server that forgot its scripts forgot no sale: nobody compares anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushed_scripts_cost_no_comparison() {
    let server = ServerBuilder::redis().start().expect("redis-server starts");
    let (one, other) = (connect(&server.url()).await, connect(&server.url()).await);
    let (a, b) = (sale(&one), sale(&other));
    a.verify(open(&a)).await.expect("opened");
    let mut operator = server.connect().expect("connected");
    for flush in 1..=10 {
        let flushed = operator.call(&["SCRIPT", "FLUSH"]).expect("answered");
        assert!(!flushed.is_error(), "{flushed}");
        assert_eq!(both_buy(&a, &b, flush * 50).await, 0, "flush {flush}");
    }
    one.shutdown().await;
    other.shutdown().await;
}

fn order(node: &Node, command: &[&str]) {
    let reply = node.connect().and_then(|mut client| client.call(command)).expect("answered");
    assert!(!reply.is_error(), "{command:?}: {reply}");
}

/// Buyers 1 to 3 are told that they have a unit; what the replicas know of is buyer 1 alone, and the
/// primary sleeps.
async fn sell_behind_the_replicas(sale: &FlashSale, primary: &Node, replicas: &[&Node]) {
    sale.verify(open(sale)).await.expect("opened");
    let reserve = async |user: u64| sale.reserve(&user, &user, &OrderFields::new()).await;
    assert!(reserve(1).await.expect("answered").receipt().is_some());
    primary.await_replicas(replicas.len()).expect("they follow");
    for replica in replicas {
        replica.pause().expect("paused");
    }
    order(primary, &["CLIENT", "KILL", "TYPE", "replica"]);
    for user in 2..=3 {
        assert!(reserve(user).await.expect("answered").receipt().is_some());
    }
    primary.pause().expect("paused");
    for replica in replicas {
        replica.resume().expect("resumed");
    }
}

/// The first server is primary once more, with the data of the one that stood in for it.
async fn nothing_is_sold_unverified(sale: &FlashSale) {
    let mut left = None;
    eventually("it answers again", async || {
        left = sale.status().await.ok().flatten().map(|status| status.left);
        left.is_some()
    })
    .await;
    assert_eq!(left, Some(STOCK - 1), "two sales were forgotten");
    let answer = sale.reserve(&4, &4, &OrderFields::new()).await.expect("answered");
    assert_eq!(answer, Reserved::Unverified);
    assert!(!sale.is_verified().await.expect("answered"));
    let compared = AtomicU64::new(0);
    assert!(buy(sale, 4, &compared).await.receipt().is_some());
    assert_eq!(compared.into_inner(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_comes_back_is_compared_on_a_cluster() {
    let cluster = Cluster::start().expect("a Cluster starts");
    let seawall = connect(&cluster.url()).await;
    let sale = sale(&seawall);
    let slot = slot_of(sale.stream_key());
    let first = cluster.primary_of_slot(slot).expect("it answers");
    let replicas = cluster.replicas(first).expect("it answers");
    sell_behind_the_replicas(&sale, first, &replicas).await;
    let heir = cluster.await_failover(first, slot).expect("another took over");
    first.resume().expect("it wakes");
    cluster.settle(Duration::from_secs(60)).expect("it follows the other");
    let again = cluster.failover(heir).expect("it takes over again");
    assert_eq!(again.port(), first.port());
    nothing_is_sold_unverified(&sale).await;
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_comes_back_is_compared_on_sentinel() {
    let set = SentinelSet::start().expect("a Sentinel set");
    let seawall = connect(&set.url()).await;
    let sale = sale(&seawall);
    let first = set.primary().expect("it answers");
    let replicas = set.replicas().expect("it answers");
    sell_behind_the_replicas(&sale, first, &replicas).await;
    let heir = set.await_failover(first).expect("another took over");
    first.resume().expect("it wakes");
    set.settle(Duration::from_secs(60)).expect("it follows the other");
    for server in set.servers() {
        if ![first.port(), heir.port()].contains(&server.port()) {
            order(server, &["CONFIG", "SET", "replica-priority", "0"]);
        }
    }
    // The sentinels read priorities from what the servers say of themselves, now and then.
    let mut again = heir;
    for _ in 0..5 {
        again = set.failover().expect("another takes over");
        if again.port() == first.port() {
            break;
        }
    }
    assert_eq!(again.port(), first.port());
    nothing_is_sold_unverified(&sale).await;
    seawall.shutdown().await;
}

/// Slots that move take their data along and their comparison not: the new node is another history.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_that_moves_to_another_node_is_compared() {
    let cluster = Cluster::start().expect("a Cluster starts");
    let seawall = connect(&cluster.url()).await;
    let sale = sale(&seawall);
    sale.verify(open(&sale)).await.expect("opened");
    let slot = slot_of(sale.stream_key());
    let from = cluster.primary_of_slot(slot).expect("it answers").port();
    let primaries = cluster.primaries().expect("they answer");
    let to = primaries.iter().find(|node| node.port() != from).expect("another one");
    cluster.move_slot(slot, to).expect("moved");
    let compared = AtomicU64::new(0);
    assert!(buy(&sale, 1, &compared).await.receipt().is_some());
    assert!(buy(&sale, 2, &compared).await.receipt().is_some());
    assert_eq!(compared.into_inner(), 1);
    seawall.shutdown().await;
}
