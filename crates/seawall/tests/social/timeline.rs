//! Timelines: copies of a source that are complete or not believed.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::future::join_all;
use seawall::{
    Seawall, cmd,
    social::{Change, Timelines},
};

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    an_absent_timeline_is_read_from_the_source_by_one
    changes_touch_complete_timelines_alone
    the_newest_are_kept_and_a_gap_is_never_hidden
}

type Rows = BTreeMap<u64, i64>;

/// A table of members and times by subject, and how often it was read.
#[derive(Clone, Default)]
struct Table {
    rows: Arc<Mutex<BTreeMap<u64, Rows>>>,
    reads: Arc<AtomicU64>,
}

impl Table {
    fn put(&self, subject: u64, member: u64, time: i64) {
        self.rows.lock().expect("not poisoned").entry(subject).or_default().insert(member, time);
    }

    fn timelines(&self, seawall: &Seawall, keep: usize) -> Timelines<u64> {
        let table = self.clone();
        let source = move |subject: u64| {
            let table = table.clone();
            async move {
                table.reads.fetch_add(1, Ordering::SeqCst);
                let rows = table.rows.lock().expect("not poisoned");
                let rows = rows.get(&subject).cloned().unwrap_or_default();
                Ok::<_, std::io::Error>(rows.into_iter().collect())
            }
        };
        seawall.timelines("test", source).max_kept(keep).build().expect("valid")
    }
}

async fn an_absent_timeline_is_read_from_the_source_by_one(setup: Setup) {
    let seawall = setup.connect().await;
    let table = Table::default();
    (1..=5).for_each(|member| table.put(1, member, 100 - member as i64));
    let timelines = table.timelines(&seawall, 0);
    let one = timelines.of(&1).expect("valid");
    assert_eq!(timelines.known(&3, &[1, 2]).await.expect("answered"), [None, None]);
    for first in join_all((0..16).map(|_| one.first(2))).await {
        assert_eq!(first.expect("answered"), [5, 4]);
    }
    assert_eq!(table.reads.load(Ordering::SeqCst), 1);
    let none = timelines.of(&2).expect("valid");
    assert_eq!(none.count().await.expect("answered"), 0);
    assert_eq!(none.count().await.expect("answered"), 0, "an empty one is remembered");
    assert_eq!(table.reads.load(Ordering::SeqCst), 2);
    assert_eq!(timelines.known(&3, &[1, 2]).await.expect("answered"), [Some(true), Some(false)]);
    assert_eq!(one.has(&[9, 5]).await.expect("answered"), [false, true]);
    assert_eq!(one.count_since(96).await.expect("answered"), 3);
    // Half of it is lost.
    let key = "timeline:{test:1}";
    seawall.client().send(key.as_bytes(), cmd("ZREM").arg(key).arg(5)).await.expect("answered");
    assert_eq!(one.count().await.expect("answered"), 5, "it was read again");
}

async fn changes_touch_complete_timelines_alone(setup: Setup) {
    let seawall = setup.connect().await;
    let table = Table::default();
    table.put(1, 1, 10);
    let timelines = table.timelines(&seawall, 0);
    let one = timelines.of(&1).expect("valid");
    table.put(1, 2, 20);
    assert_eq!(one.put(&2, 20).await.expect("answered"), Change::Unchanged, "there is none");
    assert_eq!(one.first(5).await.expect("answered"), [1, 2]);
    assert_eq!(one.put(&3, 5).await.expect("answered"), Change::Changed);
    assert_eq!(one.put(&3, 5).await.expect("answered"), Change::Unchanged);
    assert_eq!(one.first(5).await.expect("answered"), [3, 1, 2]);
    for member in [1, 2, 3] {
        assert_eq!(one.remove(&member).await.expect("answered"), Change::Changed);
        assert_eq!(one.remove(&member).await.expect("answered"), Change::Unchanged);
    }
    assert_eq!(one.count().await.expect("answered"), 0);
    let many: Vec<u64> = (1..=700).collect();
    for subject in &many {
        timelines.of(subject).expect("valid").count().await.expect("answered");
    }
    let done = timelines.put_all(&many, &9, 90).await.expect("answered");
    assert_eq!((done.reached, done.missed.len()), (700, 0));
    let known = timelines.known(&9, &many).await.expect("answered");
    assert!(known.iter().all(|known| *known == Some(true)));
    let done = timelines.remove_all(&many, &9).await.expect("answered");
    assert_eq!(done.reached, 700);
    assert_eq!(one.count().await.expect("answered"), 0);
}

async fn the_newest_are_kept_and_a_gap_is_never_hidden(setup: Setup) {
    let seawall = setup.connect().await;
    let table = Table::default();
    (1..=8).for_each(|member| table.put(1, member, 10 * member as i64));
    let one = table.timelines(&seawall, 5).of(&1).expect("valid");
    let newest = one.newest(1_000, 10).await.expect("answered");
    assert_eq!(newest.members, [(8, 80), (7, 70), (6, 60), (5, 50), (4, 40)]);
    assert!(!newest.end, "the source has older ones");
    assert_eq!(one.newest(60, 2).await.expect("answered").members, [(6, 60), (5, 50)]);
    let _ = one.remove(&8).await.expect("answered");
    // It would stand behind 4, and hide 3.
    assert_eq!(one.put(&9, 25).await.expect("answered"), Change::Unchanged);
    assert_eq!(one.put(&10, 100).await.expect("answered"), Change::Changed);
    assert_eq!(one.put(&11, 110).await.expect("answered"), Change::Changed);
    assert_eq!(one.count().await.expect("answered"), 5, "the oldest went");
    let two = table.timelines(&seawall, 5).of(&2).expect("valid");
    assert!(two.newest(1_000, 10).await.expect("answered").end);
    for member in 1..=6 {
        assert_eq!(two.put(&member, member as i64).await.expect("answered"), Change::Changed);
    }
    assert!(!two.newest(1_000, 10).await.expect("answered").end, "one was left to the source");
}
