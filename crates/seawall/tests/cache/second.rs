//! The delayed second invalidation: for a source whose replicas lag, and when the process ends first.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use seawall::cache::{Cache, Freshness, Invalidation, Loaded};

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    without sentinel:
    a_lagging_source_is_asked_again
    the_second_comes_before_the_end
}

const LONG: Duration = Duration::from_secs(600);
/// Ends of a process, each with a second invalidation that is not due yet.
const ENDS: u64 = 12;

async fn read(cache: &Cache<u64, u64>, source: &Arc<AtomicU64>) -> Option<u64> {
    let source = Arc::clone(source);
    let load =
        move || async move { Ok::<_, io::Error>(Loaded::Found(source.load(Ordering::SeqCst))) };
    let read = cache.get_or_load_as(Freshness::Strong, &1, load).await.ok()?;
    read.value.as_deref().copied()
}

/// Readers load from a replica that does not have the write yet when the invalidation is applied.
async fn a_lagging_source_is_asked_again(setup: Setup) {
    let seawall = setup.connect().await;
    let lag = Duration::from_millis(300);
    let builder = seawall.cache("lag").ttl(LONG).second_invalidation_after(lag * 10);
    let cache: Cache<u64, u64> = builder.build().expect("options agree");
    let replica = Arc::new(AtomicU64::new(1));
    assert_eq!(read(&cache, &replica).await, Some(1));
    assert!(matches!(cache.invalidate(&1).await, Ok(Invalidation::Applied(_))));
    assert_eq!(read(&cache, &replica).await, Some(1), "the replica lags, and its row is stored");
    tokio::time::sleep(lag).await;
    replica.store(2, Ordering::SeqCst);
    // Without a second invalidation the old row would stay for ten minutes.
    let mut seen = None;
    for _ in 0..500 {
        seen = read(&cache, &replica).await;
        if seen == Some(2) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(seen, Some(2));
    seawall.shutdown().await;
}

async fn the_second_comes_before_the_end(setup: Setup) {
    let stays = setup.connect().await;
    let other: Cache<u64, u64> =
        stays.cache("end").ttl(LONG).local_max_bytes(0).build().expect("agree");
    let mut lost = 0;
    for round in 0..ENDS {
        let ends = setup.connect().await;
        let builder = ends.cache("end").ttl(LONG).second_invalidation_after(LONG);
        let cache: Cache<u64, u64> = builder.build().expect("options agree");
        assert!(matches!(cache.invalidate(&1).await, Ok(Invalidation::Applied(_))));
        let replica = Arc::new(AtomicU64::new(round));
        assert_eq!(read(&other, &replica).await, Some(round), "an old row of a replica");
        ends.shutdown().await;
        lost += u64::from(other.get_as(Freshness::Strong, &1).await.expect("an answer").is_some());
    }
    assert_eq!(lost, 0, "second invalidations that did not happen, of {ENDS}");
    stays.shutdown().await;
}
