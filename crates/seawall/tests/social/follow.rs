//! Follow sets: idempotent, rebuilt from their source by one, and common across slots.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use seawall::{
    Seawall, cmd,
    social::{Follow, Follows, Unfollow},
};

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    following_is_idempotent_and_never_oneself
    common_ones_are_found_across_slots
    an_absent_set_is_read_from_the_source_by_one
}

/// A table of who follows whom, and how often it was read.
#[derive(Clone, Default)]
struct Table {
    rows: Arc<Mutex<BTreeMap<u64, Vec<u64>>>>,
    reads: Arc<AtomicU64>,
}

impl Table {
    fn follows(&self, seawall: &Seawall) -> Follows<u64> {
        let table = self.clone();
        let source = move |who: u64| {
            let table = table.clone();
            async move {
                table.reads.fetch_add(1, Ordering::SeqCst);
                let rows = table.rows.lock().expect("not poisoned");
                Ok::<_, std::io::Error>(rows.get(&who).cloned().unwrap_or_default())
            }
        };
        seawall.follows("user").source(source).build().expect("valid")
    }
}

async fn following_is_idempotent_and_never_oneself(setup: Setup) {
    let seawall = setup.connect().await;
    let follows = seawall.follows::<u64>("user").max_follows(3).build().expect("valid");
    let ann = follows.of(&1).expect("valid");
    assert_eq!(ann.follow(&1).await.expect("answered"), Follow::Oneself);
    assert_eq!(ann.count().await.expect("answered"), 0);
    for whom in [2, 3, 4] {
        assert_eq!(ann.follow(&whom).await.expect("answered"), Follow::Followed);
        assert_eq!(ann.follow(&whom).await.expect("answered"), Follow::Already);
    }
    assert_eq!(ann.follow(&5).await.expect("answered"), Follow::Full);
    assert_eq!(ann.following(&[4, 5, 2]).await.expect("answered"), [true, false, true]);
    assert_eq!(ann.unfollow(&3).await.expect("answered"), Unfollow::Unfollowed);
    assert_eq!(ann.unfollow(&3).await.expect("answered"), Unfollow::NotFollowing);
    assert!(!ann.is_following(&3).await.expect("answered"));
    assert_eq!(ann.count().await.expect("answered"), 2);

    // 2 and 4 both follow 7, one of them 8, and both follow Ann.
    for (who, whom) in [(2, 7), (4, 7), (4, 8), (2, 1), (4, 2)] {
        let _ = follows.of(&who).expect("valid").follow(&whom).await.expect("answered");
    }
    assert_eq!(ann.suggested(5).await.expect("answered"), [7, 8]);
    seawall.shutdown().await;
}

async fn common_ones_are_found_across_slots(setup: Setup) {
    let seawall = setup.connect().await;
    let table = Table::default();
    {
        let mut rows = table.rows.lock().expect("not poisoned");
        rows.insert(1, (10..2_510).collect());
        rows.insert(2, (2_000..6_000).collect());
        rows.insert(3, vec![]);
    }
    let follows = table.follows(&seawall);
    let (one, two, three) = (follows.of(&1), follows.of(&2), follows.of(&3));
    let (one, two, three) = (one.expect("valid"), two.expect("valid"), three.expect("valid"));
    let expected: Vec<u64> = (2_000..2_510).collect();
    assert_eq!(one.common(&two, 1_000).await.expect("answered"), expected);
    assert_eq!(two.common(&one, 1_000).await.expect("answered"), expected);
    assert_eq!(one.common(&two, 7).await.expect("answered").len(), 7);
    assert!(one.common(&three, 10).await.expect("answered").is_empty());
    assert_eq!(one.count().await.expect("answered"), 2_500);
    // A walk finds everybody.
    let (mut seen, mut at) = (std::collections::BTreeSet::new(), Some(0));
    while let Some(place) = at {
        let (found, next) = two.walk(place).await.expect("answered");
        seen.extend(found);
        at = next;
    }
    assert_eq!(seen.len(), 4_000);
    assert_eq!(table.reads.load(Ordering::SeqCst), 3);
    seawall.shutdown().await;
}

async fn an_absent_set_is_read_from_the_source_by_one(setup: Setup) {
    let handles = [setup.connect().await, setup.connect().await];
    let table = Table::default();
    table.rows.lock().expect("not poisoned").insert(1, vec![2, 3]);
    // 64 at once: one reads the source.
    let mut tasks = Vec::new();
    for task in 0..64 {
        let ann = table.follows(&handles[task % 2]).of(&1).expect("valid");
        tasks.push(tokio::spawn(async move { ann.count().await.expect("answered") }));
    }
    for task in tasks {
        assert_eq!(task.await.expect("no panic"), 2);
    }
    assert_eq!(table.reads.load(Ordering::SeqCst), 1);

    let seawall = &handles[0];
    let client = seawall.client();
    let ann = table.follows(seawall).of(&1).expect("valid");
    let nobody = table.follows(seawall).of(&9).expect("valid");
    // Somebody who follows nobody is read once, too: empty is not absent.
    assert_eq!(nobody.count().await.expect("answered"), 0);
    assert_eq!(nobody.count().await.expect("answered"), 0);
    assert_eq!(table.reads.load(Ordering::SeqCst), 2);
    assert_eq!(nobody.follow(&4).await.expect("answered"), Follow::Followed);
    assert_eq!(nobody.count().await.expect("answered"), 1);

    // Redis evicts the set and keeps the marker: it is not taken for an empty one.
    let key = setup.entry("follow:{user:1}");
    client.send(key.as_bytes(), cmd("DEL").arg(&key)).await.expect("answered");
    assert_eq!(ann.following(&[2, 9]).await.expect("answered"), [true, false]);
    assert_eq!(table.reads.load(Ordering::SeqCst), 3);
    // It loses some members' key and gets a wrong one: not believed either.
    client.send(key.as_bytes(), cmd("SREM").arg(&key).arg(2)).await.expect("answered");
    assert_eq!(ann.count().await.expect("answered"), 2);

    // The database first, then the set: a set that is absent gets both.
    ann.forget().await.expect("answered");
    table.rows.lock().expect("not poisoned").insert(1, vec![2, 3, 5]);
    assert_eq!(ann.follow(&5).await.expect("answered"), Follow::Already);
    assert_eq!(ann.count().await.expect("answered"), 3);
    // Nothing of it stays for ever.
    for suffix in ["", ":ok"] {
        let key = setup.entry(&format!("follow:{{user:1}}{suffix}"));
        let left: i64 = client.query(key.as_bytes(), cmd("PTTL").arg(&key)).await.expect("a time");
        assert!(left > 0, "{key} {left}");
    }

    // A source that fails is told, and tried again.
    let failing = seawall
        .follows::<u64>("broken")
        .source(|_| async { Err::<Vec<u64>, _>("no database") })
        .build()
        .expect("valid");
    for _ in 0..2 {
        let error = failing.of(&1).expect("valid").count().await.expect_err("it fails");
        assert!(matches!(error, seawall::Error::Source(_)), "{error}");
    }
    for handle in handles.iter().rev() {
        handle.shutdown().await;
    }
}
