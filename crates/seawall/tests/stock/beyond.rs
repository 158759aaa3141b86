//! Numbers and times that cannot be represented exactly, and keys that are somebody else's: refused, and
//! nothing is done by half.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use seawall::{
    Error, Seawall, cmd,
    stock::{
        Adopted, CancelOutcome, Changed, FlashSale, Movement, Opened, OrderFields, Received,
        Repair, Reserved, SaleStatus, SaleWindow,
    },
};

use crate::{
    inventory::{MINUTE, total},
    setup::{Setup, on_every_backend},
};

on_every_backend! {
    an_exhausted_stream_takes_no_unit
    a_key_of_somebody_else_takes_no_unit
    a_window_beyond_all_dates_is_refused
    a_sale_has_no_more_units_than_can_be_counted
    an_inventory_has_no_more_units_than_can_be_counted
}

/// Units that can be counted exactly.
const MOST: u64 = 1 << 52;

fn nothing() -> OrderFields {
    OrderFields::new()
}

async fn open(sale: &FlashSale, stock: u64) {
    let window = SaleWindow::from_now(Duration::ZERO, MINUTE * 60).expect("a window");
    assert_eq!(sale.open("opening", window, stock).await.expect("answered"), Opened::Opened);
}

async fn status(sale: &FlashSale) -> SaleStatus {
    sale.status().await.expect("answered").expect("open")
}

async fn run(seawall: &Seawall, key: &[u8], command: &str, words: &[&str]) {
    let mut command = cmd(command);
    command.arg(key);
    words.iter().for_each(|word| {
        command.arg(*word);
    });
    seawall.client().send(key, &command).await.expect("answered");
}

fn refused<T: std::fmt::Debug>(outcome: &Result<T, Error>) {
    assert!(matches!(outcome, Err(Error::Invalid(_))), "{outcome:?}");
}

async fn an_exhausted_stream_takes_no_unit(setup: Setup) {
    let seawall = setup.connect().await;
    let sale = seawall.flash_sale("s").orders(100).findable().build().expect("valid");
    open(&sale, 5).await;
    assert!(sale.reserve(&1, &"a", &nothing()).await.expect("answered").receipt().is_some());
    let before = status(&sale).await;
    let last = format!("{0}-{0}", u64::MAX);
    run(&seawall, sale.stream_key(), "XADD", &[&last, "the", "last"]).await;
    for _ in 0..2 {
        let error = sale.reserve(&2, &"b", &nothing()).await.expect_err("no entry can be added");
        assert!(matches!(error, Error::Refused { .. }), "{error}");
    }
    assert_eq!(status(&sale).await, before);
    assert_eq!(sale.reference_of(&2).await.expect("answered"), None);
    let waiting = seawall.waiting_orders("s").expect("a name");
    assert_eq!(waiting.find(&"b").await.expect("answered"), None);
    assert_eq!(sale.give_back(&"b").await.expect("answered"), CancelOutcome::NeverReserved);
    seawall.shutdown().await;
}

async fn a_key_of_somebody_else_takes_no_unit(setup: Setup) {
    let seawall = setup.connect().await;
    let wrong = |error: Error| assert!(error.is_code("WRONGTYPE"), "{error}");
    for foreign in ["waiting", "s:buyers", "s:receipts"] {
        let group = foreign.replace(':', "-");
        let sale = seawall.flash_sale("s").group(&*group).orders(100).findable();
        let sale = sale.build().expect("valid");
        open(&sale, 5).await;
        assert!(sale.reserve(&1, &"a", &nothing()).await.expect("answered").receipt().is_some());
        let (before, stream) = (status(&sale).await, sale.stream_key().to_vec());
        let key = [&stream[..], b":", foreign.as_bytes()].concat();
        run(&seawall, &key, "DEL", &[]).await;
        run(&seawall, &key, "SET", &["text"]).await;

        wrong(sale.reserve(&2, &"b", &nothing()).await.expect_err(foreign));
        wrong(sale.give_back(&"a").await.expect_err(foreign));
        if foreign != "waiting" {
            wrong(sale.adopt(&3, &"c").await.expect_err(foreign));
            let waiting = seawall.waiting_orders(&*group).expect("a name");
            assert!(waiting.find(&"a").await.expect("answered").is_some(), "it is not decided");
        }
        assert_eq!(status(&sale).await, before, "{foreign}");
        let entries: u64 =
            seawall.client().query(&stream, cmd("XLEN").arg(&stream)).await.expect("a length");
        assert_eq!(entries, 1, "{foreign}");
        run(&seawall, &key, "DEL", &[]).await;
        assert_eq!(sale.adopt(&3, &"c").await.expect("answered"), Adopted::Adopted);
    }
    seawall.shutdown().await;
}

async fn a_window_beyond_all_dates_is_refused(setup: Setup) {
    let seawall = setup.connect().await;
    let sale = seawall.flash_sale("s").build().expect("valid");
    for millis in [i64::MAX as u64, i64::MAX as u64 / 2, 1 << 53] {
        if let Some(end) = UNIX_EPOCH.checked_add(Duration::from_millis(millis)) {
            refused(&SaleWindow::between(SystemTime::now(), end));
            refused(&SaleWindow::between(end - MINUTE, end));
        }
    }
    // The longest that there is, and kept for ever: it sells, and it ends some day.
    let longest = SaleWindow::from_now(Duration::ZERO, Duration::MAX).expect("the longest");
    let kept = seawall.flash_sale("kept").retention(Duration::MAX).build().expect("valid");
    for sale in [&sale, &kept] {
        assert_eq!(sale.open("o", longest, 1).await.expect("answered"), Opened::Opened);
        assert!(sale.reserve(&1, &"a", &nothing()).await.expect("answered").receipt().is_some());
    }
    let key = setup.entry("sale:{s}:s");
    let ends: i64 =
        seawall.client().query(key.as_bytes(), cmd("PTTL").arg(&key)).await.expect("a number");
    assert!(ends > 0, "{ends}");
    seawall.shutdown().await;
}

async fn a_sale_has_no_more_units_than_can_be_counted(setup: Setup) {
    let seawall = setup.connect().await;
    let sale = seawall.flash_sale("s").build().expect("valid");
    let window = SaleWindow::from_now(Duration::ZERO, MINUTE).expect("a window");
    refused(&sale.open("opening", window, MOST + 1).await);
    open(&sale, MOST - 3).await;
    assert!(sale.reserve(&1, &"a", &nothing()).await.expect("answered").receipt().is_some());
    let before = status(&sale).await;
    for units in [4, MOST, u64::MAX] {
        // Refused for good: a repetition is not taken for one that was carried out.
        for _ in 0..2 {
            refused(&sale.top_up("more", units).await);
        }
    }
    assert_eq!(status(&sale).await, before);
    let full = sale.top_up("more", 3).await.expect("answered");
    assert!(matches!(full, Changed::Changed(status) if status.left == MOST - 1), "{full:?}");
    assert!(matches!(sale.top_up("more", 3).await.expect("answered"), Changed::Already(_)));
    assert_eq!(
        sale.reserve(&2, &"b", &nothing())
            .await
            .expect("answered")
            .receipt()
            .map(|receipt| receipt.sequence),
        Some(2)
    );
    let seen = status(&sale).await;
    refused(&sale.correct_left(&seen, MOST + 1).await);
    assert!(seen.is_conserved(), "{seen:?}");
    assert_ne!(sale.reserve(&3, &"c", &nothing()).await.expect("answered"), Reserved::SoldOut);
    seawall.shutdown().await;
}

async fn an_inventory_has_no_more_units_than_can_be_counted(setup: Setup) {
    let seawall = setup.connect().await;
    let open = async |name: &str| {
        let builder = seawall.inventory(name).shards(3).max_rounds(2);
        builder.sweep_interval(MINUTE * 60).open().await.expect("opened")
    };
    let stock = open("received").await;
    // A third of each is a shard's share: two fit, a third one would be beyond what can be counted.
    for receipt in ["a", "b"] {
        let received = stock.receive(receipt, MOST).await.expect("answered");
        assert_eq!(received, Received::Complete { added: MOST });
    }
    let before = total(&stock).await;
    for _ in 0..2 {
        refused(&stock.receive("c", MOST).await);
    }
    refused(&stock.receive("c", MOST + 1).await);
    assert_eq!(total(&stock).await, before, "nothing of it arrived");
    let (_, held) = stock.hold_anywhere("order", 1, MINUTE).await.expect("answered");
    assert!(held.is_yours(), "{held:?}");
    assert_eq!(total(&stock).await.left, before.left - 1, "to the unit");

    let stock = open("rebuilt").await;
    assert_eq!(stock.receive("a", 30).await.expect("ok"), Received::Complete { added: 30 });
    let before = total(&stock).await;
    let received = |receipt: &str, units| Movement::Received { receipt: receipt.into(), units };
    let reference = stock.reference("order").expect("valid");
    let sold = |units| Movement::Sold { reference: reference.clone(), units };
    for ledger in [
        vec![received("a", u64::MAX)],
        vec![received("a", MOST + 1)],
        vec![received("a", u64::MAX), received("b", u64::MAX)],
        (0..4).map(|number| received(&number.to_string(), MOST)).collect(),
        (0..5_000).map(|number| received(&number.to_string(), MOST)).collect(),
        vec![received("a", 30), sold(u64::MAX)],
    ] {
        refused(&stock.rebuild(&ledger).await);
        refused(&stock.rebuild_shard(1, &ledger).await);
        refused(&stock.reconcile(&ledger, Repair::Report).await);
        assert_eq!(total(&stock).await, before, "as it was, and open");
    }
    // As many as can be counted, held until the end of all days.
    let held = Movement::Held { reference: reference.clone(), units: 5, until_millis: i64::MAX };
    let ledger = vec![received("a", MOST), held];
    stock.rebuild(&ledger).await.expect("that can be counted");
    let levels = total(&stock).await;
    assert_eq!((levels.received, levels.held), (MOST, 5));
    assert_eq!(
        stock.release(&reference).await.expect("answered"),
        seawall::stock::Settled::Now { units: 5 }
    );
    seawall.shutdown().await;
}
