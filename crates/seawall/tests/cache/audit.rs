//! The auditor: what it must report, and what it must not; on a clock that is advanced by hand, and
//! on every backend.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use crate::setup::{Setup, on_every_backend};
use seawall::{
    cache::{AuditReport, Auditor, AuditorBuilder, Cache, Loaded},
    testing::TestServer,
};

/// Rows, and what happens when they are asked for the nth time.
#[derive(Clone, Default)]
struct Table(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    rows: HashMap<u64, u64>,
    asked: u64,
    /// At this question row 1 gets this value first.
    change: Option<(u64, u64)>,
    down: bool,
}

impl Table {
    fn set(&self, key: u64, value: u64) {
        self.0.lock().expect("no panic").rows.insert(key, value);
    }

    fn select(&self, keys: &[u64]) -> io::Result<HashMap<u64, u64>> {
        let mut state = self.0.lock().expect("no panic");
        state.asked += 1;
        if let Some((_, value)) = state.change.filter(|(when, _)| *when == state.asked) {
            state.rows.insert(1, value);
        }
        if state.down {
            return Err(io::Error::other("down"));
        }
        Ok(keys.iter().filter_map(|key| Some((*key, *state.rows.get(key)?))).collect())
    }

    fn auditor(&self, cache: &Cache<u64, u64>) -> AuditorBuilder<u64, u64> {
        let table = self.clone();
        let load = move |keys: Vec<u64>| {
            let found = table.select(&keys);
            async move { found }
        };
        cache.auditor(load).sample(1.0)
    }

    /// Has these keys cached as they are now.
    async fn warm(&self, cache: &Cache<u64, u64>, keys: &[u64]) {
        for key in keys {
            let found = self.0.lock().expect("no panic").rows.get(key).copied();
            let load = move || async move { Ok::<_, io::Error>(Loaded::from(found)) };
            let _ = cache.get_or_load(key, load).await.expect("loaded");
        }
    }
}

async fn test_server() -> (TestServer, Cache<u64, u64>, Table) {
    let test_server = TestServer::start().await.expect("an engine");
    let hours = Duration::from_secs(10 * 3600);
    let cache = test_server.seawall().cache("audited").ttl(hours).negative_ttl(hours).build();
    (test_server, cache.expect("options agree"), Table::default())
}

/// Lets the task work, without any time passing, until the report says so.
async fn until(auditor: &Auditor<u64, u64>, holds: impl Fn(&AuditReport<u64>) -> bool) {
    while !holds(&auditor.report()) {
        tokio::task::yield_now().await;
    }
}

/// The same while time passes.
async fn in_time(
    test_server: &TestServer,
    auditor: &Auditor<u64, u64>,
    holds: impl Fn(&AuditReport<u64>) -> bool,
) {
    while !holds(&auditor.report()) {
        test_server.advance(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn what_is_right_is_equal_at_once() {
    let (test_server, cache, table) = test_server().await;
    table.set(1, 10);
    table.warm(&cache, &[1, 2]).await;
    let auditor = table.auditor(&cache).spawn().expect("a good rate");
    assert!(cache.get(&1).await.expect("an answer").is_some());
    let none = cache.get(&2).await.expect("an answer").expect("known");
    assert!(none.value.is_none(), "the source has no row 2");
    let many = cache.get_many(&[1, 2], |_| async { Ok::<_, io::Error>(HashMap::new()) }).await;
    assert!(many.iter().all(Result::is_ok));
    in_time(&test_server, &auditor, |report| report.equal == 4).await;
    let report = auditor.report();
    assert_eq!((report.sampled, report.different, report.waiting), (4, 0, 0), "{report:?}");
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_write_past_the_cache_is_reported_and_repaired() {
    for repair in [false, true] {
        let (test_server, cache, table) = test_server().await;
        table.set(1, 10);
        table.warm(&cache, &[1]).await;
        table.set(1, 11);
        let auditor = table.auditor(&cache);
        let auditor = if repair { auditor.repair() } else { auditor };
        let auditor = auditor.spawn().expect("a good rate");
        let old = cache.get(&1).await.expect("an answer").expect("cached");
        assert_eq!(old.value.as_deref(), Some(&10), "nobody told the cache");
        until(&auditor, |report| report.waiting == 1).await;
        test_server.advance(Duration::from_secs(1)).await;
        assert_eq!(auditor.report().different, 0, "not after a second");
        in_time(&test_server, &auditor, |report| report.different == 1).await;
        in_time(&test_server, &auditor, |report| report.repaired == u64::from(repair)).await;
        assert_eq!(auditor.report().different_keys, [1]);
        let left = cache.get(&1).await.expect("an answer");
        assert_eq!(left.is_none(), repair, "{left:?}");
        test_server.shutdown().await;
    }
}

#[tokio::test]
async fn a_difference_that_heals_does_not_count() {
    // An invalidation that was under way.
    let (test_server, cache, table) = test_server().await;
    table.set(1, 10);
    table.warm(&cache, &[1]).await;
    table.set(1, 11);
    let auditor = table.auditor(&cache).spawn().expect("a good rate");
    assert!(cache.get(&1).await.expect("an answer").is_some());
    until(&auditor, |report| report.waiting == 1).await;
    let _ = cache.invalidate(&1).await.expect("a good key");
    in_time(&test_server, &auditor, |report| report.equal_within_1s == 1).await;
    // One that took longer than a second; the source is asked for the fifth time by the third look.
    table.warm(&cache, &[1]).await;
    table.set(1, 12);
    table.0.lock().expect("no panic").change = Some((5, 11));
    assert!(cache.get(&1).await.expect("an answer").is_some());
    in_time(&test_server, &auditor, |report| report.equal_within_5s == 1).await;
    let report = auditor.report();
    assert_eq!((report.different, report.unsettled, report.failed), (0, 0, 0), "{report:?}");
    test_server.shutdown().await;
}

#[tokio::test]
async fn what_keeps_changing_is_not_called_wrong() {
    let (test_server, cache, table) = test_server().await;
    cache.put(&1, &1).await.expect("stored");
    let auditor = table.auditor(&cache).spawn().expect("a good rate");
    assert!(cache.get(&1).await.expect("an answer").is_some());
    let mut value = 1;
    while auditor.report().unsettled == 0 {
        value += 1;
        cache.put(&1, &value).await.expect("stored");
        test_server.advance(Duration::from_secs(1)).await;
    }
    assert_eq!(auditor.report().different, 0);
    test_server.shutdown().await;
}

#[tokio::test]
async fn it_is_bounded_and_ends() {
    let (test_server, cache, table) = test_server().await;
    table.set(1, 10);
    table.warm(&cache, &[1]).await;
    for bad in [0.0, -1.0, 1.1, f64::NAN] {
        assert!(table.auditor(&cache).sample(bad).spawn().is_err(), "{bad}");
    }
    assert!(table.auditor(&cache).at_most(0).spawn().is_err());
    let auditor = table.auditor(&cache).at_most(1).spawn().expect("a good rate");
    assert!(table.auditor(&cache).spawn().is_err(), "one at a time");
    // The clock stands still: one key is loaded, the others wait, the rest is dropped.
    let hits = 2000;
    for _ in 0..hits {
        assert!(cache.get(&1).await.expect("an answer").is_some());
    }
    until(&auditor, |report| report.equal == 1).await;
    let report = auditor.report();
    assert_eq!(report.sampled + report.dropped, hits, "{report:?}");
    assert!(report.dropped > 900 && report.equal == 1, "{report:?}");
    // Samples wait, and the clock stands still: it does not wait for them.
    assert_eq!(auditor.shutdown().await, report);

    let again = table.auditor(&cache).spawn().expect("the first one is gone");
    table.0.lock().expect("no panic").down = true;
    assert!(cache.get(&1).await.expect("an answer").is_some());
    until(&again, |report| report.failed == 1).await;
    test_server.seawall().shutdown().await;
    assert_eq!(again.report().sampled, 1, "shutting down did not wait for it");
}

on_every_backend! {
    what_is_wrong_is_told_from_what_is_right
}

async fn what_is_wrong_is_told_from_what_is_right(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, u64> = seawall.cache("audited").build().expect("options agree");
    let table = Table::default();
    for key in 0..10 {
        table.set(key, key);
    }
    table.warm(&cache, &(0..10).collect::<Vec<_>>()).await;
    let auditor = table.auditor(&cache).repair().spawn().expect("a good rate");
    // Rows 8 and 9 are changed past the cache.
    table.set(8, 80);
    table.set(9, 90);
    for key in 0..10 {
        let read = cache.get(&key).await.expect("an answer").expect("cached");
        assert_eq!(read.value.as_deref(), Some(&key));
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while auditor.report().repaired < 2 {
        assert!(Instant::now() < deadline, "{:?}", auditor.report());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let report = auditor.report();
    let mut wrong = report.different_keys.clone();
    wrong.sort_unstable();
    assert_eq!((wrong.as_slice(), report.different, report.failed), (&[8, 9][..], 2, 0));
    assert_eq!(report.equal, 8, "{report:?}");
    assert!(cache.get(&9).await.expect("an answer").is_none(), "it was taken out");
    seawall.shutdown().await;
}
