//! A flash sale compared with its own script sent by hand, and sharded stock with a single shard.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use seawall::{
    Seawall,
    stock::{Inventory, OrderFields, SaleWindow},
};

use crate::{
    Ground,
    data::{Comparison, Findings},
    sides::{Side, repeat},
};

/// More than is ever sold here.
const UNITS: u64 = 1 << 40;
/// The toolkit's own script, so both sides pay its cost on the server.
static RESERVE: seawall::Script =
    seawall::Script::with_time(include_str!("../../stock/src/script/sale_reserve.lua"));

static NEXT: AtomicU64 = AtomicU64::new(1);

/// `reserve` against a bare EVALSHA of the same script.
pub(crate) async fn reserve(ground: &Ground) -> Result<Findings, Box<dyn Error>> {
    let window = Duration::from_secs(24 * 3600);
    let open = async |id: &'static str| {
        let sale = ground.seawall.flash_sale(id).orders(UNITS).build()?;
        let window = SaleWindow::from_now(Duration::ZERO, window)?;
        let opened = sale.open("bench", window, UNITS).await?;
        assert_eq!(opened, seawall::stock::Opened::Opened, "a server of its own");
        Ok::<_, seawall::Error>(sale)
    };
    let ours = repeat(open("bench").await?, |sale, _| async move {
        let buyer = NEXT.fetch_add(1, Ordering::Relaxed);
        let order = OrderFields::new().field("voucher", 35);
        let answer = sale.reserve(&buyer, &buyer, &order).await;
        assert!(answer.is_ok_and(|answer| answer.receipt().is_some()), "reserved");
    });
    open("bare").await?;
    let mut bare = ground.bare.clone();
    let digest: String =
        redis::cmd("SCRIPT").arg("LOAD").arg(RESERVE.text()).query_async(&mut bare).await?;
    let digest: Arc<str> = digest.into();
    let theirs = repeat((bare, digest), |(mut bare, digest), _| async move {
        let buyer = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut call = redis::cmd("EVALSHA");
        call.arg(&*digest).arg(4).arg("sale:{bare}:bare").arg("sale:{bare}:bare:buyers");
        call.arg("sale:{bare}:bare:receipts").arg("sale:{bare}");
        call.arg(buyer).arg(buyer).arg(UNITS).arg("voucher").arg(35);
        let answer: Result<Vec<String>, _> = call.query_async(&mut bare).await;
        assert!(answer.is_ok_and(|answer| answer.len() == 4), "reserved");
    });
    let against = "the same script by bare EVALSHA";
    let report = ground.plan.compare("flash-sale reserve", against, ours, theirs).await;
    Ok(Comparison { report, goal: Some(0.9) }.into())
}

/// Sales over three shards on three primaries against sales from one shard.
pub(crate) async fn sharded(ground: &Ground) -> Result<Findings, Box<dyn Error>> {
    let Some(url) = &ground.cluster else { return Ok(Findings::default()) };
    let seawall = Seawall::connect(url).await?;
    let sharded = selling(&seawall, 3).await?;
    let single = selling(&seawall, 1).await?;
    let report = ground
        .plan
        .compare("sale from 3 shards on 3 primaries", "the same from one shard", sharded, single)
        .await;
    seawall.shutdown().await;
    Ok(Comparison { report, goal: None }.into())
}

async fn selling(seawall: &Seawall, shards: usize) -> Result<Side, Box<dyn Error>> {
    let stock: Inventory = seawall.inventory(&("bench", shards)).shards(shards).open().await?;
    let received = stock.receive("bench", UNITS).await?;
    assert!(matches!(received, seawall::stock::Received::Complete { .. }), "{received:?}");
    Ok(repeat(stock, |stock, _| async move {
        let name = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
        let reference = stock.reference(&name);
        let Ok(reference) = reference else { return };
        let sold = stock.sell_now(&reference, 1).await;
        assert!(sold.is_ok_and(|sold| sold.is_yours()), "sold");
    }))
}
