//! A planned fail-over under load: whoever buys waits a moment and is answered.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use seawall::{
    Error, Seawall,
    stock::{FlashSale, OrderFields, Reserved, SaleWindow},
};
use seawall_testkit::{Cluster, slot_of};

const BUYERS: u64 = 24;
const STOCK: u64 = 1_000_000;
const PATIENCE: Duration = Duration::from_secs(30);

async fn compare(sale: &FlashSale) -> Result<(), Error> {
    if sale.status().await?.is_none() {
        let window = SaleWindow::from_now(Duration::ZERO, Duration::from_secs(3600))?;
        let _ = sale.open("opening", window, STOCK).await?;
    }
    Ok(())
}

/// As the market does it: one compares, the others wait.
async fn buy(sale: &FlashSale, one: &tokio::sync::Mutex<()>, user: u64) -> Result<Reserved, Error> {
    let order = OrderFields::new();
    let answer = sale.reserve(&user, &user, &order).await?;
    if answer != Reserved::Unverified {
        return Ok(answer);
    }
    {
        let _alone = one.lock().await;
        sale.verify(compare(sale)).await?;
    }
    sale.reserve(&user, &user, &order).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_refused_while_a_replica_takes_over_in_an_orderly_way() {
    let cluster = Cluster::start().expect("a Cluster starts");
    let mut handles = Vec::new();
    for _ in 0..2 {
        // Whoever waits, waits for the Cluster; a busy machine is no refusal.
        let builder = Seawall::builder(&cluster.url()).response_timeout(PATIENCE);
        handles.push(builder.connect_timeout(PATIENCE).connect().await.expect("connected"));
    }
    let sale = |handle: &Seawall| handle.flash_sale("s").verified().build().expect("valid");
    let first = sale(&handles[0]);
    first.verify(compare(&first)).await.expect("opened");
    let (stop, next) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let refused = Arc::new(Mutex::new(Vec::new()));
    let locks = [Arc::new(tokio::sync::Mutex::new(())), Arc::default()];
    let buyers: Vec<_> = (0..BUYERS)
        .map(|buyer| {
            let which = (buyer % 2) as usize;
            let (sale, one) = (sale(&handles[which]), Arc::clone(&locks[which]));
            let (stop, next, refused) =
                (Arc::clone(&stop), Arc::clone(&next), Arc::clone(&refused));
            tokio::spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    let user = next.fetch_add(1, Ordering::SeqCst);
                    match buy(&sale, &one, user).await {
                        Ok(answer) if answer.receipt().is_some() => {}
                        other => refused
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push(format!("{user}: {other:?}")),
                    }
                }
            })
        })
        .collect();
    let slot = slot_of(first.stream_key());
    // Two: a Cluster lets one node be replaced twice only after some seconds, and stands still until then.
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let primary = cluster.primary_of_slot(slot).expect("it answers");
        cluster.failover(primary).expect("the other takes over");
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    stop.store(true, Ordering::SeqCst);
    for buyer in buyers {
        buyer.await.expect("no panic");
    }
    let refused = refused.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let sold = next.load(Ordering::SeqCst);
    assert!(refused.is_empty(), "{} of {sold}: {refused:#?}", refused.len());
    let status = first.status().await.expect("answered").expect("open");
    assert_eq!((status.received - status.left, status.is_conserved()), (sold, true));
    for handle in handles {
        handle.shutdown().await;
    }
}
