//! Sales on servers that may have forgotten what they sold: nothing is sold before a comparison.

use std::{fs, path::Path, time::Duration};

use seawall::{
    Error, Seawall,
    stock::{Adopted, Corrected, FlashSale, OrderFields, Reserved, SaleWindow},
};
use seawall_testkit::{Cluster, SentinelSet, ServerBuilder, slot_of};

use crate::{
    eventually::eventually,
    setup::{Setup, on_every_backend},
};

on_every_backend! {
    a_sale_sells_after_somebody_vouched_for_it
}

const STOCK: u64 = 5;

fn sale(seawall: &Seawall) -> FlashSale {
    seawall.flash_sale("s").verified().build().expect("valid")
}

async fn open(sale: &FlashSale) -> Result<(), Error> {
    let window = SaleWindow::from_now(Duration::ZERO, Duration::from_secs(3600))?;
    let _ = sale.open("opening", window, STOCK).await?;
    Ok(())
}

async fn reserve(sale: &FlashSale, user: u64) -> Reserved {
    sale.reserve(&user, &user, &OrderFields::new()).await.expect("answered")
}

/// The same once the server answers again.
async fn reserve_patiently(sale: &FlashSale, user: u64) -> Reserved {
    let mut answer = None;
    eventually("it answers again", async || {
        answer = sale.reserve(&user, &user, &OrderFields::new()).await.ok();
        answer.is_some()
    })
    .await;
    answer.expect("it answered")
}

/// Tells the sale what a database knows: these users bought, each under its own number.
async fn compare(sale: &FlashSale, bought: std::ops::RangeInclusive<u64>) -> Result<(), Error> {
    let left = STOCK - bought.clone().count() as u64;
    for user in bought {
        let adopted = sale.adopt(&user, &user).await?;
        assert!(matches!(adopted, Adopted::Adopted | Adopted::Already), "{adopted:?}");
    }
    let seen = sale.status().await?.expect("open");
    assert!(matches!(sale.correct_left(&seen, left).await?, Corrected::Corrected(_)));
    Ok(())
}

async fn a_sale_sells_after_somebody_vouched_for_it(setup: Setup) {
    let (one, other) = (setup.connect().await, setup.connect().await);
    let (a, b) = (sale(&one), sale(&other));
    assert_eq!(reserve(&a, 1).await, Reserved::Unknown);
    open(&a).await.expect("opened");
    assert_eq!(reserve(&a, 1).await, Reserved::Unverified);
    assert!(!a.is_verified().await.expect("answered"));
    let failed = a.verify(async { Err::<(), _>(Error::Invalid("no".into())) }).await;
    assert!(matches!(failed, Err(Error::Invalid(_))), "{failed:?}");
    assert_eq!(reserve(&a, 1).await, Reserved::Unverified, "nobody compared it to the end");
    assert_eq!(a.verify(compare(&a, 1..=1)).await.expect("compared"), Some(()));
    assert_eq!(reserve(&a, 1).await.receipt().expect("adopted").at_millis, 0);
    assert!(matches!(reserve(&a, 2).await, Reserved::Reserved(_)));
    // Whatever handle: it was compared, and is not again.
    assert!(matches!(reserve(&b, 3).await, Reserved::Reserved(_)));
    let again = b.verify(async { panic!("it was compared") }).await;
    assert_eq!(again.map_err(|error: Error| error.to_string()), Ok(None::<()>));
    // Opened once more by another name, or without a word about verifying: the same sale.
    let plain = one.flash_sale("s").build().expect("valid");
    assert!(matches!(reserve(&plain, 4).await, Reserved::Reserved(_)));
    assert!(matches!(plain.is_verified().await, Err(Error::Invalid(_))));
    one.shutdown().await;
    other.shutdown().await;
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
    }
}

/// A log without its last writes, as a crash leaves it; what is sold is not sold once more. That a
/// handle which does not look sells it once more shows what is looked for.
async fn the_last_writes_are_lost(looks: bool) {
    let args = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut server = ServerBuilder::redis().args(args).start().expect("redis-server starts");
    let (log, kept) = (server.dir().join("appendonlydir"), server.dir().join("kept"));
    let (one, other) = (connect(&server.url()).await, connect(&server.url()).await);
    let (a, b) = (sale(&one), sale(&other));
    a.verify(open(&a)).await.expect("opened");
    for user in 1..=3 {
        assert!(reserve(&a, user).await.receipt().is_some());
    }
    copy(&log, &kept);
    for user in 4..=5 {
        assert!(reserve(&b, user).await.receipt().is_some());
    }
    assert_eq!(reserve(&a, 6).await, Reserved::SoldOut);
    server.kill().expect("killed");
    fs::remove_dir_all(&log).expect("removed");
    fs::rename(&kept, &log).expect("put back");
    server.restart().expect("it starts again");

    if !looks {
        let plain = one.flash_sale("s").build().expect("valid");
        let answer = reserve_patiently(&plain, 6).await;
        assert!(matches!(answer, Reserved::Reserved(_)), "a sixth of five: {answer:?}");
        return;
    }
    for sale in [&a, &b] {
        assert_eq!(reserve_patiently(sale, 6).await, Reserved::Unverified);
        assert_eq!(sale.status().await.expect("answered").expect("open").left, 2, "forgotten");
    }
    assert_eq!(a.verify(compare(&a, 1..=5)).await.expect("compared"), Some(()));
    for sale in [&a, &b] {
        assert_eq!(reserve(sale, 6).await, Reserved::SoldOut);
        assert!(matches!(reserve(sale, 5).await, Reserved::AlreadyYours(_)));
    }
    one.shutdown().await;
    other.shutdown().await;
}

async fn connect(url: &str) -> Seawall {
    Seawall::connect(url).await.expect("connected")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_crash_forgot_is_not_sold_again() {
    the_last_writes_are_lost(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_that_nobody_vouches_for_sells_it_again() {
    the_last_writes_are_lost(false).await;
}

/// Whatever was compared before a server started again counts for nothing after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_in_the_middle_of_a_comparison_is_noticed() {
    let args = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut server = ServerBuilder::redis().args(args).start().expect("redis-server starts");
    let seawall = connect(&server.url()).await;
    let sale = sale(&seawall);
    open(&sale).await.expect("opened");
    let compared = sale.verify(async {
        compare(&sale, 1..=1).await?;
        server.restart().expect("it starts again");
        eventually("it answers again", async || sale.status().await.is_ok()).await;
        Ok::<_, Error>(())
    });
    assert_eq!(compared.await.expect("compared"), Some(()));
    assert_eq!(reserve_patiently(&sale, 2).await, Reserved::Unverified);
    assert_eq!(sale.verify(compare(&sale, 1..=1)).await.expect("compared"), Some(()));
    assert!(matches!(reserve(&sale, 2).await, Reserved::Reserved(_)));
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_is_compared_when_it_starts_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("embedded:{}", folder.path().display());
    {
        let seawall = connect(&url).await;
        let sale = sale(&seawall);
        sale.verify(open(&sale)).await.expect("opened");
        assert!(reserve(&sale, 1).await.receipt().is_some());
        seawall.shutdown().await;
    }
    // The folder is free when the last task that knew the handle has ended.
    let mut again = None;
    eventually("it starts again", async || {
        again = Seawall::connect(&url).await.ok();
        again.is_some()
    })
    .await;
    let seawall = again.expect("just looked at");
    let sale = sale(&seawall);
    assert_eq!(reserve(&sale, 2).await, Reserved::Unverified);
    assert_eq!(sale.verify(compare(&sale, 1..=1)).await.expect("compared"), Some(()));
    assert!(matches!(reserve(&sale, 2).await, Reserved::Reserved(_)));
    seawall.shutdown().await;
}

/// A replica that took over may not have heard of the last sales.
async fn after_a_fail_over(url: &str, fail_over: impl FnOnce(&FlashSale)) {
    let seawall = connect(url).await;
    let sale = sale(&seawall);
    sale.verify(open(&sale)).await.expect("opened");
    assert!(reserve(&sale, 1).await.receipt().is_some());
    fail_over(&sale);
    // Unknown: the replica had not heard of the sale at all.
    let answer = reserve_patiently(&sale, 2).await;
    assert!(matches!(answer, Reserved::Unverified | Reserved::Unknown), "{answer:?}");
    let known = async {
        open(&sale).await?;
        compare(&sale, 1..=1).await
    };
    assert_eq!(sale.verify(known).await.expect("compared"), Some(()));
    assert!(matches!(reserve(&sale, 2).await, Reserved::Reserved(_)));
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fail_over_is_noticed_on_sentinel() {
    let set = SentinelSet::start().expect("a Sentinel set");
    after_a_fail_over(&set.url(), |_| {
        let lost = set.kill_primary().expect("killed");
        set.await_failover(lost).expect("another took over");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fail_over_is_noticed_on_a_cluster() {
    let cluster = Cluster::start().expect("a Cluster starts");
    after_a_fail_over(&cluster.url(), |sale| {
        let slot = slot_of(sale.stream_key());
        let lost = cluster.primary_of_slot(slot).expect("it answers");
        lost.kill().expect("killed");
        cluster.await_failover(lost, slot).expect("another took over");
    })
    .await;
}
