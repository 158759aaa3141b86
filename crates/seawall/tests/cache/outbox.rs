//! A repair log that others write to as well: another process, or the transaction that changed a row.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use seawall::cache::{Cache, Freshness, Invalidation, Loaded, LogFuture, RecoveryLog, RecoveryRow};

use crate::{
    eventually::eventually,
    setup::{Setup, on_every_backend},
};

on_every_backend! {
    without sentinel:
    rows_of_others_are_carried_out_before_they_go
}

#[derive(Default)]
struct Outbox {
    rows: Mutex<BTreeMap<u64, (String, Vec<u8>)>>,
}

impl Outbox {
    fn insert(&self, cache: &str, entry: Vec<u8>) {
        let mut rows = self.rows.lock().unwrap();
        let id = rows.keys().last().map_or(1, |last| last + 1);
        rows.insert(id, (cache.to_owned(), entry));
    }

    fn is_empty(&self) -> bool {
        self.rows.lock().unwrap().is_empty()
    }
}

impl RecoveryLog for Outbox {
    fn add<'a>(&'a self, cache: &'a str, entries: &'a [Vec<u8>]) -> LogFuture<'a, ()> {
        entries.iter().for_each(|entry| self.insert(cache, entry.clone()));
        Box::pin(async { Ok(()) })
    }

    fn load<'a>(
        &'a self,
        cache: &'a str,
        after: u64,
        limit: usize,
    ) -> LogFuture<'a, Vec<RecoveryRow>> {
        let rows = self.rows.lock().unwrap();
        let ours = rows.range(after + 1..).filter(|(_, row)| row.0 == cache).take(limit);
        let ours = ours.map(|(id, row)| RecoveryRow { id: *id, entry: row.1.clone() }).collect();
        Box::pin(async { Ok(ours) })
    }

    fn remove<'a>(&'a self, _: &'a str, ids: &'a [u64]) -> LogFuture<'a, ()> {
        self.rows.lock().unwrap().retain(|id, _| !ids.contains(id));
        Box::pin(async { Ok(()) })
    }
}

async fn read(cache: &Cache<u64, u64>, key: u64, newest: u64) -> Option<u64> {
    let load = move || async move { Ok::<_, io::Error>(Loaded::Found(newest)) };
    let read = cache.get_or_load_as(Freshness::Strong, &key, load).await.ok()?;
    read.value.as_deref().copied()
}

async fn rows_of_others_are_carried_out_before_they_go(setup: Setup) {
    let seawall = setup.connect().await;
    let outbox = Arc::new(Outbox::default());
    let builder = seawall.cache("out").recovery_log(Arc::clone(&outbox) as Arc<dyn RecoveryLog>);
    let builder = builder.second_invalidation_after(Duration::from_millis(1));
    let cache: Cache<u64, u64> = builder.build().expect("options agree");
    // Reads go past the cache until the log was read: only then the entry is stored.
    eventually("the entry is in Redis", async || {
        assert_eq!(read(&cache, 1, 1).await, Some(1));
        cache.get_as(Freshness::Strong, &1).await.expect("an answer").is_some()
    })
    .await;
    // Another process, or the transaction that made it 2.
    assert_eq!(cache.entry_name(&1).expect("a good key"), setup.entry("out:1").into_bytes());
    outbox.insert("out", setup.entry("out:1").into_bytes());
    // A round of this cache's own.
    assert!(matches!(cache.invalidate(&2).await, Ok(Invalidation::Applied(_))));
    eventually("the row is gone", async || outbox.is_empty()).await;
    assert_eq!(read(&cache, 1, 2).await, Some(2), "the row is gone, and its entry is the old one");
    seawall.shutdown().await;
}
