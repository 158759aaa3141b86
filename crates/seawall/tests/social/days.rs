//! Sign-ins and visits, by day.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use seawall::{
    cmd,
    social::{Calendar, Day, Sign},
    testing::TestServer,
};

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    streaks_cross_months_and_years
    bitmaps_follow_a_record
    visitors_of_a_range_are_a_union
}

fn day(text: &str) -> Day {
    text.parse().expect("a day")
}

async fn streaks_cross_months_and_years(setup: Setup) {
    let seawall = setup.connect().await;
    let daily = seawall.sign_ins::<u64>("daily");
    let ann = daily.of(&1).expect("valid");
    for text in ["2026-11-01", "2026-11-02", "2026-11-04"] {
        assert_eq!(ann.sign(day(text)).await.expect("answered"), Sign::Signed);
        assert_eq!(ann.sign(day(text)).await.expect("answered"), Sign::Already);
    }
    // The value of the documents, as we read it and as Redis does.
    let november = ann.calendar(day("2026-11-04").month()).await.expect("answered");
    assert_eq!(november.leading(4), 13);
    let key = setup.entry("sign:{daily:1}:202611");
    let mut raw = cmd("BITFIELD");
    raw.arg(&key).arg("GET").arg("u4").arg(0);
    assert_eq!(seawall.client().query::<Vec<u64>>(key.as_bytes(), &raw).await.expect("bits"), [13]);
    assert_eq!((november.count(), november.first_unsigned()), (3, Some(3)));
    assert_eq!(november.signed().collect::<Vec<_>>(), [1, 2, 4]);
    assert_eq!(ann.streak(day("2026-11-04")).await.expect("answered"), 1);
    assert_eq!(ann.streak(day("2026-11-03")).await.expect("answered"), 2, "until yesterday");
    assert_eq!(ann.streak(day("2026-11-06")).await.expect("answered"), 0);

    // The documents' streak stops at the first of a month; ours goes on: from 2024-12-30, over a leap
    // year's February before it, for 800 days.
    let ben = daily.of(&2).expect("valid");
    let mut at = day("2024-01-15");
    let mut days = Vec::new();
    for _ in 0..800 {
        days.push(at);
        at = at.next();
    }
    ben.restore(&days).await.expect("answered");
    let last = days[799];
    assert_eq!(ben.streak(last).await.expect("answered"), 800);
    assert_eq!(ben.streak(last.next()).await.expect("answered"), 800);
    assert_eq!(ben.streak(last.next().next()).await.expect("answered"), 0);
    assert_eq!(ben.streak(day("2024-03-01")).await.expect("answered"), 17 + 29 + 1);
    assert_eq!(ben.streak(day("2024-02-01")).await.expect("answered"), 18);

    // Today is the first of a month and not signed: the streak ends in the month before.
    let eve = daily.of(&3).expect("valid");
    for text in ["2026-12-30", "2026-12-31"] {
        let _ = eve.sign(day(text)).await.expect("answered");
    }
    assert_eq!(eve.streak(day("2027-01-01")).await.expect("answered"), 2);
    assert_eq!(eve.sign(day("2027-01-01")).await.expect("answered"), Sign::Signed);
    assert_eq!(eve.streak(day("2027-01-01")).await.expect("answered"), 3);
    assert_eq!(eve.streak(day("1970-01-01")).await.expect("answered"), 0);
    let year = eve.back_from(day("2027-01-01").month()).await.expect("answered");
    let counts: Vec<u32> = year.iter().map(Calendar::count).collect();
    assert_eq!(counts, [1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    seawall.shutdown().await;
}

async fn bitmaps_follow_a_record(setup: Setup) {
    let seawall = setup.connect().await;
    let ann = seawall.sign_ins::<u64>("daily").of(&1).expect("valid");
    let record = Mutex::new(vec![day("2026-11-01")]);
    let reads = AtomicUsize::new(0);
    let load = || async {
        reads.fetch_add(1, Ordering::SeqCst);
        Ok::<_, seawall::Error>(record.lock().expect("no panic").clone())
    };
    let add = |text| record.lock().expect("no panic").push(day(text));
    let streak = || async { ann.streak(day("2026-11-09")).await.expect("answered") };
    let november = day("2026-11-01").month();
    let count = || async { ann.calendar(november).await.expect("answered").count() };

    for _ in 0..3 {
        ann.follow(load).await.expect("copied");
    }
    assert_eq!((reads.load(Ordering::SeqCst), count().await), (1, 1), "read once");

    // The record has a day whose bit was never set.
    ann.doubt().await.expect("answered");
    add("2026-11-08");
    ann.follow(load).await.expect("copied");
    assert_eq!((reads.load(Ordering::SeqCst), count().await, streak().await), (2, 2, 1));

    // A reader who read before the change does not end the doubt that the change began.
    ann.doubt().await.expect("answered");
    let late = || async {
        let days = record.lock().expect("no panic").clone();
        ann.doubt().await?;
        add("2026-11-09");
        Ok::<_, seawall::Error>(days)
    };
    ann.follow(late).await.expect("copied");
    assert_eq!((count().await, streak().await), (2, 1));
    ann.follow(load).await.expect("copied");
    assert_eq!((reads.load(Ordering::SeqCst), count().await, streak().await), (3, 3, 2));

    // Nor does one who comes between the doubt and the change.
    ann.doubt().await.expect("answered");
    ann.follow(load).await.expect("copied");
    add("2026-11-07");
    ann.follow(load).await.expect("copied");
    assert_eq!((reads.load(Ordering::SeqCst), count().await, streak().await), (5, 4, 3));

    // Redis has lost everything, and a bit came since.
    for suffix in [":202611", ":ok"] {
        let key = setup.entry(&format!("sign:{{daily:1}}{suffix}"));
        seawall.client().send(key.as_bytes(), cmd("DEL").arg(&key)).await.expect("answered");
    }
    let _ = ann.sign(day("2026-11-09")).await.expect("answered");
    ann.follow(load).await.expect("copied");
    assert_eq!((reads.load(Ordering::SeqCst), count().await), (6, 4));

    // A record that cannot be read is no reason to believe anything.
    ann.doubt().await.expect("answered");
    let broken = || async { Err::<Vec<Day>, _>("the table is locked") };
    assert!(matches!(ann.follow(broken).await, Err(seawall::Error::Source(_))));
    ann.follow(load).await.expect("copied");
    assert_eq!(reads.load(Ordering::SeqCst), 7);
    seawall.shutdown().await;
}

#[tokio::test]
async fn a_doubt_ends_when_the_change_must_be_over() {
    let test_server = TestServer::start().await.expect("a test_server");
    let ann = test_server.seawall().sign_ins::<u64>("daily").of(&1).expect("valid");
    let reads = AtomicUsize::new(0);
    let load = || async {
        reads.fetch_add(1, Ordering::SeqCst);
        Ok::<_, seawall::Error>(vec![day("2026-11-16")])
    };
    ann.doubt().await.expect("answered");
    for expected in 1..=3 {
        ann.follow(load).await.expect("copied");
        assert_eq!(reads.load(Ordering::SeqCst), expected, "the record may be changing");
    }
    test_server.advance(Duration::from_secs(31)).await;
    for _ in 0..3 {
        ann.follow(load).await.expect("copied");
    }
    assert_eq!(reads.load(Ordering::SeqCst), 4, "read once more, and believed");
    test_server.shutdown().await;
}

async fn visitors_of_a_range_are_a_union(setup: Setup) {
    let seawall = setup.connect().await;
    // Several pages, in several slots; the days of each in one.
    for page in ["home", "shop", "feed"] {
        let page = seawall.visits("page").of(page).expect("valid");
        let (first, second) = (day("2026-11-30"), day("2026-12-01"));
        page.visit_all(first, &(0..2_500_u64).collect::<Vec<_>>()).await.expect("answered");
        page.visit_all(second, &(1_500..4_000_u64).collect::<Vec<_>>()).await.expect("answered");
        page.visit(second, &"somebody".to_owned()).await.expect("answered");
        assert_eq!(page.views(first..=second).await.expect("answered"), 5_001);
        assert_eq!(page.views(second..=second).await.expect("answered"), 2_501);
        let visitors = page.visitors(first..=second).await.expect("answered");
        assert!((3_900..4_100).contains(&visitors), "{visitors} of 4,001");
        assert_eq!(page.visitors(second..=first).await.expect("answered"), 0, "no day");
        assert!(page.visitors(day("2020-01-01")..=first).await.is_err(), "too many");
    }
    seawall.shutdown().await;
}

/// 50,000 visitors in the tests, a million in soak.
#[tokio::test(flavor = "multi_thread")]
async fn a_million_visitors_are_counted_within_two_and_a_half_per_cent() {
    let soak = std::env::var_os("SEAWALL_SOAK").is_some();
    let count: u64 = if soak { 1_000_000 } else { 50_000 };
    let seawall = seawall::Seawall::connect("embedded:").await.expect("it starts");
    let site = seawall.visits("site").of("all").expect("valid");
    let today = day("2026-11-16");
    for from in (0..count).step_by(10_000) {
        let visitors: Vec<u64> = (from..from + 10_000).collect();
        site.visit_all(today, &visitors).await.expect("answered");
    }
    let counted = site.visitors(today..=today).await.expect("answered");
    let off = (counted as f64 - count as f64).abs() / count as f64;
    assert!(off < 0.025, "{counted} of {count}");
    assert_eq!(site.views(today..=today).await.expect("answered"), count);
    seawall.shutdown().await;
}
