//! Flash sales and a database that compare themselves.

use std::time::Duration;

use seawall::stock::{
    Adopted, CancelOutcome, Confirmed, Corrected, FlashSale, HoldingState, Opened, OrderFields,
    Reserved, SaleStatus, SaleWindow,
};

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    an_order_is_found_until_it_is_decided
    a_unit_that_is_not_there_leaves_the_sale
    what_the_database_knows_is_adopted_once
    units_are_corrected_only_while_nothing_moves
}

const HOUR: Duration = Duration::from_secs(3600);

async fn opened(sale: &FlashSale, stock: u64) {
    let window = SaleWindow::from_now(Duration::ZERO, HOUR).expect("a window");
    assert_eq!(sale.open("opening", window, stock).await.expect("answered"), Opened::Opened);
}

async fn reserve(sale: &FlashSale, user: u64, reference: &str) -> Reserved {
    sale.reserve(&user, reference, &OrderFields::new()).await.expect("answered")
}

async fn status(sale: &FlashSale) -> SaleStatus {
    let status = sale.status().await.expect("answered").expect("open");
    assert!(status.is_conserved(), "{status:?}");
    status
}

async fn an_order_is_found_until_it_is_decided(setup: Setup) {
    let seawall = setup.connect().await;
    let build = |id: &str| seawall.flash_sale(id).group(&3).orders(100).findable().build();
    let (one, other) = (build("a b").expect("valid"), build("c").expect("valid"));
    let waiting = seawall.waiting_orders(&3).expect("a name");
    opened(&one, 5).await;
    opened(&other, 5).await;
    for (user, reference) in [(1, "w"), (2, "x"), (3, "y")] {
        assert!(reserve(&one, user, reference).await.receipt().is_some());
    }
    assert!(reserve(&other, 1, "z").await.receipt().is_some());
    let found = waiting.find("x").await.expect("answered").expect("it waits");
    assert_eq!((&*found.sale, &*found.user), (&b"a b"[..], &b"2"[..]));
    assert!(found.at_millis > 0);
    let mut all = waiting.all().await.expect("answered");
    all.sort_by(|a, b| a.reference.cmp(&b.reference));
    let names: Vec<_> = all.iter().map(|order| (&*order.reference, &*order.sale)).collect();
    let expected: [(&[u8], &[u8]); 4] =
        [(b"w", b"a b"), (b"x", b"a b"), (b"y", b"a b"), (b"z", b"c")];
    assert_eq!(names, expected);
    assert_eq!(one.reference_of(&2).await.expect("answered"), Some(b"x".to_vec()));

    let answers = one.confirm_all(&["w", "x", "w", "q"]).await.expect("answered");
    let expected =
        [Confirmed::Confirmed, Confirmed::Confirmed, Confirmed::Already, Confirmed::NeverReserved];
    assert_eq!(answers, expected);
    assert_eq!(one.give_back("y").await.expect("answered"), CancelOutcome::Returned);
    // Asked again, as after a lost reply: it is decided already and does not wait again.
    assert!(reserve(&one, 1, "w").await.receipt().is_some());
    assert_eq!(waiting.find("w").await.expect("answered"), None);
    let left: Vec<_> = waiting.all().await.expect("answered");
    assert_eq!(left.len(), 1);
    // A decision about a sale that is gone is one, too.
    let gone = build("gone").expect("valid");
    assert_eq!(gone.confirm("z").await.expect("answered"), Confirmed::Unknown);
    assert!(waiting.all().await.expect("answered").is_empty());
    for id in ["waiting", "parked", "term"] {
        assert!(build(id).is_err(), "{id}");
    }
    seawall.shutdown().await;
}

async fn a_unit_that_is_not_there_leaves_the_sale(setup: Setup) {
    let seawall = setup.connect().await;
    let sale = seawall.flash_sale("void").build().expect("valid");
    opened(&sale, 1).await;
    assert!(reserve(&sale, 1, "a").await.receipt().is_some());
    assert_eq!(sale.void("a").await.expect("answered"), CancelOutcome::Returned);
    assert_eq!(sale.void("a").await.expect("answered"), CancelOutcome::Already);
    assert_eq!(sale.give_back("a").await.expect("answered"), CancelOutcome::Already);
    let now = status(&sale).await;
    assert_eq!((now.received, now.left, now.given_back), (0, 0, 1));
    assert_eq!(reserve(&sale, 1, "b").await, Reserved::SoldOut, "the user may ask again");
    seawall.shutdown().await;
}

async fn what_the_database_knows_is_adopted_once(setup: Setup) {
    let seawall = setup.connect().await;
    let sale = seawall.flash_sale("adopt").build().expect("valid");
    assert_eq!(sale.adopt(&1, "a").await.expect("answered"), Adopted::Unknown);
    opened(&sale, 2).await;
    assert_eq!(sale.adopt(&1, "a").await.expect("answered"), Adopted::Adopted);
    assert_eq!(sale.adopt(&1, "a").await.expect("answered"), Adopted::Already);
    let now = status(&sale).await;
    assert_eq!((now.received, now.left, now.confirmed), (3, 2, 1));
    assert_eq!(reserve(&sale, 1, "b").await, Reserved::Duplicate { reference: b"a".to_vec() });
    assert_eq!(sale.give_back("a").await.expect("answered"), CancelOutcome::Returned);
    assert_eq!(sale.adopt(&1, "a").await.expect("answered"), Adopted::GivenBack);
    // Given back before anybody knew of it: it stays so.
    assert_eq!(sale.give_back("c").await.expect("answered"), CancelOutcome::NeverReserved);
    assert_eq!(sale.adopt(&2, "c").await.expect("answered"), Adopted::GivenBack);
    let mut listed = sale.holdings().await.expect("answered");
    listed.sort_by(|a, b| a.reference.cmp(&b.reference));
    assert_eq!(listed.len(), 2);
    assert_eq!((&*listed[0].user, listed[0].state), (&b"1"[..], HoldingState::GivenBack));
    seawall.shutdown().await;
}

async fn units_are_corrected_only_while_nothing_moves(setup: Setup) {
    let seawall = setup.connect().await;
    let sale = seawall.flash_sale("correct").build().expect("valid");
    opened(&sale, 5).await;
    let seen = status(&sale).await;
    assert!(reserve(&sale, 1, "a").await.receipt().is_some());
    let moved = sale.correct_left(&seen, 9).await.expect("answered");
    assert!(matches!(moved, Corrected::Moved(now) if now.left == 4), "{moved:?}");
    let seen = status(&sale).await;
    // A confirmation moves no unit.
    assert_eq!(sale.confirm("a").await.expect("answered"), Confirmed::Confirmed);
    let done = sale.correct_left(&seen, 1).await.expect("answered");
    assert!(matches!(done, Corrected::Corrected(now) if now.left == 1), "{done:?}");
    let now = status(&sale).await;
    assert_eq!((now.received, now.left, now.confirmed), (2, 1, 1));
    seawall.shutdown().await;
}
