//! The bugs of the source documents, one test each: none of them is in ours. Those of the feed and of
//! retries have theirs beside the structures.

use std::{collections::HashSet, time::Duration};

use seawall::{
    cmd,
    social::{Add, Change, Day, Order, Point, Toggle},
    testing::TestServer,
};

async fn test_server() -> TestServer {
    TestServer::start().await.expect("a test_server")
}

#[tokio::test]
async fn a_double_click_does_not_give_two_likes() {
    let test_server = test_server().await;
    let note = test_server.seawall().likes::<u64>("note").of(&1).expect("valid");
    let (one, other) = tokio::join!(note.like(&7), note.like(&7));
    let changes = [one.expect("answered"), other.expect("answered")];
    assert_eq!(changes.iter().filter(|change| **change == Change::Changed).count(), 1);
    assert_eq!(note.count().await.expect("answered"), 1);
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_toggle_whose_reply_is_lost_turns_once() {
    let test_server = test_server().await;
    let note = test_server.seawall().likes::<u64>("note").of(&1).expect("valid");
    // The server knows the script from now on: what is lost is an answer to it.
    assert_eq!(note.unlike(&7).await.expect("answered"), Change::Unchanged);
    test_server.faults().lose_replies(1);
    let toggled = note.toggle(&7).await.expect("asked again");
    let count = note.count().await.expect("answered");
    assert_eq!((toggled, count), (Toggle::On, 1), "one click, whatever was lost");
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_click_that_is_named_turns_once() {
    let test_server = test_server().await;
    let note = test_server.seawall().likes::<u64>("note").of(&1).expect("valid");
    for _ in 0..3 {
        assert_eq!(note.toggle_once(&7, "click").await.expect("answered"), Toggle::On);
    }
    test_server.faults().lose_replies(1);
    assert!(note.toggle_once(&7, "next click").await.is_err());
    assert_eq!(note.toggle_once(&7, "next click").await.expect("answered"), Toggle::Off);
    assert_eq!(note.count().await.expect("answered"), 0);
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_geo_search_has_an_order() {
    let test_server = test_server().await;
    let shops = test_server.seawall().places::<u64>("shop").kind("all").expect("valid");
    let here = Point { longitude: 10.0, latitude: 50.0 };
    let at = |id: u64| (id, Point { longitude: 10.0 + (id * 37 % 101) as f64 / 1000.0, ..here });
    shops.add(&(0..100).map(at).collect::<Vec<_>>()).await.expect("answered");
    let mut seen = Vec::new();
    for page in 0..10 {
        let range = page * 10..page * 10 + 10;
        seen.extend(shops.nearby(here, 20_000.0, range).await.expect("answered").places);
    }
    assert!(seen.is_sorted_by(|a, b| a.metres <= b.metres));
    assert_eq!(seen.iter().map(|place| place.member).collect::<HashSet<_>>().len(), 100);
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_streak_does_not_stop_at_the_first_of_a_month() {
    let test_server = test_server().await;
    let ann = test_server.seawall().sign_ins::<u64>("daily").of(&1).expect("valid");
    for day in ["2026-02-27", "2026-02-28", "2026-03-01", "2026-03-02"] {
        let _ = ann.sign(day.parse().expect("a day")).await.expect("answered");
    }
    assert_eq!(ann.streak("2026-03-02".parse().expect("a day")).await.expect("answered"), 4);
    test_server.shutdown().await;
}

#[tokio::test]
async fn an_order_added_to_an_expired_list_does_not_hide_the_history() {
    let test_server = test_server().await;
    let history = |_: u64, before: Option<Order>, count: usize| async move {
        let all = (1..=6_u64).rev().map(|id| Order { id, time: id as i64 });
        let older = all.filter(move |order| before.is_none_or(|before| order.time < before.time));
        Ok::<_, std::io::Error>(older.take(count).collect::<Vec<_>>())
    };
    let index = test_server.seawall().order_index("order", history).ttl(Duration::from_secs(60));
    let orders = index.build().expect("valid").of(&1).expect("valid");
    assert_eq!(orders.page(None, 10).await.expect("answered").orders.len(), 6);
    test_server.advance(Duration::from_secs(61)).await;
    let added = orders.add(Order { id: 6, time: 6 }).await.expect("answered");
    let seen = orders.page(None, 10).await.expect("answered").orders.len();
    assert_eq!((added, seen), (Add::NotLoaded, 6), "all six are in the history");
    test_server.shutdown().await;
}

/// A day is recorded between the reading of the record and the end of that reader.
#[tokio::test]
async fn a_recorded_day_is_not_hidden_by_a_reader_who_came_too_early() {
    let test_server = test_server().await;
    let ann = test_server.seawall().sign_ins::<u64>("daily").of(&1).expect("valid");
    let day: Day = "2026-11-16".parse().expect("a day");
    let before_it_came = || async {
        ann.doubt().await?;
        Ok::<_, seawall::Error>(vec![])
    };
    ann.follow(before_it_came).await.expect("copied");
    ann.follow(|| async { Ok::<_, seawall::Error>(vec![day]) }).await.expect("copied");
    let streak = ann.streak(day).await.expect("answered");
    assert_eq!(streak, 1, "the next reader sees the day");
    test_server.shutdown().await;
}

#[tokio::test]
async fn an_empty_list_has_no_placeholder() {
    let test_server = test_server().await;
    let none = |_: u64, _: Option<Order>, _: usize| async { Ok::<_, std::io::Error>(vec![]) };
    let index = test_server.seawall().order_index("order", none).build().expect("valid");
    let orders = index.of(&1).expect("valid");
    let page = orders.page(None, 10).await.expect("answered");
    assert!(page.orders.is_empty() && page.next.is_none());
    let client = test_server.seawall().client();
    let key = "orders:{order:1}";
    let there: u64 = client.query(b"", cmd("EXISTS").arg(key)).await.expect("a count");
    assert_eq!(there, 0, "the marker is in a key of its own");
    assert_eq!(orders.add(Order { id: 5, time: 5 }).await.expect("answered"), Add::Added);
    let count: u64 = client.query(b"", cmd("ZCARD").arg(key)).await.expect("a count");
    assert_eq!((count, orders.indexed().await.expect("answered")), (1, 1));
    test_server.shutdown().await;
}
