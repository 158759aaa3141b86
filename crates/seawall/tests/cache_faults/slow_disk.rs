//! A repair log whose disk hangs: only those wait who are told that it has their invalidation.

use std::{
    fs::File,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use seawall::{
    Seawall,
    cache::{Cache, FileRecoveryLog, Invalidation, LogFuture, RecoveryLog, RecoveryRow},
    clock::Clock,
};

use crate::{
    eventually::{PATIENCE, eventually},
    faults::Ground,
};

/// One thread runs everything: whoever blocks it stops the clock below.
#[tokio::test(flavor = "current_thread")]
async fn a_log_that_hangs_does_not_hold_up_the_runtime() {
    let ground = Ground::redis();
    let folder = tempfile::tempdir().expect("a folder");
    let seawall = Seawall::connect(&ground.url()).await.expect("connected");
    let log = Arc::new(FileRecoveryLog::open(folder.path()).expect("a folder"));
    let cache: Cache<u64, u64> =
        seawall.cache("slow").recovery_log(log).build().expect("options agree");
    assert!(matches!(cache.invalidate(&1).await, Ok(Invalidation::Applied(_))));
    // Every step of the log waits for this lock, as for a disk that does not answer.
    // The log makes the file with its first step, which may not have come yet.
    let path = folder.path().join("lock");
    let lock = File::options().create(true).append(true).open(path).expect("a folder");
    lock.lock().expect("free in the end");
    ground.proxies().iter().for_each(|proxy| proxy.down());
    let gone = tokio::spawn({
        let cache = cache.clone();
        async move { cache.invalidate(&2).await }
    });
    let watched = std::time::Instant::now();
    while watched.elapsed() < Duration::from_secs(2) {
        // A runtime that waits for the lock never comes back: the lock is given back below.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!gone.is_finished(), "queued before the log has it");
    drop(lock);
    let done = tokio::time::timeout(PATIENCE, gone).await.expect("in time").expect("no panic");
    assert!(matches!(done, Ok(Invalidation::Queued)), "{done:?}");
    ground.heal();
    seawall.shutdown().await;
}

/// A log that takes everything and, from some moment on, answers no question any more.
#[derive(Default)]
struct Mute(AtomicBool);

impl Mute {
    fn answer<T: Send + 'static>(&self, answer: T) -> LogFuture<'_, T> {
        if self.0.load(Ordering::SeqCst) {
            return Box::pin(pending());
        }
        Box::pin(async { Ok(answer) })
    }
}

impl RecoveryLog for Mute {
    fn add<'a>(&'a self, _: &'a str, _: &'a [Vec<u8>]) -> LogFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn load<'a>(&'a self, _: &'a str, _: u64, _: usize) -> LogFuture<'a, Vec<RecoveryRow>> {
        self.answer(Vec::new())
    }

    fn remove<'a>(&'a self, _: &'a str, _: &'a [u64]) -> LogFuture<'a, ()> {
        self.answer(())
    }
}

/// What waits in memory is carried out all the same, and the handle can be shut down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_never_answers_holds_up_nothing() {
    let (ground, (clock, time)) = (Ground::redis(), Clock::manual());
    let builder = Seawall::builder(&ground.url()).clock(clock);
    let seawall = builder.connect().await.expect("connected");
    let log = Arc::new(Mute::default());
    let builder = seawall.cache("mute").recovery_log(Arc::clone(&log) as Arc<dyn RecoveryLog>);
    let cache: Cache<u64, u64> = builder.build().expect("options agree");
    eventually("the log was read", async || {
        cache.explain(&1).await.expect("a good key").recovery_queue == 0
    })
    .await;
    log.0.store(true, Ordering::SeqCst);
    // The next look at the log begins now, and does not end.
    time.advance(Duration::from_secs(2));
    ground.proxies().iter().for_each(|proxy| proxy.down());
    let invalidating = tokio::spawn({
        let cache = cache.clone();
        async move { cache.invalidate(&1).await }
    });
    eventually("it is queued", async || {
        time.advance(Duration::from_millis(100));
        invalidating.is_finished()
    })
    .await;
    let queued = invalidating.await.expect("no panic");
    assert!(matches!(queued, Ok(Invalidation::Queued)), "{queued:?}");
    ground.heal();
    eventually("it is carried out", async || {
        time.advance(Duration::from_millis(100));
        cache.explain(&1).await.expect("a good key").recovery_queue == 0
    })
    .await;
    let ended = tokio::spawn(async move { seawall.shutdown().await });
    eventually("it ends", async || {
        time.advance(Duration::from_secs(1));
        ended.is_finished()
    })
    .await;
}
