//! A repair log whose disk hangs: only those wait who are told that it has their invalidation.

use std::{fs::File, sync::Arc, time::Duration};

use seawall::{
    Seawall,
    cache::{Cache, FileRepairLog, Invalidation},
};

use crate::{eventually::PATIENCE, faults::Ground};

/// One thread runs everything: whoever blocks it stops the clock below.
#[tokio::test(flavor = "current_thread")]
async fn a_log_that_hangs_does_not_hold_up_the_runtime() {
    let ground = Ground::redis();
    let folder = tempfile::tempdir().expect("a folder");
    let seawall = Seawall::connect(&ground.url()).await.expect("connected");
    let log = Arc::new(FileRepairLog::open(folder.path()).expect("a folder"));
    let cache: Cache<u64, u64> =
        seawall.cache("slow").repair_log(log).build().expect("options agree");
    assert!(matches!(cache.invalidate(&1).await, Ok(Invalidation::Applied(_))));
    // Every step of the log waits for this lock, as for a disk that does not answer.
    let lock = File::options().append(true).open(folder.path().join("lock")).expect("it is there");
    lock.lock().expect("free in the end");
    ground.proxies().iter().for_each(|proxy| proxy.down());
    let gone = tokio::spawn({
        let cache = cache.clone();
        async move { cache.invalidate(&2).await }
    });
    let watched = std::time::Instant::now();
    while watched.elapsed() < Duration::from_secs(2) {
        let began = std::time::Instant::now();
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(began.elapsed() < Duration::from_secs(1), "the runtime stood still");
    }
    assert!(!gone.is_finished(), "queued before the log has it");
    drop(lock);
    let done = tokio::time::timeout(PATIENCE, gone).await.expect("in time").expect("no panic");
    assert!(matches!(done, Ok(Invalidation::Queued)), "{done:?}");
    ground.heal();
    seawall.shutdown().await;
}
