//! Order lists: complete or not believed, whole over Redis' edge, and mended.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use seawall::{
    Seawall, cmd,
    social::{Add, Audit, Order, OrderIndex},
    testing::TestServer,
};

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    a_list_is_whole_over_the_edge_of_the_index
    an_order_is_never_added_to_an_expired_list
    orders_that_arrive_during_a_rebuild_are_not_lost
}

/// A table of orders.
#[derive(Clone, Default)]
struct Table {
    rows: Arc<Mutex<Vec<Order>>>,
    reads: Arc<AtomicU64>,
    handed_over: Arc<Mutex<Vec<u64>>>,
}

impl Table {
    fn insert(&self, order: Order) {
        self.rows.lock().expect("not poisoned").push(order);
    }

    fn read(&self, before: Option<Order>, count: usize) -> Vec<Order> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let place = |order: &Order| (order.score().expect("valid"), order.id.to_string());
        let mut rows = self.rows.lock().expect("not poisoned").clone();
        rows.sort_by_key(place);
        let older = rows.into_iter().rev();
        older.filter(|row| before.is_none_or(|b| place(row) < place(&b))).take(count).collect()
    }

    fn index(&self, seawall: &Seawall) -> OrderIndex<u64> {
        let (table, taken) = (self.clone(), Arc::clone(&self.handed_over));
        let source = move |_user: u64, before: Option<Order>, count: usize| {
            let table = table.clone();
            async move { Ok::<_, std::io::Error>(table.read(before, count)) }
        };
        let take = move |_user: u64, order: Order| {
            let taken = Arc::clone(&taken);
            async move {
                taken.lock().expect("not poisoned").push(order.id);
                Ok::<_, std::io::Error>(())
            }
        };
        seawall.order_index("order", source).max_kept(20).hand_over(take).build().expect("valid")
    }
}

async fn ids(index: &OrderIndex<u64>, size: usize) -> Vec<u64> {
    let orders = index.of(&7).expect("valid");
    let (mut seen, mut after) = (Vec::new(), None);
    for _ in 0..200 {
        let page = orders.page(after.as_ref(), size).await.expect("answered");
        seen.extend(page.orders.iter().map(|order| order.id));
        after = page.next;
        if after.is_none() {
            return seen;
        }
    }
    panic!("it never ends");
}

async fn a_list_is_whole_over_the_edge_of_the_index(setup: Setup) {
    let seawall = setup.connect().await;
    let table = Table::default();
    let index = table.index(&seawall);
    let orders = index.of(&7).expect("valid");
    // None: read once, and known to be none. There is no placeholder that would be counted.
    assert!(ids(&index, 5).await.is_empty());
    assert!(ids(&index, 5).await.is_empty());
    assert_eq!(
        (table.reads.load(Ordering::SeqCst), orders.indexed().await.expect("known")),
        (1, 0)
    );

    // 57, of which several share a millisecond and some even the last three digits.
    for number in 0..57_u64 {
        let order = Order { id: 5_000 * number + number % 2, time: 1_000 + (number / 4) as i64 };
        table.insert(order);
        assert_eq!(orders.add(order).await.expect("answered"), Add::Added);
        assert_ne!(orders.add(order).await.expect("answered"), Add::HandedOver, "again");
    }
    assert_eq!(orders.indexed().await.expect("answered"), 20, "the newest");
    let expected: Vec<u64> = table.read(None, 100).iter().map(|order| order.id).collect();
    assert_eq!(expected.len(), 57);
    for size in [1, 7, 20, 100] {
        assert_eq!(ids(&index, size).await, expected, "pages of {size}");
    }
    assert_eq!(orders.page(None, 20).await.expect("answered").from_source, 0);
    assert_eq!(orders.page(None, 30).await.expect("answered").from_source, 10);
    // ms × 1000 + the last three digits.
    assert_eq!(
        Order { id: 123_456, time: 1_700_000_000_123 }.score().unwrap(),
        1_700_000_000_123_456
    );
    assert!(Order { id: 1, time: -1 }.score().is_err());

    // An order lost on the way, and one that the database never had: found and mended.
    let key = setup.entry("orders:{order:7}");
    let lost = expected[3];
    let client = seawall.client();
    client.send(key.as_bytes(), cmd("ZREM").arg(&key).arg(lost)).await.expect("answered");
    client
        .send(key.as_bytes(), cmd("ZADD").arg(&key).arg(2_000_000).arg(77_777))
        .await
        .expect("answered");
    let audit = orders.audit().await.expect("answered");
    assert_eq!(audit, Audit { missing: vec![lost], surplus: vec![77_777] });
    assert_eq!(ids(&index, 7).await, expected);
    assert_eq!(orders.audit().await.expect("answered"), Audit::default());
    seawall.shutdown().await;
}

async fn an_order_is_never_added_to_an_expired_list(setup: Setup) {
    let seawall = setup.connect().await;
    let table = Table::default();
    for id in 1..=5 {
        table.insert(Order { id, time: id as i64 });
    }
    let index = table.index(&seawall);
    let orders = index.of(&7).expect("valid");
    assert_eq!(ids(&index, 10).await, [5, 4, 3, 2, 1]);
    let key = setup.entry("orders:{order:7}");
    let client = seawall.client();
    // The list expires alone, the marker alone, both.
    for (number, gone) in [vec![""], vec![":ok"], vec!["", ":ok"]].into_iter().enumerate() {
        for suffix in gone {
            let key = format!("{key}{suffix}");
            client.send(key.as_bytes(), cmd("DEL").arg(&key)).await.expect("answered");
        }
        let order = Order { id: 10 + number as u64, time: 10 + number as i64 };
        table.insert(order);
        assert_eq!(orders.add(order).await.expect("answered"), Add::NotLoaded);
        let expected: Vec<u64> = table.read(None, 100).iter().map(|order| order.id).collect();
        assert_eq!(ids(&index, 10).await, expected, "the history is there");
    }
    for suffix in ["", ":ok"] {
        let key = format!("{key}{suffix}");
        let left: i64 = client.query(key.as_bytes(), cmd("PTTL").arg(&key)).await.expect("a time");
        assert!(left > 0, "{key} {left}");
    }
    seawall.shutdown().await;
}

async fn orders_that_arrive_during_a_rebuild_are_not_lost(setup: Setup) {
    let handles = [setup.connect().await, setup.connect().await];
    let table = Table::default();
    let mut tasks = Vec::new();
    // Eight write, eight read and make the others forget, all at once.
    for task in 0..16_u64 {
        let index = table.index(&handles[(task % 2) as usize]);
        let table = table.clone();
        tasks.push(tokio::spawn(async move {
            let orders = index.of(&7).expect("valid");
            for round in 0..10 {
                if task % 2 == 0 {
                    let order = Order { id: task * 1_000 + round, time: round as i64 };
                    table.insert(order);
                    let added = orders.add(order).await.expect("answered");
                    assert_ne!(added, Add::HandedOver);
                } else {
                    orders.page(None, 5).await.expect("answered");
                    if round % 3 == 0 {
                        orders.forget().await.expect("answered");
                    }
                }
            }
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    let index = table.index(&handles[0]);
    let expected: Vec<u64> = table.read(None, 200).iter().map(|order| order.id).collect();
    assert_eq!(ids(&index, 9).await, expected);
    assert_eq!(index.of(&7).expect("valid").audit().await.expect("answered"), Audit::default());
    for handle in handles.iter().rev() {
        handle.shutdown().await;
    }
}

/// The bug of the documents: a retry loop without a break. Ours ends and hands the update over.
#[tokio::test]
async fn an_update_that_redis_does_not_take_is_handed_over_after_five_attempts() {
    let test_server = TestServer::start().await.expect("a test_server");
    let table = Table::default();
    let index = table.index(test_server.seawall());
    let orders = index.of(&7).expect("valid");
    assert!(ids(&index, 5).await.is_empty());
    let order = Order { id: 1, time: 1 };
    table.insert(order);
    test_server.faults().begin_outage();
    let hand = async {
        loop {
            test_server.advance(Duration::from_millis(10)).await;
        }
    };
    let added = tokio::select! {
        added = orders.add(order) => added.expect("handed over"),
        () = hand => unreachable!("it never ends"),
    };
    assert_eq!(added, Add::HandedOver);
    assert_eq!(*table.handed_over.lock().expect("not poisoned"), [1]);
    test_server.faults().end_outage();
    // What the queue does with it.
    assert_eq!(orders.add(order).await.expect("answered"), Add::Added);
    assert_eq!(ids(&index, 5).await, [1]);
    test_server.shutdown().await;
}
