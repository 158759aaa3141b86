//! Flash sales, on every backend and with lost replies.

use std::{
    collections::HashSet,
    time::{Duration, SystemTime},
};

use seawall::{
    FromRedisValue as _, Value, cmd,
    stock::{
        CancelOutcome, Changed, Confirmed, FlashSale, Opened, OrderFields, Phase, Reserved,
        SaleWindow,
    },
    testing::TestServer,
};

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    a_sale_from_opening_to_close
    a_thousand_buyers_get_a_hundred_units
    a_sale_is_opened_with_buyers_from_a_database
    a_sale_that_ended_long_ago_is_not_opened
}

const HOUR: Duration = Duration::from_secs(3600);

fn nothing() -> OrderFields {
    OrderFields::new()
}

async fn opened(sale: &FlashSale, stock: u64) {
    let window = SaleWindow::from_now(Duration::ZERO, HOUR).expect("a window");
    assert_eq!(sale.open("opening", window, stock).await.expect("answered"), Opened::Opened);
}

async fn a_sale_from_opening_to_close(setup: Setup) {
    let seawall = setup.connect().await;
    let sale = seawall.flash_sale(&35).group(&3).orders(1_000).build().expect("valid");
    assert_eq!(sale.reserve(&1, &"a", &nothing()).await.expect("answered"), Reserved::Unknown);
    assert_eq!(sale.status().await.expect("answered"), None);
    opened(&sale, 2).await;

    let first = sale.reserve(&1, &"a", &nothing().field("voucher", 35)).await.expect("answered");
    let Reserved::Reserved(receipt) = &first else { panic!("{first:?}") };
    assert_eq!(receipt.sequence, 1);
    let again = sale.reserve(&1, &"a", &nothing()).await.expect("answered");
    assert_eq!(again, Reserved::AlreadyYours(receipt.clone()));
    let second = sale.reserve(&1, &"b", &nothing()).await.expect("answered");
    assert_eq!(second, Reserved::Duplicate { reference: b"a".to_vec() });
    let stolen = sale.reserve(&2, &"a", &nothing()).await.expect("answered");
    assert_eq!(stolen, Reserved::ReferenceTaken);
    // The last unit can be had, and then there is none.
    assert!(sale.reserve(&2, &"c", &nothing()).await.expect("answered").receipt().is_some());
    assert_eq!(sale.reserve(&3, &"d", &nothing()).await.expect("answered"), Reserved::SoldOut);

    // Opening again, by whomever, changes nothing.
    let window = SaleWindow::from_now(Duration::ZERO, HOUR).expect("a window");
    assert_eq!(sale.open("opening", window, 9).await.expect("answered"), Opened::Already);
    let other = sale.open("another", window, 9).await.expect("answered");
    assert_eq!(other, Opened::Running { reference: b"opening".to_vec() });
    assert_eq!(sale.reserve(&3, &"d", &nothing()).await.expect("answered"), Reserved::SoldOut);

    assert_eq!(sale.confirm(&"a").await.expect("answered"), Confirmed::Confirmed);
    assert_eq!(sale.confirm(&"a").await.expect("answered"), Confirmed::Already);
    assert_eq!(sale.confirm(&"z").await.expect("answered"), Confirmed::NeverReserved);
    assert_eq!(sale.give_back(&"c").await.expect("answered"), CancelOutcome::Returned);
    assert_eq!(sale.give_back(&"c").await.expect("answered"), CancelOutcome::Already);
    assert_eq!(sale.confirm(&"c").await.expect("answered"), Confirmed::GivenBack);
    assert_eq!(sale.reserve(&2, &"c", &nothing()).await.expect("answered"), Reserved::GivenBack);
    // Given back before it arrived: it never gets a unit.
    assert_eq!(sale.give_back(&"late").await.expect("answered"), CancelOutcome::NeverReserved);
    assert_eq!(sale.reserve(&5, &"late", &nothing()).await.expect("answered"), Reserved::GivenBack);
    assert!(sale.reserve(&2, &"e", &nothing()).await.expect("answered").receipt().is_some());

    let topped = sale.top_up("more", 3).await.expect("answered");
    assert!(matches!(topped, Changed::Changed(status) if status.left == 3), "{topped:?}");
    let topped = sale.top_up("more", 3).await.expect("answered");
    let Changed::Already(status) = topped else { panic!("{topped:?}") };
    assert_eq!((status.received, status.left, status.reserved, status.confirmed), (5, 3, 1, 1));
    assert!(status.is_conserved());
    assert_eq!(status.phase, Phase::Running);

    assert!(matches!(sale.close().await.expect("answered"), Changed::Changed(_)));
    assert!(matches!(sale.close().await.expect("answered"), Changed::Already(_)));
    assert_eq!(sale.reserve(&9, &"f", &nothing()).await.expect("answered"), Reserved::Ended);
    // Whoever has a unit is told so, also afterwards.
    let late = sale.reserve(&1, &"a", &nothing()).await.expect("answered");
    assert_eq!(late, Reserved::AlreadyYours(receipt.clone()));
    // Each reservation is in the stream with the caller's fields.
    let stream = sale.stream_key();
    let entries = seawall
        .client()
        .send(stream, cmd("XRANGE").arg(stream).arg("-").arg("+"))
        .await
        .expect("answered");
    let Value::Array(entries) = entries else { panic!("{entries:?}") };
    assert_eq!(entries.len(), 3);
    let (id, fields) =
        <(String, Vec<String>)>::from_redis_value(entries[0].clone()).expect("an entry");
    assert_eq!(receipt.entry.as_deref(), Some(id.as_str()));
    assert_eq!(fields[..4], ["reference", "a", "user", "1"]);
    assert_eq!(fields[6..], ["voucher", "35"]);
    seawall.shutdown().await;
}

async fn a_thousand_buyers_get_a_hundred_units(setup: Setup) {
    let handles = [setup.connect().await, setup.connect().await];
    let sale = handles[0].flash_sale("storm").orders(10_000).build().expect("valid");
    opened(&sale, 100).await;
    let buyers: Vec<_> = (0..64u64)
        .map(|task| {
            let handle = &handles[task as usize % 2];
            let sale = handle.flash_sale("storm").orders(10_000).build().expect("valid");
            tokio::spawn(async move {
                let mut receipts = Vec::new();
                // Each user tries twice at once, with two references.
                for user in (task..1_000).step_by(64) {
                    let (one, other) = (format!("{user}-1"), format!("{user}-2"));
                    let fields = OrderFields::new();
                    let (one, other) = tokio::join!(
                        sale.reserve(&user, &one, &fields),
                        sale.reserve(&user, &other, &fields)
                    );
                    for answer in [one, other] {
                        receipts.extend(answer.expect("answered").receipt().cloned());
                    }
                }
                receipts
            })
        })
        .collect();
    let mut sequences = HashSet::new();
    for buyer in buyers {
        for receipt in buyer.await.expect("no panic") {
            assert!(sequences.insert(receipt.sequence), "each unit once");
        }
    }
    assert_eq!(sequences.len(), 100);
    let status = sale.status().await.expect("answered").expect("open");
    assert_eq!((status.received, status.left, status.reserved), (100, 0, 100));
    let stream = sale.stream_key();
    let length: u64 = sale_length(&handles[0], stream).await;
    assert_eq!(length, 100);
    for handle in handles.iter().rev() {
        handle.shutdown().await;
    }
}

async fn sale_length(seawall: &seawall::Seawall, stream: &[u8]) -> u64 {
    seawall.client().query(stream, cmd("XLEN").arg(stream)).await.expect("a length")
}

async fn a_sale_is_opened_with_buyers_from_a_database(setup: Setup) {
    let seawall = setup.connect().await;
    let sale = seawall.flash_sale("reloaded").build().expect("valid");
    let window = SaleWindow::from_now(Duration::ZERO, HOUR).expect("a window");
    // More than one step carries.
    let buyers = (0..1_200u64).map(|user| (user, user + 10_000));
    let answer = sale.open_with("from-db", window, 1, buyers).await.expect("answered");
    assert_eq!(answer, Opened::Opened);
    let status = sale.status().await.expect("answered").expect("open");
    assert_eq!((status.received, status.left, status.confirmed), (1_201, 1, 1_200));
    let again = sale.reserve(&7, &5, &nothing()).await.expect("answered");
    assert_eq!(again, Reserved::Duplicate { reference: b"10007".to_vec() });
    assert!(sale.reserve(&7, &10_007, &nothing()).await.expect("answered").receipt().is_some());
    assert!(sale.reserve(&5_000, &1, &nothing()).await.expect("answered").receipt().is_some());
    assert_eq!(sale.reserve(&5_001, &2, &nothing()).await.expect("ok"), Reserved::SoldOut);
    seawall.shutdown().await;
}

async fn a_sale_that_ended_long_ago_is_not_opened(setup: Setup) {
    let seawall = setup.connect().await;
    let now = SystemTime::now();
    let ended = |ago: Duration| SaleWindow::between(now - ago - HOUR, now - ago).expect("a window");
    let sale = seawall.flash_sale("past").retention(HOUR).build().expect("valid");
    for _ in 0..2 {
        let buyers = [(1u64, 2u64)];
        let answer = sale.open_with("o", ended(HOUR * 2), 5, buyers).await.expect("answered");
        assert_eq!(answer, Opened::Ended);
    }
    assert_eq!(sale.status().await.expect("answered"), None);
    assert_eq!(sale.reserve(&1, &"a", &nothing()).await.expect("answered"), Reserved::Unknown);
    // One that is over and still kept is opened: its buyers are known.
    let sale = seawall.flash_sale("over").retention(HOUR * 4).build().expect("valid");
    let answer = sale.open_with("o", ended(HOUR), 5, [(1u64, 2u64)]).await.expect("answered");
    assert_eq!(answer, Opened::Opened);
    assert_eq!(sale.reserve(&7, &"a", &nothing()).await.expect("answered"), Reserved::Ended);
    // And one that is open is not touched by such an opening.
    let late = sale.open("other", ended(HOUR * 9), 5).await.expect("answered");
    assert_eq!(late, Opened::Running { reference: b"o".to_vec() });
    seawall.shutdown().await;
}

#[tokio::test]
async fn the_window_is_the_servers_and_everything_goes_after_the_aftermath() {
    let test_server = TestServer::start().await.expect("a test_server");
    let sale = test_server.seawall().flash_sale("w").retention(HOUR).build().expect("valid");
    let window =
        SaleWindow::from_now(Duration::from_secs(60), Duration::from_secs(60)).expect("a window");
    assert_eq!(sale.open("o", window, 5).await.expect("answered"), Opened::Opened);
    let early = sale.reserve(&1, &"a", &nothing()).await.expect("answered");
    let Reserved::NotStarted { begins_in } = early else { panic!("{early:?}") };
    assert!(begins_in <= Duration::from_secs(60), "{begins_in:?}");
    test_server.advance(Duration::from_secs(60)).await;
    assert!(sale.reserve(&1, &"a", &nothing()).await.expect("answered").receipt().is_some());
    test_server.advance(Duration::from_secs(61)).await;
    assert_eq!(sale.reserve(&2, &"b", &nothing()).await.expect("answered"), Reserved::Ended);
    test_server.advance(HOUR).await;
    assert_eq!(sale.reserve(&2, &"b", &nothing()).await.expect("answered"), Reserved::Unknown);
    let keys: Vec<String> =
        test_server.seawall().client().query(b"", cmd("KEYS").arg("*")).await.expect("keys");
    assert!(keys.is_empty(), "{keys:?}");
    test_server.shutdown().await;
}

#[tokio::test]
async fn lost_replies_change_no_answer() {
    let test_server = TestServer::start().await.expect("a test_server");
    for lost in 1..=4 {
        let sale = test_server.seawall().flash_sale(&lost).orders(100).build().expect("valid");
        opened(&sale, 2).await;
        let told = |outcome: Result<Reserved, seawall::Error>| match outcome {
            Ok(answer) => Some(answer.receipt().expect("a unit").sequence),
            Err(error) => {
                assert!(error.is_indeterminate(), "{error}");
                None
            }
        };
        test_server.faults().lose_replies(lost);
        let first = told(sale.reserve(&1, &"a", &nothing()).await);
        assert_eq!(first.is_some(), lost < 3, "three attempts");
        test_server.faults().lose_replies(0);
        assert_eq!(told(sale.reserve(&1, &"a", &nothing()).await), Some(1));
        test_server.faults().lose_replies(1);
        let back = sale.give_back(&"a").await.expect("asked again");
        assert!(matches!(back, CancelOutcome::Returned | CancelOutcome::Already), "{back:?}");
        test_server.faults().lose_replies(1);
        assert!(!matches!(sale.top_up("t", 5).await.expect("asked again"), Changed::Unknown));
        let status = sale.status().await.expect("answered").expect("open");
        assert_eq!((status.received, status.left, status.reserved), (7, 7, 0));
        assert_eq!(sale_length(test_server.seawall(), sale.stream_key()).await, 1);
    }
    test_server.shutdown().await;
}

#[tokio::test]
async fn nonsense_is_refused_with_a_sentence() {
    let test_server = TestServer::start().await.expect("a test_server");
    let now = SystemTime::now();
    assert!(SaleWindow::between(now, now).is_err());
    assert!(SaleWindow::between(SystemTime::UNIX_EPOCH - HOUR, now).is_err());
    assert!(test_server.seawall().flash_sale("").build().is_err());
    for beside in ["buyers", "receipts"] {
        assert!(
            test_server.seawall().flash_sale(&(35, beside)).build().is_err(),
            "another sale's {beside}"
        );
    }
    let sale = test_server.seawall().flash_sale("x{y}:z").build().expect("valid");
    opened(&sale, 1).await;
    let many = (0..65).fold(nothing(), |order, _| order.field("f", 1));
    assert!(sale.reserve(&1, &"a", &many).await.is_err());
    assert!(sale.reserve(&1, &"", &nothing()).await.is_err());
    let bytes: &[u8] = b"a b\n\0{%";
    assert!(sale.reserve(bytes, bytes, &nothing()).await.expect("answered").receipt().is_some());
    assert!(sale.reserve(bytes, bytes, &nothing()).await.expect("answered").receipt().is_some());
    assert_eq!(sale.give_back(bytes).await.expect("answered"), CancelOutcome::Returned);
    test_server.shutdown().await;
}
